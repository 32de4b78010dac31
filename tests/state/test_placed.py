"""`PlacedSlices` against a dictionary: whatever is added, taken, dropped, renumbered, saved and
read back, in whatever order, what is found adds up to the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from thalweg.model.rows import Bools, Rows
from thalweg.operators.window.grid.cells import Cells
from thalweg.state.placed import PlacedSlices
from thalweg.state.slices import Slices

GROUPS = 6
Known = dict[tuple[int, int], int]


def concat(parts: Sequence[Cells]) -> Cells:
    return Cells.concat(parts, 1)


def write(cells: Cells) -> Rows:
    columns = [pa.array(cells.group), pa.array(cells.window), pa.array(cells.sums[0])]
    return pa.RecordBatch.from_arrays(columns, names=["group", "place", "sum"])


def read(rows: Rows) -> Cells:
    group, place, sums = (column.to_numpy() for column in rows.columns)
    return Cells.of(group, place, sums[None])


def added_up(parts: Sequence[Cells]) -> Known:
    total: Counter[tuple[int, int]] = Counter()
    for part in parts:
        for group, place, value in zip(part.group, part.window, part.sums[0], strict=True):
            total[int(group), int(place)] += int(value)
    return {key: value for key, value in total.items() if value}


def cells_of(random: np.random.Generator, count: int, low: int, span: int) -> Cells:
    return Cells.of(
        random.integers(0, GROUPS, count),
        low + random.integers(0, span, count),
        random.integers(-2, 3, count)[None],
    ).added_up()


class Checked:
    """Slices beside the dictionary that they must equal."""

    def __init__(self) -> None:
        self.slices = PlacedSlices(concat, Cells.added_up)
        self.known: Known = {}
        self.saved: Slices = {}

    def add(self, cells: Cells) -> None:
        self.known = added_up([read(write(cells)), self.expected()])
        self.slices.add(cells)

    def expected(self) -> Cells:
        keys = np.array(list(self.known), np.int64).reshape(-1, 2)
        sums = np.array(list(self.known.values()), np.int64)
        return Cells.of(keys[:, 0], keys[:, 1], sums[None])

    def take_until(self, place: int) -> None:
        taken = added_up(self.slices.take_until(place))
        assert taken == {key: value for key, value in self.known.items() if key[1] <= place}
        self.known = {key: value for key, value in self.known.items() if key[1] > place}

    def drop_until(self, place: int) -> None:
        self.slices.drop_until(place)
        self.known = {key: value for key, value in self.known.items() if key[1] > place}

    def drop(self, group: int) -> None:
        def drops(cells: Cells) -> Bools:
            dropped: Bools = cells.group == group
            return dropped

        self.slices.drop(drops)
        self.known = {key: value for key, value in self.known.items() if key[0] != group}

    def renumber(self, moved: np.ndarray) -> None:
        self.slices.renumber(moved)
        self.known = {(int(moved[g]), at): value for (g, at), value in self.known.items()}

    def save_and_read(self) -> None:
        """What has not changed is the same object as in the snapshot before."""
        self.saved = self.slices.snapshot("cells", write)
        again = self.slices.snapshot("cells", write)
        assert list(again) == list(self.saved)
        assert all(again[name] is rows for name, rows in self.saved.items())
        other = PlacedSlices(concat, Cells.added_up)
        shuffled = sorted(self.saved, key=lambda name: name[::-1])
        other.restore("cells", {name: self.saved[name] for name in shuffled}, read)
        assert added_up(other.all()) == self.known
        self.slices = other

    def check(self, random: np.random.Generator, low: int, span: int) -> None:
        assert added_up(self.slices.all()) == self.known
        places = [at for _, at in self.known]
        middle = low + span // 2
        assert self.slices.first() == min(places, default=None)
        assert self.slices.last() == max(places, default=None)
        assert self.slices.first(middle) == min((p for p in places if p >= middle), default=None)
        assert self.slices.last(middle) == max((p for p in places if p < middle), default=None)
        begin, end = sorted((low + random.integers(0, span, 2)).tolist())
        inside = {key: value for key, value in self.known.items() if begin <= key[1] < end}
        assert added_up(self.slices.between(begin, end)) == inside
        summed = concat(self.slices.between(begin, end, summed=True))
        assert len(summed) == len(added_up([summed])) == len(inside)
        group, place = random.integers(0, GROUPS, 70), low + random.integers(0, span, 70)
        found = np.zeros(70, np.int64)
        for cells, at, probe in self.slices.find(group, place):
            np.add.at(found, probe, cells.sums[0, at])
        keys = zip(group.tolist(), place.tolist(), strict=True)
        assert found.tolist() == [self.known.get(key, 0) for key in keys]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("span", [3, 400, 50_000_000_000])
def test_any_order_of_changes_adds_up(seed: int, span: int) -> None:
    random = np.random.default_rng(seed)
    checked, low = Checked(), -span // 3
    for _ in range(60):
        match random.integers(0, 9):
            case 0:
                checked.add(cells_of(random, int(random.integers(300, 2_000)), low, span))
            case 1:
                low += int(random.integers(0, span // 3 + 1))
                checked.take_until(low)
            case 2:
                checked.drop(int(random.integers(0, GROUPS)))
            case 3:
                checked.save_and_read()
            case 4:
                checked.renumber(np.arange(GROUPS))
            case 5:  # what comes afterwards may lie before that place again
                checked.drop_until(low + int(random.integers(0, span)))
                checked.add(cells_of(random, int(random.integers(1, 40)), low, span))
            case _:
                checked.add(cells_of(random, int(random.integers(1, 40)), low, span))
        checked.check(random, low, span)


def test_a_small_batch_writes_itself_and_a_promise_writes_nothing_anew() -> None:
    random = np.random.default_rng(1)
    checked = Checked()
    checked.add(cells_of(random, 200_000, 0, 100_000))
    checked.save_and_read()
    before = checked.saved
    whole = sum(rows.nbytes for rows in before.values())
    for place in range(0, 30_000, 700):
        checked.add(cells_of(random, 10, 60_000, 10))
        checked.take_until(place)
        checked.saved = checked.slices.snapshot("cells", write)
        written = [rows for name, rows in checked.saved.items() if before.get(name) is not rows]
        assert sum(rows.nbytes for rows in written) < whole / 20
        assert len(written) <= 2, "the tail, and how many items of a slice are gone"
        before = checked.saved
    checked.save_and_read()


def test_state_that_was_written_in_whole_slices_is_read() -> None:
    cells = cells_of(np.random.default_rng(2), 500, 0, 64)
    written = {
        f"cells/5/{number}": write(cells.where(cells.window >> 5 == number)) for number in range(2)
    }
    slices = PlacedSlices(concat, Cells.added_up)
    slices.restore("cells", written, read)
    assert added_up(slices.all()) == added_up([cells])
    kept = slices.snapshot("cells", write)
    assert added_up([read(rows) for rows in kept.values()]) == added_up([cells])
