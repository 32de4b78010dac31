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

State: rows that may still be adjusted (see `adjustable_rows`), late rows that were moved or left out
(see `late_rewrites`), what the policies remember of each partition, rows in quarantine, the entries
of the ledgers that nobody has taken yet, and 16 bytes for each group that has ended (see
`ended_groups`).
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.errors import (
    EstimateWarning,
    InputError,
    LateEventError,
    UnknownRowError,
)
from thalweg.model.area_promises import NO_AREAS
from thalweg.model.batch import Batch, column_of
from thalweg.model.boxes import inside, merge_boxes
from thalweg.model.clocks import shown_time
from thalweg.model.delta import Delta
from thalweg.model.elements import Cti
from thalweg.model.progress import (
    NO_PROGRESS,
    Progress,
    Scope,
    progress_of_text,
    progress_text,
    scope_values,
)
from thalweg.model.punctuation import Punctuation
from thalweg.model.rows import Bools, Codes, Rows, encode
from thalweg.model.sorting import representatives
from thalweg.model.time import INFINITY, MIN_TIME, Times
from thalweg.operators.base import (
    Operator,
    Slices,
    StateSize,
    map_progress,
)
from thalweg.operators.source.adjustable_rows import AdjustableRows
from thalweg.operators.source.column_progress import ColumnProgress
from thalweg.operators.source.element_checks import ElementChecks, is_plain_row, shown_row
from thalweg.operators.source.late_rewrites import LateRewrites, RewrittenBatch, rewrite_late
from thalweg.operators.source.promise_checks import PromiseChecks
from thalweg.operators.source.promised_areas import NOTHING_PROMISED, PromisedAreas
from thalweg.operators.source.punctuations import NO_PUNCTUATIONS, Punctuations, cti_of
from thalweg.plan.nodes import Source
from thalweg.progress import QuarantineGate
from thalweg.progress.ended_groups import NO_ENDED_GROUPS, EndedGroups
from thalweg.progress.late_ledger import LateLedger
from thalweg.progress.quarantine import Case
from thalweg.progress.source_clock import SourceClock
from thalweg.progress.source_progress import (
    Groups,
    SourceProgress,
    roll_down,
    ways_to_promise,
)

__all__ = ["IngressKernel", "LateLedger"]


_VALUES = (
    "_progress",
    "_ended",
    "_batches",
    "_observed",
    "_columns",
    "_gate",
    "_source_clock",
    "_promised_at",
    "_punctuations",
    "_areas",
    "skipped",
)
"""The attributes that a batch replaces by other values: `admit` puts them back when it refuses one.
Rows and ledgers are changed in place."""


class IngressKernel(Operator):
    """
    >>> import thalweg as tw
    >>> events = tw.source("s", {"v": "int64"}, late="drop", disorder=5)
    >>> tw.table(events, {"s": [tw.point({"v": 1}, 10), tw.point({"v": 2}, 4), tw.point({"v": 3}, 5)]})
    [(5, 6, {'v': 3}), (10, 11, {'v': 1})]
    """

    def __init__(self, node: Source) -> None:
        self.schema = node.schema
        self.ledger = LateLedger()
        self._name, self._policy, self._clock = node.name, node.ingress, node.clock
        self._tracks = not node.declared.insert_only
        self._declared = node.declared
        self._adjustable = AdjustableRows(node.schema, f"source {node.name!r}")
        self._rewrites = LateRewrites(node.schema)
        self._progress = NO_PROGRESS
        self._ended = NO_ENDED_GROUPS
        self._observed = SourceProgress(node.ingress)
        self._columns = ColumnProgress(node.ingress.columns)
        self._punctuations = NO_PUNCTUATIONS
        self._areas = NOTHING_PROMISED
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
        self._grid = None if node.ingress.period is None else (node.ingress.period, 0)
        self._batches = 0
        self._source_clock = SourceClock(node.ingress)
        self._promised_at: int | None = None
        self.output_grid: tuple[int, int] | None = None
        """Promises that leave are rounded down to this grid; rows are judged by the exact ones."""
        self.warnings: dict[Any, str] = {}

    def use_grid(self, grid: tuple[int, int] | None) -> None:
        """Round promises that follow from the rows down to this grid, unless the source has a
        period of its own."""
        if self._policy.period is None:
            self._grid = grid

    def leave_adjusts_to_merge(self) -> None:
        """Hold no rows: a merge behind this source holds those of all its inputs once, and checks
        their adjusts. Where late rows are moved or left out, rows are needed here too."""
        if self._policy.late == "error":
            self._tracks = False

    # --------------------------------------------------------------------------------------------------------
    # flow

    @property
    def observes(self) -> bool:
        """Whether promises follow from the rows."""
        return self._policy.observes

    @property
    def promised(self) -> int:
        """The time before which a row is late: the CTI of the source, or what follows from the rows
        seen, which may not have been passed on yet."""
        return max(self._progress.cti, self._observed.observed)

    def admit(self, batches: Sequence[Batch]) -> list[Batch]:
        """What `process` makes of each of these batches; when one of them is refused, all are."""
        if len(batches) == 1:
            return [self.process(0, batches[0])]
        held = {**self._adjustable.snapshot(), **self._rewrites.snapshot()}
        before = {name: getattr(self, name) for name in _VALUES}
        ledgers = [
            (ledger, ledger.count, ledger.unlisted, list(ledger.tables))
            for ledger in (self.ledger, self.quarantined)
        ]
        try:
            return [self.process(0, batch) for batch in batches]
        except InputError:
            for name, value in before.items():
                setattr(self, name, value)
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
        if len(batch.start) == 1 and self._is_plain(batch):
            return self._admit_plain(batch)
        batch = self._checks().checked(batch)
        in_data = self._checked_promises(batch.progress)
        gated = None if self._gate is None else self._gate.gate(batch, in_data.cti, self.now)
        batch = batch if gated is None else gated.batch
        arrived, partitions = len(batch), self._partitions_of(batch)
        promise, observed = self._observed.after(
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
        self._observed, self._columns = observed, columns
        before = self._progress
        after = observed.now(in_data, partitions, before, self._grid)
        boxes = merge_boxes(in_data.boxes, columns.promises())
        self._advance(replace(after, boxes=boxes) if boxes else after, arrived)
        self._advance_by_patterns()
        self._drop_settled(before)
        return admitted.with_progress(self._output_progress())

    def _output_progress(self) -> Progress:
        """The promises that leave: those of the source, on the grid of the output."""
        if self.output_grid is None:
            return self._progress
        return map_progress(self._progress, lambda time: roll_down(time, self.output_grid))

    def _is_plain(self, batch: Batch) -> bool:
        """Whether a batch of one row is a valid insert in time, and nothing but the CTI and the
        start decide that: no groups, columns, punctuations or unwanted rows."""
        if (
            not self._follows_starts
            or batch.progress is not NO_PROGRESS
            or not is_plain_row(batch, self.schema)
            or self._punctuations
            or self._areas
            or self._progress.scoped
            or self._progress.group_boxes
            or self._ended.runs
            or self._progress.boxes
            or self.unwanted_before > MIN_TIME
        ):
            return False
        start = batch.start.item()
        lasts = self._declared.constant_duration
        return start >= self.promised and (lasts is None or batch.end.item() - start == lasts)

    def _admit_plain(self, batch: Batch) -> Batch:
        """What `process` does with a plain row (see `_is_plain`), without making columns of it."""
        if self._tracks:
            self._adjustable.apply(batch)
        self._batches += 1
        self._observed = self._observed.after_row(batch.start.item())
        before = self._progress
        self._advance(self._observed.now(NO_PROGRESS, None, before, self._grid), 1)
        if self._progress is not before:
            self._drop_settled(before)
        return batch.with_progress(self._output_progress())

    def _drop_settled(self, before: Progress) -> None:
        """Drop the rows that nothing may adjust any more."""
        self._adjustable.drop_settled(before, self._progress)
        if len(self._rewrites):
            self._rewrites.drop_settled(self._progress.cti)

    def _advance(self, after: Progress, arrived: int) -> None:
        before = self._progress
        self._progress = before.advance(after)
        self._note_ended(before)
        if arrived:
            self._source_clock = self._source_clock.after_rows()
        if self._progress.cti > before.cti:
            self._promised_at = self.now
        if self._policy.observed:
            self._warn()

    def _note_ended(self, before: Progress) -> None:
        """Remember the groups that have ended now; the rows of a trusted source are not checked
        against them."""
        if self._progress is before or self._policy.trusted:
            return
        if self._progress.cti == INFINITY:
            self._ended = NO_ENDED_GROUPS  # everything is late
            return
        columns = self._progress.scope_columns
        ended = [
            scope
            for scope, time in self._progress.scoped.items()
            if time == INFINITY and before.of(scope) != INFINITY
        ]
        if ended:
            values = self._scope_columns(columns, ended)
            self._ended = self._ended.add(columns, values, len(ended))

    @property
    def _group_columns(self) -> tuple[str, ...]:
        """The columns that name the groups for which something was promised."""
        progress = self._progress
        promised = progress.scoped or progress.group_boxes
        return progress.scope_columns if promised else self._ended.columns

    @property
    def _names_of_groups(self) -> tuple[str, ...]:
        """The columns that name groups in what patterns promise, in the order of a CTI's scope."""
        return self._group_columns or tuple(sorted(self._declared.group_keys))

    def _scope_columns(self, columns: Sequence[str], scopes: Sequence[Scope]) -> list[pa.Array]:
        """The values of groups, in the types that the columns have."""
        return [
            column_of(values, self.schema.field(name).type)
            for name, values in zip(columns, zip(*scopes, strict=True), strict=True)
        ]

    def _have_ended(self, columns: Sequence[str], scopes: Sequence[Scope]) -> Bools:
        if not len(self._ended):
            return np.zeros(len(scopes), np.bool_)
        return self._ended.find(self._scope_columns(columns, scopes), len(scopes))

    # ----------------------------------------------------------------------------------------------
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
        `wanted` says which elements of the batch as it came these are."""
        late = batch.sync < promise
        any_late = bool(late.any())
        if any_late and self._policy.late == "error":
            at = int(np.argmax(late))
            place = self._place(at if wanted is None else int(np.flatnonzero(wanted)[at]))
            changed = shown_time(int(batch.sync[at]), self._clock)
            promised = shown_time(int(promise[at]), self._clock)
            raise LateEventError(
                f"{place}: {shown_row(batch, at)} changes time {changed}, before the promise {promised} of its source. "
                "Give the source more disorder=, or a policy late='drop', 'adjust' or 'side'."
            )
        if not any_late and (batch.is_adjust is None or not len(self._rewrites)):
            return None
        return rewrite_late(
            batch, promise, self._policy.late, self._rewrites, adjustable=self._tracks
        )

    def _check_adjusts(self, batch: Batch, positions: Codes | None) -> None:
        """Refuse an adjust of a row that is not held when its turn comes. `positions` are those of
        the elements in the batch as it came."""
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

    def _place(self, at: int | None) -> str:
        return self._checks().place(at)

    def _checks(self) -> ElementChecks:
        return ElementChecks(self._name, self._batches, self.schema, self._declared)

    # ----------------------------------------------------------------------------------------------
    # promises

    def cti_of(self, pattern: Punctuation) -> Cti | None:
        """The CTI that a pattern is, for this source."""
        return cti_of(pattern, self._declared, self._policy)

    def punctuate(self, pattern: Punctuation) -> None:
        """From now on a row that matches a pattern is late."""
        self._promise_checks().pattern(pattern)
        self._punctuations = self._punctuations.add(pattern)

    def _advance_by_patterns(self) -> None:
        """Turn patterns into promises where those of the source have come so far. Only where rows
        are not adjusted: a pattern is about new rows alone."""
        if not self._declared.insert_only or not (self._punctuations or self._areas):
            return
        while self._advance_by_pattern() or self._advance_by_area() or self._advance_by_cover():
            pass
        self._areas = self._areas.above(self._progress.cti)

    def _advance_by_pattern(self) -> bool:
        """Turn a pattern into the promise that it is by now; whether there was one."""
        columns = self._names_of_groups
        found = self._punctuations.first_promise(self._progress, columns)
        if found is None:
            return False
        promise, self._punctuations = found
        self._advance(promise, 0)
        return True

    def _advance_by_area(self) -> bool:
        """Promise a time to an area of groups, if a pattern does; whether one did."""
        columns = self._names_of_groups
        found = self._areas.absorb(self._punctuations, self._progress, self.schema, columns)
        if found is None:
            return False
        self._areas, self._punctuations = found
        areas = self._areas.areas.within(columns)
        if areas:
            self._advance(Progress(scope_columns=columns, areas=areas), 0)
        return True

    def _advance_by_cover(self) -> bool:
        """Promise to all rows what areas promise that cover their columns; whether that is
        news."""
        common = self._areas.common(self.schema, self._progress, self._promised_to_group)
        if common <= self._progress.cti:
            return False
        self._advance(Progress(common), 0)
        return True

    def _promised_to_group(self, group: Mapping[str, Any]) -> int:
        """What is promised to one group; to all rows where these columns name none."""
        columns = self._group_columns
        if not columns or set(columns) != set(group):
            return self._progress.cti
        scope = tuple(group[name] for name in columns)
        has_ended = bool(self._have_ended(columns, [scope])[0])
        return INFINITY if has_ended else self._progress.of(scope)

    def _raise_by_patterns(self, batch: Batch, promise: Times) -> Times:
        """The promise before each row, raised for the rows that a punctuation excludes."""
        if self._areas and len(batch):
            promise = self._areas.raise_promises(batch, promise)
        if not self._punctuations or not len(batch):
            return promise
        self._punctuations = self._punctuations.after(self._progress.cti)
        return self._punctuations.raise_promises(batch, promise)

    def _raise_by_columns(self, batch: Batch, promise: Times) -> tuple[Times, ColumnProgress]:
        """The promise before each row, infinite for the rows whose columns break a promise: such a
        row cannot be moved, nothing remains of it. And the progress of the columns."""
        progress = self._progress
        if not len(batch) or not (self._policy.columns or progress.boxes or progress.group_boxes):
            return promise, self._columns
        late, columns = self._columns.after(batch)
        late |= inside(progress.boxes, batch.payload)
        if progress.group_boxes:
            groups, code = _groups(batch, progress.scope_columns)
            for at, group in enumerate(groups):
                if group in progress.group_boxes:
                    late |= inside(progress.group_boxes[group], batch.payload) & (code == at)
        if batch.is_adjust is not None:
            late &= ~batch.is_adjust
        return np.where(late, INFINITY, promise), columns

    def _checked_promises(self, in_data: Progress) -> Progress:
        """The promises that came with a batch, if they can be kept: times of the clock that do not
        go back, columns that exist. Groups that ended before are left out."""
        if in_data is NO_PROGRESS:
            return in_data
        if in_data.areas:
            in_data = replace(in_data, areas=NO_AREAS)
        checks = self._promise_checks()
        cti = checks.time(in_data.cti, self._progress.cti, "the CTI")
        checks.columns(in_data)
        if not in_data.scoped:
            return in_data if type(in_data.cti) is int else Progress(cti, boxes=in_data.boxes)
        columns, scopes = checks.groups(in_data, self._group_columns)
        ended = self._have_ended(columns, scopes).tolist()
        scoped = {}
        for scope, has_ended, time in zip(scopes, ended, in_data.scoped.values(), strict=True):
            # A CTI does not go back behind those before it; an area may have promised more.
            own = self._progress.scoped.get(scope, self._progress.cti)
            promised = INFINITY if has_ended else max(self._progress.cti, own)
            what = f"the CTI of {dict(zip(columns, scope, strict=True))}"
            checked = checks.time(time, promised, what)
            if not has_ended:
                scoped[scope] = checked
        return Progress(cti, columns, scoped, in_data.boxes)

    def _promise_checks(self) -> PromiseChecks:
        return PromiseChecks(self._place(None), self.schema, self._policy, self._clock)

    def _partitions_of(self, batch: Batch) -> Groups | None:
        """The partitions of a batch, where they have timelines of their own."""
        if self._policy.partition is None or not self._policy.observes or not len(batch):
            return None
        return _groups(batch, (self._policy.partition,))

    def _promised_before(self, batch: Batch, partitions: Groups | None) -> Times:
        """What was promised before the batch, for each of its rows."""
        columns = self._group_columns
        if not columns or not len(batch):
            return np.full(len(batch), self._progress.cti)
        groups, code = partitions if partitions is not None else _groups(batch, columns)
        promised = np.array([self._progress.of(group) for group in groups], np.int64)
        promised[self._have_ended(columns, groups)] = INFINITY
        return promised[code]

    # -------------------------------------------------------------------------------------------------------
    # clock

    @property
    def now(self) -> int | None:
        """The time by the clock, set by whoever runs the kernel."""
        return self._source_clock.now

    @now.setter
    def now(self, time: int) -> None:
        self._source_clock = self._source_clock.at(time)

    def fire_timer(self, now: int) -> Batch | None:
        """The promise of the source's timer, if it goes off now and the promise is new."""
        self._source_clock = self._source_clock.at(now).started()
        if not self._source_clock.timer_fires:
            return None
        self._source_clock = self._source_clock.after_timer()
        return self._new_promise(self._source_clock.timer_promise)

    def timer_fires(self, now: int) -> bool:
        """Whether the timer of the source would go off now."""
        return self._source_clock.at(now).timer_fires

    @property
    def answers_when_asked(self) -> bool:
        return self._policy.on_demand is not None

    @property
    def answers_behind(self) -> int | None:
        """How far behind the clock the source answers when it is asked; None: it does not."""
        asked = self._policy.on_demand
        return None if asked is None else asked.behind

    def demand(self, now: int) -> Batch | None:
        """What the source promises when it is asked, if the promise is new."""
        self.now = now
        if self._policy.on_demand is None:
            return None
        return self._new_promise(self._source_clock.promise_on_demand)

    def _new_promise(self, time: int) -> Batch | None:
        promise = roll_down(time, self._grid)
        if promise <= MIN_TIME or promise <= self._progress.cti:
            return None
        return Batch.empty(self.schema, Progress(promise))

    @property
    def adjustable(self) -> Delta:
        """The rows that were admitted and may still be adjusted."""
        return self._adjustable.since(self._progress.cti)

    # -------------------------------------------------------------------------------------------------------
    # reports

    @property
    def progress(self) -> Progress:
        """What the source has promised."""
        return self._progress

    @property
    def since(self) -> int | None:
        """When, by the clock, the common promise last moved."""
        return self._promised_at

    @property
    def cases(self) -> list[Case]:
        """The keys that are in quarantine."""
        return [] if self._gate is None else list(self._gate.cases.values())

    def needed(self, time: int, group: Mapping[str, Any] | None = None) -> list[str]:
        """What would bring the promise to a time: one way for each policy, and what always does."""
        clock = self._clock
        key = (
            None
            if self._policy.partition is None or group is None
            else group.get(self._policy.partition)
        )
        by_rows = self._policy.partition is None or group is not None

        def by_policy() -> list[str]:
            ways = self._observed.needed(time, key, clock) if by_rows else []
            return ways + self._source_clock.needed(time, clock)

        return ways_to_promise(time, by_policy, self._policy, clock)

    def _warn(self) -> None:
        for key, reason in self._observed.broken_estimates().items():
            if key in self.warnings:
                continue
            where = (
                f"source {self._name!r}"
                if self._policy.partition is None
                else f"source {self._name!r}, {self._policy.partition}={key!r}"
            )
            self.warnings[key] = f"{where}: {reason}"
            warnings.warn(EstimateWarning(self.warnings[key]), stacklevel=2)

    # -------------------------------------------------------------------------------------------------------
    # state

    def snapshot(self) -> Slices:
        counts = [self._batches]
        for ledger in (self.ledger, self.quarantined):
            counts += [ledger.count, ledger.unlisted]
        # The clock is set before a batch is checked; a refused batch must leave no trace.
        clocks = [replace(self._source_clock, now=None).to_json(), self._promised_at]
        notes = [
            self._observed.to_json(),
            counts,
            clocks,
            self._columns.largest,
            self._ended.columns,
        ]
        slices: Slices = {
            **self._adjustable.snapshot(),
            **self._rewrites.snapshot(),
            **self._ended.snapshot(),
            "progress": _text_slice(progress_text(self._progress), "progress"),
            "notes": _text_slice(json.dumps(notes), "notes"),
        }
        if self._gate is not None:
            slices["quarantine"] = self._gate.to_rows()
        if self._punctuations:
            slices["guards"] = _text_slice(self._punctuations.to_text(), "guards")
        if self._areas:
            slices["areas"] = _text_slice(self._areas.to_text(), "areas")
        slices |= self.ledger.snapshot("ledger", self.schema)
        return slices | self.quarantined.snapshot("aside", self.schema)

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self._progress = progress_of_text(_text_of(slices["progress"]))
        self._restore_rows(slices)
        observed, counts, clocks, largest, ended = json.loads(_text_of(slices["notes"]))
        self._ended = EndedGroups.restore(tuple(ended), slices)
        self._observed = self._observed.from_json(observed)
        self._columns = replace(self._columns, largest=largest)
        self._batches, self.ledger.count, self.ledger.unlisted = counts[:3]
        self.quarantined.count, self.quarantined.unlisted = counts[3:]
        times, self._promised_at = clocks
        self._source_clock = self._source_clock.from_json(times)
        if self._gate is not None:
            self._gate = self._gate.from_rows(slices["quarantine"])
        if "guards" in slices:
            self._punctuations = Punctuations.from_text(_text_of(slices["guards"]))
        if "areas" in slices:
            self._areas = PromisedAreas.from_text(_text_of(slices["areas"]))
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


def _text_slice(text: str, name: str) -> Rows:
    return pa.RecordBatch.from_arrays([pa.array([text], pa.string())], names=[name])


def _text_of(rows: Rows) -> str:
    return str(rows.column(0)[0].as_py())


def _groups(batch: Batch, columns: Sequence[str]) -> Groups:
    """The groups that a batch has rows of, and which of them each row is in."""
    arrays = [batch.payload.column(name) for name in columns]
    code, size = encode(arrays, len(batch))
    representative = representatives(code, size)
    which = pa.array(representative)
    return list(zip(*(scope_values(array.take(which)) for array in arrays), strict=True)), code
