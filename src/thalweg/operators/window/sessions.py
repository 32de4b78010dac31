"""Session windows: maximal chains of starts less than `gap` apart, over [first, last + gap).

Of each partition the newest chain is known, so that its rows are looked at when it is over, not
whenever one comes. What a CTI has passed of a chain cannot change any more: of each partition the
first and the last start of the settled part of its open chain are known. They close chains and give
the promise, which is the first start of the earliest open one; they follow from the rows and are
not state.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from thalweg.model.delta import Delta
from thalweg.model.rows import Bools, Codes, Rows, used_codes
from thalweg.model.time import INFINITY, MAX_TIME, MIN_TIME, Times
from thalweg.operators.hopping.extents import Frames, Places, next_after
from thalweg.operators.rows.sessions import chains_of
from thalweg.operators.window.assigner import Change, Ordered, WholePartitions, grown, moved_to
from thalweg.operators.window.held_rows import Found
from thalweg.operators.window.latest_chains import LatestChains
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
        self._open = LatestChains(self._gap)
        self._newest = LatestChains(self._gap)
        self._waits = np.empty(0, np.bool_)

    def stretch(self, delta: Delta) -> tuple[Times, Times]:
        return delta.start, delta.start + self._gap

    # --------------------------------------------------------------------------------------------
    # sessions that wait

    def change(self, delta: Delta, partition: Codes, old_line: Line) -> Change:
        """Rows from the first one of the newest chain on reach no other, and that may be to
        come."""
        change = super().change(delta, partition, old_line)
        if not len(change.partition) or (delta.weight < 0).any():
            return change
        self._grow(change.partition)
        late = change.first < self._newest.first[change.partition]
        return change.filter(late | ~self._waits[change.partition])

    def seen(self, delta: Delta, partition: Codes, old_line: Line) -> None:
        self._grow(partition)
        newest = self._newest
        older, last = newest.extend(partition, delta.start)
        self._waits[partition] = newest.last[partition] + self._gap > old_line.of(partition)
        self.wait(older, last + self._gap, old_line)
        # Without a row that is taken back a session may be over earlier.
        gone = partition[delta.weight < 0]
        if len(gone):
            self._pending = grown(self._pending, gone, INFINITY)
            self._pending[gone], self._waits[gone] = MIN_TIME, False
            newest.forget(gone)

    def fetch(self, change: Change) -> Found:
        return self._near(change.partition, change.first, change.last)

    def leaving(self, old_line: Line, new_line: Line) -> Found:
        """The newest sessions that are over, and all rows of partitions that may have an older
        one."""
        last = self._newest.last
        line = new_line.of(np.arange(len(last))) if new_line.ahead else new_line.common
        newest = (self._waits & (last + self._gap <= line)).nonzero()[0]
        self._waits[newest] = False
        older = self.waiting(new_line)
        if not len(older):
            return self._near(newest, self._newest.first[newest], last[newest])
        partition = used_codes([older, newest])
        anywhere = np.isin(partition, older)
        self._newest.grow(partition)
        first, last = self._newest.first[partition], self._newest.last[partition]
        first, last = np.where(anywhere, MIN_TIME, first), np.where(anywhere, INFINITY, last)
        return self._near(partition, first, last)

    def _near(self, partition: Codes, first: Times, last: Times) -> Found:
        """The rows of the sessions that starts in [first, last] are in or next to, and perhaps
        others. Where many rows are held, the time that is searched grows until it has these
        sessions whole."""
        if self.held.is_small:
            return self.held.of(partition)
        gap = width = self._gap
        beyond = _plus(last, gap)
        since, until = first - gap, _plus(beyond, gap)
        while True:
            found = self.held.find(partition, since, until)
            chains = chains_of(found.hits.owner, found.start, found.start, gap)
            of, end = chains.group, chains.last + gap
            near = ((end > first[of]) & (chains.first < beyond[of])).nonzero()[0]
            low, high = np.full_like(since, INFINITY), np.full_like(until, MIN_TIME)
            np.minimum.at(low, of[near], chains.first[near])
            np.maximum.at(high, of[near], end[near])
            # A session may go on where its first or last gap reaches out of what was searched.
            left, right = low <= since, high > until
            if not (np.count_nonzero(left) or np.count_nonzero(right)):
                return found
            since = np.where(left, low - width, since)
            until = np.where(right, _plus(high, width), until)
            width = min(2 * width, MAX_TIME)

    def left(self, frames: Frames, new_line: Line) -> None:
        """Sessions wait besides the newest of their partition that are known to."""
        self._grow(frames.partition)
        end = self._newest.last[frames.partition] + self._gap
        rest = ~self._waits[frames.partition] | (frames.end != end)
        self.wait(frames.partition[rest], frames.end[rest], new_line)

    def _grow(self, partition: Codes) -> None:
        self._newest.grow(partition)
        more = len(self._newest.last) - len(self._waits)
        if more:
            self._waits = np.concatenate([self._waits, np.zeros(more, np.bool_)])

    def affected(self, frames: Frames, first: Times, last: Times) -> Bools:
        return (frames.end > first) & (frames.start < last + self._gap)

    def frames(self, rows: Ordered, more: tuple[Codes, Codes], mark: int) -> Frames:
        partition, start = rows.partition, rows.start
        new = np.ones(len(start), np.bool_)
        new[1:] = (partition[1:] != partition[:-1]) | (start[1:] - start[:-1] >= self._gap)
        begins = new.nonzero()[0]
        beyond = next_after(begins, len(start))
        first, last = start[begins], start[beyond - 1]
        end = last + self._gap
        places = Places(np.arange(len(start)), begins, beyond)
        return Frames(partition[begins], first, last + 1, first, end, first, places=places)

    # --------------------------------------------------------------------------------------------
    # promises

    def close(self, frontier: Frontier) -> int:
        cti = frontier.cti
        if cti > self._settled:
            found = self.held.between(self._settled, cti)
            self._settled, before = cti, self._settled
            self._settle(found, found.start >= before, Line(cti))
        return self.promise(cti)

    def promise(self, time: int) -> int:
        chains = self._open
        return int(chains.first[chains.last != MIN_TIME].min(initial=time))

    def promise_of_new(self, time: int) -> int:
        return time

    def close_partitions(self, partition: Codes, settled: Line) -> Times:
        found = self.held.of(partition)
        self._open.grow(partition)
        self._settle(found, found.start < settled.of(found.partition), settled, partition)
        times = np.broadcast_to(settled.of(partition), partition.shape)
        first, last = self._open.first[partition], self._open.last[partition]
        return np.where(last != MIN_TIME, np.minimum(times, first), times)

    def _settle(
        self, found: Found, mask: Bools, settled: Line, partitions: Codes | None = None
    ) -> None:
        """Extend the settled parts of chains by rows that are settled now; forget closed chains."""
        chains = self._open
        chains.grow(found.partition)
        closed, last = chains.extend(found.partition[mask], found.start[mask])
        some = np.arange(len(chains.last)) if partitions is None else partitions
        some = some[chains.last[some] != MIN_TIME]
        over = some[chains.last[some] + self._gap <= settled.of(some)]
        closed = np.concatenate([closed, over])
        last = np.concatenate([last, chains.last[over]])
        chains.forget(over)
        self._forget(closed, last, at_once=partitions is not None)

    def _forget(self, partition: Codes, last: Times, *, at_once: bool) -> None:
        """Rows of closed chains: those before every open chain go with their slots. A few others
        may stay until they are before it too, or a promise speaks of their group."""
        passed = self.promise(self._settled)
        self.held.purge(passed)
        left = last + self._gap > passed
        if (at_once or not self.held.is_small) and np.count_nonzero(left):
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
        self._grow(partition)
        self._open.grow(partition)
        self._open.forget(partition)
        self._newest.forget(partition)
        self._waits[partition] = False

    # --------------------------------------------------------------------------------------------
    # state

    def renumber(self, moved: Codes) -> None:
        super().renumber(moved)
        self._open.renumber(moved)
        self._newest.renumber(moved)
        waits = moved_to(self._waits.astype(np.int64), moved, 0)
        self._waits = waits.astype(np.bool_)

    def restore(self, slices: Mapping[str, Rows], frontier: Frontier) -> None:
        self.clear()
        super().restore(slices, frontier)
        self._settled = frontier.cti
        if frontier.cti != MIN_TIME or frontier.promised:
            found = self.held.everything()
            settled = frontier.settled()
            self._settle(found, found.start < settled.of(found.partition), settled)


def _plus(time: Times, ticks: int) -> Times:
    """Later times, infinity at most."""
    return np.minimum(time, INFINITY - ticks) + ticks
