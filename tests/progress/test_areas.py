"""Punctuation with a time and values or ranges of several columns: "no more rows with src = 'a',
port in [0, 1024) and ts < 100". It closes all groups in that area, seen or not.

    port      0 ... 1024 ) [ 1024 ...
    src = a       100           30
    src = b        30           30       and 30 for any other src
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any

import pyarrow as pa
import pytest

import thalweg as tw
from thalweg.errors import ProgressError
from thalweg.model.area_promises import NO_AREAS, AreaPromises, Shape
from thalweg.model.progress import Progress
from thalweg.model.progress_text import progress_of_text, progress_text
from thalweg.model.punctuation import Punctuation, Range, before, punctuation, within
from thalweg.model.soundness import assert_sound
from thalweg.model.time import INFINITY, MIN_TIME
from thalweg.shards.local_engine import DividedEngine

ENGINES: dict[str, Callable[..., Any]] = {"in-process": tw.Engine, "divided": DividedEngine}
both = pytest.mark.parametrize("engine", ENGINES)
Group = Mapping[str, Any]
NAMES = ("port", "src")
COLUMNS = {"src": "string", "port": "int64", "len": "int64"}


def source(name: str = "s", **facts: Any) -> tw.Stream:
    known: dict[str, Any] = {"insert_only": True, "patterns": True, "late": "drop"}
    columns = facts.pop("columns", COLUMNS)
    return tw.source(name, columns, **{**known, "group_ctis": ("src", "port"), **facts})


def row(src: str | None, port: int | None, time: int, length: int = 1) -> tw.Insert:
    return tw.point({"src": src, "port": port, "len": length}, time)


def news(out: list[Any]) -> list[tuple[Any, ...]]:
    return [
        (one.start, *one.payload.values())
        for one in tw.elements_of(out)
        if isinstance(one, tw.Insert)
    ]


def late_rows(run: Any) -> int:
    return int(run.late_count("s") if isinstance(run, tw.Engine) else run.late_rows)


WINDOWS: dict[str, Callable[[Any], tw.Stream]] = {
    "sums": lambda s: s.tumbling(10).aggregate(n=tw.count()),
    "rows": lambda s: s.tumbling(10).using("rows").aggregate(n=tw.count()),
    "partial results": lambda s: (
        s.sliding(10)
        .using("wid")
        .aggregate(n=tw.count(), m=tw.max_("port"))
        .select("src", "port", "n")
    ),
    "one after the other": lambda s: (
        s.tumbling(5)
        .aggregate(k=tw.count())
        .group_by("src", "port")
        .tumbling(10)
        .aggregate(n=tw.sum_("k"))
    ),
}
windows = pytest.mark.parametrize("window", WINDOWS)


# ------------------------------------------------------------------------------------------------
# the oracle: every pattern held against every group that there could be


class Oracle:
    """Rows and promises one by one, from the definition of a punctuation."""

    sources = ("a", "b", "c", None)
    ports = (*range(-1, 5), None)

    def __init__(self) -> None:
        self.patterns: list[Punctuation] = []
        self.counts: dict[tuple[Any, ...], int] = {}
        self.late = 0

    def promised(self, src: str | None, port: int | None) -> int:
        """Up to where no row of a group comes any more."""
        group = {"src": src, "port": port}
        times = [_until(p) for p in self.patterns if _describes(p, group)]
        return max(times, default=MIN_TIME)

    def push(self, src: str | None, port: int | None, time: int) -> None:
        if time < self.promised(src, port):
            self.late += 1
        else:
            at = (time // 10 * 10, src, port)
            self.counts[at] = self.counts.get(at, 0) + 1

    def closed(self) -> set[tuple[Any, ...]]:
        """The answers that are final."""
        return {(*at, n) for at, n in self.counts.items() if self.promised(*at[1:]) >= at[0] + 10}


def _until(pattern: Punctuation) -> int:
    return INFINITY if pattern.time.high is None else int(pattern.time.high)


def _describes(pattern: Punctuation, group: Group) -> bool:
    return all(_fits(limits, group[name]) for name, limits in pattern.patterns.items())


def _fits(limits: Any, value: Any) -> bool:
    if not isinstance(limits, Range):
        return bool(limits == value)
    if value is None:
        return False
    return (limits.low is None or limits.low <= value) and (
        limits.high is None or value < limits.high
    )


def _some(draw: random.Random, values: list[Any]) -> Any:
    """A value, a range, or None for anything."""
    kind = draw.randrange(4)
    if kind == 0:
        return (None,)
    if kind == 1:
        return (draw.choice([*values, None]),)
    low, high = sorted(draw.sample(values, 2))
    return (draw.choice([before(high), Range(low), within(low, high)]),)


def _pattern(draw: random.Random, reached: int) -> Punctuation:
    """Any pattern of a time and the two columns, wildcards among them. Those that are CTIs do not
    go back."""
    limits: dict[str, Any] = {}
    for name, values in (("src", ["a", "b", "c"]), ("port", list(range(5)))):
        if draw.random() < 0.75:
            [limits[name]] = _some(draw, list(values))
    is_cti = len(limits) in (0, 2) and not any(isinstance(v, Range) for v in limits.values())
    return punctuation(ts=before(reached + (12 if is_cti else draw.randrange(1, 12))), **limits)


@windows
@pytest.mark.parametrize("seed", range(4))
def test_what_is_closed_is_what_the_patterns_say(window: str, seed: int) -> None:
    """In any order of rows, patterns and restarts, on both engines: exactly what no later row can
    change has left, once, and rows that break a promise are late."""
    draw = random.Random(seed)
    query = WINDOWS[window](source().group_by("src", "port"))
    oracle = Oracle()
    whole = tw.Engine(query, consistency="final")
    divided = DividedEngine(query, consistency="final")
    left: list[tuple[Any, ...]] = []
    apart: list[tuple[Any, ...]] = []
    early = tw.Engine(query)
    shown: list[Any] = []
    reached = 0
    for _ in range(12):
        rows = [
            (
                draw.choice(Oracle.sources),
                draw.choice(Oracle.ports),
                reached + draw.randrange(12),
            )
            for _ in range(draw.randrange(6))
        ]
        pattern = _pattern(draw, reached)
        for each in rows:
            oracle.push(*each)
        events = [row(*each) for each in rows]
        left += news(whole.push("s", events) + whole.punctuate("s", pattern))
        apart += news(divided.push("s", events) + divided.punctuate("s", pattern))
        shown += early.push("s", events) + early.punctuate("s", pattern)
        oracle.patterns.append(pattern)
        for found in (left, apart):
            assert set(found) == oracle.closed()
            assert len(found) == len(set(found))
        reached = draw.choice([reached, reached + 3])
        if draw.random() < 0.4:
            whole = tw.Engine.restore(query, whole.snapshot(), consistency="final")
            early = tw.Engine.restore(query, early.snapshot())
    left += news(whole.finish())
    apart += news(divided.finish())
    shown += early.finish()
    expected = {(*at, n) for at, n in oracle.counts.items()}
    assert set(left) == set(apart) == expected
    assert len(left) == len(apart) == len(expected)
    assert_sound(shown)
    table = {(s, *p.values()) for s, _, p in tw.cht(list(tw.elements_of(shown)))}
    assert table == expected
    assert whole.late_count("s") == early.late_count("s") == divided.late_rows == oracle.late


# ------------------------------------------------------------------------------------------------
# what such a pattern closes


@both
@windows
def test_a_value_and_a_range_close_all_groups_of_both(window: str, engine: str) -> None:
    run = ENGINES[engine](WINDOWS[window](source().group_by("src", "port")), consistency="final")
    rows = [row("a", 80, 3), row("a", 2000, 4), row("b", 80, 5), row("a", 443, 12)]
    assert not news(run.push("s", rows))
    out = run.punctuate("s", punctuation(ts=before(10), src="a", port=within(0, 1024)))
    assert news(out) == [(0, "a", 80, 1)]
    assert not news(run.push("s", [row("a", 22, 9), row("a", 22, 10)])), "the first is late"
    out = run.punctuate("s", punctuation(ts=within(10, 20), src="a", port=within(0, 500)))
    assert sorted(news(out)) == [(10, "a", 22, 1), (10, "a", 443, 1)]
    assert news(run.punctuate("s", punctuation(ts=before(10), src="b"))) == [(0, "b", 80, 1)]
    assert late_rows(run) == 1
    assert news(run.finish()) == [(0, "a", 2000, 1)]


@both
@windows
def test_ranges_of_two_columns_close_all_groups_of_both(window: str, engine: str) -> None:
    run = ENGINES[engine](WINDOWS[window](source().group_by("src", "port")), consistency="final")
    rows = [row("a", 80, 3), row("b", 80, 4), row("b", 9000, 4), row("x", 80, 5), row(None, 80, 5)]
    assert not news(run.push("s", rows))
    pattern = punctuation(ts=before(10), src=before("c"), port=before(1024))
    assert sorted(news(run.punctuate("s", pattern))) == [(0, "a", 80, 1), (0, "b", 80, 1)]
    assert not news(run.push("s", [row("bb", 5, 9), row("bb", 5, 10)])), "the first is late"
    assert late_rows(run) == 1
    assert len(news(run.finish())) == 4


@both
def test_areas_that_tile_all_columns_are_a_common_promise(engine: str) -> None:
    query = source(group_ctis=()).tumbling(10).aggregate(n=tw.count())
    run = ENGINES[engine](query, consistency="final")
    run.push("s", [row("a", 80, 3), row("z", 2000, 4), row(None, None, 5)])
    patterns = [
        punctuation(ts=before(30), src=before("m"), port=before(1024)),
        punctuation(ts=before(25), src=before("m"), port=Range(1024)),
        punctuation(ts=before(40), src=Range("m"), port=before(9)),
        punctuation(ts=before(22), src=Range("m"), port=Range(9)),
        punctuation(ts=before(90), src=None, port=Range(0)),
        punctuation(ts=before(90), src=None, port=before(0)),
        punctuation(ts=before(90), src=before("q"), port=None),
        punctuation(ts=before(90), src=Range("q"), port=None),
    ]
    for pattern in patterns:
        assert not news(run.punctuate("s", pattern))
    out = run.punctuate("s", punctuation(ts=before(12), src=None, port=None))
    assert news(out) == [(0, 3)], "up to 12, the least of all"
    run.push("s", row("a", 80, 21))
    assert late_rows(run) == 1, "the areas still catch late rows"


@both
def test_a_value_of_another_column_only_catches_late_rows(engine: str) -> None:
    """It says nothing of a whole group: rows of another length may still come."""
    run = ENGINES[engine](WINDOWS["sums"](source().group_by("src", "port")), consistency="final")
    run.push("s", [row("a", 80, 3)])
    assert not news(run.punctuate("s", punctuation(ts=before(50), src="a", port=before(99), len=1)))
    assert not news(run.punctuate("s", punctuation(ts=before(50), src="a", len=before(9))))
    run.push("s", [row("a", 80, 4, 1), row("a", 80, 4, 7), row("a", 80, 4, 9)])
    assert late_rows(run) == 2
    assert news(run.finish()) == [(0, "a", 80, 2)]


@both
def test_a_group_that_is_ahead_meets_an_area_of_the_other_side(engine: str) -> None:
    """One side speaks of a value and a range, the other of two ranges: both promise where they
    overlap."""
    query = source("a").anti_join(source("b"), on=["src", "port"]).select("src", "port")
    run = ENGINES[engine](query, consistency="final")
    run.punctuate("b", punctuation(ts=before(50), src="x", port=within(0, 1024)))
    out = run.push("a", [row("x", 80, 20), row("x", 80, 49), row("y", 80, 20), row("x", 7000, 20)])
    out += run.punctuate("a", punctuation(ts=before(40), src=Range("w"), port=before(500)))
    assert news(out) == [(20, "x", 80)]
    assert len(news(run.finish())) == 3


def test_a_cti_of_one_group_may_be_behind_its_area() -> None:
    """It goes back only behind a CTI of the group itself, or a common one."""
    engine = tw.Engine(WINDOWS["sums"](source().group_by("src", "port")), consistency="final")
    engine.push("s", [row("a", 80, 3)])
    assert news(engine.punctuate("s", punctuation(ts=before(20), src="a", port=before(99))))
    engine.push("s", [tw.cti(9, {"src": "a", "port": 80}), row("a", 80, 15)])
    assert engine.late_count("s") == 1
    engine.push("s", [tw.cti(40, {"src": "a", "port": 80})])
    with pytest.raises(ProgressError, match="goes back"):
        engine.push("s", [tw.cti(30, {"src": "a", "port": 80})])


def test_an_area_without_a_time_ends_its_groups() -> None:
    engine = tw.Engine(WINDOWS["sums"](source().group_by("src", "port")), consistency="final")
    engine.push("s", [row("a", 80, 3), row("a", 80, 14), row("a", 9000, 5), row("b", 80, 5)])
    out = engine.punctuate("s", punctuation(src="a", port=within(0, 1024)))
    assert sorted(news(out)) == [(0, "a", 80, 1), (10, "a", 80, 1)]
    engine.push("s", [row("a", 80, 90), row("a", 9000, 90)])
    assert engine.late_count("s") == 1


KEYED: dict[str, Callable[[Any, Any], tw.Stream]] = {
    "tumbling": lambda a, _: a.group_by("k", "j").tumbling(5).aggregate(n=tw.count()),
    "table": lambda a, _: (
        a.group_by("k", "j").tumbling(5).two_level(64, flush="slow").aggregate(n=tw.count())
    ),
    "session": lambda a, _: a.group_by("k", "j").session(4).aggregate(n=tw.count()),
    "snapshot": lambda a, _: a.group_by("k", "j").snapshot().aggregate(n=tw.count()),
    "distinct": lambda a, _: a.select("k", "j").distinct(),
    "join": lambda a, b: a.join(b.rename(v="w"), on=["k", "j"]),
    "union": lambda a, b: a.union(b).group_by("k", "j").tumbling(5).aggregate(n=tw.count()),
    "anti join": lambda a, b: a.anti_join(b, on=["k", "j"]),
}


@pytest.mark.parametrize("name", KEYED)
def test_an_area_says_what_promises_for_each_of_its_groups_say(name: str) -> None:
    """The same answers leave, the same rows are held, and no promise is broken."""
    stream = {
        side: tw.source(
            side,
            {"k": "int64", "j": "int64", "v": "int64"},
            group_ctis=("k", "j"),
            insert_only=True,
            patterns=True,
        )
        for side in ("a", "b")
    }
    query = KEYED[name](stream["a"], stream["b"])
    by_group, by_area = (tw.Engine(query, consistency="final") for _ in range(2))
    early = tw.Engine(query)
    shown: list[Any] = []
    for time in (0, 10, 20):
        areas = {
            "a": (punctuation(ts=before(time + 9), k=1), [(1, j) for j in range(3)]),
            "b": (
                punctuation(ts=before(time + 8), k=within(0, 2), j=within(1, 3)),
                [(k, j) for k in (0, 1) for j in (1, 2)],
            ),
        }
        for side, (k, j) in product(early.sources, product(range(3), range(3))):
            start = time + (k * 3 + j + ord(side)) % 7
            event = tw.insert({"k": k, "j": j, "v": time - k}, start, start + 1 + 2 * k)
            for engine in (by_group, by_area):
                engine.push(side, event)
            shown += early.push(side, event)
        named: list[Any] = []
        described: list[Any] = []
        for side in early.sources:
            pattern, groups = areas[side]
            ctis = [tw.cti(_until(pattern), {"k": k, "j": j}) for k, j in groups]
            named += by_group.push(side, ctis)
            described += by_area.punctuate(side, pattern)
            shown += early.punctuate(side, pattern)
        assert sorted(news(described), key=repr) == sorted(news(named), key=repr)
        assert by_area.status().state.rows == by_group.status().state.rows
        by_area = tw.Engine.restore(query, by_area.snapshot(), consistency="final")
    assert sorted(news(by_area.finish()), key=repr) == sorted(news(by_group.finish()), key=repr)
    assert_sound([*shown, *early.finish()])


# ------------------------------------------------------------------------------------------------
# state


def test_what_is_kept_follows_the_areas_that_are_ahead() -> None:
    """Areas that repeat, outdo or continue each other, or that a wider one covers, are few."""
    engine = tw.Engine(WINDOWS["sums"](source().group_by("src", "port")), consistency="final")

    def kept() -> int:
        areas = engine.status().progress.areas
        return len(str(areas.entries))

    few = 0
    for step in range(40):
        low = step % 5
        for src in ("a", "b"):
            time = before(10 + 10 * step)
            engine.punctuate("s", punctuation(ts=time, src=src, port=within(low, low + 3)))
            engine.punctuate("s", punctuation(ts=time, src=before("k"), port=before(low + 1)))
        if step == 9:
            few = kept()
    assert kept() <= few + 40, "the same areas, with later times"
    engine.punctuate("s", punctuation(ts=before(900), src=before("z")))
    areas = engine.status().progress.areas
    assert list(areas.entries) == [Shape((), ("src",))], "which covers all the others"
    engine.punctuate("s", punctuation(ts=before(1000)))
    assert not engine.status().progress.areas


def test_a_thousand_values_with_a_range_each() -> None:
    """Rows find the area of their value among many."""
    engine = tw.Engine(WINDOWS["sums"](source().group_by("src", "port")), consistency="final")
    engine.push("s", [row(f"h{n}", n, 3) for n in range(1000)])
    for n in range(1000):
        engine._graph.ingress("s").punctuate(
            punctuation(ts=before(20 + n), src=f"h{n}", port=within(n - n % 2, n + 1))
        )
    assert len(news(engine.push("s", []))) == 0
    assert len(news(engine.punctuate("s", punctuation(ts=before(1), src="h0")))) == 1000
    engine.push("s", [row(f"h{n}", n, 19) for n in range(1000)])
    engine.push("s", [row(f"h{n}", n + 1, 20) for n in range(1000)])
    assert engine.late_count("s") == 1000


def test_why_knows_the_area_of_a_group() -> None:
    engine = tw.Engine(WINDOWS["sums"](source().group_by("src", "port")), consistency="final")
    engine.push("s", [row("a", 80, 3), row("b", 80, 3)])
    engine.punctuate("s", punctuation(ts=before(10), src="a", port=before(1024)))
    assert "is final" in str(engine.why(3, src="a", port=80))
    assert "not final" in str(engine.why(3, src="b", port=80))


def test_rows_that_may_be_adjusted_are_not_closed() -> None:
    stream = source(insert_only=False, late="error")
    engine = tw.Engine(WINDOWS["sums"](stream.group_by("src", "port")), consistency="final")
    engine.push("s", [row("a", 80, 3)])
    pattern = punctuation(ts=before(10), src="a", port=before(1024))
    assert not news(engine.punctuate("s", pattern))


# ------------------------------------------------------------------------------------------------
# the algebra, at every group

GROUPS = [
    {"port": port, "src": src}
    for port, src in product((*range(-1, 5), None), ("", "a", "b", "c", None))
]
Model = dict[int, int]


def _areas(draw: random.Random) -> tuple[AreaPromises, Model]:
    areas, model = NO_AREAS, dict.fromkeys(range(len(GROUPS)), MIN_TIME)
    for _ in range(draw.randrange(1, 6)):
        pattern = _pattern(draw, 0)
        values = {n: v for n, v in sorted(pattern.patterns.items()) if not isinstance(v, Range)}
        ranges = {
            n: (v.low, v.high) for n, v in sorted(pattern.patterns.items()) if isinstance(v, Range)
        }
        if not pattern.patterns:
            continue
        areas = areas.merge(AreaPromises.over(values, ranges, _until(pattern)), MIN_TIME)
        for at, group in enumerate(GROUPS):
            if _describes(pattern, group):
                model[at] = max(model[at], _until(pattern))
    return areas, model


def _cases(draw: random.Random) -> Iterator[tuple[AreaPromises, Model]]:
    (one, first), (two, second) = _areas(draw), _areas(draw)
    cti, other = draw.randrange(6), draw.randrange(6)
    yield one, first
    yield one.merge(two, MIN_TIME), {at: max(time, second[at]) for at, time in first.items()}
    yield one.merge(NO_AREAS, cti), {at: _above(time, cti) for at, time in first.items()}
    met = {at: min(max(t, cti), max(second[at], other)) for at, t in first.items()}
    least = min(cti, other)
    yield one.meet(two, (cti, other), NAMES), {at: _above(t, least) for at, t in met.items()}
    yield (
        one.map(lambda time: time // 4 * 4),
        {at: time if time == MIN_TIME else time // 4 * 4 for at, time in first.items()},
    )


def _above(time: int, cti: int) -> int:
    return time if time > cti else MIN_TIME


def _columns(groups: list[dict[str, Any]]) -> dict[str, pa.Array]:
    return {
        "port": pa.array([group["port"] for group in groups], pa.int32()),
        "src": pa.array([group["src"] for group in groups], pa.string()),
    }


@pytest.mark.parametrize("seed", range(60))
def test_area_promises_are_what_they_are_at_every_group(seed: int) -> None:
    draw = random.Random(seed)
    for areas, model in _cases(draw):
        assert [areas.of(group) for group in GROUPS] == list(model.values())
        assert areas.of_columns(_columns(GROUPS), len(GROUPS)).tolist() == list(model.values())
        assert areas.most == max(model.values())
        progress = Progress(0, NAMES, {(2, "a"): 9}, areas=areas)
        assert progress_of_text(progress_text(progress)) == progress
        renamed = areas.rename({"port": "p", "src": "s"})
        assert renamed.rename({"p": "port", "s": "src"}) == areas


@pytest.mark.parametrize("seed", range(20))
def test_lower_areas_pass_no_row_and_move_no_other_step(seed: int) -> None:
    draw = random.Random(seed)
    areas, model = _areas(draw)
    held = [(draw.choice(GROUPS), draw.randrange(12)) for _ in range(3)]
    starts = pa.array([start for _, start in held], pa.int64()).to_numpy()
    lower = areas.lower(_columns([group for group, _ in held]), starts)
    for at, group in enumerate(GROUPS):
        assert lower.of(group) <= model[at]
        for other, start in held:
            if other == group:
                assert lower.of(group) <= max(start, MIN_TIME)
    assert areas.lower(_columns([]), starts[:0]) == areas


def test_what_two_streams_promise_together_stays_small() -> None:
    """A hundred values of one column met with a hundred of another would be ten thousand groups."""
    one = NO_AREAS.merge(
        AreaPromises({Shape(("src",), ()): {(f"h{n}",): 50 for n in range(100)}}), 0
    )
    two = NO_AREAS.merge(AreaPromises({Shape(("port",), ()): {(n,): 50 for n in range(100)}}), 0)
    assert not one.meet(two, (0, 0), NAMES)
    few = AreaPromises({Shape(("port",), ()): {(n,): 50 for n in range(3)}})
    assert one.meet(few, (0, 0), NAMES).of({"src": "h7", "port": 2}) == 50
