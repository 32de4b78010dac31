"""Landmark windows over time: each window contains all rows so far. A window in which a group has a
new row answers, and its answer holds until the next such window.

A row that starts at t enters with window w(t) = max(floor((t - o) / s), 0) and never leaves. Rows
that the CTI has passed become partial results of their group (see `totals`): one for all closed
windows, one for the window of the CTI.
"""

from __future__ import annotations

import numpy as np

from thalweg.model.delta import Delta
from thalweg.model.rows import Codes, Rows, used_codes
from thalweg.model.sorting import run_begins, sort_pairs
from thalweg.model.time import INFINITY, MIN_TIME, Times
from thalweg.operators.window.assigners.changes import Ordered, repeated
from thalweg.operators.window.assigners.whole_partitions import WholePartitions
from thalweg.operators.window.extents import Frames, Places, next_after
from thalweg.operators.window.held_rows import Found
from thalweg.progress.frontier import Frontier, Line
from thalweg.state.columns import RowColumns
from thalweg.windows import LandmarkTime

__all__ = ["LandmarkAssigner"]

_FEW = 64
"""Up to this many rows of a batch are held as they are."""
_HELD = 160
"""Fewer rows than this are evaluated with every batch, which is cheaper than adding them to
totals."""


class LandmarkAssigner(WholePartitions):
    chained = True
    cumulative = True

    def __init__(self, kind: LandmarkTime, *, insert_only: bool) -> None:
        super().__init__()
        self._slide, self._origin, self._insert_only = kind.slide, kind.origin, insert_only

    def _window(self, start: Times) -> Codes:
        return np.maximum((start - self._origin) // self._slide, 0)

    def stretch(self, delta: Delta) -> tuple[Times, Times]:
        return delta.start, delta.start + 1

    def compact(self, rows: Delta, partition: Codes) -> tuple[Delta, Codes]:
        """Merge the rows of one window that arrive together, where nothing is ever removed; the
        merged row has the time of one of them."""
        if not self._insert_only or len(rows) < _FEW:
            return rows, partition
        assert self.totals is not None
        merged, which = self.totals.merged(rows.payload, partition, self._window(rows.start))
        return Delta(merged, rows.start[which], rows.end[which], rows.weight[which]), partition[
            which
        ]

    def order(self, found: Found) -> Ordered:
        """The rows as they are found: `frames` sorts them together with totals."""
        which = repeated(np.arange(len(found)), found.weight)
        return Ordered(found, which, found.start[which])

    def leaves_from(self, delta: Delta) -> Times:
        return self._origin + (self._window(delta.start) + 1) * self._slide

    def frames(self, rows: Ordered, more: tuple[Codes, Codes], mark: int) -> Frames:
        partition = np.concatenate([rows.partition, more[0]])
        window = np.concatenate([self._window(rows.start), more[1]])
        order = sort_pairs(partition, window)
        partition, window = partition[order], window[order]
        first = run_begins(partition, window)
        beyond = next_after(first, len(order))
        partition, window = partition[first], window[first]
        begins = first[partition.searchsorted(partition)]  # with all windows before it
        start = self._origin + window * self._slide
        over = start + self._slide
        low, never = np.full(len(start), MIN_TIME), np.full(len(start), INFINITY)
        places = Places(order, begins, beyond)
        return Frames(partition, low, over, start, never, window, over, places)

    def linked(self, frames: Frames) -> Frames:
        end = np.full(len(frames), INFINITY)
        same = frames.partition[1:] == frames.partition[:-1]
        end[:-1] = np.where(same, frames.start[1:], INFINITY)
        f = frames
        return Frames(f.partition, f.lo, f.hi, f.start, end, f.wid, f.over, f.places)

    def totals_coordinate(self, position: Codes) -> Codes:
        return self._origin + position * self._slide

    # --------------------------------------------------------------------------------------------
    # promises

    def close(self, frontier: Frontier) -> int:
        few = self.held.is_small and len(self.held) < _HELD
        dropped = [] if few else self.held.drop(frontier.cti)
        if dropped:
            rows = RowColumns.concat(dropped)
            self._absorb(Line(frontier.cti), rows.payload, rows.group, rows.start, rows.weight)
        return self.promise(frontier.cti)

    def close_partitions(self, partition: Codes, settled: Line) -> Times:
        found = self.held.of(partition)
        over = found.filter(found.end <= settled.of(found.partition))
        if len(over):
            self._absorb(settled, over.payload, over.partition, over.start, over.weight)
            self.forget(over)
        times = np.broadcast_to(settled.of(partition), partition.shape)
        return np.array([self.promise(int(time)) for time in times], np.int64)

    def _absorb(
        self, settled: Line, payload: Rows, partition: Codes, start: Times, weight: Codes
    ) -> None:
        assert self.totals is not None
        which = np.repeat(np.arange(len(start)), weight)
        touched = used_codes([partition])
        current = np.full(int(touched.max()) + 1, MIN_TIME)
        current[touched] = (settled.of(touched) - self._origin) // self._slide
        self.totals.add(payload, which, partition, self._window(start), current)

    def promise(self, time: int) -> int:
        return (time - self._origin) // self._slide * self._slide + self._origin

    def needs(self, time: int) -> int:
        return -((self._origin - time) // self._slide) * self._slide + self._origin
