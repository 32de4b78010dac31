"""The eager and the lazy groups of an adaptive kernel, by the rules of `adaptation`.

Every group begins lazy. A flag and a count of buffered rows are kept for each group, but only while
rows are so much smaller than partial results that telling groups apart pays; else all groups are
eager.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from thalweg.model.rows import Bools, Codes, Rows
from thalweg.model.time import Times
from thalweg.operators.base import Slices
from thalweg.operators.window.grid.adaptation import (
    Monitor,
    eager_bytes,
    lazy_bytes,
    lower_threshold,
    threshold,
)
from thalweg.operators.window.items import Items
from thalweg.plan.aggregates import ROWS
from thalweg.state.key_index import KeyIndex
from thalweg.state.pages import Pages, read_whole
from thalweg.state.placed import PlacedSlices

__all__ = ["EagerGroups"]

_WORTH_ROWS = 2
"""If a partial result is no larger than this many rows, telling groups apart saves too little: all
are eager."""


class EagerGroups:
    """`buffer` holds the rows of lazy groups; `step` is the distance of windows, or of panes."""

    def __init__(
        self,
        index: KeyIndex,
        buffer: PlacedSlices[Items],
        part_bytes: float,
        row_bytes: float,
        range_: int,
        step: int,
    ) -> None:
        self._index, self._buffer = index, buffer
        self._bytes = part_bytes, row_bytes
        self._range, self._step = range_, step
        self._monitor = Monitor(range_)
        self._flags = Pages()
        self.watches = False
        """Whether groups are told apart now."""
        self.switches = {"to eager": 0, "to lazy": 0}
        self._forget()

    def _forget(self) -> None:
        self.is_eager = np.empty(0, np.bool_)
        self._volume = np.empty(0, np.int32)
        """How many rows of each group are in the buffer."""
        self._flags.touch_all()

    def see(
        self, start: Times, first: Codes, beyond: Codes, low: int, source: pa.Array | None
    ) -> None:
        """New rows (see `Monitor.see`)."""
        self._monitor.see(start, first, beyond, low, source)
        self._watch()

    def count(self, group: Codes, sign: int) -> None:
        """Count rows that are added to the buffer (1), or removed from it (-1)."""
        if self.watches and len(group):
            rows = np.bincount(group, minlength=len(self._volume)).astype(np.int32)
            self._volume += sign * rows

    def _watch(self) -> None:
        """Start or stop telling groups apart; make room for new groups."""
        watches, size = self._limit() >= _WORTH_ROWS, len(self._index)
        if not watches:
            self._forget()
        elif not self.watches:
            self.is_eager, self._volume = np.zeros(size, np.bool_), self._volumes()
        elif size > len(self.is_eager):
            more = size - len(self.is_eager)
            self.is_eager = np.concatenate([self.is_eager, np.zeros(more, np.bool_)])
            self._volume = np.concatenate([self._volume, np.zeros(more, np.int32)])
        self.watches = watches

    def _volumes(self) -> npt.NDArray[np.int32]:
        volume = np.zeros(len(self._index), np.int32)
        for items in self._buffer.all():
            volume += np.bincount(items.group, minlength=len(volume)).astype(np.int32)
        return volume

    def _limit(self) -> float:
        """Rows of a group in open windows above which it should be eager."""
        return threshold(*self._bytes, self._monitor.extent, self._step)

    def turn_eager(self, group: Codes) -> Bools | None:
        """Make groups with many rows eager, as rows for them arrive. Returns the groups that have
        become eager, None if none of these has rows in the buffer."""
        rows = self._volume + np.bincount(group, minlength=len(self._volume))
        dense: Bools = ~self.is_eager & (rows > self._limit())
        many = int(dense.sum())
        if not many:
            return None
        self.switches["to eager"] += many
        self.is_eager |= dense
        self._flags.touch(np.flatnonzero(dense))
        if not self._volume[dense].any():
            return None
        self._volume[dense] = 0
        return dense

    def close(self, closed: int, cells: PlacedSlices[Items], pane: int | None) -> None:
        """Make groups with few rows lazy, as the windows up to one close, whose rows still count.
        `cells` are the partial results, by pane if `pane`, its length, is given."""
        self._monitor.close(closed)
        self._watch()
        if self.watches:
            self._turn_lazy(cells, self._range if pane is None else pane)

    def _turn_lazy(self, cells: PlacedSlices[Items], span: int) -> None:
        largest = np.zeros(len(self.is_eager), np.int64)
        for items in cells.all(gather=True):
            np.maximum.at(largest, items.group, items.parts.column(ROWS.name).to_numpy())
        extent = self._monitor.extent
        volume = largest / span
        behind = volume * extent * self._monitor.share_behind()
        lazy = lazy_bytes(self._bytes[1], volume, extent, behind)
        eager = eager_bytes(self._bytes[0], extent, self._step)
        sparse = self.is_eager & (lazy < lower_threshold(eager))
        self.switches["to lazy"] += int(sparse.sum())
        self.is_eager &= ~sparse
        self._flags.touch(np.flatnonzero(sparse))

    # --------------------------------------------------------------------------------------------
    # state

    def renumber(self, moved: Codes) -> None:
        if self.watches:
            used = (moved >= 0).nonzero()[0]
            self.is_eager, self._volume = self.is_eager[used], self._volume[used]
        self._flags.touch_all()

    def clear(self) -> None:
        self._forget()
        self.watches = False

    def snapshot(self, write: Callable[[Codes], Slices]) -> Slices:
        """`write` makes the slices of the eager groups."""
        seen = [self._monitor.high, int(self._monitor.extent), int(self.watches)]
        monitor = pa.RecordBatch.from_arrays([pa.array(seen, pa.int64())], names=["monitor"])
        return {**self._flags.snapshot(self.is_eager, write), "monitor": monitor}

    def restore(self, slices: Mapping[str, Rows], read: Callable[[Rows], Codes]) -> None:
        """Restore the flags after the buffer; `read` finds the groups that `write` has written."""
        monitor = self._monitor
        monitor.high, monitor.extent, watches = slices["monitor"].column(0).to_pylist()
        self.watches = bool(watches)
        eager = read_whole("eager", slices)
        numbers = np.empty(0, np.int64) if eager is None else read(eager)
        if self.watches:
            self.is_eager, self._volume = np.zeros(len(self._index), np.bool_), self._volumes()
            self.is_eager[numbers] = True
        self._watch()

    @property
    def nbytes(self) -> int:
        return self.is_eager.nbytes + self._volume.nbytes
