"""Session windows: maximal chains of starts less than `gap` apart, over [first, last + gap).

While few rows are held, every step evaluates the sessions of all of them. Where many rows are held,
two chains are tracked for each partition: the newest chain, whose rows are read when it is over,
and the settled part of the open chain, which a CTI has passed and which cannot change any more. The
promise is the first start of the earliest session that has a settled row and is not closed. The
tracked chains follow from the rows and are not saved.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from thalweg.model.delta import Delta
from thalweg.model.rows import Bools, Codes, Rows, used_codes
from thalweg.model.time import INFINITY, MAX_TIME, MIN_TIME, Times
from thalweg.operators.rows.sessions import chains_of
from thalweg.operators.window.assigners.changes import Change, Ordered
from thalweg.operators.window.assigners.latest_chains import LatestChains
from thalweg.operators.window.assigners.whole_partitions import WholePartitions
from thalweg.operators.window.extents import Frames, Places, next_after
from thalweg.operators.window.held_rows import Found
from thalweg.operators.window.partition_values import grown, moved_to
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
        self._tracks = False
        """Whether chains are tracked; while few rows are held, all of them are looked at."""
        self._sessions: Frames | None = None
        """The sessions of all rows, if they were computed since the last change."""
        self._forget_chains()

    def _forget_chains(self) -> None:
        self._open = LatestChains(self._gap)
        self._newest = LatestChains(self._gap)
        self._waits = np.empty(0, np.bool_)

    def stretch(self, delta: Delta) -> tuple[Times, Times]:
        return delta.start, delta.start + self._gap

    # --------------------------------------------------------------------------------------------
    # sessions that wait

    def change(self, delta: Delta, partition: Codes, old_line: Line) -> Change:
        """As for other kinds, without partitions whose rows only extend their newest session, if
        that has not answered."""
        change = super().change(delta, partition, old_line)
        if not self._tracks or not len(change.partition) or (delta.weight < 0).any():
            return change
        self._grow(change.partition)
        late = change.first < self._newest.first[change.partition]
        return change.filter(late | ~self._waits[change.partition])

    def note_rows(self, delta: Delta, partition: Codes, old_line: Line) -> None:
        self._sessions = None
        if not self._tracks:
            if self.held.is_small:
                return
            self._track(Line(self._settled))
        self._grow(partition)
        newest = self._newest
        older, last = newest.extend(partition, delta.start)
        self._waits[partition] = newest.last[partition] + self._gap > old_line.of(partition)
        self.wait(older, last + self._gap, old_line)
        # Without a row that is taken back a session may be over earlier.
        shorter = partition[delta.weight < 0]
        if len(shorter):
            self._pending = grown(self._pending, shorter, INFINITY)
            self._pending[shorter], self._waits[shorter] = MIN_TIME, False
            newest.forget(shorter)

    def fetch(self, change: Change) -> Found:
        return self._near(change.partition, change.first, change.last)

    def leaving(self, old_line: Line, new_line: Line) -> Found:
        """The rows of the newest sessions that are over, and all rows of partitions that may have
        an older such session."""
        if not self._tracks:
            return self.held.everything()
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
        """The rows of the sessions that contain or adjoin starts in [first, last], and perhaps
        others. Where many rows are held, the searched time grows until it has these sessions
        whole."""
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

    def note_answers(self, frames: Frames, new_line: Line) -> None:
        """Note which sessions wait, other than the newest sessions of partitions that wait
        already."""
        if not self._tracks:
            self._sessions = frames
            return
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
        if self._tracks and self.held.is_small and not frontier.promised:
            super().clear()
            self._forget_chains()
            self._tracks = False
        if not self._tracks:
            self._settled = max(self._settled, cti)
            promise = self._first_open(frontier.settled(), cti)
            self.held.purge(promise)
            return promise
        if cti > self._settled:
            found = self.held.between(self._settled, cti)
            self._settled, before = cti, self._settled
            self._settle(found, found.start >= before, Line(cti))
        return self.promise(cti)

    def _first_open(self, settled: Line, cti: int) -> int:
        """The first start of a session that has settled rows and is not closed."""
        if self._sessions is None:
            rows = self.order(self.held.everything())
            self._sessions = self.frames(rows, (rows.partition[:0], rows.partition[:0]), 0)
        sessions = self._sessions
        upto = settled.of(sessions.partition)
        open_ = (sessions.start < upto) & (sessions.end > upto)
        return int(sessions.start[open_].min(initial=cti))

    def _track(self, settled: Line) -> None:
        """Begin to track chains. Any window of a row that is held may be complete."""
        self._tracks = True
        self._pending = np.full(len(self.held.partitions.index), MIN_TIME)
        found = self.held.everything()
        self._settle(found, found.start < settled.of(found.partition), settled)

    def promise(self, time: int) -> int:
        chains = self._open
        return int(chains.first[chains.last != MIN_TIME].min(initial=time))

    def promise_of_new(self, time: int) -> int:
        return time

    def close_partitions(self, partition: Codes, settled: Line) -> Times:
        if not self._tracks:
            self._track(settled)
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
        """Forget the rows of closed chains: those before every open chain with their slots. A few
        others may stay until they are before every open chain too, or a promise for their group
        comes."""
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
        self._sessions = None
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
        self._settled = frontier.cti
        self._track(frontier.settled())


def _plus(time: Times, ticks: int) -> Times:
    """Later times, at most INFINITY."""
    return np.minimum(time, INFINITY - ticks) + ticks
