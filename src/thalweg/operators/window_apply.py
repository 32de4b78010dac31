"""Modules over windows of any kind: user-defined aggregates and operators.

Meaning. Per group and window with at least one row: what the module makes of the window's rows,
clipped and stamped (see `plan.nodes.WindowApply`). A window answers when it may (see
`consistency`); an empty window gives nothing. Null keys are a group of their own; duplicates are
rows like others.

A batch is taken in in four phases: the windows it affects are found (their rows, or what the module
can tell of their lifetimes, change); what they have answered is taken back; the two indices are
updated, which may split, merge, make and remove windows; the affected windows answer again. Which
windows may answer is looked at after that, with the new CTI.

Taking back. What a window has answered is kept, or, when that is more than its own rows and the
module is deterministic, computed again from the old rows and compared with a checksum. Now and then
what was kept is computed again too: where the two differ the module is not deterministic, and that
is a failure.

State. The window index: windows that are not closed. The event index: rows of those windows, rows
that count windows to come may need, and rows whose end may still move. A window is closed when the
CTI has reached its end (passed it, where the end itself is an event's) and, if the module sees ends
beyond the window, has passed the ends of all its rows.

Promise. No output comes before the start of the earliest window that is not closed, nor of one that
may still come to be: that start is the CTI. It is the input's own where output is time-bound; with
unrestricted stamps there is none.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from thalweg.errors import ModuleError
from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.hashing import Hashes
from thalweg.model.progress import Progress
from thalweg.model.rows import Bools, Codes, Rows
from thalweg.model.time import INFINITY, MIN_TIME, Times
from thalweg.operators.base import Slices
from thalweg.operators.consistency import Consistency
from thalweg.operators.event_index import key_hashes
from thalweg.operators.groups import refuse_negative
from thalweg.operators.hopping_grid import Release
from thalweg.operators.module_kernel import ModuleKernel, matches, merged, sorted_spans
from thalweg.operators.window_frames import GridFrame, Reach, Spans
from thalweg.operators.window_index import Answered, Entries
from thalweg.plan.nodes import WindowApply

__all__ = ["WindowApplyKernel"]

_MARKS = ("cti", "closed_cti", "watermark", "horizon", "promised")


class WindowApplyKernel(ModuleKernel):
    """
    >>> import thalweg as tw
    >>> query = tw.source("s", {"v": "double"}).snapshot().apply("median", "v")
    >>> tw.table(query, {"s": [tw.insert({"v": 1.0}, 1, 5), tw.insert({"v": 2.0}, 1, 3)]})
    [(1, 3, {'median': 1.5}), (3, 5, {'median': 1.0})]
    """

    def __init__(self, node: WindowApply, consistency: Consistency) -> None:
        super().__init__(node, consistency)
        self._cti = self._closed_cti = self._watermark = self._horizon = self._promised = MIN_TIME

    def process(self, port: int, batch: Batch) -> Batch:
        changes = []
        if len(batch):
            changes.append(self._take(self._module.project(batch)))
        before, self._cti = self._cti, max(self._cti, batch.progress.cti)
        changes += self._advance(moved=self._cti > before)
        out = Delta.concat(changes, self.schema).to_batch()
        self._refuse_broken_promise(out)
        self._promised = max(self._promised, self._promise())
        return out.with_progress(Progress(self._promised))

    def _reach(self) -> Reach:
        limit = INFINITY if self._watermark == INFINITY else self._watermark + 1
        return Reach(self._closed_cti, limit, self._horizon)

    # --------------------------------------------------------------------------------------------
    # taking rows in

    def _take(self, delta: Delta) -> Delta:
        """Phases one to three; what is taken back."""
        before_watermark = self._watermark
        finite = delta.end[delta.end != INFINITY]
        self._watermark = max(self._watermark, int(delta.start.max()))
        self._horizon = max(self._horizon, self._watermark + 1, int(finite.max(initial=MIN_TIME)))
        hashes = np.unique(key_hashes(delta.payload, self._node.keys))
        before = self._events.of_groups(hashes)
        self._events.add(delta)
        gone = self._reframe(hashes, before, delta)
        if isinstance(self._frame, GridFrame) and self._watermark > before_watermark:
            return Delta.concat([gone, self._extend(before_watermark + 1)], self.schema)
        return gone

    def _extend(self, reached: int) -> Delta:
        """Time has moved on: rows that go on beyond the old limit are in new windows of the
        grid."""
        going_on = self._events.ending_from(reached + 1)
        if not len(going_on):
            return Delta.empty(self.schema)
        hashes = np.unique(key_hashes(going_on.payload, self._node.keys))
        return self._reframe(hashes, self._events.of_groups(hashes), Delta.empty(self._module.held))

    def _reframe(self, hashes: Hashes, before: Delta, delta: Delta) -> Delta:
        """The windows of some groups after a change of their rows: entries exchanged, old answers
        taken back."""
        at = self._windows.of_groups(hashes)
        old = self._windows.entries.take(at)
        code, groups = self._codes([before.payload, delta.payload], old.keys)
        after, after_code = merged(before, delta, code, self._module.held)
        refuse_negative(after, f"apply({self._node.module.name!r})")
        old_code, delta_code = (
            code[len(before) + len(delta) :],
            code[len(before) : len(before) + len(delta)],
        )
        base = np.full(groups, INFINITY)
        np.minimum.at(base, old_code, old.start)
        base[base >= self._closed_cti] = (
            MIN_TIME  # nothing of such a group is closed: a row may still come before its windows
        )
        spans = self._frame.spans(after_code, after.start, after.end, base, self._reach())
        match = matches(old_code, old, spans)
        known = match >= 0
        fresh = known | ~self._frame.ended(spans.end, self._closed_cti)
        spans, match, known = spans.take(fresh), match[fresh], known[fresh]
        row, window, times = self._changes(delta, delta_code, spans)
        stays = known.copy()
        stays[window] = False
        leaving = np.ones(len(old), np.bool_)
        leaving[match[stays]] = False
        gone = self._taking_back.rows(
            old.take(leaving),
            self._windows,
            before,
            code[: len(before)],
            old_code[leaving],
            self._frame,
        )
        new = spans.take(~stays)
        arriving = self._make_entries(
            after, *self._frame.members(after_code, after.start, after.end, new), new
        )
        self._carry(arriving, old, match[~stays], delta, (row, window, times), spans, stays)
        self._windows.exchange(at[leaving], arriving)
        return gone

    def _changes(self, delta: Delta, code: Codes, spans: Spans) -> tuple[Codes, Codes, Codes]:
        """Pairs (changed row, window) that the module can tell, and how often the row came or
        went."""
        none = np.empty(0, np.int64)
        if not len(delta) or not len(spans):
            return none, none, none
        row, window = self._frame.members(code, delta.start, delta.end, spans)
        return self._module.net(delta, row, window, spans) if len(row) else (none, none, none)

    def _carry(
        self,
        arriving: Entries,
        old: Entries,
        match: Codes,
        delta: Delta,
        pairs: tuple[Codes, Codes, Codes],
        spans: Spans,
        stays: Bools,
    ) -> None:
        """A window that is only changed goes on from its state: it is told what came and what
        went."""
        if not self._in_steps or not len(arriving):
            return
        number = np.full(len(spans), -1)
        number[~stays] = np.arange(len(arriving))
        has = match >= 0
        has[has] = np.array([state is not None for state in old.state[match[has]]], np.bool_)
        row, window, times = pairs
        if (times < 0).any() and not self._node.module.differential:
            has[number[window[times < 0]]] = False
        self._module.carry(arriving, old, match, has, delta, row, number[window], times)

    # --------------------------------------------------------------------------------------------------
    # answering

    def _advance(self, *, moved: bool) -> list[Delta]:
        """Phase four, for all windows that may answer now; then forget what is closed."""
        changes = []
        if self._cti > self._watermark:
            reached, self._watermark = self._watermark + 1, self._cti
            if self._cti != INFINITY:
                self._horizon = max(self._horizon, self._cti)
            if isinstance(self._frame, GridFrame):
                changes.append(self._extend(reached))
        if len(self._windows):
            closed = self._closed()
            changes.append(self._answer(np.flatnonzero(self._due(closed))))
            if self._node.stamp == "time-bound":
                changes.append(self._let_out(closed))
            if closed.any():
                self._windows.exchange(
                    np.flatnonzero(closed), self._windows.entries.take(np.empty(0, np.int64))
                )
        self._closed_cti = self._cti
        if moved:
            self._forget()
        return changes

    def _closed(self) -> Bools:
        entries = self._windows.entries
        closed = self._frame.ended(entries.end, self._cti) | (self._cti == INFINITY)
        if not self._node.ends_matter or self._cti == INFINITY or not closed.any():
            return closed
        moving = self._events.ending_from(self._cti)
        ended = np.flatnonzero(closed)
        if len(moving):
            code, _ = self._codes([moving.payload], entries.take(ended).keys)
            order, spans = sorted_spans(code[len(moving) :], entries.take(ended))
            _, window = self._frame.members(code[: len(moving)], moving.start, moving.end, spans)
            closed[ended[order[window]]] = False
        return closed

    def _due(self, closed: Bools) -> Bools:
        entries = self._windows.entries
        if self._consistency.is_final and self._node.stamp != "time-bound":
            return closed & ~entries.answered
        due = entries.end <= self._consistency.threshold(self._watermark, self._cti)
        if self._node.stamp == "time-bound":
            due |= entries.start < self._cti
        elif self._node.passes_cti:
            due |= (
                entries.start < self._promised
            )  # it is known already, and may only get another end
        return (due | closed) & ~entries.answered

    def _answer(self, which: Codes) -> Delta:
        """The answers of some windows, by position."""
        if not len(which):
            return Delta.empty(self.schema)
        entries = self._windows.entries.take(which)
        answered, failed, states = self._compute(entries)
        entries = entries.but(answered=np.ones(len(entries), np.bool_), failed=failed, state=states)
        answered, entries = self._taking_back.choose(answered, entries)
        if self._node.stamp == "time-bound":
            answered = Answered(answered.rows, answered.window, self._may_leave(answered, entries))
        self._windows.note(which, entries)
        leaving = answered.rows.filter(answered.out) if not answered.out.all() else answered.rows
        self._keep_answers(answered, entries)
        return leaving

    def _may_leave(self, answered: Answered, entries: Entries) -> Bools:
        """Time-bound: what lies before the CTI leaves though its window is open; nothing later can
        change it."""
        ends = dict(zip(entries.id.tolist(), entries.end.tolist(), strict=True))
        end = np.array([ends[window] for window in answered.window.tolist()], np.int64)
        return self._settled(answered.rows.start, answered.rows.end, end)

    def _settled(self, start: Times, end: Times, window_end: Times) -> Bools:
        if self._cti == INFINITY:
            return np.ones(len(start), np.bool_)
        if self._consistency.is_final:
            return end < self._cti
        return (window_end <= self._consistency.threshold(self._watermark, self._cti)) | (
            start < self._cti
        )

    def _let_out(self, closed: Bools) -> Delta:
        """Time-bound rows that waited and may leave now."""
        kept, entries = self._windows.kept, self._windows.entries
        if kept.out.all():
            return Delta.empty(self.schema)
        order = np.argsort(entries.id)
        at = order[np.searchsorted(entries.id[order], kept.window)]
        now = ~kept.out & (
            self._settled(kept.rows.start, kept.rows.end, entries.end[at]) | closed[at]
        )
        self._windows.kept = Answered(kept.rows, kept.window, kept.out | now)
        return kept.rows.filter(now)

    # -----------------------------------------------------------------------------------------------
    # cleaning up

    def _forget(self) -> None:
        """Drop the rows that belong to closed windows only."""
        cti = self._cti
        if cti == INFINITY:
            self._events.clear()
            self._windows.clear()
            return
        if self._events.smallest_end() >= cti:
            return
        entries = self._windows.entries

        def needed(rows: Delta) -> Bools:
            keep: Bools = rows.end >= cti
            code, _ = self._codes([rows.payload], entries.keys)
            if len(entries):
                _, spans = sorted_spans(code[len(rows) :], entries)
                row, _ = self._frame.members(code[: len(rows)], rows.start, rows.end, spans)
                keep[row] = True
            return keep | self._frame.waiting(code[: len(rows)], rows.start, rows.end, cti)[0]

        self._events.forget(needed)

    def _promise(self) -> int:
        cti = self._cti
        if cti in (MIN_TIME, INFINITY):
            return cti
        if self._node.stamp == "unrestricted":
            return MIN_TIME
        entries = self._windows.entries
        promise = cti
        if self._node.passes_cti:
            bound = (
                entries.start[~entries.answered]
                if self._node.stamp == "align"
                else self._windows.kept.rows.start[~self._windows.kept.out]
            )
            return min([promise, *([int(bound.min())] if len(bound) else [])])
        if len(entries):
            promise = min(promise, int(entries.start.min()))
        if isinstance(self._frame, GridFrame):
            grid = self._frame.grid
            return min(promise, int(grid.start(np.array([grid.last_ending_by(cti) + 1]))[0]))
        rows = self._events.everything()
        code, _ = self._codes([rows.payload], self._module.keys(rows.payload).slice(0, 0))
        return min(promise, self._frame.waiting(code, rows.start, rows.end, cti)[1])

    def needs(self, time: int) -> tuple[int, ...]:
        """The time by which everything that may still change something before `time` is closed."""
        if time <= MIN_TIME or time == INFINITY or time <= self._promised:
            return (time,)
        if self._node.stamp == "unrestricted":
            return (INFINITY,)
        entries = self._windows.entries
        if self._node.passes_cti:
            held = entries.end[(entries.start < time) & ~entries.answered]
            return (max([time, *held.tolist()]) if self._node.stamp == "align" else time,)
        rows = self._events.everything()
        code, _ = self._codes([rows.payload], entries.keys)
        closing = entries.end + (1 if self._frame.strict else 0) * (entries.end != INFINITY)
        if self._node.ends_matter and len(entries):
            order, spans = sorted_spans(code[len(rows) :], entries)
            row, window = self._frame.members(code[: len(rows)], rows.start, rows.end, spans)
            np.maximum.at(
                closing,
                order[window],
                np.where(rows.end[row] == INFINITY, INFINITY, rows.end[row] + 1),
            )
        least = max([time, *closing[entries.start < time].tolist()])
        if isinstance(self._frame, GridFrame):
            return (max(least, Release(self._frame.grid, self._consistency).needs(time)),)
        waits = self._frame.waiting(code[: len(rows)], rows.start, rows.end, max(time, self._cti))[
            1
        ]
        return (INFINITY if waits < time else least,)

    def _refuse_broken_promise(self, out: Batch) -> None:
        if self._promised == MIN_TIME or not len(out):
            return
        early = out.sync < self._promised
        if early.any():
            at = int(np.argmax(early))
            raise ModuleError(
                f"module {self._node.module.label} is not time-bound: after the CTI {self._promised} it changed the output "
                f"{out.payload.slice(at, 1).to_pylist()[0]} over [{out.start[at]}, {out.end[at]}). Say stamp='keep', or mend it."
            )

    # ------------------------------------------------------------------------------------------------------
    # state

    def snapshot(self) -> Slices:
        marks = pa.RecordBatch.from_arrays(
            [pa.array([getattr(self, f"_{name}")], pa.int64()) for name in _MARKS],
            names=list(_MARKS),
        )
        letters = self._module.letters.slices()
        return {"marks": marks, **dict(self._events.slices()), **self._windows.slices(), **letters}

    def restore(self, slices: Mapping[str, Rows]) -> None:
        for name, column in zip(_MARKS, slices["marks"].columns, strict=True):
            setattr(self, f"_{name}", column[0].as_py())
        self._events.restore(dict(slices))
        self._windows.restore(slices)
        self._module.letters.restore(slices)
