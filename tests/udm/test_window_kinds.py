"""Modules over windows of a kind: slide by tuple, rows, ranks, partitions, calendar, users' own.

The windows are those that the built-in aggregates have; what a module makes of each is the
oracle's, for every order, batch cut, restart and consistency, in-process and divided.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import numpy as np
import pytest

import thalweg as tw
from tests.operators.test_laws import A, finite, used
from tests.udm.modules import MINE
from thalweg import rank
from thalweg.errors import PlanError, WindowError
from thalweg.expr import col
from thalweg.model.rows import Bools, Codes
from thalweg.model.time import Times
from thalweg.plan.nodes import WidApply
from thalweg.shards.local_engine import DividedEngine
from thalweg.stream import Stream, WindowedStream
from thalweg.testing import (
    CONSISTENCIES,
    assert_form_right,
    assert_physically_independent,
    logical_inputs,
    make_form,
)
from thalweg.testing.manner import PUNCTUATED, WILD
from thalweg.windows import Membership, SlidingTime, Tuples, WindowIds, WindowKind

a = Stream(A)
WINDOWS: dict[str, WindowedStream] = {
    "slide by tuple": a.slide_by_tuple(7),
    "slide by tuple, groups": a.group_by("k").slide_by_tuple(7),
    "slide by tuple, partitions": a.slide_by_tuple(9, partition_by="k"),
    "slide by 2 over rank": a.group_by("k").slide_by_tuple(9, every=2, order=rank("ts")),
    "rank": a.sliding(4, 2, over=rank("ts")),
    "rank, partitions": a.sliding(3, 1, over=rank("ts"), partition_by="k"),
    "rank, groups": a.group_by("k").sliding(5, 3, over=rank("ts")),
    "time from the first row": a.sliding(8, 3, origin=None),
}
MODULES = ("t.listing", "t.sums", "t.evens", "t.spans", "t.echo", "t.columns", "t.after")


def applied(windows: WindowedStream, name: str, wid: str | None = None) -> WidApply:
    module = MINE.find(name)
    assert isinstance(windows.window, WindowKind)
    return WidApply(
        windows.node,
        windows.window,
        module,
        (("v", col("v")),),
        keys=windows.keys,
        partition=windows.partition,
        wid=wid,
        stamp=module.stamp,
    )


CASES = [(kind, name) for at, kind in enumerate(WINDOWS) for name in MODULES[at % 2 :: 2]]


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_law(kind: str, name: str) -> None:
    query = applied(WINDOWS[kind], name, "w" if name == "t.sums" else None)
    for seed in range(2):
        inputs = finite(Random(f"{kind}/{name}/{seed}"))
        level = CONSISTENCIES[(len(kind) + seed) % len(CONSISTENCIES)]
        assert_physically_independent(
            query, used(query, inputs), forms=2, seed=seed, consistency=level
        )


@pytest.mark.parametrize(("kind", "name"), CASES[::3])
def test_law_divided(kind: str, name: str) -> None:
    query = applied(WINDOWS[kind], name)
    logicals = logical_inputs(query, used(query, finite(Random(f"{kind}/{name}/divided"))))
    for manner in (PUNCTUATED, WILD):
        form = make_form(logicals, manner, Random(name))
        assert_form_right(query, form, consistency="speculative", engine=DividedEngine)


@dataclass(frozen=True)
class Pairs(WindowKind):
    """A kind of this file: [2 w, 2 w + 2)."""

    context = frozenset()

    @property
    def longest(self) -> int:
        return 2

    def windows(self, tuples: Tuples) -> WindowIds:
        return WindowIds.of(np.unique(tuples.ts // 2))

    def extent(self, window: int, partition: int, tuples: Tuples) -> Bools:
        inside: Bools = tuples.ts // 2 == window
        return inside

    def wids(self, tuples: Tuples) -> Membership:
        return Membership(np.arange(len(tuples)), tuples.ts // 2)

    def time_range(self, windows: Codes) -> tuple[Times, Times]:
        return windows * 2, windows * 2 + 2

    def __str__(self) -> str:
        return "pairs"


S = tw.source("s", {"k": "int64", "v": "double"})
ROWS = [tw.point({"k": at % 2, "v": float(at)}, at) for at in range(1, 8)]

ANSWERS: dict[str, tuple[Callable[[], tw.Stream], list[float]]] = {
    "rows as they arrive": (
        lambda: S.sliding(3, 2, over=tw.rows()).apply("median", "v"),
        [1.5, 3.0, 5.0],
    ),
    "rows, partitioned": (
        lambda: S.sliding(2, 2, over=tw.rows(), partition_by="k").apply("median", "v"),
        [2.0, 3.0, 6.0],
    ),
    "rank": (lambda: S.sliding(3, 2, over=rank("ts")).apply("median", "v"), [1.5, 3.0, 5.0]),
    "slide by tuple": (
        lambda: S.slide_by_tuple(2).apply("median", "v"),
        [1.0, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5],
    ),
    "a user's own kind": (lambda: S.windows(Pairs()).apply("median", "v"), [1.0, 2.5, 4.5, 6.5]),
    "calendar": (lambda: S.calendar("day").apply("median", "v"), [4.0]),
    "among built-in aggregates": (
        lambda: (
            S.sliding(3, 2, over=tw.rows())
            .aggregate(n=tw.count(), median=tw.module("median", "v"))
            .where("n > 2")
            .select("median")
        ),
        [3.0, 5.0],
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_answers(name: str) -> None:
    build, expected = ANSWERS[name]
    found = tw.table(build(), {"s": ROWS})
    assert sorted(row[2]["median"] for row in found) == expected


def test_ids_are_those_of_the_built_in_aggregates() -> None:
    windows = S.sliding(3, 2, over=tw.rows()).with_id("w")
    plain, module = windows.aggregate(n=tw.count()), windows.apply("median", "v")
    ids = [
        [(row[0], row[2]["w"]) for row in tw.table(query, {"s": ROWS})] for query in (plain, module)
    ]
    assert ids[0] == ids[1]


@pytest.mark.parametrize("origin", [0, 2])
def test_one_numbering_of_windows_over_time(origin: int) -> None:
    """`sliding` over time, `hopping`, `SlidingTime` and `explain` count alike: window w ends a hop
    times w + 1 after the origin."""
    size, hop = 6, 4
    kind = SlidingTime(size, hop, origin)
    grids = [
        S.sliding(size, hop, origin=origin),
        S.hopping(size, hop, offset=(origin - size) % hop),
    ]
    queries = [
        windows.with_id("w").aggregate(n=tw.count()) for windows in (*grids, S.windows(kind))
    ]
    queries.append(grids[0].with_id("w").apply("median", "v"))
    queries.append(grids[0].with_id("w").aggregate(n=tw.count(), m=tw.module("median", "v")))
    for query in queries:
        found = [(start, row["w"]) for start, _, row in tw.table(query, {"s": ROWS})]
        starts = kind.time_range(np.array([window for _, window in found]))[0].tolist()
        assert [start for start, _ in found] == starts
        assert len({window for _, window in found}) == len(found) > 1
    assert f"window w is [{origin + hop - size} + {hop} w, + {size})" in queries[0].explain()


def test_in_sql() -> None:
    query = tw.sql(
        "SELECT median(v) AS m [RANGE 3 rows, SLIDE 2 rows, WA row-num] FROM s", {"s": S}
    )
    assert [row[2]["m"] for row in tw.table(query, {"s": ROWS})] == [1.5, 3.0, 5.0]


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(WindowError, match="every row there ever was"):
        S.landmark(5).apply("median", "v")
    with pytest.raises(PlanError, match="leave clip= out"):
        S.slide_by_tuple(5).apply("median", "v", clip="full")
    with pytest.raises(PlanError, match="must be deterministic"):
        S.slide_by_tuple(5).apply("median", "v", on_error="skip")
    follows = {"first": "A", "second": "B", "within": 3}
    texts = tw.source("s", {"kind": "string"}).slide_by_tuple(5)
    with pytest.raises(PlanError, match="needs snapshot, hopping or tumbling"):
        texts.apply("followed_by", "kind", params=follows)
