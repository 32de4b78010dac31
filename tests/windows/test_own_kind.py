"""Extension is one file: kinds of windows that are defined here alone get the laws, `explain`,
restarts, promises for groups and the divided engine, without a line elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import ClassVar

import numpy as np
import pytest

import thalweg as tw
from thalweg.errors import WindowError
from thalweg.model import Row
from thalweg.model.cht import cht
from thalweg.model.delta import Delta
from thalweg.model.rows import Bools, Codes
from thalweg.model.time import Times
from thalweg.operators.window.assigners.changes import Ordered
from thalweg.operators.window.assigners.whole_partitions import WholePartitions
from thalweg.operators.window.extents import Frames
from thalweg.progress.frontier import Frontier
from thalweg.shards.fragments.cutting import fragments_of
from thalweg.shards.local_engine import DividedEngine
from thalweg.stream import Stream
from thalweg.testing import EngineType, assert_physically_independent
from thalweg.windows import Membership, Tuples, WindowIds, WindowKind, duality

# ------------------------------------------------------------------------------------------------
# a kind that looks at one tuple: its three functions are all there is


@dataclass(frozen=True)
class Shifts(WindowKind):
    """Windows of 7 ticks, a new one every 10, and only for tuples with a positive `v`."""

    context: ClassVar[frozenset[str]] = frozenset()
    reads: ClassVar[tuple[str, ...]] = ("v",)

    @property
    def longest(self) -> int:
        return 7

    def _mine(self, tuples: Tuples) -> Bools:
        values = tuples.columns["v"].fill_null(0).to_numpy(zero_copy_only=False)
        mine: Bools = (tuples.ts % 10 < 7) & (values > 0)
        return mine

    def windows(self, tuples: Tuples) -> WindowIds:
        return WindowIds.of(np.unique(tuples.ts[self._mine(tuples)] // 10))

    def extent(self, window: int, partition: int, tuples: Tuples) -> Bools:
        inside: Bools = self._mine(tuples) & (tuples.ts // 10 == window)
        return inside

    def wids(self, tuples: Tuples) -> Membership:
        mine = np.flatnonzero(self._mine(tuples))
        return Membership(mine, tuples.ts[mine] // 10)

    def time_range(self, windows: Codes) -> tuple[Times, Times]:
        return windows * 10, windows * 10 + 7

    def __str__(self) -> str:
        return "shifts"


# ------------------------------------------------------------------------------------------------
# a kind whose windows depend on other tuples: it has an assigner


@dataclass(frozen=True)
class Neighbours(WindowKind):
    """A window for each two neighbouring distinct times a < b of a partition, if they are less than
    `near` apart: the tuples at both, over [a, b + 1)."""

    context: ClassVar[frozenset[str]] = frozenset({"backward", "forward"})

    near: int

    def _pairs(self, tuples: Tuples, partition: int) -> Times:
        times = np.unique(tuples.ts[tuples.partition == partition])
        found: Times = times[:-1][np.diff(times) < self.near]
        return found

    def windows(self, tuples: Tuples) -> WindowIds:
        parts = np.unique(tuples.partition).tolist()
        found = [self._pairs(tuples, part) for part in parts]
        owner = np.repeat(parts, [len(times) for times in found])
        return WindowIds(np.concatenate(found), owner)

    def extent(self, window: int, partition: int, tuples: Tuples) -> Bools:
        times = np.unique(tuples.ts[tuples.partition == partition])
        after = times[times > window][0]
        inside: Bools = (tuples.partition == partition) & np.isin(tuples.ts, [window, after])
        return inside

    def wids(self, tuples: Tuples) -> Membership:
        ids = self.windows(tuples)
        pairs = [
            (member, window)
            for window, partition in zip(ids.number.tolist(), ids.partition.tolist(), strict=True)
            for member in np.flatnonzero(self.extent(window, partition, tuples)).tolist()
        ]
        found = np.array(pairs, np.int64).reshape(-1, 2)
        return Membership(found[:, 0], found[:, 1])

    def assigner(self) -> object:
        return NeighboursAssigner(self.near)

    def __str__(self) -> str:
        return f"neighbours({self.near})"


class NeighboursAssigner(WholePartitions):
    def __init__(self, near: int) -> None:
        super().__init__()
        self._near = near

    def stretch(self, delta: Delta) -> tuple[Times, Times]:
        return delta.start, delta.start + self._near

    def frames(self, rows: Ordered, more: tuple[Codes, Codes], mark: int) -> Frames:
        new = np.ones(len(rows), np.bool_)
        new[1:] = (rows.partition[1:] != rows.partition[:-1]) | (rows.start[1:] != rows.start[:-1])
        partition, start = rows.partition[new], rows.start[new]
        near = (partition[1:] == partition[:-1]) & (start[1:] - start[:-1] < self._near)
        low, high = start[:-1][near], start[1:][near] + 1
        return Frames(partition[:-1][near], low, high, low, high, low)

    def close(self, frontier: Frontier) -> int:
        self.held.drop(frontier.cti)
        return self.promise(frontier.cti)

    def promise(self, time: int) -> int:
        return time - self._near + 1

    def needs(self, time: int) -> int:
        return time + self._near - 1


# ------------------------------------------------------------------------------------------------
# what follows

COLUMNS = {"k": "int64", "v": "int64"}


def _rows(seed: str, count: int = 12) -> list[Row]:
    draw = Random(seed)
    starts = [draw.randrange(40) for _ in range(count)]
    return [
        (s, s + draw.randrange(1, 9), {"k": draw.randrange(2), "v": draw.randrange(-3, 9)})
        for s in starts
    ]


def _shifts() -> Stream:
    windows = tw.source("a", COLUMNS).group_by("k").windows(Shifts()).with_id("w")
    return windows.aggregate(n=tw.count(), most=tw.max_("v"), mid=tw.percentile("v", 0.5))


@pytest.mark.parametrize("engine", [tw.Engine, DividedEngine])
def test_a_kind_of_single_tuples_obeys_the_law_on_both_engines(engine: EngineType) -> None:
    for level in ("speculative", "final"):
        assert_physically_independent(
            _shifts().node, {"a": _rows("shifts")}, forms=4, engine=engine, consistency=level
        )


def test_the_kinds_mean_what_they_say() -> None:
    times = np.array([3, 5, 5, 12, 13, 17, 29])
    partition = np.array([0, 0, 1, 1, 0, 1, 1])
    assert duality(Neighbours(9), Tuples.of(times, partition=partition)) is None


def _neighbours(near: int, rows: list[Row]) -> list[tuple[int, int, int, int]]:
    """Straight from the definition: two neighbouring times of a partition, and how many rows."""
    found = []
    for k in sorted({row["k"] for _, _, row in rows}):
        times = sorted({start for start, _, row in rows if row["k"] == k})
        for a, b in pairwise(times):
            if b - a < near:
                many = sum(row["k"] == k and start in (a, b) for start, _, row in rows)
                found.append((a, b + 1, k, many))
    return sorted(found)


@pytest.mark.parametrize("consistency", ["speculative", "final", "eager"])
@pytest.mark.parametrize("seed", range(6))
def test_a_kind_with_an_assigner_in_any_order_with_promises_and_restarts(
    seed: int, consistency: str
) -> None:
    rows, draw = _rows(f"neighbours/{seed}", 20), Random(seed)
    windows = tw.source("a", COLUMNS).windows(Neighbours(9), partition_by="k")
    query = windows.aggregate(n=tw.count())
    engine, out = tw.Engine(query, consistency=consistency), []
    rest = sorted(rows, key=lambda row: row[0] + draw.randrange(10))
    while rest:
        some, rest = rest[:3], rest[3:]
        out += engine.push("a", [tw.insert(row, start, end) for start, end, row in some])
        low = min((start for start, _, _ in rest), default=100)
        out += engine.push("a", tw.cti(low, None if draw.random() < 0.7 else {"k": 0}))
        engine = tw.Engine.restore(query, engine.snapshot(), consistency=consistency)
    out += engine.finish()
    found = sorted((start, end, row["k"], row["n"]) for start, end, row in cht(tw.elements_of(out)))
    assert found == _neighbours(9, rows)


def test_explain_and_fragments_know_them() -> None:
    assert "shifts" in _shifts().explain()
    assert not fragments_of(_shifts().node).fragments[0].single


def test_a_kind_that_depends_on_others_without_an_assigner_is_refused() -> None:
    @dataclass(frozen=True)
    class Bare(Neighbours):
        def assigner(self) -> object:
            return None

    with pytest.raises(WindowError, match="has no assigner"):
        tw.source("a", COLUMNS).windows(Bare(9))
