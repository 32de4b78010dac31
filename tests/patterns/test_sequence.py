"""Sequence patterns against their definition, under every form of their input."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import numpy as np
import pyarrow as pa
import pytest

import thalweg as tw
from tests.patterns.definition import matches
from thalweg.errors import PlanError
from thalweg.model import Batch, Row
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.model.time import Times
from thalweg.operators.patterns.chronicle import ChronicleKernel
from thalweg.plan.nodes import Chronicle, Node, walk
from thalweg.plan.sequences import MODES, Mode
from thalweg.testing import assert_physically_independent

A = tw.source("a", {"k": "int64", "x": "int64"})
B = tw.source("b", {"k": "int64", "y": "int64"})
C = tw.source("c", {"k": "int64", "z": "string"})
D = tw.source("d", {"k": "int64"})
STREAMS = {"a": A, "b": B, "c": C, "d": D}


def events(random: Random, name: str, count: int, span: int) -> list[Row]:
    """Points and longer events; few keys, times and values, so that ties and duplicates are
    common; some keys are null."""
    rows: list[Row] = []
    for _ in range(count):
        start = random.randint(0, span)
        payload: dict[str, object] = {"k": random.choice([1, 1, 1, 2, None])}
        if name == "c":
            payload["z"] = random.choice(["p", "q", None])
        elif name != "d":
            payload["x" if name == "a" else "y"] = random.randint(0, 1)
        rows.append((start, start + random.choice([1, 1, 5]), payload))
    return rows


def check(
    names: str,
    mode: Mode,
    random: Random,
    *,
    within: int | None = 8,
    exact: bool = False,
    barrier: str = "",
    forms: int = 3,
) -> None:
    tables = {name: events(random, name, random.randint(0, 9), 24) for name in {*names, *barrier}}
    steps = {name: STREAMS[name] for name in names}
    forbidden = {names[-1]: STREAMS[barrier]} if barrier else {}
    query = tw.sequence(
        steps, "k", mode=mode, within=within, exact=exact, not_between=forbidden or None
    )
    expected = matches(
        {name: tables[name] for name in names},
        mode,
        within=within,
        exact=exact,
        barriers={names[-1]: tables[barrier]} if barrier else None,
    )
    # Nothing lies between two steps at one time: that query does not read the barrier at all.
    inputs = {name: tables[name] for name in tables if name in names or within != 0}
    assert_physically_independent(
        query.node,
        inputs,
        forms=forms,
        seed=random.randint(0, 10**6),
        consistency=random.choice(["speculative", "final", "eager"]),
        expected=expected,
    )


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("mode", MODES)
class TestAgainstTheDefinition:
    def test_two_steps(self, mode: Mode, exact: bool) -> None:
        random = Random(1)
        for _ in range(12):
            check(
                "ab", mode, random, exact=exact, within=random.choice([0 if exact else 2, 1, 4, 12])
            )

    def test_three_and_four_steps(self, mode: Mode, exact: bool) -> None:
        random = Random(2)
        for names in ("abc", "abc", "abcd"):
            check(names, mode, random, exact=exact)

    def test_nothing_between(self, mode: Mode, exact: bool) -> None:
        random = Random(3)
        for names in ("ab", "ab", "ab", "abc"):
            check(names, mode, random, exact=exact, barrier="d")

    @pytest.mark.slow
    def test_many(self, mode: Mode, exact: bool) -> None:
        random = Random(4)
        for _ in range(120):
            names = random.choice(["ab", "abc", "abcd"])
            barrier = random.choice(["", "d"]) if "d" not in names else ""
            bound = random.choice([0 if exact else 2, 1, 3, 8, 20])
            check(names, mode, random, exact=exact, within=bound, barrier=barrier, forms=6)


def test_recent_needs_no_bound() -> None:
    random = Random(5)
    for names in ("ab", "abc"):
        check(names, "recent", random, within=None)


def table(
    mode: Mode, rows: Mapping[str, list[tuple[int, int]]], within: int = 100
) -> list[tuple[int, ...]]:
    """Pairs of values; an event is (time, value)."""
    one, two = tw.source("a", {"x": "int64"}), tw.source("b", {"y": "int64"})
    query = tw.sequence({"a": one, "b": two}, mode=mode, within=within, select=["a.x", "b.y"])
    fed = {
        "a": [tw.point({"x": x}, t) for t, x in rows["a"]],
        "b": [tw.point({"y": y}, t) for t, y in rows["b"]],
    }
    return [(row[2]["x"], row[2]["y"]) for row in tw.table(query, fed)]


def test_the_packaging_examples() -> None:
    """Products follow cases on a belt: many to a case (containment), or one product per case."""
    belt = {"a": [(1, 100), (5, 200)], "b": [(2, 1), (3, 2), (6, 3), (7, 4)]}
    assert table("recent", belt) == [(100, 1), (100, 2), (200, 3), (200, 4)]
    waiting = {"a": [(1, 100), (2, 200), (3, 300)], "b": [(4, 1), (5, 2), (9, 3), (10, 4)]}
    assert table("chronicle", waiting) == [(100, 1), (200, 2), (300, 3)]


def test_a_case_that_comes_late_is_taken_and_moves_the_others_on() -> None:
    one, two = tw.source("a", {"x": "int64"}), tw.source("b", {"y": "int64"})
    query = tw.sequence({"a": one, "b": two}, mode="chronicle", within=100, select=["a.x", "b.y"])
    engine = tw.Engine(query)
    engine.push("a", [tw.point({"x": 2}, 2), tw.point({"x": 3}, 3)])
    engine.push("b", [tw.point({"y": 1}, 10), tw.point({"y": 2}, 11)])
    late = list(tw.elements_of(engine.push("a", [tw.point({"x": 1}, 1)])))
    removed = [(e.payload["x"], e.payload["y"]) for e in late if isinstance(e, tw.Adjust)]
    added = [(e.payload["x"], e.payload["y"]) for e in late if isinstance(e, tw.Insert)]
    assert sorted(removed) == [(2, 1), (3, 2)]
    assert sorted(added) == [(1, 1), (2, 2)]


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "recent"])
def test_a_pattern_whose_state_would_never_end_is_refused(mode: Mode) -> None:
    with pytest.raises(PlanError, match="within="):
        tw.sequence({"a": A, "b": B}, "k", mode=mode)


def test_mistakes_are_refused_when_the_pattern_is_written() -> None:
    with pytest.raises(PlanError, match="recent"):
        tw.sequence({"a": A, "b": B}, "k", mode="recents")  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="at least two"):
        tw.sequence({"a": A}, "k")
    with pytest.raises(PlanError, match="later step"):
        tw.sequence({"a": A, "b": B}, "k", not_between={"a": C})
    with pytest.raises(PlanError, match="exact=True"):
        tw.sequence({"a": A, "b": B}, "k", within=0)
    with pytest.raises(PlanError, match="negative"):
        tw.sequence({"a": A, "b": B}, "k", within=-1)


def chronicle(within: int = 100) -> tuple[ChronicleKernel, Chronicle]:
    query = tw.sequence({"a": A, "b": B}, "k", mode="chronicle", within=within)
    (node,) = [node for node in walk(query.node) if isinstance(node, Chronicle)]
    return ChronicleKernel(node), node


def points(side: Node, port: int, start: Times, cti: int | None = None) -> Batch:
    """Rows of one key; a case waits for a hundred ticks."""
    columns = [pa.array(np.ones(len(start)), field.type) for field in side.schema]
    rows = pa.RecordBatch.from_arrays(columns, schema=side.schema)
    progress = NO_PROGRESS if cti is None else Progress(cti)
    return Batch(rows, start, start + (1 if port else 100), progress=progress)


def test_a_late_event_costs_its_busy_period_not_the_key() -> None:
    """One key; every fifty ticks two cases and then three products, so that the line empties."""
    kernel, node = chronicle()
    bursts = np.arange(5_000)[:, None] * 50
    for port, (side, many) in enumerate(((node.left, 2), (node.right, 3))):
        start = (bursts + 10 * port + np.arange(many)).reshape(-1)
        kernel.process(port, points(side, port, start))
    kernel.rematched = 0
    answer = kernel.process(1, points(node.right, 1, np.array([100_003])))
    assert len(answer)
    assert kernel.rematched < 200


def test_a_late_event_costs_its_busy_period_where_as_many_come_as_are_taken() -> None:
    """One key; a case at each even tick, taken by a product at the next tick: a product that comes
    late takes nobody, a case that comes late moves the others on until one would have gone."""
    kernel, node = chronicle()
    even = 2 * np.arange(20_000)
    kernel.process(0, points(node.left, 0, even))
    kernel.process(1, points(node.right, 1, even + 1))
    kernel.rematched = 0
    assert not len(kernel.process(1, points(node.right, 1, np.array([20_001]))))
    assert kernel.rematched < 50
    kernel.rematched = 0
    moved = kernel.process(0, points(node.left, 0, np.array([20_000])))
    assert len(moved)
    # The case waits for a hundred ticks at most: fifty cases and fifty products.
    assert kernel.rematched < 1_000


def feed_in_order(events: int, size: int, *, promises: bool) -> ChronicleKernel:
    """Cases and products by turns, in batches of `size`, of one key."""
    kernel, node = chronicle()
    for first in range(0, events // 2, size):
        start = 2 * np.arange(first, min(first + size, events // 2))
        for port, side in enumerate((node.left, node.right)):
            cti = int(start[-1]) + 2 if promises else None
            kernel.process(port, points(side, port, start + port, cti))
            if promises:
                assert kernel.state_size().rows <= 3 * size
    return kernel


@pytest.mark.parametrize("promises", [False, True])
@pytest.mark.parametrize("events", [100_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_chronicle_is_linear_in_events(events: int, promises: bool) -> None:
    """The rows that are looked at, each time anew, are a few times the events."""
    kernel = feed_in_order(events, 5_000, promises=promises)
    assert kernel.rematched < 4 * events
    # Who was taken before the promise is not remembered.
    assert (kernel.state_size().rows < 20_000) == promises
