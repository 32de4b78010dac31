"""One progress: the same input, cut in the same way, gives the same promises, the same number of
late rows and the same reasons to wait on both engines.

Where promises come in the data, or a source is judged row by row, this holds for every cut. A
source with a disorder is judged by micro-batch on shards: there the cut is one row at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

import thalweg as tw
from thalweg.shards.local_engine import DividedEngine

COLUMNS = {"k": "int64", "v": "int64"}


def _counted(stream: tw.Stream) -> tw.Stream:
    return stream.group_by("k").session(4).aggregate(n=tw.count())


def _joined(**facts: Any) -> tw.Stream:
    a, b = (tw.source(name, COLUMNS, **facts) for name in "ab")
    return a.window_join(b, "k", window=tw.band(before=3, after=3))


FACTS: dict[str, tuple[dict[str, Any], int]] = {
    "promises in the data": ({"late": "drop"}, 5),
    "insert-only": ({"late": "drop", "insert_only": True}, 5),
    "disorder, row by row": ({"late": "drop", "disorder": 4}, 5),
    "a column with a disorder": ({"late": "drop", "insert_only": True, "progressing": {"v": 6}}, 5),
    "disorder, by micro-batch": ({"late": "drop", "insert_only": True, "disorder": 4}, 1),
    "late by rows": ({"late": "drop", "insert_only": True, "progress": tw.late_by_rows(3)}, 1),
}
QUERIES: dict[str, Callable[[dict[str, Any]], tw.Stream]] = {
    "filter": lambda facts: tw.source("a", COLUMNS, **facts).where("v > 1"),
    "sessions": lambda facts: _counted(tw.source("a", COLUMNS, **facts)),
    "snapshots": lambda facts: (
        tw.source("a", COLUMNS, **facts).group_by("k").snapshot().aggregate(n=tw.count())
    ),
    "join": lambda facts: _joined(**facts),
    "rows that start at a column which holds their start": lambda facts: _counted(
        tw.source("a", COLUMNS, firm_ends=True, **facts)
        .with_columns(t="_start + 1")
        .alter_lifetime(start="t", duration=1)
    ),
}


def _pushes(seed: str, sources: list[str], most: int) -> list[tuple[str, list[Any]]]:
    draw, clock, pushes = Random(seed), 0, []
    for _ in range(12):
        clock += draw.randrange(3)
        rows: list[Any] = [
            tw.point(
                {"k": draw.randrange(3), "v": clock + draw.randrange(-8, 3)},
                max(clock - draw.randrange(7), 0),
            )
            for _ in range(draw.randrange(1, most + 1))
        ]
        pushes.append((draw.choice(sources), rows))
        if draw.random() < 0.3:
            pushes.append((draw.choice(sources), [tw.cti(max(clock - 3, 0))]))
    return pushes


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("facts", FACTS)
def test_both_engines_promise_the_same_and_wait_for_the_same(facts: str, query: str) -> None:
    declared, most = FACTS[facts]
    asked = QUERIES[query](declared)
    sources = ["a", "b"] if query == "join" else ["a"]
    one, two = tw.Engine(asked), DividedEngine(asked, buckets=3)
    passed: dict[str, int] = {}
    for source, elements in _pushes(f"{facts}/{query}", sources, most):
        if isinstance(elements[0], tw.Cti):  # the promises of one source never go back
            if elements[0].time < passed.get(source, 0):
                continue
            passed[source] = elements[0].time
        for engine in (one, two):
            engine.push(source, elements)
        here, there = one.why(), two.why()
        assert there.promise == here.promise
        assert _named(there) == _named(here)
        assert _ways_for_one_time(here, there)
    late = sum(one.late_count(source) for source in sources)
    if query == "filter":  # runs before lateness is judged: what it rejects is not counted
        assert two.late_rows <= late
    else:
        assert two.late_rows == late


def _ways_for_one_time(here: Any, there: Any) -> bool:
    """Where both engines wait for one time of a source, the same would bring it."""
    ways = {(wait.source, wait.needs): set(wait.release) for wait in here.waits}
    return all(
        set(wait.release) == ways.get((wait.source, wait.needs), set(wait.release))
        for wait in there.waits
    )


def _named(why: Any) -> set[str]:
    """Who is waited for. Up to where depends on the sessions that a bucket holds."""
    return {wait.source for wait in why.waits}
