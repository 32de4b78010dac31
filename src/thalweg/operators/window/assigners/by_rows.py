"""Sliding windows over rows, counted as they arrive or by rank.

A window is settled when its last row and all rows before it are settled (see `by_rank`). Unsettled
rows start at or after the CTI; a change among them moves only windows that become complete after
them, whose answers start at or after the CTI too. Where rows were filtered after they were
numbered, a window is complete when the promise on numbers passes its last number. Its answer then
starts at the last row that it has, which may be settled already: the promise must not pass that
row.

Settled rows that no window needs are looked for when as many rows have arrived as were needed the
last time, so that the work is proportional to the rows that arrive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.names import internal
from thalweg.model.rows import Bools, Codes, Rows
from thalweg.model.sorting import run_begins
from thalweg.model.time import INFINITY, MIN_TIME, Times, greatest, least
from thalweg.operators.base import Slices
from thalweg.operators.groups import ranges
from thalweg.operators.window.assigners.by_rank import CountingAssigner
from thalweg.operators.window.assigners.changes import Change, Ordered
from thalweg.operators.window.extents import NO_FRAMES, Frames, next_after
from thalweg.operators.window.held_rows import Found
from thalweg.progress.frontier import Frontier, Line
from thalweg.windows import SlidingRows

__all__ = ["RowsAssigner"]

_FEW = 256
"""Up to this many rows are held without finding those that are needed."""


class RowsAssigner(CountingAssigner):
    """Sliding over rows, by arrival (`numbered`: the columns of the number and of its time) or by
    rank. `sparse`: some numbers never arrive, since rows were filtered after they were numbered."""

    def __init__(
        self,
        kind: SlidingRows,
        numbered: tuple[str, str] | None,
        ties: Sequence[str],
        *,
        sparse: bool,
    ) -> None:
        super().__init__()
        self._range, self._slide = kind.range, kind.slide
        self._numbered, self._sparse = numbered, sparse
        self.ranked = kind.ranked or kind.partitioned
        self._counted = not self.ranked
        self.cumulative, self.moves_without_cti = kind.range is None, sparse
        self.ties = len(ties)
        self.columns = (*(numbered or ()), *ties)
        self.keeps_start = numbered is not None
        self._looks_back = self._counted and not sparse and kind.range is not None
        self._kept = 0
        self._since = MIN_TIME
        """No window that is still to answer has rows with smaller numbers (by arrival)."""
        self.reached = 0
        """All numbers up to this are in use and settled."""

    # --------------------------------------------------------------------------------------------
    # rows

    def stretch(self, delta: Delta) -> tuple[Times, Times]:
        if self._numbered is None:
            return delta.start, delta.start + 1
        number = delta.payload.column(self._numbered[0]).to_numpy()
        return number, number + 1

    def starts(self, found: Found) -> Times:
        if self._numbered is None:
            return found.start
        starts: Times = found.hits.column(internal("time")).to_numpy()
        return starts

    def times(self, found: Found) -> Times | None:
        return None if self._numbered is None else self._arrived(found)

    def _arrived(self, found: Found) -> Times:
        arrived: Times = found.hits.column(internal("read1")).to_numpy()
        return arrived

    def coordinate(self, rows: Ordered) -> Codes:
        return rows.number

    def leaves_from(self, delta: Delta) -> Times:
        if self._numbered is None:
            return delta.start + 1
        at: Times = delta.payload.column(self._numbered[1]).to_numpy() + 1
        return at

    # --------------------------------------------------------------------------------------------
    # windows

    def mark(self) -> int:
        return self.reached

    def observe(self, batch: Batch) -> bool:
        if not self._counted or self._numbered is None:
            return False
        (bound,) = batch.progress.column_promises.get((self._numbered[0],), (0,))
        before, self.reached = self.reached, max(self.reached, bound - 1)
        return self._sparse and self.reached > before

    def change(self, delta: Delta, partition: Codes, old_line: Line) -> Change:
        if not self._sparse:
            return super().change(delta, partition, old_line)
        first = int(delta.start.min(initial=INFINITY))
        if (delta.weight < 0).any():
            first = MIN_TIME
        elif len(self.held):  # a window that is complete now may have been over for long
            newest = self._arrived(self.held.everything())
            first = min(first, int(newest.max(initial=MIN_TIME)))
        change = Change(np.zeros(1, np.int64), np.array([first]), np.array([INFINITY]))
        return change.before(old_line)

    def has_answered(self, frames: Frames, line: Line, mark: int) -> Bools:
        out = super().has_answered(frames, line, mark)
        return out | (frames.hi <= mark + 1) if self._counted and mark else out

    # --------------------------------------------------------------------------------------------
    # windows that wait

    def note_rows(self, delta: Delta, partition: Codes, old_line: Line) -> None:
        """Note the first number that a waiting window may need: a row is in windows from its number
        on, and a window that was complete may not be any more when one of its rows is removed."""
        if not self._counted:
            super().note_rows(delta, partition, old_line)
        elif self._looks_back and len(delta):
            first = least(self.stretch(delta)[0]) + 1 - (self._range or 0)
            self._since = min(self._since, first if least(delta.weight) > 0 else MIN_TIME)

    def leaving(self, old_line: Line, new_line: Line) -> Found:
        if not self._counted:
            return super().leaving(old_line, new_line)
        return self.held.between(self._since, INFINITY)

    def note_answers(self, frames: Frames, new_line: Line) -> None:
        if not self._counted:
            super().note_answers(frames, new_line)
        elif self._looks_back:
            waiting = frames.lo[~self.has_answered(frames, new_line, self.reached)]
            self._since = least(waiting) if len(waiting) else INFINITY

    # --------------------------------------------------------------------------------------------
    # windows

    def frames(self, rows: Ordered, more: tuple[Codes, Codes], mark: int) -> Frames:
        begins, ends = _partitions(rows.partition)
        if not len(begins):
            return NO_FRAMES
        first, top = (rows.number[begins] - 1) // self._slide, rows.number[ends - 1]
        if self._sparse:  # a window beyond the range of the last row has none
            behind = -(-top // self._slide) * self._slide if self._range is None else top
            top = np.maximum(top, np.minimum(mark, behind + (self._range or 0)))
        which, window = ranges(first, np.maximum(top // self._slide - first, 0))
        last = (window + 1) * self._slide
        span = greatest(top) + 1
        complete = (rows.partition * span + rows.number).searchsorted(
            rows.partition[begins][which] * span + last, side="right" if self._sparse else "left"
        )
        if self._sparse:
            complete = complete - 1
            if self._range is None:  # everything so far answers where something is new
                new = rows.number[complete] > last - self._slide
                which, window, last, complete = which[new], window[new], last[new], complete[new]
        at = rows.at[complete]
        lo = np.zeros(len(last), np.int64) if self._range is None else last + 1 - self._range
        return Frames(rows.partition[begins][which], lo, last + 1, at, at + 1, window)

    # --------------------------------------------------------------------------------------------
    # promises

    def close(self, frontier: Frontier) -> int:
        if not self._sparse and len(self.held) <= 2 * self._kept + _FEW:
            return frontier.cti
        promise = self._settle(self.held.everything(), frontier)
        self._kept = len(self.held)
        return promise

    def close_partitions(self, partition: Codes, settled: Line) -> Times:
        rows = self.order(self.held.of(partition))
        self._forget(rows, self._needed(rows, settled)[0])
        return np.array(np.broadcast_to(settled.of(partition), partition.shape))

    def _settle(self, found: Found, frontier: Frontier) -> int:
        rows = self.order(found)
        keep, promise = self._needed(rows, frontier.settled())
        promise = min(promise, frontier.cti)
        if self._sparse:
            frames = self.frames(rows, (rows.partition[:0], rows.partition[:0]), self.reached)
            waiting = frames.filter(~self.has_answered(frames, frontier.line(), self.reached))
            if len(waiting):
                first = int(waiting.lo.min())
                if self._range is None:
                    first = int(waiting.hi.min()) - self._slide  # earlier rows are in the totals
                keep |= rows.number >= first
                promise = min(promise, int(waiting.start.min()))
        self._forget(rows, keep)
        return promise

    def _needed(self, rows: Ordered, settled: Line) -> tuple[Bools, int]:
        """Which rows later windows need; and the promise, as far as it follows from them."""
        upto = np.maximum(self._settled_numbers(rows, settled), self.reached)
        next_last = (upto // self._slide + 1) * self._slide
        needed = next_last + 1 - (self._slide if self._range is None else self._range)
        promise = INFINITY
        if self._sparse:
            waiting = (rows.number <= upto) & (rows.number >= needed)
            waiting[:-1] &= ~waiting[1:] | (rows.partition[1:] != rows.partition[:-1])
            promise = int(rows.at[waiting].min(initial=INFINITY))
        if self._range is None and not self._sparse:
            return rows.number > upto, promise
        return (rows.number >= needed) | (rows.number > upto), promise

    def _settled_numbers(self, rows: Ordered, settled: Line) -> Codes:
        """For each row the number up to which all rows of its partition are settled."""
        begins, ends = _partitions(rows.partition)
        if not len(begins):
            return np.empty(0, np.int64)
        size = len(rows)
        unsettled = np.where(rows.start >= settled.of(rows.partition), np.arange(size), size)
        first = np.minimum(np.minimum.reduceat(unsettled, begins), ends)
        upto = np.where(
            first > begins, rows.number[np.maximum(first - 1, 0)], rows.number[begins] - 1
        )
        return upto.repeat(ends - begins)

    def _forget(self, rows: Ordered, keep: Bools) -> None:
        """Forget rows."""
        if keep.all():
            return
        found = rows.found
        weight = np.zeros(len(found), np.int64)
        np.add.at(weight, rows.which[keep], 1)
        lost = found.weight - weight
        self.count(found.partition, lost)
        if self.totals is not None:
            which = np.repeat(np.arange(len(found)), lost)
            none = np.zeros(len(found), np.int64)
            closed = np.ones(int(found.partition.max()) + 1, np.int64)
            self.totals.add(found.payload, which, found.partition, none, closed)
        found.hits.set_weight(weight)
        self.held.purge(MIN_TIME)

    def promise(self, time: int) -> int:
        return time

    def needs(self, time: int) -> int:
        return time

    def lacks(self) -> tuple[str, ...]:
        """How many rows the next window of the fullest partition still misses."""
        if not len(self.held):
            return ()
        rows = self.order(self.held.everything())
        last = np.zeros(int(rows.partition.max()) + 1, np.int64)
        np.maximum.at(last, rows.partition, rows.number)
        missing = int((self._slide - last % self._slide).min())
        if not (last % self._slide).any():
            return ()
        each = " of a partition" if self.held.partitions.columns else ""
        count = "1 row is" if missing == 1 else f"{missing} rows are"
        return (f"its next window{each} is not complete: {count} missing",)

    # --------------------------------------------------------------------------------------------
    # state

    def clear(self) -> None:
        super().clear()
        self._kept, self._since = 0, MIN_TIME

    def snapshot(self) -> Slices:
        reached = pa.RecordBatch.from_arrays([pa.array([self.reached])], names=["reached"])
        return {**super().snapshot(), "reached": reached}

    def restore(self, slices: Mapping[str, Rows], frontier: Frontier) -> None:
        super().restore(slices, frontier)
        self._since = MIN_TIME
        self.reached = slices["reached"].column(0)[0].as_py()


def _partitions(partition: Codes) -> tuple[Codes, Codes]:
    """The begin and the end of each partition's rows."""
    begins = run_begins(partition)
    return begins, next_after(begins, len(partition))
