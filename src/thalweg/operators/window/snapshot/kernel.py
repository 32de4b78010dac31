"""Snapshot operators: aggregate, top-k and distinct over the maximal intervals in which nothing
changes.

Meaning. For each group let T be the set of all endpoints of its rows. For consecutive a < b in T
with at least one row alive on [a, b), the rows alive there are one window. Equal neighbours are not
merged; where nothing is alive there is no row. Null keys are a group of their own; duplicates count
as often as they are there.

State. Rows that end at or after the CTI, in an arrangement by group; and by group the last end of
rows that were dropped. That is enough, because a legal change touches nothing before the CTI, and
the window across it starts at that boundary. A promise for groups that the keys name drops the rows
of these groups alike. In a snapshot a row has a mark: its start or, if later, the boundary of its
group.

A batch evaluates only the groups that it touches or of which a window may leave, and of those only
the time from the earliest change or such a window on: the windows that may leave now, and those
that have left and are taken back.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.model.rows import Bools, Codes, Rows, distinct_codes
from thalweg.model.time import INFINITY, MAX_TIME, MIN_TIME, Times, greatest, least
from thalweg.operators.base import (
    Slices,
    StateSize,
    progress_of_slice,
    slice_of_progress,
)
from thalweg.operators.consistency import Consistency
from thalweg.operators.group_promises import (
    newly_promised_groups,
    promises_of_rows,
    promises_over,
)
from thalweg.operators.window.partition_values import grown, moved_to
from thalweg.operators.window.snapshot.gate import WindowGate
from thalweg.operators.window.snapshot.snapshots import Snapshots, snapshots_of
from thalweg.operators.window.window_operator import WindowOperator
from thalweg.state import Arrangement, Hits, KeyIndex
from thalweg.state.columns import RowColumns

__all__ = ["SnapshotKernel"]


@dataclass(slots=True)
class _Part:
    """The groups and times that are evaluated; columns by group."""

    group: Codes
    since: Times
    """Windows that end after this may change or answer."""
    front: Times
    """The start of the first window that waited; INFINITY: none."""
    until: Times
    """Rows that start at or after this are not read."""
    boundary: Times
    """The start of the first window that is evaluated, if rows are alive across `since`."""
    stop: Times | None = None
    """The end of the last window that is evaluated; INFINITY: there may be later ones. None: there
    may be for every group."""

    def stretch(self) -> tuple[Codes, Times, Times]:
        """The groups, and the times between which their rows are read."""
        until = self.until if self.stop is None else np.minimum(self.until, self.stop)
        return self.group, np.minimum(self.since, self.front), until

    def filter(self, mask: Bools) -> _Part:
        columns = (self.group, self.since, self.front, self.until, self.boundary)
        return self if mask.all() else _Part(*(column[mask] for column in columns))


class SnapshotKernel(WindowOperator):
    """The common part. A subclass defines the held rows and the answer of a window from its
    rows."""

    what: ClassVar[str]
    """The operator's name in messages."""

    def __init__(
        self,
        schema: pa.Schema,
        held: pa.Schema,
        keys: tuple[str, ...],
        consistency: Consistency,
    ) -> None:
        self.schema = schema
        self._nothing = Delta.empty(schema)
        self._keys = keys
        self._gate = WindowGate(consistency, self._keys_of)
        self._fields = [held.field(name) for name in keys]
        self._index = KeyIndex(self._fields)
        self._held = Arrangement(held, self._groups, marks=1, what=self.what)
        self._no_rows, self._no_hits = Delta.empty(held), Hits(held, _NONE, [])
        self._boundary, self._moved = _NONE, np.empty(0, np.bool_)
        """By group: the last end of rows that were dropped, and whether that is still to be
        marked."""
        self._progress = NO_PROGRESS
        self._watermark = MIN_TIME

    @abstractmethod
    def project(self, batch: Batch) -> Delta:
        """The changes of a batch, as rows that are held."""

    @abstractmethod
    def answer(self, rows: Hits, snapshots: Snapshots, alive: Codes) -> tuple[Rows, Codes]:
        """The answers of some windows (positions `alive`), and the window of each answer; each of
        `rows` counts once."""

    def process(self, port: int, batch: Batch) -> Batch:
        before = self._progress
        self._progress = before.advance(promises_over(batch.progress, self._keys))
        latest = greatest(batch.start) if len(batch) else MIN_TIME
        self._watermark = max(self._watermark, latest, self._progress.cti)
        self._gate.advance(self._watermark, self._progress)
        leaving = self._compare(self.project(batch) if len(batch) else self._no_rows, before)
        self._close(before)
        return leaving.to_batch(self._gate.promise())

    def needs(self, time: int) -> tuple[int, ...]:
        """The promise after which no window that starts before a time waits."""
        first = self._gate.first
        group = (first.start < time).nonzero()[0]
        if time <= MIN_TIME or not len(group):
            return (time,)
        front = first.start[group]
        rows = self._held.find(group, front, np.full(len(group), INFINITY)).units()
        snapshots = snapshots_of(rows.owner, np.maximum(rows.start, front[rows.owner]), rows.end)
        waits = (snapshots.alive > 0) & (snapshots.start < time)
        latest = int(snapshots.end[waits].max(initial=MIN_TIME))
        return (INFINITY if latest == INFINITY else max(time, self._gate.needed_for(latest)),)

    def _keys_of(self, group: Codes) -> Rows:
        """The keys of some groups."""
        return pa.RecordBatch.from_arrays(self._index.columns(group), names=list(self._keys))

    def _groups(self, rows: Rows) -> Codes:
        return self._index.numbers([rows.column(name) for name in self._keys], rows.num_rows)

    def _compare(self, delta: Delta, before: Progress) -> Delta:
        """Hold the changes; returns the answers that are emitted and those that are taken back."""
        number, first = self._groups(delta.payload), self._gate.first
        leaving = self._gate.leaving_groups()
        touched, group = distinct_codes(np.concatenate([number, leaving]))
        if not len(touched):
            return self._nothing
        if len(self._boundary) <= touched[-1]:
            self._boundary = grown(self._boundary, touched, MIN_TIME)
        first.make_room(touched)
        # A window that ends where the first change is may end elsewhere now.
        changed = self._changed_from(delta, before) - 1
        since = np.full(len(touched), INFINITY)
        np.minimum.at(since, group, np.concatenate([changed, first.start[leaving]]))
        base = self._boundary[touched]
        ever = np.full(len(touched), INFINITY)
        part = _Part(touched, since, first.start[touched], ever, base)
        if self._gate.lags:
            part = self._part_near(part)
        elif not self._held.is_small:
            self._stop_early(part, delta, group)
        held, sent = self._sent(part)
        group = group[: len(delta)]
        self._held.apply(delta, number, (np.maximum(delta.start, base[group]),))
        if (
            held is not None
            and len(delta) > _FEW
            and least(delta.weight) > 0
            and not self._gate.lags
        ):
            rows = held.plus(Hits.of(delta, group))
        else:
            rows = self._held.find(*part.stretch()).units()
        return self._evaluate(part, rows, sent)

    def _changed_from(self, delta: Delta, progress: Progress) -> Times:
        """The earliest time at which each row may change: for a row from before the CTI the end,
        which alone may differ; for another row its start."""
        if not len(delta):
            return delta.start
        if not progress.speaks_of_groups and least(delta.start) >= progress.cti:
            return delta.start
        promised = promises_of_rows(progress, delta.payload, progress.scope_columns)
        return np.where(delta.start >= promised, delta.start, delta.end)

    def _stop_early(self, part: _Part, delta: Delta, group: Codes) -> None:
        """Limit the part where all windows near a change have answered: it reaches no further than
        the first end of a row after the change, where a window ends both before and after the
        change. `group` has the positions of the changed groups, then of those with a window that
        may answer."""
        latest = np.full(len(part.group), MIN_TIME)
        np.maximum.at(latest, group[: len(delta)], delta.end)
        latest[group[len(delta) :]] = INFINITY
        early = ((part.front > part.since) & (latest < part.front)).nonzero()[0]
        if len(early):
            stop = self._held.first_end_after(part.group[early], latest[early])
            part.stop = np.full(len(part.group), INFINITY)
            part.stop[early] = np.where(stop <= part.front[early], stop, INFINITY)

    def _part_near(self, part: _Part) -> _Part:
        """Restrict the part where rows may start long after the threshold: drop groups in which
        only waiting windows change, and of others read no more time after the threshold than before
        it."""
        threshold = self._gate.threshold
        waits = part.front <= part.since
        quiet = waits & (part.since >= threshold)
        self._gate.first.end_earlier(part.group[quiet], part.since[quiet] + 1)
        ahead = np.clip(threshold - part.front, 1, min(MAX_TIME - threshold, MAX_TIME))
        part.until = np.where(waits, threshold + ahead, INFINITY)
        return part.filter(~quiet)

    def _sent(self, part: _Part) -> tuple[Hits | None, Hits]:
        """The rows, if some of their windows have answered and may change; and the rows of such
        windows, which start before the first window that waits."""
        early = part.front > part.since
        if not np.count_nonzero(early):
            part.boundary = part.front
            return None, self._no_hits
        held = self._held.find(*part.stretch())
        held = Hits.of(held.delta(), held.owner) if len(held) > _FEW else held.units()
        sent = held.filter(early[held.owner] & (held.start < part.front[held.owner]))
        boundary = np.where(early, part.boundary, part.front)
        if len(sent):
            # Of each group the last endpoint before the change: all rows here end after it.
            ends = self._held.last_end_before(part.group, part.since + 1)
            np.maximum(boundary, ends, out=boundary, where=early)
            start = sent.start
            across = (start <= part.since[sent.owner]).nonzero()[0]
            np.maximum.at(boundary, sent.owner[across], start[across])
        part.boundary = boundary
        return held, sent

    def _evaluate(self, part: _Part, rows: Hits, sent: Hits) -> Delta:
        """The windows that leave. Both sides are evaluated at once: groups of the rows `sent`, of
        windows to take back, are numbered behind the others."""
        count, both = len(part.group), rows.plus(sent)
        if not len(both):
            self._note_waiting(part, _NONE, _NONE, _NONE)
            return self._nothing
        code, end, boundary = both.owner, both.end, part.boundary
        if part.stop is not None:
            np.minimum(end, part.stop[code], out=end)
        if len(sent):
            code[len(rows) :] += count
            end[len(rows) :] = np.minimum(end[len(rows) :], part.front[sent.owner])
            boundary = np.tile(boundary, 2)
        snapshots = snapshots_of(code, np.maximum(both.start, boundary[code]), end)
        leaving = self._divide(part, snapshots)
        if not len(leaving):
            return self._nothing
        payload, window = self.answer(both, snapshots, leaving)
        weight = np.where(snapshots.group[window] < count, 1, -1)
        return Delta(payload, snapshots.start[window], snapshots.end[window], weight)

    def _divide(self, part: _Part, snapshots: Snapshots) -> Codes:
        """The windows that answer; the first other window of each group is noted."""
        alive = snapshots.alive.nonzero()[0]
        if self._gate.is_open:
            return alive
        code, start, end = snapshots.group[alive], snapshots.start[alive], snapshots.end[alive]
        count = len(part.group)
        leaves = self._gate.leaves(lambda: part.group[code % count], start, end)
        if greatest(code) >= count:
            leaves |= code >= count
        if part.stop is not None:
            leaves |= part.stop[code % count] != INFINITY
        waits = (~leaves).nonzero()[0]
        self._note_waiting(part, code[waits], start[waits], end[waits])
        return alive[leaves]

    def _note_waiting(self, part: _Part, code: Codes, start: Times, end: Times) -> None:
        """Note the first waiting window of each group; the windows are sorted by group and time."""
        group = part.group
        front, until = np.full((2, len(group)), INFINITY)
        front[code[::-1]], until[code[::-1]] = start[::-1], end[::-1]
        if self._gate.lags:
            until = np.minimum(until, part.until)
            missing = ((front == INFINITY) & (until < INFINITY)).nonzero()[0]
            if len(missing):  # the next window starts later than was looked
                late, since = group[missing], until[missing] - 1
                later = self._held.find(late, since, np.full(len(missing), INFINITY))
                np.minimum.at(front, missing[later.owner], later.start)
                until[missing] = np.minimum(front[missing], INFINITY - 1) + 1
        if part.stop is not None:  # behind a stop others may wait
            whole = (part.stop == INFINITY).nonzero()[0]
            group, front, until = group[whole], front[whole], until[whole]
        self._gate.first.set(group, front, until)

    def _close(self, before: Progress) -> None:
        """Drop rows that no later change can touch; the last boundary is kept for the rows across
        it."""
        now = self._progress
        if now.cti == INFINITY:
            self.clear()
            return
        dropped: list[RowColumns] = []
        if now.cti > before.cti:
            dropped = self._held.drop(now.cti - 1)
        promised = (
            newly_promised_groups(self._index, self._fields, now.scope_columns, before, now)
            if now.speaks_of_groups and not self._held.is_empty()
            else None
        )
        if promised is not None:
            group, time = promised
            until = np.where(time == INFINITY, INFINITY, time - 1)
            dropped += self._held.drop_groups(group, until)
        if self._held.is_empty():
            self._clear_groups()
            return
        self._moved = grown(self._moved, np.array([len(self._boundary) - 1]), False)
        for rows in dropped:
            np.maximum.at(self._boundary, rows.group, rows.end)
            self._moved[rows.group] = True
        self.reuse_numbers()

    @property
    def index(self) -> KeyIndex:
        return self._index

    def held_groups(self) -> Codes:
        return self._held.groups()

    def renumber(self, moved: Codes) -> None:
        self._held.renumber(moved)
        self._gate.first.renumber(moved)
        self._boundary = moved_to(self._boundary, moved, MIN_TIME)
        self._moved = moved_to(self._moved, moved, False)

    def clear(self) -> None:
        self._held.clear()
        self._clear_groups()

    def _clear_groups(self) -> None:
        self._index.clear()
        self._gate.first.clear()
        self._boundary, self._moved = _NONE, np.empty(0, np.bool_)

    def _mark_boundaries(self) -> None:
        """Write the boundaries that have moved into the rows across them."""
        moved = np.flatnonzero(self._moved)
        if len(moved):
            boundary = self._boundary
            across = self._held.find(moved, boundary[moved], boundary[moved])
            across.set_mark(0, boundary[across.group])
            self._moved[moved] = False

    def snapshot(self) -> Slices:
        self._mark_boundaries()
        state = pa.RecordBatch.from_arrays([pa.array([self._watermark])], names=["watermark"])
        return {
            **self._held.snapshot("rows"),
            "progress": slice_of_progress([self._progress]),
            "marks": state,
            **self._gate.snapshot(),
        }

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self._clear_groups()
        self._held.restore("rows", slices)
        rows = self._held.all()
        group, mark = rows.group, rows.mark(0)
        across = (mark > rows.start).nonzero()[0]
        self._boundary = np.full(len(self._index), MIN_TIME)
        np.maximum.at(self._boundary, group[across], mark[across])
        self._progress = progress_of_slice(slices["progress"])[0]
        self._watermark = int(slices["marks"].column(0)[0].as_py())
        self._gate.restore(slices)
        self._gate.advance(self._watermark, self._progress)
        self._find_waiting(rows)

    def _find_waiting(self, rows: Hits) -> None:
        """Find the first waiting window of each group from the rows: it is not saved."""
        if not len(rows):
            return
        every, group = np.arange(len(self._index)), rows.group
        self._gate.first.make_room(every)
        none = np.full(len(every), INFINITY)
        start = np.maximum(rows.start, self._boundary[group])
        part = _Part(every, none, none, none, self._boundary)
        self._divide(part, snapshots_of(group, start, rows.end))

    def state_size(self) -> StateSize:
        return self._held.size()


_FEW = 4_096
"""After a batch with at most this many rows, rows are found again, which is cheaper than joining
old and new rows."""
_NONE = np.empty(0, np.int64)
