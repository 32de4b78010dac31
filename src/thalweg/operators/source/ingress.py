"""Ingress: where a stream enters. Checks every element, deals with late ones, and turns observation
into promises.

A batch is checked whole before any of it is applied: a refused batch leaves no trace, and `admit`
takes several batches or none. Checks: columns as declared; times in range; lifetimes that end after
they start; adjusts of rows that are held when their turn comes; CTIs that do not go back, for all
rows or for a group.

An element is late when its sync time lies before the promise made so far: the latest CTI in the
data, for all rows or for its group, or what the policies of the source make of the rows before it
and of the clock (see `progress`).

Policies: `error` refuses the batch; `drop` and `side` leave the element out; `adjust` moves it to
the promise, or leaves it out when nothing of it remains. Every late element is written to the
ledger with what became of it. A later adjust that names a row that was moved is applied to the
row as it was admitted; one that names a row that was left out is left out too.

State: rows that may still be adjusted (see `adjustable_rows`), late rows that were moved or left
out (see `late_rewrites`), what the rows of each partition have shown, rows in quarantine, the
entries of the ledgers that were not read yet, and 16 bytes for each group that has ended (see
`ended_groups`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from thalweg.errors import (
    InputError,
    LateEventError,
    UnknownRowError,
)
from thalweg.model.batch import Batch
from thalweg.model.clocks import shown_time
from thalweg.model.column_promises import merge_column_promises
from thalweg.model.delta import Delta
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.model.progress_text import progress_of_text, progress_text
from thalweg.model.rows import Bools, Codes, Rows
from thalweg.model.time import INFINITY, MAX_TIME, MIN_TIME, Times, greatest, least
from thalweg.operators.base import (
    Slices,
    StateSize,
)
from thalweg.operators.source.adjustable_rows import AdjustableRows
from thalweg.operators.source.element_checks import are_plain_rows, shown_row
from thalweg.operators.source.late_rewrites import LateRewrites, RewrittenBatch, rewrite_late
from thalweg.operators.source.promised_areas import PromisedAreas
from thalweg.operators.source.promising_source import PromisingSource
from thalweg.operators.source.punctuations import Punctuations
from thalweg.operators.text_slices import slice_of_text, text_of_slice
from thalweg.plan.nodes import Source
from thalweg.progress import QuarantineGate
from thalweg.progress.ended_groups import EndedGroups
from thalweg.progress.late_ledger import LateLedger
from thalweg.progress.quarantine import Case

__all__ = ["IngressKernel", "LateLedger"]


_VALUES = (
    "_progress",
    "_ended",
    "_batches",
    "_columns",
    "_gate",
    "_punctuations",
    "_areas",
    "skipped",
)
"""The attributes that a batch replaces by other values: `admit` puts them back when it refuses one.
Rows and ledgers are changed in place."""


_FEW_ROWS = 256
"""In a larger batch what is saved is little, and rows of its end are often later than the disorder
allows for those of its beginning."""


class IngressKernel(PromisingSource):
    """
    >>> import thalweg as tw
    >>> events = tw.source("s", {"v": "int64"}, late="drop", disorder=5)
    >>> tw.table(events, {"s": [tw.point({"v": v}, t) for v, t in ((1, 10), (2, 4), (3, 5))]})
    [(5, 6, {'v': 3}), (10, 11, {'v': 1})]
    """

    keeps_only_progress = True

    def __init__(self, node: Source) -> None:
        super().__init__(node)
        self.ledger = LateLedger()
        self._tracks = not node.declared.insert_only
        self._adjustable = AdjustableRows(node.schema, f"source {node.name!r}")
        self._rewrites = LateRewrites(node.schema)
        self._gate = (
            None
            if node.ingress.quarantine is None
            else QuarantineGate(node.ingress.quarantine, node.schema)
        )
        self._follows_starts = (
            self._gate is None
            and node.ingress.partition is None
            and not node.ingress.observed
            and not node.ingress.columns
        )
        """Whether promises follow from nothing but starts and CTIs."""
        self.quarantined = LateLedger()
        self.unwanted_before = MIN_TIME
        """Rows that end before this are skipped (see `graph.feedback`); they are counted, and not
        late."""
        self.skipped = 0

    def leave_adjusts_to_merge(self) -> None:
        """Hold no rows: a merge behind this source holds those of all its inputs once, and checks
        their adjusts. Where late rows are moved or left out, rows are needed here too."""
        if self._policy.late_policy.stops:
            self._tracks = False

    def admit(self, batches: Sequence[Batch]) -> list[Batch]:
        """What `process` makes of each of these batches; when one of them is refused, all are."""
        if len(batches) == 1:
            return [self.process(0, batches[0])]
        held = {**self._adjustable.snapshot(), **self._rewrites.snapshot()}
        before = {name: getattr(self, name) for name in _VALUES}
        source = self._source.copy()
        ledgers = [
            (ledger, ledger.count, ledger.unlisted, list(ledger.tables))
            for ledger in (self.ledger, self.quarantined)
        ]
        try:
            return [self.process(0, batch) for batch in batches]
        except InputError:
            for name, value in before.items():
                setattr(self, name, value)
            self._source = source
            self._restore_rows(held)
            for ledger, count, unlisted, tables in ledgers:
                ledger.count, ledger.unlisted, ledger.tables = count, unlisted, tables
            raise

    @property
    def skips_before(self) -> int:
        """Rows that end before this are skipped: none where rows may be adjusted, since an adjust
        may move an end to after it."""
        return self.unwanted_before if self._declared.insert_only else MIN_TIME

    def process(self, port: int, batch: Batch) -> Batch:
        if self._policy.trusted:
            self._advance(batch.progress, len(batch))
            return batch.with_progress(self._progress)
        if self._is_plain(batch):
            return self._admit_plain(batch)
        batch = self._checks().checked(batch)
        in_data = self._checked_promises(batch.progress)
        gated = None if self._gate is None else self._gate.gate(batch, in_data.cti, self.now)
        batch = batch if gated is None else gated.batch
        arrived, partitions = len(batch), self._partitions_of(batch)
        promise, rows = self._source.rows.after(
            batch, partitions, self._promised_before(batch, partitions)
        )
        promise, columns = self._raise_by_columns(batch, self._raise_by_patterns(batch, promise))
        wanted = self._wanted(batch)
        if wanted is not None:
            batch, promise = batch.filter(wanted), promise[wanted]
        rewritten = self._rewrite_late(batch, promise, wanted)
        admitted = batch if rewritten is None else rewritten.batch
        self._check_adjusts(admitted, None if rewritten is None else rewritten.positions)
        # Nothing was changed until here; from here on nothing can fail.
        if self._tracks and len(admitted):
            self._adjustable.apply(admitted)
        if rewritten is not None:
            self._rewrites.apply(rewritten.changes)
            self.ledger.note(*rewritten.ledger_entries)
        if gated is not None:
            self._gate = gated.gate
            self.quarantined.note(gated.aside, gated.reference, ["quarantined"] * len(gated.aside))
        self._batches += 1
        self.skipped += arrived - len(batch)
        self._source.rows, self._columns = rows, columns
        before = self._progress
        after = rows.now(in_data, partitions, before, self._grid)
        column_promises = merge_column_promises(in_data.column_promises, columns.promises())
        self._advance(
            replace(after, column_promises=column_promises) if column_promises else after, arrived
        )
        self._advance_by_patterns()
        self._drop_settled(before)
        return admitted.with_progress(self._progress)

    def _is_plain(self, batch: Batch) -> bool:
        """Whether all rows of a small batch are valid inserts in time, and nothing but the CTI and
        their starts decide that: no groups, columns, punctuations or unwanted rows."""
        if (
            not self._follows_starts
            or len(batch.start) > _FEW_ROWS
            or not self._has_plain_promise(batch.progress)
            or not are_plain_rows(batch, self.schema)
            or self._punctuations
            or self._areas
            or self._progress.scoped
            or self._progress.group_column_promises
            or self._ended.runs
            or self._progress.column_promises
            or self.unwanted_before > MIN_TIME
        ):
            return False
        lasts, disorder = self._declared.constant_duration, self._policy.disorder
        if lasts is not None and (batch.end - batch.start != lasts).any():
            return False
        first = least(batch.start)
        # Every row is in time in any order, so that this one need not be looked at.
        return first >= self.promised and (
            disorder is None or first >= greatest(batch.start) - disorder
        )

    def _has_plain_promise(self, progress: Progress) -> bool:
        """Whether a batch promises nothing but a time, which does not go back."""
        if progress is NO_PROGRESS:
            return True
        cti = progress.cti
        about_some = (
            progress.scoped
            or progress.column_promises
            or progress.group_column_promises
            or progress.areas
        )
        return not about_some and type(cti) is int and self._progress.cti <= cti < MAX_TIME

    def _admit_plain(self, batch: Batch) -> Batch:
        """What `process` does with plain rows (see `_is_plain`), which need not be compared with
        promises one by one."""
        if self._tracks:
            self._adjustable.apply(batch)
        self._batches += 1
        rows = self._source.rows = self._source.rows.after_rows(greatest(batch.start))
        before = self._progress
        self._advance(rows.now(batch.progress, None, before, self._grid), len(batch))
        if self._progress is not before:
            self._drop_settled(before)
        return batch.with_progress(self._progress)

    def _drop_settled(self, before: Progress) -> None:
        """Drop the rows that nothing may adjust any more."""
        self._adjustable.drop_settled(before, self._progress)
        if len(self._rewrites):
            self._rewrites.drop_settled(self._progress.cti)

    # --------------------------------------------------------------------------------------------
    # elements

    def _wanted(self, batch: Batch) -> Bools | None:
        """Which rows are not skipped; None: all of them."""
        skips_before = self.skips_before if batch.is_adjust is None else MIN_TIME
        if skips_before == MIN_TIME:
            return None
        wanted = batch.end >= skips_before
        return None if wanted.all() else wanted

    def _rewrite_late(
        self, batch: Batch, promise: Times, wanted: Bools | None
    ) -> RewrittenBatch | None:
        """Apply the policy for late elements; None: there are none, and no adjust of one before.
        `wanted` marks these elements in the batch as it arrived."""
        late = batch.sync < promise
        any_late = bool(late.any())
        if any_late and self._policy.late_policy.stops:
            at = int(np.argmax(late))
            place = self._place(at if wanted is None else int(np.flatnonzero(wanted)[at]))
            changed = shown_time(int(batch.sync[at]), self._clock)
            promised = shown_time(int(promise[at]), self._clock)
            if self._progress.cti >= INFINITY:
                raise LateEventError(
                    f"{place}: {shown_row(batch, at)} comes after the end of its source: it has "
                    "finished. Make a new engine, or restore one from a snapshot before the end."
                )
            if promise[at] >= INFINITY:
                raise LateEventError(
                    f"{place}: {shown_row(batch, at)} breaks a promise for its columns: its source "
                    "has promised that no such row would come any more. Give the source a policy "
                    "late='drop' or 'side'."
                )
            raise LateEventError(
                f"{place}: {shown_row(batch, at)} changes time {changed}, before the promise "
                f"{promised} of its source. Give the source more disorder=, or a policy "
                "late='drop', 'adjust' or 'side'."
            )
        if not any_late and (batch.is_adjust is None or not len(self._rewrites)):
            return None
        return rewrite_late(
            batch, promise, self._policy.late_policy, self._rewrites, adjustable=self._tracks
        )

    def _check_adjusts(self, batch: Batch, positions: Codes | None) -> None:
        """Refuse an adjust of a row that is not held when its turn comes. `positions` are those of
        the elements in the batch as it arrived."""
        at = self._adjustable.first_unknown(batch) if self._tracks else None
        if at is not None:
            place = self._place(at if positions is None else int(positions[at]))
            end = int(batch.end[at])
            raise UnknownRowError(
                f"{place}: adjust of a row that is not there: {shown_row(batch, at)} over "
                f"[{shown_time(int(batch.start[at]), self._clock)}, "
                f"{'infinity' if end == INFINITY else shown_time(end, self._clock)}). "
                "Insert the row first, and give the end it has now."
            )

    # --------------------------------------------------------------------------------------------
    # state

    @property
    def adjustable(self) -> Delta:
        """The rows that were admitted and may still be adjusted."""
        return self._adjustable.since(self._progress.cti)

    @property
    def cases(self) -> list[Case]:
        """The keys that are in quarantine."""
        return [] if self._gate is None else list(self._gate.cases.values())

    def snapshot(self) -> Slices:
        counts = [self._batches]
        for ledger in (self.ledger, self.quarantined):
            counts += [ledger.count, ledger.unlisted]
        # The clock is set before a batch is checked; a refused batch must leave no trace.
        source = replace(self._source, clock=self._source.clock.at(None))
        notes = [
            source.to_json(),
            counts,
            self._columns.largest,
            self._ended.columns,
        ]
        slices: Slices = {
            **self._adjustable.snapshot(),
            **self._rewrites.snapshot(),
            **self._ended.snapshot(),
            "progress": slice_of_text(progress_text(self._progress), "progress"),
            "notes": slice_of_text(json.dumps(notes), "notes"),
        }
        if self._gate is not None:
            slices["quarantine"] = self._gate.to_rows()
        if self._punctuations:
            slices["guards"] = slice_of_text(self._punctuations.to_text(), "guards")
        if self._areas:
            slices["areas"] = slice_of_text(self._areas.to_text(), "areas")
        slices |= self.ledger.snapshot("ledger", self.schema)
        return slices | self.quarantined.snapshot("aside", self.schema)

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self._progress = progress_of_text(text_of_slice(slices["progress"]))
        self._restore_rows(slices)
        source, counts, largest, ended = json.loads(text_of_slice(slices["notes"]))
        self._ended = EndedGroups.restore(tuple(ended), slices)
        self._source = self._source.restored(source)
        self._columns = replace(self._columns, largest=largest)
        self._batches, self.ledger.count, self.ledger.unlisted = counts[:3]
        self.quarantined.count, self.quarantined.unlisted = counts[3:]
        if self._gate is not None:
            self._gate = self._gate.from_rows(slices["quarantine"])
        if "guards" in slices:
            self._punctuations = Punctuations.from_text(text_of_slice(slices["guards"]))
        if "areas" in slices:
            self._areas = PromisedAreas.from_text(text_of_slice(slices["areas"]))
        self.ledger.restore("ledger", slices)
        self.quarantined.restore("aside", slices)

    def _restore_rows(self, slices: Mapping[str, Rows]) -> None:
        self._adjustable.restore(slices, self._progress.cti)
        self._rewrites.restore(slices)

    def state_size(self) -> StateSize:
        waiting = None if self._gate is None else self._gate.waiting
        quarantined = (
            StateSize(0, 0) if waiting is None else StateSize(len(waiting), waiting.payload.nbytes)
        )
        ended = StateSize(0, self._ended.nbytes)
        return self._adjustable.size() + self._rewrites.size() + quarantined + ended
