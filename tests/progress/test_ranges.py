"""Punctuation with a range of time and a range of a column: "no more rows with ts < 100 and port in
[0, 1024)". It closes the groups of the range, seen or not, up to that time; ranges that cover a
column, null included, close everything.

    port     ... 0 ) [ 0 ... 1024 ) [ 1024 ...      null
    promised  30         20              30          15      ->  all rows: 15
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import thalweg as tw
from tests.state.test_finished_groups import QUERIES
from thalweg.model.area_promises import NO_AREAS, AreaPromises, Shape
from thalweg.model.progress import Progress
from thalweg.model.progress_text import progress_of_text, progress_text
from thalweg.model.punctuation import Punctuation, Range, before, punctuation, within
from thalweg.model.range_promises import RangePromises
from thalweg.model.soundness import assert_sound
from thalweg.model.time import INFINITY, MIN_TIME
from thalweg.shards.local_engine import DividedEngine

ENGINES: dict[str, Callable[..., Any]] = {"in-process": tw.Engine, "divided": DividedEngine}
both = pytest.mark.parametrize("engine", ENGINES)
Port = int | None


def source(name: str = "s", **facts: Any) -> tw.Stream:
    known: dict[str, Any] = {"insert_only": True, "patterns": True, "late": "drop"}
    columns = facts.pop("columns", {"port": "int64"})
    return tw.source(name, columns, **{**known, "group_ctis": "port", **facts})


def row(port: Port, time: int) -> tw.Insert:
    return tw.point({"port": port}, time)


def news(out: list[Any]) -> list[tuple[Any, ...]]:
    return [
        (one.start, *one.payload.values())
        for one in tw.elements_of(out)
        if isinstance(one, tw.Insert)
    ]


WINDOWS: dict[str, Callable[[Any], tw.Stream]] = {
    "sums": lambda s: s.tumbling(10).aggregate(n=tw.count()),
    "rows": lambda s: s.tumbling(10).using("rows").aggregate(n=tw.count()),
    "partial results": lambda s: (
        s.sliding(10).using("wid").aggregate(n=tw.count(), m=tw.max_("port")).select("port", "n")
    ),
    "one after the other": lambda s: (
        s.tumbling(5)
        .aggregate(k=tw.count())
        .group_by("port")
        .tumbling(10)
        .aggregate(n=tw.sum_("k"))
    ),
}
windows = pytest.mark.parametrize("window", WINDOWS)


# ------------------------------------------------------------------------------------------------
# the oracle: every promise held against every port that there could be


class Oracle:
    """Rows and promises one by one, from the definition of a punctuation."""

    ports = (*range(-1, 9), None)
    """A port for each range that the cuts 0..8 make, and null."""

    def __init__(self) -> None:
        self.patterns: list[Punctuation] = []
        self.counts: dict[tuple[int, Port], int] = {}
        self.late = 0

    def promised(self, port: Port) -> int:
        """Up to where no row of a port comes any more."""
        return max((self._of(p) for p in self.patterns if _names(p, port)), default=MIN_TIME)

    @staticmethod
    def _of(pattern: Punctuation) -> int:
        return INFINITY if pattern.time.high is None else int(pattern.time.high)

    @property
    def common(self) -> int:
        return min(map(self.promised, self.ports))

    def push(self, port: Port, time: int) -> None:
        if time < self.promised(port):
            self.late += 1
        else:
            at = (time // 10 * 10, port)
            self.counts[at] = self.counts.get(at, 0) + 1

    def closed(self) -> dict[tuple[int, Port], int]:
        """The answers that are final."""
        return {at: n for at, n in self.counts.items() if self.promised(at[1]) >= at[0] + 10}


def _names(pattern: Punctuation, port: Port) -> bool:
    limits = pattern.patterns["port"]
    if not isinstance(limits, Range):
        return bool(limits == port)
    if port is None:
        return False
    return (limits.low is None or limits.low <= port) and (
        limits.high is None or port < limits.high
    )


def _promise(draw: random.Random, reached: int) -> Punctuation:
    time = before(reached + draw.randrange(1, 12))
    kind = draw.randrange(6)
    if kind == 0:
        return punctuation(ts=time, port=None)
    low, high = sorted(draw.sample(range(9), 2))
    if kind == 1:
        return punctuation(ts=time, port=before(high))
    return punctuation(ts=time, port=Range(low) if kind == 2 else within(low, high))


@windows
@pytest.mark.parametrize("seed", range(5))
def test_what_is_closed_is_what_the_promises_say(window: str, seed: int) -> None:
    """In any order of rows, promises and restarts, on both engines: exactly what no later row can
    change has left, once, and rows that break a promise are late."""
    draw = random.Random(seed)
    query = WINDOWS[window](source().group_by("port"))
    oracle = Oracle()
    whole, divided = (
        tw.Engine(query, consistency="final"),
        DividedEngine(query, consistency="final"),
    )
    left: list[tuple[Any, ...]] = []
    apart: list[tuple[Any, ...]] = []
    early = tw.Engine(query)
    shown: list[Any] = []
    reached = 0
    for _ in range(14):
        rows = [
            (draw.choice(Oracle.ports), reached + draw.randrange(12))
            for _ in range(draw.randrange(5))
        ]
        pattern = _promise(draw, reached)
        for port, time in rows:
            oracle.push(port, time)
        events = [row(port, time) for port, time in rows]
        left += news(whole.push("s", events) + whole.punctuate("s", pattern))
        apart += news(divided.push("s", events) + divided.punctuate("s", pattern))
        shown += early.push("s", events) + early.punctuate("s", pattern)
        oracle.patterns.append(pattern)
        closed = sorted((s, p, n) for (s, p), n in oracle.closed().items() if p is not None)
        nulls = sorted((s, n) for (s, p), n in oracle.closed().items() if p is None)
        for found in (left, apart):
            assert sorted(one for one in found if one[1] is not None) == closed
            assert sorted((one[0], one[2]) for one in found if one[1] is None) == nulls
        reached = draw.choice([reached, max(reached, oracle.common, 0) + 3])
        if draw.random() < 0.4:
            whole = tw.Engine.restore(query, whole.snapshot(), consistency="final")
            early = tw.Engine.restore(query, early.snapshot())
    left += news(whole.finish())
    apart += news(divided.finish())
    shown += early.finish()
    expected = {(s, p, n) for (s, p), n in oracle.counts.items()}
    assert set(left) == set(apart) == expected
    assert len(left) == len(apart) == len(expected)
    assert_sound(shown)
    table = {(s, p["port"], p["n"]) for s, _, p in tw.cht(list(tw.elements_of(shown)))}
    assert table == expected
    assert whole.late_count("s") == early.late_count("s") == divided.late_rows == oracle.late


# ------------------------------------------------------------------------------------------------
# what such a promise closes


@both
@windows
def test_a_range_of_time_and_of_a_column_closes_the_groups_of_the_range(
    window: str, engine: str
) -> None:
    run = ENGINES[engine](WINDOWS[window](source().group_by("port")), consistency="final")
    assert not news(run.push("s", [row(80, 3), row(2000, 4), row(None, 5), row(443, 12)]))
    out = run.punctuate("s", punctuation(ts=before(10), port=within(0, 1024)))
    assert news(out) == [(0, 80, 1)]
    assert not news(run.push("s", [row(22, 9), row(22, 10)])), "late; a group that was not seen"
    out = run.punctuate("s", punctuation(ts=within(10, 20), port=within(0, 500)))
    assert sorted(news(out)) == [(10, 22, 1), (10, 443, 1)]
    assert not news(run.punctuate("s", punctuation(ts=within(25, 40), port=within(0, 9))))
    assert sorted(news(run.finish()), key=repr) == [(0, 2000, 1), (0, None, 1)]
    assert (run.late_count("s") if engine == "in-process" else run.late_rows) == 1


@both
def test_ranges_that_cover_a_column_are_a_common_promise(engine: str) -> None:
    """Nothing is grouped by the column here: only what covers all of it closes."""
    query = source(group_ctis=()).tumbling(10).aggregate(n=tw.count())
    run = ENGINES[engine](query, consistency="final")
    run.push("s", [row(80, 3), row(2000, 4), row(None, 15)])
    assert not news(run.punctuate("s", punctuation(ts=before(20), port=before(1024))))
    assert not news(run.punctuate("s", punctuation(ts=before(35), port=Range(1024))))
    out = run.punctuate("s", punctuation(ts=before(12), port=None))
    assert news(out) == [(0, 2)], "up to 12, the least of the three"
    out = run.punctuate("s", punctuation(ts=before(90), port=None))
    assert news(out) == [(10, 1)], "up to 20"


def test_the_ends_of_a_type_are_the_ends_of_its_ranges() -> None:
    stream = source(columns={"port": "uint16"}, group_ctis=())
    engine = tw.Engine(stream.tumbling(10).aggregate(n=tw.count()), consistency="final")
    engine.push("s", [row(80, 3), row(65535, 4)])
    engine.punctuate("s", punctuation(ts=before(20), port=None))
    assert not news(engine.punctuate("s", punctuation(ts=within(5, 20), port=within(0, 65536))))
    assert news(engine.punctuate("s", punctuation(ts=before(10), port=within(0, 65536)))) == [
        (0, 2)
    ]
    engine.push("s", [row(65535, 9), row(65535, 19), row(0, 20)])
    assert engine.late_count("s") == 2


def test_a_number_that_is_none_lies_in_no_range() -> None:
    stream = source(columns={"port": "float64"}, group_ctis=())
    engine = tw.Engine(stream.tumbling(10).aggregate(n=tw.count()), consistency="final")
    nan = float("nan")
    engine.push("s", [tw.point({"port": 1.5}, 3), tw.point({"port": nan}, 4)])
    for limits in (before(1.5), Range(1.5), None):
        assert not news(engine.punctuate("s", punctuation(ts=before(10), port=limits)))
    engine.push("s", tw.point({"port": nan}, 5))
    assert engine.late_count("s") == 0
    assert news(engine.punctuate("s", punctuation(ts=before(10), port=nan))) == [(0, 3)]


def test_a_range_without_a_time_ends_its_groups() -> None:
    engine = tw.Engine(WINDOWS["sums"](source().group_by("port")), consistency="final")
    engine.push("s", [row(80, 3), row(80, 14), row(9000, 5)])
    out = engine.punctuate("s", punctuation(port=within(0, 1024)))
    assert sorted(news(out)) == [(0, 80, 1), (10, 80, 1)]
    engine.push("s", [row(80, 90), row(9000, 90)])
    assert engine.late_count("s") == 1


@both
def test_a_row_is_alone_at_once_where_its_range_is_promised(engine: str) -> None:
    """The other side has not seen the group, and has promised it all the same."""
    query = source("a").anti_join(source("b"), on="port")
    run = ENGINES[engine](query, consistency="final")
    run.punctuate("b", punctuation(ts=before(50), port=within(0, 1024)))
    run.push("b", [row(443, 60)])
    out = run.push("a", [row(80, 20), row(80, 49), row(443, 60), row(7000, 20)])
    out += run.punctuate("a", punctuation(ts=before(40), port=within(0, 1024)))
    assert news(out) == [(20, 80)]
    assert sorted(news(out + run.finish())) == [(20, 80), (20, 7000), (49, 80)]


def test_sessions_and_snapshots_close_by_a_range() -> None:
    query = source().group_by("port").session(10).aggregate(n=tw.count())
    engine = tw.Engine(query, consistency="final")
    engine.push("s", [row(80, 3), row(80, 9), row(90, 25), row(9000, 5)])
    assert news(engine.punctuate("s", punctuation(ts=before(30), port=before(1024)))) == [
        (3, 80, 2)
    ]
    assert news(engine.punctuate("s", punctuation(ts=before(40), port=before(85)))) == []
    assert news(engine.punctuate("s", punctuation(ts=before(40), port=before(99)))) == [(25, 90, 1)]
    held = tw.Engine(
        source().group_by("port").snapshot().aggregate(n=tw.count()), consistency="final"
    )
    held.push("s", [row(80, 3), row(9000, 5)])
    assert news(held.punctuate("s", punctuation(ts=before(30), port=before(1024)))) == [(3, 80, 1)]
    assert held.status().state.rows == 1, "the row of 9000 waits, and no answer beside it"


@pytest.mark.parametrize("name", QUERIES)
def test_a_range_says_what_promises_for_each_of_its_groups_say(name: str) -> None:
    """Of every operator that knows groups: the same answers leave, the same rows are held, and no
    promise is broken."""
    stream = {
        side: tw.source(
            side, {"k": "int64", "v": "int64"}, group_ctis="k", insert_only=True, patterns=True
        )
        for side in ("a", "b")
    }
    query = QUERIES[name](stream["a"], stream["b"])
    by_group, by_range = (tw.Engine(query, consistency="final") for _ in range(2))
    early = tw.Engine(query)
    shown: list[Any] = []
    for time in (0, 10, 20, 30):
        for side in early.sources:
            for k in range(5):
                start = time + (k * 3 + ord(side)) % 7
                event = tw.insert({"k": k, "v": time - k}, start, start + 1 + 2 * k)
                for engine in (by_group, by_range):
                    engine.push(side, event)
                shown += early.push(side, event)
        told: list[Any] = []
        ranged: list[Any] = []
        for side in early.sources:
            told += by_group.push(side, [tw.cti(time + 9, {"k": k}) for k in (1, 2, 3)])
            ranged += by_range.punctuate(side, punctuation(ts=before(time + 9), k=within(1, 4)))
            shown += early.punctuate(side, punctuation(ts=before(time + 9), k=within(1, 4)))
        assert sorted(news(ranged), key=repr) == sorted(news(told), key=repr)
        assert by_range.status().state.rows == by_group.status().state.rows
        by_range = tw.Engine.restore(query, by_range.snapshot(), consistency="final")
    assert sorted(news(by_range.finish()), key=repr) == sorted(news(by_group.finish()), key=repr)
    assert_sound([*shown, *early.finish()])


# ------------------------------------------------------------------------------------------------
# state


def test_what_is_kept_follows_the_ranges_that_are_ahead() -> None:
    """A thousand promises that continue, repeat or outdo each other are a few steps."""
    query = WINDOWS["sums"](source().group_by("port"))
    engine = tw.Engine(query, consistency="final")
    for step in range(300):
        low = step % 7
        engine.punctuate("s", punctuation(ts=before(10 + step), port=within(low, low + 3)))
    [kept] = engine.status().progress.areas.entries[Shape((), ("port",))].values()
    assert isinstance(kept, RangePromises)
    assert len(kept.cuts) <= 10
    text = str(engine.snapshot())
    for step in range(300):
        engine.punctuate("s", punctuation(ts=before(400 + step), port=before(4)))
        engine.punctuate("s", punctuation(ts=before(400 + step), port=Range(4)))
        engine.punctuate("s", punctuation(ts=before(400 + step), port=None))
    assert engine.status().progress.cti == 690, "the start of the window that is open at 699"
    assert len(str(engine.snapshot())) <= len(text)


def test_rows_that_may_be_adjusted_are_not_closed() -> None:
    engine = tw.Engine(
        WINDOWS["sums"](source(insert_only=False, late="error").group_by("port")),
        consistency="final",
    )
    engine.push("s", [row(80, 3)])
    assert not news(engine.punctuate("s", punctuation(ts=before(10), port=before(1024))))
    assert not news(engine.push("s", [tw.remove({"port": 80}, 3, 4), tw.cti(30)]))


def test_why_knows_the_range_of_a_group() -> None:
    engine = tw.Engine(WINDOWS["sums"](source().group_by("port")), consistency="final")
    engine.push("s", [row(80, 3), row(9000, 3)])
    engine.punctuate("s", punctuation(ts=before(10), port=before(1024)))
    assert "is final" in str(engine.why(3, port=80))
    assert "not final" in str(engine.why(3, port=9000))


# ------------------------------------------------------------------------------------------------
# the step function

_CUTS = [None, *range(6)]


@pytest.mark.parametrize("seed", range(20))
def test_range_promises_are_what_they_are_at_every_value(seed: int) -> None:
    draw = random.Random(seed)
    values = [*range(-1, 7), None]

    def some() -> tuple[RangePromises, dict[Any, int]]:
        ranges, model = RangePromises(), dict.fromkeys(values, MIN_TIME)
        for _ in range(draw.randrange(4)):
            low, high = draw.choice(_CUTS), draw.choice(_CUTS)
            if low is not None and high is not None and low >= high:
                continue
            time = draw.randrange(5)
            ranges = ranges.merge(RangePromises.over(low, high, time))
            for v in values:
                if v is not None and (low is None or v >= low) and (high is None or v < high):
                    model[v] = max(model[v], time)
        return ranges, model

    (one, first), (two, second) = some(), some()
    cti = draw.randrange(5)
    cases = [
        (one, first),
        (one.merge(two), {v: max(first[v], second[v]) for v in values}),
        (one.meet(two), {v: min(first[v], second[v]) for v in values}),
        (one.above(cti), {v: t if t > cti else MIN_TIME for v, t in first.items()}),
    ]
    for ranges, model in cases:
        assert {v: ranges.of(v) for v in values} == model
        assert ranges.of_values(pa.array(values, pa.int32())).tolist() == list(model.values())
        assert ranges.least == min(t for v, t in model.items() if v is not None)
        assert ranges.least_within(1, 4) == min(model[v] for v in (1, 2, 3))
        assert all(a != b for a, b in zip(ranges.times, ranges.times[1:], strict=False))
    areas = AreaPromises({Shape((), ("port",)): {(): one}}).merge(NO_AREAS, 3)
    told = Progress(3, ("port",), {(2,): 9}, areas=areas)
    assert progress_of_text(progress_text(told)) == told


def test_ranges_of_any_type_that_has_an_order() -> None:
    from datetime import UTC, date, datetime
    from decimal import Decimal

    for low, kind in [
        ("b", pa.string()),
        (Decimal("1.50"), pa.decimal128(9, 2)),
        (date(2020, 2, 1), pa.date32()),
        (datetime(2020, 2, 1, tzinfo=UTC), pa.timestamp("us", "UTC")),
        (1.5, pa.float64()),
    ]:
        ranges = RangePromises.over(low, None, 7)
        column = pa.array([low, None], kind)
        assert ranges.of_values(column).tolist() == [7, MIN_TIME]
        told = Progress(3, ("k",), areas=AreaPromises.over({}, {"k": (low, None)}, 7))
        assert progress_of_text(progress_text(told)) == told
