"""Session windows: maximal chains of starts less than `gap` apart, over [first, last + gap).

Of each partition the newest chain is known, so that its rows are looked at when it is over, not
whenever one comes. What a CTI has passed of a chain cannot change any more: of each partition the first and the last
start of the settled part of its open chain are known. They close chains and give the promise, which
is the first start of the earliest open one; they follow from the rows and are not state.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from thalweg.model.delta import Delta
from thalweg.model.rows import Bools, Codes, Rows, used_codes
from thalweg.model.time import INFINITY, MIN_TIME, Times
from thalweg.operators.hopping.extents import Frames, Places
from thalweg.operators.rows.sessions import chains_of
from thalweg.operators.window.assigner import Change, Ordered, WholePartitions, grown, moved_to
from thalweg.operators.window.held_rows import Found
from thalweg.progress.frontier import Frontier, Line
from thalweg.windows import SessionWindow

__all__ = ["SessionAssigner"]


class SessionAssigner(WholePartitions):
    disjoint = True

    def __init__(self, kind: SessionWindow) -> None:
        super().__init__()
        self._gap = kind.gap
        self.clear()

    def clear(self) -> None:
        super().clear()
        self._settled = MIN_TIME
        self._first = self._last = np.empty(0, np.int64)
        self._newest = _Newest()

    def stretch(self, delta: Delta) -> tuple[Times, Times]:
        return delta.start, delta.start + self._gap

    # ----------------------------------------------------------------------------------------------
    # sessions that wait

    def change(self, delta: Delta, partition: Codes) -> Change:
        """Rows from the first one of the newest chain on reach no other, and that may be to come."""
        change = super().change(delta, partition)
        if (delta.weight < 0).any():
            return change
        newest = self._newest
        newest.grow(change.partition)
        late = change.first < newest.first[change.partition]
        return change.filter(late | ~newest.waits[change.partition])

    def seen(self, delta: Delta, partition: Codes, out: Line) -> None:
        self._pending = grown(self._pending, partition, INFINITY)
        newest = self._newest
        newest.grow(partition)
        first, last = newest.first[partition], newest.last[partition]
        # Rows within reach of the newest chain are as if they stood at its end.
        inside = (delta.start > first - self._gap) & (delta.start <= last)
        at = np.where(inside, last, delta.start)
        known = used_codes([partition])
        known = known[newest.last[known] != MIN_TIME]
        chains = chains_of(
            np.concatenate([known, partition]),
            np.concatenate([newest.last[known], at]),
            np.concatenate([newest.first[known], delta.start]),
            self._gap,
        )
        latest = np.ones(len(chains.group), np.bool_)
        latest[:-1] = chains.group[1:] != chains.group[:-1]
        now, end = chains.group[latest], chains.last[latest] + self._gap
        newest.first[now], newest.last[now] = chains.first[latest], chains.last[latest]
        newest.waits[now] = end > out.of(now)
        older, over = chains.group[~latest], chains.last[~latest] + self._gap
        waiting = over > out.of(older)
        np.minimum.at(self._pending, older[waiting], over[waiting])
        # Without a row that is taken back a session may be over earlier.
        gone = partition[delta.weight < 0]
        if len(gone):
            self._pending[gone], newest.last[gone], newest.waits[gone] = MIN_TIME, MIN_TIME, False

    def waiting(self, due: Line) -> Codes:
        newest = self._newest
        every = np.arange(len(newest.last))
        over = newest.waits & (newest.last + self._gap <= due.of(every))
        newest.waits[over] = False
        older = super().waiting(due)
        return used_codes([older, over.nonzero()[0]]) if len(older) else over.nonzero()[0]

    def left(self, frames: Frames, due: Line) -> None:
        """All sessions of some partitions are known: the newest, and older ones that wait."""
        newest = self._newest
        newest.grow(frames.partition)
        latest = np.ones(len(frames), np.bool_)
        latest[:-1] = frames.partition[1:] != frames.partition[:-1]
        now = frames.partition[latest]
        newest.first[now], newest.last[now] = frames.lo[latest], frames.hi[latest] - 1
        newest.waits[now] = frames.end[latest] > due.of(now)
        if len(now) < len(frames):
            super().left(frames.filter(~latest), due)

    def affected(self, frames: Frames, first: Times, last: Times) -> Bools:
        return (frames.end > first) & (frames.start < last + self._gap)

    def frames(self, rows: Ordered, more: tuple[Codes, Codes], mark: int) -> Frames:
        partition, start = rows.partition, rows.start
        new = np.ones(len(start), np.bool_)
        new[1:] = (partition[1:] != partition[:-1]) | (start[1:] - start[:-1] >= self._gap)
        begins = new.nonzero()[0]
        beyond = np.append(begins[1:], len(start))
        first, last = start[begins], start[beyond - 1]
        end = last + self._gap
        places = Places(np.arange(len(start)), begins, beyond)
        return Frames(partition[begins], first, last + 1, first, end, first, places=places)

    # ----------------------------------------------------------------------------------------------
    # promises

    def close(self, frontier: Frontier) -> int:
        cti = frontier.cti
        if cti > self._settled:
            found = self.held.between(self._settled, cti)
            self._settled, before = cti, self._settled
            self._settle(found, found.start >= before, Line(cti))
        return self.promise(cti)

    def promise(self, time: int) -> int:
        open_ = self._last != MIN_TIME
        return min(time, int(self._first[open_].min())) if open_.any() else time

    def close_partitions(self, partition: Codes, settled: Line) -> Times:
        found = self.held.of(partition)
        within = found.start < settled.of(found.partition)
        self._first = grown(self._first, partition, MIN_TIME)
        self._last = grown(self._last, partition, MIN_TIME)
        self._settle(found, within, settled, partition)
        times = np.broadcast_to(settled.of(partition), partition.shape)
        open_ = self._last[partition] != MIN_TIME
        return np.where(open_, np.minimum(times, self._first[partition]), times)

    def _settle(
        self, found: Found, mask: Bools, settled: Line, partitions: Codes | None = None
    ) -> None:
        """Extend the settled parts of chains by rows that are settled now; forget closed chains."""
        partition, start = found.partition[mask], found.start[mask]
        self._first = grown(self._first, partition, MIN_TIME)
        self._last = grown(self._last, partition, MIN_TIME)
        touched = used_codes([partition])
        touched = touched[self._last[touched] != MIN_TIME]
        chains = chains_of(
            np.concatenate([touched, partition]),
            np.concatenate([self._last[touched], start]),
            np.concatenate([self._first[touched], start]),
            self._gap,
        )
        newest = np.ones(len(chains.group), np.bool_)
        newest[:-1] = chains.group[1:] != chains.group[:-1]
        now = chains.group[newest]
        self._first[now], self._last[now] = chains.first[newest], chains.last[newest]
        every = np.arange(len(self._last)) if partitions is None else partitions
        some = every[self._last[every] != MIN_TIME]
        over = some[self._last[some] + self._gap <= settled.of(some)]
        partition = np.concatenate([chains.group[~newest], over])
        last = np.concatenate([chains.last[~newest], self._last[over]])
        self._last[over] = MIN_TIME
        self._forget(partition, last, at_once=partitions is not None)

    def _forget(self, partition: Codes, last: Times, *, at_once: bool) -> None:
        """Rows of closed chains: those before every open chain go with their slots. A few others
        may stay until they are before it too, or a promise speaks of their group."""
        passed = self.promise(self._settled)
        self.held.drop(passed)
        left = last + self._gap > passed
        if left.any() and (at_once or not self.held.is_small):
            # Chains before one that is closed are closed too.
            upto = Change.of(last[left], partition[left])
            self.held.remove(self.held.upto(upto.partition, passed, upto.last + 1).hits)

    def needs(self, time: int) -> int:
        rows = self.held.everything()
        if not len(rows):
            return time
        chains = chains_of(rows.partition, rows.start, rows.start, self._gap)
        begun = (chains.first < time) & (chains.last + self._gap > self._settled)
        return max(time, int(chains.last[begun].max()) + self._gap) if begun.any() else time

    def finish(self, partition: Codes) -> None:
        super().finish(partition)
        self._last = grown(self._last, partition, MIN_TIME)
        self._first = grown(self._first, partition, MIN_TIME)
        self._last[partition] = MIN_TIME
        self._newest.grow(partition)
        self._newest.last[partition], self._newest.waits[partition] = MIN_TIME, False

    # ----------------------------------------------------------------------------------------------
    # state

    def renumber(self, moved: Codes) -> None:
        super().renumber(moved)
        self._first = moved_to(self._first, moved, MIN_TIME)
        self._last = moved_to(self._last, moved, MIN_TIME)
        self._newest.renumber(moved)

    def restore(self, slices: Mapping[str, Rows], frontier: Frontier) -> None:
        super().restore(slices, frontier)
        self._settled = frontier.cti
        self._first = self._last = np.empty(0, np.int64)
        self._newest = _Newest()
        if frontier.cti != MIN_TIME or frontier.promised:
            found = self.held.everything()
            settled = frontier.settled()
            self._settle(found, found.start < settled.of(found.partition), settled)


class _Newest:
    """The newest chain of each partition, MIN_TIME where there is none, and whether its answer is
    still to come."""

    def __init__(self) -> None:
        self.first = self.last = np.empty(0, np.int64)
        self.waits = np.empty(0, np.bool_)

    def grow(self, partition: Codes) -> None:
        last = grown(self.last, partition, MIN_TIME)
        if last is not self.last:
            self.last, more = last, len(last) - len(self.waits)
            self.first = np.concatenate([self.first, np.full(more, MIN_TIME)])
            self.waits = np.concatenate([self.waits, np.zeros(more, np.bool_)])

    def renumber(self, moved: Codes) -> None:
        self.first = moved_to(self.first, moved, MIN_TIME)
        self.last = moved_to(self.last, moved, MIN_TIME)
        waits = moved_to(self.waits.astype(np.int64), moved, 0)
        self.waits = waits[: len(self.last)].astype(np.bool_)
