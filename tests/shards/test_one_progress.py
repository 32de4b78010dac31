"""One progress: the same input, cut in the same way, gives the same promises, the same number of
late rows and the same reasons to wait on both engines.

Where promises come in the data, or a source is judged row by row, this holds for every cut. A
source whose promises follow from rows that are known by summaries is judged by micro-batch on
shards: there the cut is one row at a time. Two things are excepted, which `docs/spark.md` names: a
filter runs before lateness is judged, and partial sums are late as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

import thalweg as tw
from thalweg.errors import LateEventError
from thalweg.graph.why import Why
from thalweg.model.punctuation import Punctuation, punctuation, within
from thalweg.shards.fragments.cutting import fragments_of
from thalweg.shards.local_engine import DividedEngine
from thalweg.testing import FakeClock

COLUMNS = {"k": "int64", "v": "int64"}
SECOND = 1_000_000


@dataclass(frozen=True)
class Case:
    """How a source is declared, and what is pushed into it."""

    facts: dict[str, Any]
    most: int = 5
    """The most rows of one push."""
    steps: int = 12
    unit: int = 1
    """Times are multiples of this."""
    groups: bool = False
    """Whether promises for single groups come in the data."""
    patterns: bool = False
    """Whether punctuation for values and ranges of columns comes."""
    ctis: float = 0.3
    """How often a CTI comes behind the rows."""
    wrong_clocks: float = 0.0
    """How often a row comes whose time is far ahead."""


INSERTS = {"late": "drop", "insert_only": True}
CASES: dict[str, Case] = {
    "promises in the data": Case({"late": "drop"}),
    "insert-only": Case(INSERTS),
    "late rows are moved": Case({"late": "adjust", "insert_only": True}),
    "late rows of adjustable ones are moved": Case({"late": "adjust"}),
    "late rows are set aside": Case({"late": "side"}),
    "promises for groups": Case({**INSERTS, "group_ctis": "k"}, groups=True),
    "disorder, row by row": Case({"late": "drop", "disorder": 4}),
    "disorder": Case({**INSERTS, "disorder": 4}, most=1),
    "disorder, late rows are moved": Case(
        {"late": "adjust", "insert_only": True, "disorder": 4}, most=1
    ),
    "in order": Case({**INSERTS, "progress": tw.ordered()}, most=1),
    "late by rows": Case({**INSERTS, "progress": tw.late_by_rows(3)}, most=1),
    "late by rows, row by row": Case({"late": "drop", "progress": tw.late_by_rows(3)}),
    "several policies": Case(
        {**INSERTS, "progress": [tw.late_by_rows(5), tw.late_by(8), tw.estimated(0.9, warmup=1)]},
        most=1,
    ),
    "a period": Case({**INSERTS, "disorder": 4, "period": 7}, most=1),
    "a period, row by row": Case({"late": "drop", "disorder": 4, "period": 7}),
    "partitions": Case({**INSERTS, "partition": "k", "disorder": 2}),
    "partitions with a common promise": Case(
        {**INSERTS, "partition": "k", "disorder": 2, "low_watermark": (5, 6)}
    ),
    "partitions, late by rows": Case({**INSERTS, "partition": "k", "progress": tw.late_by_rows(2)}),
    "a column with a disorder": Case({**INSERTS, "progressing": {"v": 6}}),
    "quarantine by keys": Case(
        {**INSERTS, "disorder": 4, "quarantine": tw.quarantine(6, behind=9, key="k")},
        wrong_clocks=0.1,
    ),
    "quarantine by the clock": Case(
        {**INSERTS, "disorder": 4 * SECOND, "quarantine": tw.quarantine("6 s", behind="9 s")},
        unit=SECOND,
        wrong_clocks=0.1,
    ),
    "general punctuation": Case({**INSERTS, "patterns": True}, patterns=True),
    "general punctuation and a disorder": Case(
        {**INSERTS, "patterns": True, "disorder": 4}, patterns=True
    ),
    "a timer": Case(
        {**INSERTS, "progress": tw.timer("3 s", every="1 s", lull="2 s")},
        unit=SECOND,
        ctis=0.0,
    ),
    "a timer and a disorder": Case(
        {**INSERTS, "disorder": "4 s", "progress": tw.timer("3 s", every="1 s", lull="2 s")},
        most=1,
        unit=SECOND,
    ),
    "a timer, row by row": Case(
        {"late": "drop", "disorder": "4 s", "progress": tw.timer("3 s", every="1 s", lull="2 s")},
        unit=SECOND,
    ),
}


def _source(facts: dict[str, Any], name: str = "a") -> tw.Stream:
    return tw.source(name, COLUMNS, **facts)


def _shifted(facts: dict[str, Any]) -> tw.Stream:
    starts_in_column = _source({**facts, "firm_ends": True}).with_columns(t="_start + 1")
    sessions = starts_in_column.alter_lifetime(start="t", duration=1).group_by("k").session(4)
    return sessions.aggregate(n=tw.count())


QUERIES: dict[str, Callable[[dict[str, Any]], tw.Stream]] = {
    "filter": lambda facts: _source(facts).where("v > 1"),
    "sessions": lambda facts: _source(facts).group_by("k").session(4).aggregate(n=tw.count()),
    "snapshots": lambda facts: _source(facts).group_by("k").snapshot().aggregate(n=tw.count()),
    "tumbling": lambda facts: _source(facts).group_by("k").tumbling(5).aggregate(n=tw.count()),
    "tumbling, all rows": lambda facts: _source(facts).tumbling(5).aggregate(n=tw.count()),
    "hopping": lambda facts: _source(facts).group_by("k").hopping(9, 3).aggregate(m=tw.max_("v")),
    "windows over windows": lambda facts: (
        _source(facts).tumbling(6).aggregate(n=tw.count()).hopping(12, 6).aggregate(m=tw.sum_("n"))
    ),
    "join": lambda facts: _source(facts).window_join(
        _source(facts, "b"), "k", window=tw.band(before=3, after=3)
    ),
    "rows that start at a column which holds their start": _shifted,
}


@dataclass
class Pushes:
    """Input for the sources of a query, drawn by a seed."""

    case: Case
    sources: list[str]
    draw: Random
    clock: FakeClock
    passed: dict[tuple[str, int | None], int] = field(default_factory=dict)

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        case, draw = self.case, self.draw
        for _ in range(case.steps):
            self.clock.advance(draw.randrange(3) * SECOND)
            yield draw.choice(self.sources), [self._row() for _ in range(self._size())]
            if draw.random() < case.ctis:
                cti = self._cti(draw.choice(self.sources))
                if cti is not None:
                    yield cti
            if case.patterns and draw.random() < case.ctis:
                until = within(None, max(self._now - 2, 0))
                yield draw.choice(self.sources), punctuation(k=draw.randrange(3), ts=until)

    @property
    def _now(self) -> int:
        return int(self.clock() // SECOND)

    def _size(self) -> int:
        return self.draw.randrange(1, self.case.most + 1)

    def _row(self) -> tw.Insert:
        draw = self.draw
        time = max(self._now - draw.randrange(7), 0)
        time += 50 if draw.random() < self.case.wrong_clocks else 0
        values = {"k": draw.randrange(3), "v": self._now + draw.randrange(-8, 3)}
        return tw.point(values, time * self.case.unit)

    def _cti(self, source: str) -> tuple[str, list[tw.Cti]] | None:
        """A promise; None where it would go back."""
        time = max(self._now - 3, 0)
        key = self.draw.randrange(3) if self.case.groups and self.draw.random() < 0.5 else None
        before = [self.passed.get((source, scope), 0) for scope in {None, key}]
        if time < max(before):
            return None
        self.passed[source, key] = time
        return source, [tw.cti(time * self.case.unit, None if key is None else {"k": key})]


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("case", CASES)
def test_both_engines_promise_the_same_and_wait_for_the_same(case: str, query: str) -> None:
    _compare(CASES[case], query, seed=f"{case}/{query}")


@pytest.mark.filterwarnings("ignore::thalweg.errors.EstimateWarning")
def test_an_estimated_slack_is_the_same_on_both_engines() -> None:
    policy = tw.estimated(0.9, warmup=1)
    _compare(Case({**INSERTS, "progress": policy}, most=1, steps=300), "sessions", seed="estimate")


@pytest.mark.parametrize("query", QUERIES)
def test_on_shards_a_source_on_demand_promises_no_less(query: str) -> None:
    """In-process it promises when an operator holds a row that the promise releases; on shards when
    an answer is not final, which does not take a report on every row that is held."""
    case = Case({**INSERTS, "progress": tw.on_demand("3 s")}, unit=SECOND, ctis=0.0)
    for here, there in _both(case, query, seed=f"on demand/{query}"):
        assert there.why().promise >= here.why().promise


def _compare(case: Case, query: str, *, seed: str) -> None:
    inputs = [
        entry
        for part in fragments_of(QUERIES[query](case.facts).node).fragments
        for entry in part.inputs
    ]
    sums_first = any(entry.panes is not None for entry in inputs)
    for here, there in _both(case, query, seed=seed):
        _compare_reasons(here.why(), there.why())
        late = sum(map(here.late_count, here.sources)) + here.status().quarantined
        if query == "filter":  # runs before lateness is judged: what it rejects is not counted
            assert there.late_rows <= late
        elif not sums_first:
            assert there.late_rows == late
            assert set(there.why().notes) == set(here.why().notes)


@pytest.mark.parametrize(
    "ask",
    [
        lambda rows, other: rows.asof_join(other, "k"),
        lambda rows, _: rows.group_by("k").tumbling("10 s").aggregate(n=tw.count()),
        lambda rows, _: rows.group_by("k").session("10 s").aggregate(n=tw.count()),
    ],
    ids=["as-of join", "panes", "sessions"],
)
def test_a_late_row_is_refused_in_the_words_of_the_clock(
    ask: Callable[[tw.Stream, tw.Stream], tw.Stream],
) -> None:
    """An as-of join computes a time before the exchange, which progresses too: its late rows were
    said to come after the end of the source."""
    columns = {"ts": "timestamptz", "k": "int64"}
    facts: dict[str, Any] = {"time": "ts", "disorder": "10 s", "insert_only": True}
    query = ask(tw.source("s", columns, **facts), tw.source("o", columns, **facts))
    for engine in (tw.Engine(query), DividedEngine(query)):
        engine.push("s", [tw.point({"k": 1}, 100 * SECOND)])
        with pytest.raises(LateEventError, match=r"the promise 1970-01-01 00:01:30\+00:00 of"):
            engine.push("s", [tw.point({"k": 1}, 1 * SECOND)])


def _both(case: Case, query: str, *, seed: str) -> Iterator[tuple[tw.Engine, DividedEngine]]:
    """Both engines after each push of the same input, at the same times of the clock."""
    asked = QUERIES[query](case.facts)
    sources = ["a", "b"] if query == "join" else ["a"]
    clock = FakeClock(100 * SECOND)
    here = tw.Engine(asked, now=lambda: int(clock()))
    there = DividedEngine(asked, buckets=3, clock=lambda: clock() / SECOND)
    for source, pushed in Pushes(case, sources, Random(seed), clock):
        here.tick()
        there.tick()
        for engine in (here, there):
            if isinstance(pushed, Punctuation):
                engine.punctuate(source, pushed)
            else:
                engine.push(source, pushed)
        here.tick()
        there.tick()
        yield here, there


def _compare_reasons(here: Why, there: Why) -> None:
    assert there.promise == here.promise
    assert {wait.source for wait in there.waits} == {wait.source for wait in here.waits}
    # Up to where a source is waited for depends on the sessions that a bucket holds.
    ways = {(wait.source, wait.needs): set(wait.release) for wait in here.waits}
    for wait in there.waits:
        assert set(wait.release) == ways.get((wait.source, wait.needs), set(wait.release))
