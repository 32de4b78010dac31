"""Modules over windows of any kind: user-defined aggregates and operators.

Meaning. Per group and window with at least one row: what the module makes of the window's rows,
clipped and stamped (see `plan.nodes.WindowApply`). A window answers when it may (see
`consistency`); an empty window gives nothing. Null keys are a group of their own; duplicates are
rows like others.

A batch is processed in four phases: the affected windows are found (those whose rows change, or
what the module sees of their lifetimes); their answers are retracted; the two indices are updated,
which may split, merge, make and remove windows (see `reframing`); the affected windows answer
again. Then the windows that may answer with the new CTI do. All phases read only the stretches of
time that the batch touches, found by search in the two indices.

Retractions. The answer of a window is kept; where it is larger than the window's rows and the
module is deterministic, it is computed again from the old rows and compared with a checksum. Now
and then a kept answer is computed again too: if the two differ, the module is not deterministic,
and that is a failure.

State. The window index: windows that are not closed. The event index: rows of those windows, rows
that count windows to come may need, and rows whose end may still move. A promise for one group
closes the windows of that group, and frees all of it when the group has ended. A window is closed
when the CTI has reached its end (passed it, where the end itself is an event's) and, if the module
sees ends beyond the window, has passed the ends of all its rows.

Promise: see `module_promises`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.names import internal
from thalweg.model.progress import Progress
from thalweg.model.rows import Bools, Codes, Rows, encode, used_codes
from thalweg.model.time import INFINITY, MIN_TIME, Times, greatest
from thalweg.operators.base import Slices
from thalweg.operators.consistency import Consistency
from thalweg.operators.window.modules.count_instants import CountInstants
from thalweg.operators.window.modules.module_kernel import ModuleKernel
from thalweg.operators.window.modules.module_promises import ModulePromises
from thalweg.operators.window.modules.reframing import Reframing
from thalweg.operators.window.modules.window_entries import Answered, Entries
from thalweg.operators.window.modules.window_frames import CountFrame, GridFrame, Reach, Regions
from thalweg.operators.window.partitions import GroupPromises
from thalweg.plan.nodes import WindowApply
from thalweg.progress.frontier import Frontier, Line

__all__ = ["WindowApplyKernel"]

_AHEAD, _PASSED = internal("ahead"), internal("passed")
_NONE = np.empty(0, np.int64)


class WindowApplyKernel(ModuleKernel):
    """
    >>> import thalweg as tw
    >>> query = tw.source("s", {"v": "double"}).snapshot().apply("median", "v")
    >>> tw.table(query, {"s": [tw.insert({"v": 1.0}, 1, 5), tw.insert({"v": 2.0}, 1, 3)]})
    [(1, 3, {'median': 1.5}), (3, 5, {'median': 1.0})]
    """

    def __init__(self, node: WindowApply, consistency: Consistency) -> None:
        super().__init__(node, consistency)
        self._frontier = Frontier(consistency)
        self._reframing = Reframing(
            self._module,
            self._frame,
            self._partitions,
            self._events,
            self._windows,
            self._taking_back,
            self._in_steps,
        )
        self._time_bound = node.stamp == "time-bound"
        self._waits_to_close = consistency.is_final and not self._time_bound
        self._horizon = MIN_TIME
        self._endless = False
        self._instants: CountInstants | None = None
        if isinstance(self._frame, CountFrame):
            self._instants = CountInstants(self._frame, self._events)
        self._promises = ModulePromises(
            node, self._frame, self._frontier, self._partitions, self._windows, self._instants
        )

    # --------------------------------------------------------------------------------------------
    # the loop

    def process(self, port: int, batch: Batch) -> Batch:
        frontier = self._frontier
        settled, watermark = frontier.settled(), frontier.watermark
        groups = self._partitions.promised(batch.progress, batch.payload)
        frontier.out = frontier.after(batch)
        self._see(batch)
        frontier.promise(groups.partition, self._bounded(groups.time))
        changes, arriving = [], []
        if len(batch):
            removed, new = self._reframing.take(self._module.project(batch), settled, self._reach())
            changes.append(removed)
            arriving.append(new)
        if isinstance(self._frame, GridFrame):
            extended = self._extend(self._frame, watermark, settled, groups)
            arriving += [_others(entries, arriving) for entries in extended]
        answers, closed = self._answer(self._take_ready(arriving, groups))
        changes += answers
        if self._time_bound:
            changes.append(self._let_out())
        out = Delta.concat(changes, self.schema).to_batch()
        self._promises.refuse_broken(out)
        return out.with_progress(self._close(groups, closed, settled.common))

    def _see(self, batch: Batch) -> None:
        """Note the largest finite time, and whether a row has no end."""
        if len(batch):
            self._endless |= batch.has_endless
            self._horizon = max(self._horizon, greatest(batch.start) + 1, batch.latest_end)
        if self._frontier.cti != INFINITY:
            self._horizon = max(self._horizon, self._frontier.cti)

    def _bounded(self, time: Times) -> Times:
        """Promises for groups, bounded by the largest finite time if a row without an end has
        windows of a grid up to there."""
        if isinstance(self._frame, GridFrame) and self._endless:
            return np.minimum(time, self._horizon)
        return time

    def _reach(self) -> Reach:
        watermark = self._frontier.watermark
        return Reach(INFINITY if watermark == INFINITY else watermark + 1, self._horizon)

    def _extend(
        self, frame: GridFrame, watermark: int, settled: Line, groups: GroupPromises
    ) -> list[Entries]:
        """The windows of the grid that time has reached, for rows that last beyond the old limit. A
        promise for a group moves the time of that group alone."""
        found, reach = [], self._reach()
        if watermark not in (MIN_TIME, INFINITY):
            begin = _first_after(frame, watermark)
            if begin < reach.limit:
                going_on = np.unique(self._events.between(begin, reach.limit).partition)
                found.append(self._extended(going_on, begin, settled, reach))
        times = self._bounded(groups.time)
        for time in np.unique(times[times > reach.limit]).tolist():
            begin, own = _first_after(frame, reach.limit - 1), Reach(time, self._horizon)
            some = np.unique(groups.partition[times == time])
            found.append(self._extended(some, begin, settled, own))
        return [entries for entries in found if len(entries)]

    def _extended(self, partition: Codes, begin: int, settled: Line, reach: Reach) -> Entries:
        size = len(partition)
        if not size:
            return self._reframing.nothing()[1]
        regions = Regions(partition, np.full(size, begin), np.full(size, INFINITY))
        none = Delta.empty(self._module.held)
        return self._reframing.reframe(regions, none, _NONE, settled, reach)[1]

    # --------------------------------------------------------------------------------------------
    # answering

    def _ready(self, entries: Entries) -> Times:
        """The times at which windows may answer, on the line of the frontier."""
        return entries.closes if self._waits_to_close else entries.end

    def _take_ready(self, arriving: list[Entries], groups: GroupPromises) -> list[Entries]:
        """Remove the windows that may answer now from those that wait; the others wait."""
        frontier, windows = self._frontier, self._windows
        line, settled = frontier.line(), frontier.settled()
        ready = [windows.take_ready(line.common)]
        for entries in arriving:
            now = self._ready(entries) <= line.of(entries.partition)
            if self._time_bound:
                now |= entries.start < settled.of(entries.partition)
            elif self._node.passes_cti and not self._waits_to_close:
                # Its answer is final already but for its end.
                now |= entries.start < self._promises.line().of(entries.partition)
            ready.append(entries.take(now))
            if not now.all():
                later = entries.take(~now)
                windows.wait(later, self._ready(later))
        if self._time_bound:
            found = windows.waiting_before(frontier.cti)
            windows.remove(found)
            ready.append(found.entries)
        if len(groups.partition):
            found = windows.of(np.unique(groups.partition))
            entries = found.entries
            now = self._ready(entries) <= line.of(entries.partition)
            if self._time_bound:
                now |= entries.start < settled.of(entries.partition)
            found = found.filter(now & ~found.answered)
            windows.remove(found)
            ready.append(found.entries)
        return [entries for entries in ready if len(entries)]

    def _answer(self, ready: list[Entries]) -> tuple[list[Delta], list[Regions]]:
        """The answers of windows, and the spans of those that are closed already."""
        if not ready:
            return [], []
        answered, entries = self._compute(Entries.concat(ready))
        closed = entries.closes <= self._frontier.settled().of(entries.partition)
        if self._time_bound:
            order = np.argsort(entries.id)
            at = order[np.searchsorted(entries.id[order], answered.window)]
            out = closed[at] | self._settled(answered.rows, entries.end[at], entries.partition[at])
            answered = Answered(answered.rows, answered.window, out)
        changes, over = [answered.rows.filter(answered.out)], []
        if closed.any():
            over.append(_stretches(entries.take(closed)))
        if not closed.all():
            stay = entries.take(~closed)
            kept = (
                answered if not closed.any() else answered.filter(np.isin(answered.window, stay.id))
            )
            self._windows.put_out(stay, kept)
        return changes, over

    def _settled(self, rows: Delta, window_end: Times, partition: Codes) -> Bools:
        """For time-bound output: which answers may be emitted although their window is open, since
        no later change can reach them."""
        frontier = self._frontier
        cti = frontier.settled().of(partition)
        leaves: Bools
        if self._consistency.is_final:
            leaves = (rows.end < cti) | (cti == INFINITY)
        else:
            leaves = (window_end <= frontier.line().of(partition)) | (rows.start < cti)
        return leaves

    def _let_out(self) -> Delta:
        """The time-bound rows that waited and may be emitted now."""
        back = self._windows.held_back()
        if not len(back.hits):
            return Delta.empty(self.schema)
        rows = back.answered.rows
        partition = self._partitions.of_rows(rows.payload)
        now = self._settled(rows, back.window_end, partition)
        now |= back.closes <= self._frontier.settled().of(partition)
        back.hits.set_mark(0, now.astype(np.int64))
        return rows.filter(now)

    # --------------------------------------------------------------------------------------------
    # closing

    def _close(self, groups: GroupPromises, closed: list[Regions], before: int) -> Progress:
        """Forget closed windows and their rows; returns the promise. `closed` are windows that were
        closed when they answered."""
        frontier = self._frontier
        if frontier.cti == INFINITY:
            self.clear()
            return Progress(INFINITY)
        partition, moved = used_codes([groups.partition]), frontier.cti > before
        if moved:
            self._settle_instants(Line(before))
            closed = [*closed, Regions(*self._windows.close(frontier.cti))]
        if len(partition):
            self._settle_instants(Line(before), partition)
            closed = [*closed, self._close_partitions(partition)]
        self._drop_rows_of(closed)
        if moved:
            self._drop_ended()
        progress = self._promises.move(groups)
        if groups.scopes:
            self._withdraw(groups.partition)
        self.reuse_numbers()
        return progress

    def held_groups(self) -> Codes:
        return used_codes([super().held_groups(), self._promised_groups()])

    def _promised_groups(self) -> Codes:
        """The groups that have promises of their own."""
        return np.array(sorted({*self._frontier.promised, *self._promises.of_partition}), np.int64)

    def renumber(self, moved: Codes) -> None:
        super().renumber(moved)
        self._frontier.renumber(moved)
        if self._instants is not None:
            self._instants.renumber(moved)
        self._promises.renumber(moved)

    def _close_partitions(self, partition: Codes) -> Regions:
        """Close the windows of partitions that have promises of their own, and forget ended
        partitions."""
        settled = self._frontier.settled()
        found = self._windows.of(partition)
        closed = found.filter(found.entries.closes <= settled.of(found.entries.partition))
        self._windows.remove(closed)
        rows = self._events.of(partition)
        time = np.broadcast_to(settled.of(rows.partition), rows.owner.shape)
        if self._frame.by is None and not self._node.ends_matter:
            over = (rows.end <= self._frame.over(time)) | (time == INFINITY)
        else:
            over = time == INFINITY
        self._events.remove(rows.filter(over))
        return _stretches(closed.entries)

    def _drop_rows_of(self, closed: list[Regions]) -> None:
        """Forget the rows that belong to closed windows only, given the spans of these."""
        if not closed or (self._frame.by is None and not self._node.ends_matter):
            return
        spans = [
            np.concatenate([getattr(windows, name) for windows in closed])
            for name in ("partition", "low", "high")
        ]
        if not len(spans[0]):
            return
        regions, _ = Regions(*spans).joined()
        rows = self._events.find(regions.partition, regions.low, regions.high).distinct()
        if self._frame.by is None:
            rows = rows.filter(rows.end < self._frontier.settled().of(rows.partition))
        elif self._instants is not None:
            rows = rows.filter(rows.since < self._instants.begins(rows.partition))
        if not len(rows):
            return
        needed = self._windows.overlap(rows.partition, rows.since, rows.until)
        if not needed.all():
            self._events.remove(rows.filter(~needed))

    def _drop_ended(self) -> None:
        """Forget rows that have ended before every open window, where rows are held over their
        lifetimes."""
        cti = self._frontier.cti
        if self._frame.by is not None:
            return
        until = int(self._frame.over(np.array([cti]))[0])
        if self._node.ends_matter:
            until = min(until, self._windows.first())
        self._events.drop(until)

    def _settle_instants(self, before: Line, partition: Codes | None = None) -> None:
        if self._instants is not None:
            self._instants.settle(before, self._frontier.settled(), partition)

    def _withdraw(self, partition: Codes) -> None:
        """Forget promises for partitions of which nothing is held."""
        held = np.union1d(
            partition[self._events.of(partition).owner],
            partition[self._windows.of(partition).owner],
        )
        empty = np.setdiff1d(partition, held)
        self._frontier.withdraw(empty)
        self._promises.withdraw(empty)

    def needs(self, time: int) -> tuple[int, ...]:
        return (self._promises.needs(time),)

    # --------------------------------------------------------------------------------------------
    # state

    def clear(self) -> None:
        super().clear()
        if self._instants is not None:
            self._instants.clear()
        self._promises.clear()
        self._frontier.promised = {}

    def snapshot(self) -> Slices:
        frontier = self._frontier
        partition = self._promised_groups()
        ahead, passed = (
            pa.array([times.get(at, MIN_TIME) for at in partition.tolist()], pa.int64())
            for times in (frontier.promised, self._promises.of_partition)
        )
        names = [field.name for field in self._partitions.fields]
        groups = pa.RecordBatch.from_arrays(
            [*self._partitions.named(partition), ahead, passed], names=[*names, _AHEAD, _PASSED]
        )
        marks = [self._horizon, self._promises.common, int(self._endless)]
        return {
            "frontier": frontier.to_rows(),
            "marks": pa.RecordBatch.from_arrays([pa.array(marks)], names=["marks"]),
            "groups": groups,
            **super().snapshot(),
        }

    def restore(self, slices: Mapping[str, Rows]) -> None:
        frontier = self._frontier
        frontier.restore(slices["frontier"])
        self._horizon, self._promises.common, endless = slices["marks"].column(0).to_pylist()
        self._endless = bool(endless)
        self._restore(slices, frontier.out, frontier.cti)
        groups = slices["groups"]
        partition = self._partitions.of_rows(groups)
        ahead, passed = (groups.column(name).to_numpy() for name in (_AHEAD, _PASSED))
        frontier.promised = {}
        if self._instants is not None:
            self._instants.clear()
        frontier.promise(partition[ahead > MIN_TIME], ahead[ahead > MIN_TIME])
        found = zip(partition.tolist(), passed.tolist(), strict=True)
        self._promises.of_partition = {at: time for at, time in found if time > MIN_TIME}
        if frontier.cti != MIN_TIME:
            self._settle_instants(Line())
        if frontier.promised:
            self._settle_instants(Line(), np.unique(partition))


def _others(entries: Entries, arriving: list[Entries]) -> Entries:
    """Windows that are not among the arriving ones yet, and in no index."""
    every = [entries, *arriving]
    spans = [
        np.concatenate([getattr(part, name) for part in every]) for name in ("partition", "start")
    ]
    window, _ = encode(spans, len(spans[0]))
    return entries.take(~np.isin(window[: len(entries)], window[len(entries) :]))


def _stretches(entries: Entries) -> Regions:
    return Regions(entries.partition, entries.start, entries.end)


def _first_after(frame: GridFrame, time: int) -> int:
    """The start of the first window of a grid that begins after a time."""
    return int(frame.grid.start(np.array([frame.grid.last_starting_by(time) + 1]))[0])
