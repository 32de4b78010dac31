"""The promises of a source: from CTIs in the data, from patterns and areas, for groups and columns;
and what was promised before each row, by which it is late."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.model.area_promises import NO_AREAS
from thalweg.model.batch import Batch
from thalweg.model.column_promises import inside
from thalweg.model.elements import Cti
from thalweg.model.progress import (
    NO_PROGRESS,
    Progress,
    Scope,
    scope_values,
)
from thalweg.model.punctuation import Punctuation
from thalweg.model.python_rows import column_of
from thalweg.model.rows import Bools, encode
from thalweg.model.sorting import representatives
from thalweg.model.time import INFINITY, Times
from thalweg.operators.source.clocked_source import ClockedSource
from thalweg.operators.source.column_progress import ColumnProgress
from thalweg.operators.source.element_checks import ElementChecks
from thalweg.operators.source.promise_checks import PromiseChecks
from thalweg.operators.source.promised_areas import NOTHING_PROMISED
from thalweg.operators.source.punctuations import NO_PUNCTUATIONS, cti_of
from thalweg.plan.nodes import Source
from thalweg.progress.ended_groups import NO_ENDED_GROUPS
from thalweg.progress.observed_rows import Groups

__all__ = ["PromisingSource"]


class PromisingSource(ClockedSource):
    """A source that advances its promises, and finds what was promised before each row."""

    def __init__(self, node: Source) -> None:
        super().__init__(node)
        self._declared = node.declared
        self._batches = 0
        self._ended = NO_ENDED_GROUPS
        self._columns = ColumnProgress(node.ingress.columns)
        self._punctuations = NO_PUNCTUATIONS
        self._areas = NOTHING_PROMISED

    def _advance(self, after: Progress, arrived: int) -> None:
        before = self._progress
        self._progress = before.advance(after)
        self._note_ended(before)
        source = self._source
        if arrived:
            source.clock = source.clock.after_rows()
        if self._progress.cti > before.cti:
            source.since = source.clock.now
        if self._policy.observed:
            self._warn()

    def _note_ended(self, before: Progress) -> None:
        """Note the groups that have ended now; the rows of a trusted source are not checked
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
        promised = progress.scoped or progress.group_column_promises
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
        row cannot be moved, nothing remains of it. (One that its time makes late is left with that
        promise, where rows are not moved.) And the progress of the columns."""
        progress = self._progress
        if not len(batch) or not (
            self._policy.columns or progress.column_promises or progress.group_column_promises
        ):
            return promise, self._columns
        late, columns = self._columns.after(batch)
        late |= inside(progress.column_promises, batch.payload)
        if progress.group_column_promises:
            groups, code = _groups(batch, progress.scope_columns)
            for at, group in enumerate(groups):
                if group in progress.group_column_promises:
                    late |= inside(progress.group_column_promises[group], batch.payload) & (
                        code == at
                    )
        if batch.is_adjust is not None:
            late &= ~batch.is_adjust
        if not self._policy.late_policy.moves:
            late &= batch.sync >= promise
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
            return (
                in_data
                if type(in_data.cti) is int
                else Progress(cti, column_promises=in_data.column_promises)
            )
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
        return Progress(cti, columns, scoped, in_data.column_promises)

    def _promise_checks(self) -> PromiseChecks:
        return PromiseChecks(self._place(None), self.schema, self._policy, self._clock)

    def _partitions_of(self, batch: Batch) -> Groups | None:
        """The partitions of a batch, where they have timelines of their own."""
        if self._policy.partition is None or not self._policy.observes or not len(batch):
            return None
        return _groups(batch, (self._policy.partition,))

    def _promised_before(self, batch: Batch, partitions: Groups | None) -> Times:
        """What was promised before the batch, for each of its rows."""
        columns, common = self._group_columns, max(self._progress.cti, self.late_before)
        if not columns or not len(batch):
            return np.full(len(batch), common)
        groups, code = partitions if partitions is not None else _groups(batch, columns)
        promised = np.array([max(self._progress.of(group), common) for group in groups], np.int64)
        promised[self._have_ended(columns, groups)] = INFINITY
        return promised[code]

    def _place(self, at: int | None) -> str:
        return self._checks().place(at)

    def _checks(self) -> ElementChecks:
        return ElementChecks(self._name, self._batches, self.schema, self._declared)


def _groups(batch: Batch, columns: Sequence[str]) -> Groups:
    """The groups that a batch has rows of, and which of them each row is in."""
    arrays = [batch.payload.column(name) for name in columns]
    code, size = encode(arrays, len(batch))
    representative = representatives(code, size)
    which = pa.array(representative)
    return list(zip(*(scope_values(array.take(which)) for array in arrays), strict=True)), code
