"""Windows over the time at which rows arrive, against a model that notes the clock for every
row."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import thalweg as tw
from thalweg.errors import PlanError, WindowError
from thalweg.model import Batch
from thalweg.model.soundness import first_violation_in_batches
from thalweg.shards.local_engine import DividedEngine
from thalweg.testing import FakeClock

Answer = tuple[int, int, str, int, int]


@dataclass(frozen=True)
class Rows:
    """A push of values, each a point of its group; `removed` rows are taken back in it, the oldest
    first, of this push or of one before."""

    values: tuple[tuple[str, int], ...]
    removed: int


@dataclass(frozen=True)
class Later:
    """The clock moves on."""

    by: int


@dataclass(frozen=True)
class Restart:
    pass


values = st.lists(st.tuples(st.sampled_from("ab"), st.integers(-2, 5)), min_size=1, max_size=4).map(
    tuple
)
steps = st.lists(
    st.one_of(
        st.builds(Rows, values, st.integers(0, 2)),
        st.builds(Later, st.integers(1, 12)),
        st.just(Restart()),
    ),
    max_size=12,
)


def windows_of(rows: list[tuple[int, str, int]], size: int, hop: int) -> Counter[Answer]:
    """By the definition: window [j hop - size, j hop) has the rows that arrived in it."""
    found: Counter[Answer] = Counter()
    for end in range(0, 200, hop):
        for key in "ab":
            members = [v for at, k, v in rows if k == key and end - size <= at < end]
            if members:
                found[end - size, end, key, len(members), sum(members)] += 1
    return found


def table_of(out: list[Batch]) -> Counter[Answer]:
    return Counter((s, e, p["k"], p["n"], p["t"]) for s, e, p in tw.cht(list(tw.elements_of(out))))


def play(
    query: tw.Stream, script: list[Rows | Later | Restart], *, divided: bool, adjusts: bool
) -> tuple[list[Batch], list[tuple[int, str, int]]]:
    clock = FakeClock(0)

    def begin(state: bytes | None) -> tw.Engine | DividedEngine:
        if divided:
            seconds = lambda: clock() / 1_000_000  # noqa: E731 - the worker's unit
            engine = DividedEngine(query, consistency="final", clock=seconds)
            if state is not None:
                engine = DividedEngine.restore(query, state, consistency="final")
                engine._clock = seconds
            return engine
        if state is None:
            return tw.Engine(query, consistency="final", now=clock)
        return tw.Engine.restore(query, state, consistency="final", now=clock)

    engine = begin(None)
    out: list[Batch] = []
    arrived: list[tuple[int, str, int, int]] = []
    number = 0
    for step in script:
        if isinstance(step, Restart):
            engine = begin(engine.snapshot())
        elif isinstance(step, Later):
            clock.advance(step.by)
            out += engine.tick()
        else:
            elements: list[tw.Element] = []
            for k, v in step.values:
                start = 1_000 - number  # of its own, so that it is known which row is meant
                number += 1
                elements.append(tw.point({"k": k, "v": v}, start))
                arrived.append((clock(), k, v, start))
            for _ in range(min(step.removed, len(arrived)) if adjusts else 0):
                _, k, v, start = arrived.pop(0)
                elements.append(tw.remove({"k": k, "v": v}, start, start + 1))
            out += engine.push("s", elements)
    return out + engine.finish(), [(at, k, v) for at, k, v, _ in arrived]


@pytest.mark.parametrize("divided", [False, True])
@pytest.mark.parametrize("adjusts", [False, True])
@settings(max_examples=25)
@given(script=steps, size=st.integers(1, 4), hop=st.integers(1, 4))
def test_rows_belong_to_windows_by_the_clock(
    script: list[Rows | Later | Restart], size: int, hop: int, divided: bool, adjusts: bool
) -> None:
    size = max(size, hop)
    source = tw.source("s", {"k": "string", "v": "int64"}, insert_only=not adjusts)
    windowed = source.where("v > 0").group_by("k").sliding(size, hop, over=tw.arrival())
    query = windowed.aggregate(n=tw.count(), t=tw.sum_("v"))
    out, arrived = play(query, script, divided=divided, adjusts=adjusts)
    assert table_of(out) == windows_of([row for row in arrived if row[2] > 0], size, hop)
    if not divided:
        assert first_violation_in_batches(out) is None


def test_a_window_closes_when_the_clock_has_passed_it_though_nothing_comes() -> None:
    clock = FakeClock(0)
    source = tw.source("s", {"v": "int64"}, insert_only=True)
    query = source.sliding(10, over=tw.arrival()).aggregate(n=tw.count())
    engine = tw.Engine(query, consistency="final", now=clock)
    assert not [b for b in engine.push("s", tw.point({"v": 1}, 9_999)) if len(b)]
    clock.advance(9)
    assert not [b for b in engine.tick() if len(b)]
    clock.advance(1)
    assert list(tw.elements_of(engine.tick())) == [tw.insert({"n": 1}, 0, 10), tw.cti(10)]
    held = engine.state_size()["window_aggregate-1"].rows
    for _ in range(20):
        engine.push("s", tw.point({"v": 1}, 9_999))
        clock.advance(10)
        engine.tick()
    assert engine.state_size()["window_aggregate-1"].rows <= held


def test_the_clock_tells_every_source_of_a_union() -> None:
    clock = FakeClock(0)
    a, b = (tw.source(name, {"v": "int64"}, insert_only=True) for name in "ab")
    query = a.union(b).sliding(10, over=tw.arrival()).aggregate(n=tw.count())
    engine = tw.Engine(query, consistency="final", now=clock)
    engine.push("a", tw.point({"v": 1}, 5))
    clock.advance(10)
    out = engine.push("a", tw.point({"v": 1}, 5))
    assert [p for _, _, p in tw.cht(list(tw.elements_of(out)))] == [{"n": 1}]


def test_sql_says_arrival_time() -> None:
    clock = FakeClock(0)
    source = tw.source("s", {"k": "string", "v": "int64"}, insert_only=True)
    text = (
        "SELECT k, sum(v) AS t [RANGE 10 us, SLIDE 5 us, WA arrival-time] FROM s "
        "WHERE v > 0 GROUP BY k"
    )
    engine = tw.Engine(tw.sql(text, s=source), consistency="final", now=clock)
    clock.advance(7)
    rows = [tw.point({"k": "a", "v": 2}, 100), tw.point({"k": "a", "v": 3}, 0)]
    out = engine.push("s", rows) + engine.finish()
    answers = tw.cht(list(tw.elements_of(out)))
    assert [(s, e, p["k"], p["t"]) for s, e, p in answers] == [(0, 10, "a", 5), (5, 15, "a", 5)]


def test_landmark_windows_go_by_arrival_too() -> None:
    clock = FakeClock(0)
    source = tw.source("s", {"v": "int64"}, insert_only=True)
    query = source.landmark(10, over=tw.arrival()).aggregate(n=tw.count())
    engine = tw.Engine(query, now=clock)
    out = engine.push("s", tw.point({"v": 1}, 500))
    clock.advance(25)
    out += engine.push("s", tw.point({"v": 1}, 2)) + engine.finish()
    answers = [(s, p["n"]) for s, _, p in tw.cht(list(tw.elements_of(out)))]
    assert [n for _, n in answers] == [1, 2]
    assert answers[1][0] - answers[0][0] == 20


def test_what_cannot_be_stamped_says_why() -> None:
    source = tw.source("s", {"v": "int64"}, insert_only=True)
    with pytest.raises(WindowError, match="stamp_arrivals"):
        source.distinct().sliding(10, over=tw.arrival())
    stamped = source.stamp_arrivals(every=5)
    assert stamped.sliding(10, over=tw.arrival()).aggregate(n=tw.count()).schema.names == ["n"]
    with pytest.raises(PlanError, match="stamps already"):
        source.stamp_arrivals().node.with_children(stamped.node)
