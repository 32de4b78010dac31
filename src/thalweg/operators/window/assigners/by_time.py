"""Windows that follow from times: a change at t reaches only windows that last from before t until
after it, and their rows lie within their range around it.

    slide by tuple   [w - range + 1, w + 1) for the start w of every tuple, or of every n-th
    first origin     a grid that begins with the smallest start of all rows
    membership       what a kind's own `wids` and `time_range` say
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from thalweg.errors import EvaluationError
from thalweg.model.delta import Delta
from thalweg.model.rows import Bools, Codes, Rows
from thalweg.model.sorting import run_begins, sort_pairs
from thalweg.model.time import INFINITY, MIN_TIME, Times, greatest, least
from thalweg.operators.base import Slices
from thalweg.operators.groups import covered
from thalweg.operators.window.assigners.assigner import Assigner
from thalweg.operators.window.assigners.changes import Change, Ordered, repeated
from thalweg.operators.window.extents import Frames, Occupied, Places, next_after
from thalweg.operators.window.held_rows import Found
from thalweg.progress.frontier import Frontier, Line
from thalweg.windows import Membership, SlideByTuple, SlidingTime, Tuples, WindowKind

__all__ = ["FirstOriginAssigner", "MembershipAssigner", "TimeAssigner", "TupleAssigner"]


class TimeAssigner(Assigner):
    """A row is needed as long as a window that has it may be open."""

    def __init__(self, longest: int) -> None:
        self._longest = longest

    def stretch(self, delta: Delta) -> tuple[Times, Times]:
        return delta.start, delta.start + self._longest

    def fetch(self, change: Change) -> Found:
        return self.held.find(change.partition, change.first, change.last + self._longest)

    def affected(self, frames: Frames, first: Times, last: Times) -> Bools:
        return (frames.end > first) & (frames.start <= last)

    def leaving(self, old_line: Line, new_line: Line) -> Found:
        found = self.held.between(old_line.common, new_line.common)
        if not new_line.ahead:
            return found
        partition, times = new_line.columns()
        moved = times > old_line.of(partition)
        if not moved.any():
            return found
        partition, times = partition[moved], times[moved]
        since = np.broadcast_to(old_line.of(partition), partition.shape)
        more = self.held.find(partition, since, np.maximum(times, new_line.common))
        return found.filter(~np.isin(found.partition, partition)).joined(more)

    def close(self, frontier: Frontier) -> int:
        self.held.purge(frontier.cti)
        return self.promise(frontier.cti)

    def promise(self, time: int) -> int:
        return max(time - self._longest + 1, MIN_TIME)

    def needs(self, time: int) -> int:
        return time + self._longest - 1


class TupleAssigner(TimeAssigner):
    """Slide by tuple: every tuple, or every n-th by its number of arrival."""

    def __init__(self, kind: SlideByTuple, number: str | None) -> None:
        super().__init__(kind.range)
        self._every, self._number = kind.every, number
        self.columns = () if number is None else (number,)

    def order(self, found: Found) -> Ordered:
        rows = super().order(found)
        if self._number is not None:
            rows.number = rows.located().column(self.held.schema.names[-1]).to_numpy()
        return rows

    def frames(self, rows: Ordered, more: tuple[Codes, Codes], mark: int) -> Frames:
        return frames_by_tuple(rows, self._longest, self._every)


def frames_by_tuple(rows: Ordered, length: int, every: int) -> Frames:
    """A window for the start of every n-th tuple."""
    partition, window = rows.partition, rows.start
    if every > 1:
        chosen = (rows.number % every == 0).nonzero()[0]
        partition, window = partition[chosen], window[chosen]
    first = run_begins(partition, window)
    beyond = next_after(first, len(window))
    partition, window = partition[first], window[first]
    start, end = window - length + 1, window + 1
    places = None
    if every == 1 and len(partition) and partition[0] == partition[-1]:
        # Rows of one partition, in order: a window ends with the rows of its start.
        places = Places(np.arange(len(rows)), rows.start.searchsorted(start), beyond)
    return Frames(partition, start, end, start, end, window, places=places)


class FirstOriginAssigner(TimeAssigner):
    """Sliding over time from the first row of all. Until a CTI has passed that row, another may
    come before it and move all windows."""

    def __init__(self, kind: SlidingTime) -> None:
        super().__init__(kind.range)
        self._slide = kind.slide
        self.anchor = INFINITY
        """The start of the first row, once it is settled."""

    def mark(self) -> int:
        return self.anchor if self.anchor != INFINITY else self.held.first()

    def change(self, delta: Delta, partition: Codes, old_line: Line) -> Change:
        if self.anchor != INFINITY:
            return super().change(delta, partition, old_line)
        return Change.of(delta.start, partition).everywhere().before(old_line)

    def fetch(self, change: Change) -> Found:
        if self.anchor == INFINITY:
            return self.held.of(change.partition)
        return super().fetch(change)

    def frames(self, rows: Ordered, more: tuple[Codes, Codes], mark: int) -> Frames:
        since = np.sort(rows.start) - mark
        first = np.maximum(since // self._slide, 0)
        window = covered(first, (since + self._longest) // self._slide)
        end = mark + (window + 1) * self._slide
        start = end - self._longest
        return Frames(np.zeros(len(window), np.int64), start, end, start, end, window)

    def close(self, frontier: Frontier) -> int:
        cti = frontier.cti
        first = self.mark()
        if first >= cti:
            return max(min(cti + self._slide - self._longest, cti), MIN_TIME)
        self.anchor = first
        needed = first + ((cti - first) // self._slide + 1) * self._slide - self._longest
        needed = min(needed, cti)  # windows may have gaps between them
        self.held.purge(needed + self._longest - 1)
        return needed

    def needs(self, time: int) -> int:
        unsettled = max(time + self._longest - self._slide, time)
        first = self.mark()
        if first >= unsettled:
            return unsettled
        slides = -((first - time - self._longest) // self._slide)
        return max(first + (slides - 1) * self._slide, first + 1, time)

    def snapshot(self) -> Slices:
        rows = pa.RecordBatch.from_arrays([pa.array([self.anchor], pa.int64())], names=["anchor"])
        return {"anchor": rows}

    def restore(self, slices: Mapping[str, Rows], frontier: Frontier) -> None:
        self.anchor = slices["anchor"].column(0)[0].as_py()


class MembershipAssigner(TimeAssigner):
    """A kind that looks at one tuple at a time: `wids` and `time_range`.

    `_soonest` is a time before which no window that is still to answer is complete, so that rows
    are looked at when a window is over, not whenever time moves.
    """

    def __init__(self, kind: WindowKind) -> None:
        super().__init__(kind.longest)
        self._kind = kind
        self.columns = kind.reads
        self._last: tuple[int, int, int] = (0, INFINITY, MIN_TIME)
        """The id, start and end of the window of the latest tuple in the last call."""
        self.clear()

    def clear(self) -> None:
        self._soonest = INFINITY
        self._all_looked_at = False

    def restore(self, slices: Mapping[str, Rows], frontier: Frontier) -> None:
        self._soonest = MIN_TIME

    def order(self, found: Found) -> Ordered:
        """The rows as they are found: the windows of a tuple need no other rows."""
        which = repeated(np.arange(len(found)), found.weight)
        return Ordered(found, which, found.start[which])

    # --------------------------------------------------------------------------------------------
    # windows that wait

    def note_rows(self, delta: Delta, partition: Codes, old_line: Line) -> None:
        columns = {name: delta.payload.column(name) for name in self.columns}
        member, _, _, end = self._membership(delta.start, columns)
        to_come = end[end > old_line.of(partition[member])]
        if len(to_come):
            self._soonest = min(self._soonest, least(to_come))

    def leaving(self, old_line: Line, new_line: Line) -> Found:
        self._all_looked_at = False
        if old_line.ahead or new_line.ahead:
            self._soonest = MIN_TIME
            return super().leaving(old_line, new_line)
        if new_line.common < self._soonest:
            return self.held.nothing()
        self._all_looked_at = True
        return self.held.between(old_line.common, INFINITY)

    def note_answers(self, frames: Frames, new_line: Line) -> None:
        if self._all_looked_at:
            to_come = frames.end[frames.end > new_line.common]
            self._soonest = least(to_come) if len(to_come) else INFINITY

    # --------------------------------------------------------------------------------------------
    # windows of tuples

    def _membership(
        self, ts: Times, columns: dict[str, pa.Array]
    ) -> tuple[Codes, Codes, Times, Times]:
        """For every membership: the row, the window, and the lifetime of the window."""
        size = len(ts)
        number, since, until = self._last
        if self._kind.consecutive and size and since <= least(ts) and greatest(ts) < until:
            # Calendars are slow, and most batches lie in the period of the one before.
            window = np.full(size, number)
            return np.arange(size), window, np.full(size, since), np.full(size, until)
        none = np.zeros(size, np.int64)
        found: object = self._kind.wids(Tuples(ts, none, none, columns))
        if not isinstance(found, Membership) or not _are_numbers(found.member, found.window):
            raise EvaluationError(
                f"{self._kind}: wids() gives Membership(member, window), two arrays of whole "
                f"numbers of one length; got {found!r}."
            )
        edges: object = self._kind.time_range(found.window)
        if not (isinstance(edges, tuple) and len(edges) == 2 and _are_numbers(*edges)):
            raise EvaluationError(
                f"{self._kind}: time_range() gives the starts and the ends of windows, two arrays "
                f"of whole numbers of one length; got {edges!r}."
            )
        start, end = edges
        at = ts[found.member]
        wrong = ((at < start) | (at >= end) | (end - start > self._longest)).nonzero()[0]
        if len(wrong):
            i = int(wrong[0])
            raise EvaluationError(
                f"{self._kind}: window {found.window[i]} lasts from {start[i]} to {end[i]}, but "
                f"must contain the time {at[i]} of its tuple and be no longer than longest = "
                f"{self._longest}."
            )
        if len(found.window):
            last = int(at.argmax())
            self._last = int(found.window[last]), int(start[last]), int(end[last])
        return found.member, found.window, start, end

    def frames(self, rows: Ordered, more: tuple[Codes, Codes], mark: int) -> Frames:
        """A frame for each membership: `lo` is the row."""
        names = self.held.schema.names[-len(self.columns) :] if self.columns else []
        located = rows.located()
        columns = {
            name: located.column(held) for name, held in zip(self.columns, names, strict=True)
        }
        member, window, start, end = self._membership(rows.start, columns)
        return Frames(rows.partition[member], member, member + 1, start, end, window)

    def occupied(
        self, frames: Frames, rows: Ordered, partition: Codes, group: Codes, coordinate: Codes
    ) -> Occupied:
        owner = group[frames.lo]
        order = sort_pairs(owner, frames.wid)
        begins = run_begins(owner[order], frames.wid[order])
        ends = next_after(begins, len(order))
        member = frames.lo[order]
        return Occupied(member, member[begins], order[begins], begins, ends)


def _are_numbers(*arrays: object) -> bool:
    """Whether these are arrays of whole numbers of one length."""
    return (
        all(isinstance(a, np.ndarray) and a.ndim == 1 and a.dtype.kind in "iu" for a in arrays)
        and len({len(a) for a in arrays if isinstance(a, np.ndarray)}) == 1
    )
