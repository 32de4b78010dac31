"""Ingress: where a stream enters. Checks every element, deals with late ones, and turns observation
into promises.

A batch is checked whole before any of it is applied: a refused batch leaves no trace, and `admit`
takes several batches or none. Checks: columns as declared; times in range; lifetimes that end after
they start; adjusts of rows that are there when their turn comes; CTIs that do not go back, for all
rows or for a group.

An element is late when its sync time lies before the promise made so far: the latest CTI in the
data, for all rows or for its group, or what the policies of the source make of the rows before it
and of the clock (see `progress`).

Policies: `error` refuses the batch; `drop` and `side` leave the element out; `adjust` moves it to
the promise, or leaves it out when nothing of it remains. Every late element is written to the
ledger with what became of it. A later adjust that speaks of a row that was moved is applied to the
row as it is; of a row that was left out, it is left out too.

State: rows that may still be adjusted, in a row set (none for a source declared insert-only), rows
that are not as their source believes (see `claims`), what the policies remember of each partition,
rows in quarantine, the entries of the ledgers that nobody has taken yet, and 16 bytes for each group
that has ended (see `ended_groups`).
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
    SchemaChangeError,
    UnknownRowError,
    did_you_mean,
)
from thalweg.model.batch import Batch, column_of
from thalweg.model.boxes import Boxes, box, inside, merge_boxes
from thalweg.model.clocks import Clock, shown_time
from thalweg.model.delta import Delta, Weights
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
from thalweg.model.time import INFINITY, MIN_TIME, Times
from thalweg.operators.base import (
    Operator,
    Slices,
    StateSize,
    map_progress,
)
from thalweg.operators.group_promises import newly_promised, promises_of_rows
from thalweg.operators.source.claims import Claims, Rewritten, rewrite_late
from thalweg.operators.source.element_checks import ElementChecks, is_plain_row, shown_row
from thalweg.operators.source.promise_checks import PromiseChecks
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
    running_before,
    ways_to_promise,
)
from thalweg.state import RowSet

__all__ = ["IngressKernel", "LateLedger"]


_TAKEN_BACK = (
    "_progress",
    "_ended",
    "_batches",
    "_promises",
    "_gate",
    "_told",
    "_since",
    "_newest",
    "skipped",
    "_guards",
)
"""What is as before when a batch is refused, beside rows and ledgers."""


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
        self._live = RowSet(node.schema, what=f"source {node.name!r}")
        self._claims = Claims(node.schema)
        self._progress = NO_PROGRESS
        self._ended = NO_ENDED_GROUPS
        self._promises = SourceProgress(node.ingress)
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
        self._guards: tuple[Punctuation, ...] = ()
        self._newest: Mapping[str, int] = {}
        """Of each column that progresses by its disorder, the largest value seen."""
        self._batches = 0
        self._told = SourceClock(node.ingress)
        self._since: int | None = None
        self.passes: tuple[int, int] | None = None
        """Of the promises that are given, only times on this grid are passed on; rows are judged by
        all of them."""
        self.warnings: dict[Any, str] = {}

    def use_grid(self, grid: tuple[int, int] | None) -> None:
        """Promises that follow from what was seen need be no finer than this; a period of the
        source's own comes first."""
        if self._policy.period is None:
            self._grid = grid

    def leave_adjusts_to_merge(self) -> None:
        """A merge behind this source keeps the rows of all its inputs once and checks their
        adjusts: no rows are kept here. Late rows that are moved or left out need them still."""
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
        seen, which need not be told yet."""
        return max(self._progress.cti, self._promises.observed)

    def admit(self, batches: Sequence[Batch]) -> list[Batch]:
        """What `process` makes of each of these batches; when one of them is refused, all are."""
        if len(batches) == 1:
            return [self.process(0, batches[0])]
        held = {**self._live.snapshot("live"), **self._claims.snapshot()}
        before = {name: getattr(self, name) for name in _TAKEN_BACK}
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
        """Rows that end before this are skipped. A row that may be adjusted may yet come to end
        later than it does now, so that of a source with adjusts none is."""
        return self.unwanted_before if self._declared.insert_only else MIN_TIME

    def process(self, port: int, batch: Batch) -> Batch:
        if self._policy.trusted:
            self._advance(batch.progress, len(batch))
            return batch.with_progress(self._progress)
        if len(batch.start) == 1 and self._is_plain(batch):
            return self._admit_plain(batch)
        batch = self._checks().checked(batch)
        given = self._given(batch.progress)
        gated = None if self._gate is None else self._gate.gate(batch, given.cti, self.now)
        batch = batch if gated is None else gated.batch
        parts = self._parts(batch)
        promise, promises = self._promises.after(batch, parts, self._known(batch, parts))
        promise = self._guarded(batch, promise)
        promise, newest = self._by_columns(batch, promise)
        arrived, place = len(batch), None
        unwanted = self.skips_before if batch.is_adjust is None else MIN_TIME
        if unwanted > MIN_TIME:
            wanted = batch.end >= unwanted
            if not wanted.all():
                place = np.flatnonzero(wanted)
                batch, promise = batch.filter(wanted), promise[wanted]
        late = batch.sync < promise
        rewritten: Rewritten | None = None
        if late.any() or (batch.is_adjust is not None and len(self._claims)):
            if late.any() and self._policy.late == "error":
                at = int(np.argmax(late))
                self._refuse_late(batch, promise, at, at if place is None else int(place[at]))
            rewritten = rewrite_late(
                batch, promise, self._policy.late, self._claims, adjustable=self._tracks
            )
        admitted = batch if rewritten is None else rewritten.batch
        self._check_adjusts(admitted, None if rewritten is None else rewritten.rows)
        # Nothing was changed until here; from here on nothing can fail.
        if self._tracks and len(admitted):
            self._track(admitted)
        if rewritten is not None:
            self._claims.apply(rewritten.claims)
            self.ledger.note(*rewritten.notes)
        if gated is not None:
            self._gate = gated.gate
            self.quarantined.note(gated.aside, gated.reference, ["quarantined"] * len(gated.aside))
        self._batches += 1
        self._promises = promises
        self._newest = newest
        known = self._progress
        made = promises.now(given, parts, self._progress, self._grid)
        boxes = merge_boxes(given.boxes, self._boxes_by_disorder())
        self.skipped += arrived - len(batch)
        self._advance(replace(made, boxes=boxes) if boxes else made, arrived)
        self._ripen()
        self._forget(known)
        passed = (
            self._progress
            if self.passes is None
            else map_progress(self._progress, lambda time: roll_down(time, self.passes))
        )
        return admitted.with_progress(passed)

    def _is_plain(self, batch: Batch) -> bool:
        """Whether a batch of one row is an insert that is plainly right and in time, and nothing is
        known that only the general way takes into account."""
        if (
            not self._follows_starts
            or batch.progress is not NO_PROGRESS
            or not is_plain_row(batch, self.schema)
            or self._guards
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
            self._track(batch)
        self._batches += 1
        self._promises = self._promises.after_row(batch.start.item())
        known = self._progress
        self._advance(self._promises.now(NO_PROGRESS, None, known, self._grid), 1)
        if self._progress is not known:
            self._forget(known)
        passed = self._progress
        if self.passes is not None:
            passed = map_progress(passed, lambda time: roll_down(time, self.passes))
        return batch.with_progress(passed)

    def _forget(self, before: Progress) -> None:
        """Drop the rows that nothing may adjust any more."""
        cti = self._progress.cti
        if cti == INFINITY:
            self._live.clear()
        elif cti > before.cti:
            self._live.purge(cti - 1)
        if not self._live.is_empty() and newly_promised(before, self._progress):
            columns = self._progress.scope_columns
            found = self._live.between(cti - 1, INFINITY)
            promised = promises_of_rows(self._progress, found.payload(columns), columns)
            settled = found.filter((found.end < promised) | (promised == INFINITY))
            settled.set_weight(np.zeros(len(settled), np.int64))
            self._live.purge(cti - 1)
        if len(self._claims):
            self._claims.forget(cti)

    def _advance(self, made: Progress, arrived: int) -> None:
        before = self._progress
        self._progress = before.advance(made)
        self._note_ended(before)
        if arrived:
            self._told = self._told.after_rows()
        if self._progress.cti > before.cti:
            self._since = self.now
        if self._policy.observed:
            self._warn()

    def _note_ended(self, before: Progress) -> None:
        """Remember the groups that have ended now. Who is trusted needs no check."""
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
        """The columns that promises for groups speak of."""
        progress = self._progress
        told = progress.scoped or progress.group_boxes
        return progress.scope_columns if told else self._ended.columns

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

    def _refuse_late(self, batch: Batch, promise: Times, at: int, place: int) -> None:
        changed = shown_time(int(batch.sync[at]), self._clock)
        promised = shown_time(int(promise[at]), self._clock)
        raise LateEventError(
            f"{self._place(place)}: {shown_row(batch, at)} changes time {changed}, before the promise {promised} of its source. "
            "Give the source more disorder=, or a policy late='drop', 'adjust' or 'side'."
        )

    def _track(self, batch: Batch) -> None:
        """Hold the rows that may still be adjusted, after this batch."""
        change = Delta.of_batch(batch)
        self._live.change(change if batch.is_adjust is None else change.consolidate())

    def _check_adjusts(self, batch: Batch, rows: Codes | None) -> None:
        """Refuse an adjust of a row that is not there when its turn comes. `rows` says where the
        elements stood when the batch came."""
        if not self._tracks or batch.is_adjust is None or batch.new_end is None:
            return
        takes, gives = (
            np.flatnonzero(batch.is_adjust),
            np.flatnonzero(~batch.is_adjust | (batch.new_end > batch.start)),
        )
        if not len(takes):
            return
        change = Delta.of_batch(batch)  # what adjusts take, then what arrives
        held = self._live.find_rows(change.take(np.arange(len(takes)))).distinct()[0].delta()
        every = Delta.concat([held, change], self.schema)
        code, size = encode([*every.payload.columns, every.start, every.end], len(every))
        # An adjust takes first.
        turn = np.concatenate([np.full(len(held), -1), takes * 2, gives * 2 + 1])
        begin = len(held)
        missing = _first_missing(code, every.weight, turn, code[begin : begin + len(takes)], size)
        if missing is not None:
            at = missing // 2
            raise UnknownRowError(
                f"{self._place(at if rows is None else int(rows[at]))}: adjust of a row that is not there: {shown_row(batch, at)} over "
                f"[{shown_time(int(batch.start[at]), self._clock)}, "
                f"{_shown(int(batch.end[at]), self._clock)}). Insert the row first, and give the end it has now."
            )

    def _place(self, at: int | None) -> str:
        return self._checks().place(at)

    def _checks(self) -> ElementChecks:
        return ElementChecks(self._name, self._batches, self.schema, self._declared)

    # -----------------------------------------------------------------------------------------------------
    # patterns

    def guard(self, pattern: Punctuation) -> None:
        """From now on a row that matches a pattern is late."""
        for column in pattern.patterns:
            if column not in self.schema.names:
                hint = did_you_mean(column, self.schema.names)
                raise SchemaChangeError(
                    f"{self._place(None)}: a punctuation on {column!r}, a column that the source does not have{hint}"
                )
        self._guards = (*self._guards, pattern)

    def _ripen(self) -> None:
        """Patterns whose ranges begin where the promises of the source have come become promises
        themselves. Only of rows that are not adjusted: a pattern speaks of new rows alone."""
        ripe = self._declared.insert_only and bool(self._guards)
        while ripe:
            ripe = False
            for pattern in self._guards:
                promise = self._promise_of(pattern.given(self._progress))
                if promise is not None:
                    self._guards = tuple(g for g in self._guards if g is not pattern)
                    self._advance(promise, 0)
                    ripe = True
                    break

    def _promise_of(self, pattern: Punctuation) -> Progress | None:
        """A pattern as a promise; None: it is not one, or of other groups than those there are."""
        boxes = pattern.to_boxes()
        if boxes:
            return Progress(boxes=boxes)
        columns = self._group_columns or self._declared.group_keys
        of_group = pattern.to_group_boxes(columns)
        if of_group:
            return Progress(scope_columns=columns, group_boxes=of_group)
        promise = pattern.to_cti()
        if promise is None or promise.scope is None:
            return None if promise is None else Progress(promise.time)
        columns = tuple(promise.scope)
        known = self._group_columns or self._declared.group_keys
        if set(columns) != set(known):
            return None
        scope = tuple(promise.scope[name] for name in known)
        return Progress(scope_columns=known, scoped={scope: promise.time})

    def _guarded(self, batch: Batch, promise: Times) -> Times:
        """Promises raised for the rows that a pattern says will not come; an adjust is no new
        row."""
        if not self._guards or not len(batch):
            return promise
        self._guards = tuple(
            g for g in self._guards if g.time.high is None or int(g.time.high) > self._progress.cti
        )
        for pattern in self._guards:
            limit = pattern.limits(batch.payload, batch.start)
            promise = np.maximum(
                promise,
                limit if batch.is_adjust is None else np.where(batch.is_adjust, MIN_TIME, limit),
            )
        return promise

    def _by_columns(self, batch: Batch, promise: Times) -> tuple[Times, Mapping[str, int]]:
        """Promises raised for the rows whose columns come too late; and the largest values after
        the batch. Such a row cannot be moved: nothing remains of it."""
        known = self._progress
        if not len(batch) or not (self._policy.columns or known.boxes or known.group_boxes):
            return promise, self._newest
        late = inside(known.boxes, batch.payload)
        if known.group_boxes:
            groups, code = _groups(batch, known.scope_columns)
            for at, group in enumerate(groups):
                if group in known.group_boxes:
                    late |= inside(known.group_boxes[group], batch.payload) & (code == at)
        newest = dict(self._newest)
        for name, disorder in self._policy.columns:
            column = batch.payload.column(name)
            values = column.cast(pa.int64()).fill_null(MIN_TIME).to_numpy(zero_copy_only=False)
            before = running_before(values, newest.get(name, MIN_TIME))
            late |= values < np.maximum(before, MIN_TIME + disorder) - disorder
            late |= values == MIN_TIME
            newest[name] = max(newest.get(name, MIN_TIME), int(values.max()))
        if batch.is_adjust is not None:
            late &= ~batch.is_adjust
        return np.where(late, INFINITY, promise), newest

    def _boxes_by_disorder(self) -> Boxes:
        """What follows from the largest values seen of the columns that progress."""
        found: Boxes = {}
        for name, disorder in self._policy.columns:
            if self._newest.get(name, MIN_TIME) > MIN_TIME:
                found = merge_boxes(found, box({name: self._newest[name] - disorder}))
        return found

    # ------------------------------------------------------------------------------------------------
    # CTIs that came

    def _given(self, given: Progress) -> Progress:
        """The promises that came with a batch, if they can be kept: times of the clock that do not
        go back, columns that exist."""
        if given is NO_PROGRESS:
            return given
        checks = PromiseChecks(self._place(None), self.schema, self._policy, self._clock)
        cti = checks.time(given.cti, self._progress.cti, "the CTI")
        checks.columns(given)
        if not given.scoped:
            return given if type(given.cti) is int else Progress(cti, boxes=given.boxes)
        columns, scopes = checks.groups(given, self._group_columns)
        ended = self._have_ended(columns, scopes).tolist()
        scoped = {
            scope: checks.time(
                time,
                INFINITY if over else self._progress.of(scope),
                f"the CTI of {dict(zip(columns, scope, strict=True))}",
            )
            for scope, over, time in zip(scopes, ended, given.scoped.values(), strict=True)
        }
        told_before = {scope for scope, over in zip(scopes, ended, strict=True) if over}
        scoped = {scope: time for scope, time in scoped.items() if scope not in told_before}
        return Progress(cti, columns, scoped, given.boxes)

    # ----------------------------------------------------------------------------------------------------
    # promises

    def _parts(self, batch: Batch) -> Groups | None:
        """The partitions of a batch, where they have clocks of their own."""
        if self._policy.partition is None or not self._policy.observes or not len(batch):
            return None
        return _groups(batch, (self._policy.partition,))

    def _known(self, batch: Batch, parts: Groups | None) -> Times:
        """What was promised to each row before the batch."""
        columns = self._group_columns
        if not columns or not len(batch):
            return np.full(len(batch), self._progress.cti)
        groups, code = parts if parts is not None else _groups(batch, columns)
        known = np.array([self._progress.of(group) for group in groups], np.int64)
        known[self._have_ended(columns, groups)] = INFINITY
        return known[code]

    # -------------------------------------------------------------------------------------------------------
    # clock

    @property
    def now(self) -> int | None:
        """The time by the clock, as whoever runs the kernel tells it."""
        return self._told.now

    @now.setter
    def now(self, time: int) -> None:
        self._told = self._told.at(time)

    def due(self, now: int) -> Batch | None:
        """What the timer of the source promises now, if it goes off and says something new."""
        self._told = self._told.at(now).begun()
        if not self._told.is_due:
            return None
        self._told = self._told.after_timer()
        return self._said(self._told.by_timer)

    def is_due(self, now: int) -> bool:
        """Whether the timer of the source would go off now."""
        return self._told.at(now).is_due

    @property
    def answers_when_asked(self) -> bool:
        return self._policy.on_demand is not None

    @property
    def answers_behind(self) -> int | None:
        """How far behind the clock the source answers when it is asked; None: it does not."""
        asked = self._policy.on_demand
        return None if asked is None else asked.behind

    @property
    def adjustable(self) -> Delta:
        """The rows that were admitted and may still be adjusted."""
        return self._live.between(self._progress.cti - 1, INFINITY).delta()

    def demand(self, now: int) -> Batch | None:
        """What the source promises when it is asked, if it says something new."""
        self.now = now
        return None if self._policy.on_demand is None else self._said(self._told.when_asked)

    def _said(self, time: int) -> Batch | None:
        promise = roll_down(time, self._grid)
        return (
            Batch.empty(self.schema, Progress(promise))
            if MIN_TIME < promise > self._progress.cti
            else None
        )

    # -------------------------------------------------------------------------------------------------------
    # reports

    @property
    def progress(self) -> Progress:
        """What the source has promised."""
        return self._progress

    @property
    def since(self) -> int | None:
        """When, by the clock, the common promise last moved."""
        return self._since

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
            ways = self._promises.needed(time, key, clock) if by_rows else []
            return ways + self._told.needed(time, clock)

        return ways_to_promise(time, by_policy, self._policy, clock)

    def _warn(self) -> None:
        for key, reason in self._promises.broken_estimates().items():
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
        # A batch that is refused leaves no trace, and it was told the time before it was looked at.
        clocks = [replace(self._told, now=None).to_json(), self._since]
        slices: Slices = {
            **self._live.snapshot("live"),
            **self._claims.snapshot(),
            **self._ended.snapshot(),
            "progress": _text(progress_text(self._progress), "progress"),
            "notes": _text(
                json.dumps(
                    [
                        self._promises.to_json(),
                        counts,
                        clocks,
                        self._newest,
                        self._ended.columns,
                    ]
                ),
                "notes",
            ),
        }
        if self._gate is not None:
            slices["quarantine"] = self._gate.to_rows()
        if self._guards:
            slices["guards"] = _text(
                json.dumps([guard.to_text() for guard in self._guards]), "guards"
            )
        slices |= self.ledger.snapshot("ledger", self.schema)
        return slices | self.quarantined.snapshot("aside", self.schema)

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self._progress = progress_of_text(slices["progress"].column(0)[0].as_py())
        self._restore_rows(slices)
        promises, counts, clocks, self._newest, ended = json.loads(
            slices["notes"].column(0)[0].as_py()
        )
        self._ended = EndedGroups.restore(tuple(ended), slices)
        self._promises = self._promises.from_json(promises)
        self._batches, self.ledger.count, self.ledger.unlisted = counts[:3]
        self.quarantined.count, self.quarantined.unlisted = counts[3:]
        times, self._since = clocks
        self._told = self._told.from_json(times)
        if self._gate is not None:
            self._gate = self._gate.from_rows(slices["quarantine"])
        if "guards" in slices:
            self._guards = tuple(
                map(Punctuation.from_text, json.loads(slices["guards"].column(0)[0].as_py()))
            )
        self.ledger.restore("ledger", slices)
        self.quarantined.restore("aside", slices)

    def _restore_rows(self, slices: Mapping[str, Rows]) -> None:
        self._live.restore("live", slices)
        self._claims.restore(slices)
        self._live.purge(self._progress.cti - 1)

    def state_size(self) -> StateSize:
        waiting = 0 if self._gate is None else len(self._gate)
        held = (
            0
            if self._gate is None or self._gate.waiting is None
            else self._gate.waiting.payload.nbytes
        )
        held += self._ended.nbytes
        return self._live.size() + self._claims.size() + StateSize(waiting, held)


def _text(text: str, name: str) -> Rows:
    return pa.RecordBatch.from_arrays([pa.array([text], pa.string())], names=[name])


def _groups(batch: Batch, columns: Sequence[str]) -> Groups:
    arrays = [batch.payload.column(name) for name in columns]
    code, size = encode(arrays, len(batch))
    representative = np.empty(size, np.int64)
    representative[code] = np.arange(len(batch))
    which = pa.array(representative)
    return list(zip(*(scope_values(array.take(which)) for array in arrays), strict=True)), code


def _first_missing(
    code: Codes, weight: Weights, turn: Codes, taken: Codes, size: int
) -> int | None:
    """The first turn at which a row is taken that is not there then. Only the rows that are taken
    at all are looked at."""
    concerned = np.zeros(size, np.bool_)
    concerned[taken] = True
    among = np.flatnonzero(concerned[code])
    order = among[np.lexsort((turn[among], code[among]))]
    group, change = code[order], weight[order]
    running = np.cumsum(change)
    begins = np.flatnonzero(np.concatenate([[True], group[1:] != group[:-1]]))
    before = (running - change)[begins]
    there = running - np.repeat(before, np.diff(np.append(begins, len(order))))
    bad = turn[order[there < 0]]
    return int(bad.min()) if len(bad) else None


def _shown(time: int, clock: Clock = None) -> str:
    return "infinity" if time == INFINITY else shown_time(time, clock)
