"""Progress: how far a stream's table is settled.

`cti` holds for the whole stream. `scoped` maps a group (a tuple of values of `scope_columns`) to a
later promise that holds for that group alone; a group without an entry has only the common one. A
group that has ended (promised for ever) is passed on once: `advance` drops it with the next change,
so that what is kept follows the groups that are open. `column_promises` are promises over columns
(see `column_promises`), `group_column_promises` those that hold for one group alone. An operator
that cannot use the latter drops them. `areas` are promises for all groups that lie in ranges of the
`scope_columns`, or have values of some of them, seen or not (see `area_promises`). Progress never
goes back. As text, for snapshots: `progress_text`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from thalweg.model.area_promises import NO_AREAS, AreaPromises
from thalweg.model.column_promises import (
    ColumnPromises,
    meet_column_promises,
    merge_column_promises,
)
from thalweg.model.python_rows import python_values
from thalweg.model.time import INFINITY, MIN_TIME

__all__ = ["NO_PROGRESS", "Progress", "Scope", "scope_values"]

Scope = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Progress:
    """
    >>> Progress(5).merge(Progress(3)).cti
    5
    """

    cti: int = MIN_TIME
    scope_columns: tuple[str, ...] = ()
    scoped: Mapping[Scope, int] = field(default_factory=dict)
    column_promises: ColumnPromises = field(default_factory=dict)
    group_column_promises: Mapping[Scope, ColumnPromises] = field(default_factory=dict)
    areas: AreaPromises = NO_AREAS

    @property
    def ended(self) -> bool:
        """Whether nothing will change any more."""
        return self.cti == INFINITY

    def of(self, scope: Scope) -> int:
        """The promise that holds for one group."""
        promised = max(self.cti, self.scoped.get(scope, MIN_TIME))
        if self.areas:
            group = dict(zip(self.scope_columns, scope, strict=True))
            promised = max(promised, self.areas.of(group))
        return promised

    @property
    def speaks_of_groups(self) -> bool:
        """Whether some groups have promises of their own."""
        return bool(self.scoped or self.areas.entries)

    @property
    def is_common(self) -> bool:
        """Whether there is one promise, for all rows alike."""
        return not (
            self.scope_columns
            or self.scoped
            or self.column_promises
            or self.group_column_promises
            or self.areas.entries
        )

    def merge(self, later: Progress) -> Progress:
        """Both promises together: the later of the two, group by group."""
        if later is self or later is NO_PROGRESS:
            return self
        if later.scope_columns not in (self.scope_columns, ()) and not (
            later.speaks_of_groups or later.group_column_promises
        ):  # it names no group: by which columns it would says nothing
            later = Progress(later.cti, column_promises=later.column_promises)
        merged = self._merged(later)
        if self.areas.entries or later.areas.entries:
            merged = self._with_areas(merged, later)
        if not self.group_column_promises and not later.group_column_promises:
            return merged
        columns = later.scope_columns or self.scope_columns
        own_column_promises = self.group_column_promises if columns == self.scope_columns else {}
        both = dict(own_column_promises)
        for scope, column_promises in later.group_column_promises.items():
            both[scope] = merge_column_promises(own_column_promises.get(scope, {}), column_promises)
        if merged is self and both == self.group_column_promises:
            return self
        return replace(merged, scope_columns=columns, group_column_promises=both)

    def _with_areas(self, merged: Progress, later: Progress) -> Progress:
        columns = later.scope_columns or self.scope_columns
        own_areas = self.areas if self.scope_columns in (columns, ()) else NO_AREAS
        both = own_areas.merge(later.areas, merged.cti)
        if both is self.areas and merged is self:
            return self
        columns = columns if both else merged.scope_columns
        return replace(merged, scope_columns=columns, areas=both)

    def _merged(self, later: Progress) -> Progress:
        """`merge` without the column promises of single groups and without areas of groups."""
        if not (self.scoped or later.scoped or self.column_promises or later.column_promises):
            return self if self.cti >= later.cti else later
        cti = max(self.cti, later.cti)
        column_promises = merge_column_promises(self.column_promises, later.column_promises)
        if not self.scoped and not later.scoped:
            if cti == self.cti and column_promises is self.column_promises:
                return self
            if cti == later.cti and column_promises is later.column_promises:
                return later
            return Progress(cti, column_promises=column_promises)
        columns = later.scope_columns or self.scope_columns
        if self.scope_columns and later.scope_columns and self.scope_columns != later.scope_columns:
            return Progress(cti, later.scope_columns, _above(later.scoped, cti), column_promises)
        own_times = self.scoped
        newer = {s: t for s, t in later.scoped.items() if t > own_times.get(s, MIN_TIME)}
        if (
            cti == self.cti
            and column_promises is self.column_promises
            and not any(t > cti for t in newer.values())
        ):
            return self  # nothing is new, as after most batches
        both = {**own_times, **newer}
        return Progress(cti, columns, _above(both, cti), column_promises)

    def advance(self, later: Progress) -> Progress:
        """`merge` for a reader that has used the earlier progress: where something is new, groups
        that had ended before are dropped.

        >>> Progress(0, ("k",), {("a",): INFINITY}).advance(Progress(0, ("k",), {("b",): 7})).scoped
        {('b',): 7}
        """
        merged = self.merge(later)
        if merged is self or not self.scoped:
            return merged
        return self.without_ended().merge(later)

    def without_ended(self) -> Progress:
        """Without the groups that have ended."""
        kept = {scope: time for scope, time in self.scoped.items() if time != INFINITY}
        if len(kept) == len(self.scoped):
            return self
        open_ = {s: b for s, b in self.group_column_promises.items() if self.of(s) != INFINITY}
        columns = self.scope_columns if kept or open_ or self.areas else ()
        return Progress(self.cti, columns, kept, self.column_promises, open_, self.areas)

    def meet(self, other: Progress) -> Progress:
        """What both promise: the earlier of the two, group by group."""
        if self.areas.entries or other.areas.entries:
            return self._meet_areas(other)
        if not (self.scoped or other.scoped or self.column_promises or other.column_promises):
            earlier = self if self.cti <= other.cti else other
            plain = not (earlier.scope_columns or earlier.group_column_promises)
            return earlier if plain else Progress(earlier.cti)
        cti = min(self.cti, other.cti)
        column_promises = (
            self.column_promises
            if other.ended
            else other.column_promises
            if self.ended
            else meet_column_promises(self.column_promises, other.column_promises)
        )
        if not self.scoped and not other.scoped:
            return Progress(cti, column_promises=column_promises)
        if self.scoped and other.scoped and self.scope_columns != other.scope_columns:
            return Progress(cti, column_promises=column_promises)
        columns = self.scope_columns if self.scoped else other.scope_columns
        scopes = set(self.scoped) | set(other.scoped)
        return Progress(
            cti,
            columns,
            _above({s: min(self.of(s), other.of(s)) for s in scopes}, cti),
            column_promises,
        )

    def _meet_areas(self, other: Progress) -> Progress:
        columns = self.scope_columns or other.scope_columns
        if other.scope_columns not in (columns, ()):
            return replace(self, areas=NO_AREAS).meet(replace(other, areas=NO_AREAS))
        areas = self.areas.meet(other.areas, (self.cti, other.cti), columns)
        # One side may promise for an area, the other for one group in it.
        scopes = set(self.scoped) | set(other.scoped)
        scoped = {scope: min(self.of(scope), other.of(scope)) for scope in scopes}
        column_promises = (
            replace(self, areas=NO_AREAS).meet(replace(other, areas=NO_AREAS)).column_promises
        )
        cti = min(self.cti, other.cti)
        return Progress(cti, columns, _above(scoped, cti), column_promises, areas=areas)

    def without_groups(self) -> Progress:
        """The promises that hold for all groups."""
        if self.scoped or self.group_column_promises or self.areas.entries:
            return Progress(self.cti, column_promises=self.column_promises)
        return self

    def without_scopes(self) -> Progress:
        """The common promise alone."""
        if self.scoped or self.column_promises or self.group_column_promises or self.areas.entries:
            return Progress(self.cti)
        return self

    def naming(self, columns: tuple[str, ...]) -> Progress:
        """The same where its groups are named by these columns, otherwise without groups: a promise
        of two inputs may come to name its groups by other columns, as one of them goes on."""
        return self if self.scope_columns == columns else self.without_groups()

    def with_column_promises(self, column_promises: ColumnPromises) -> Progress:
        """The same with other promises over columns."""
        return Progress(
            self.cti,
            self.scope_columns,
            self.scoped,
            column_promises,
            self.group_column_promises,
            self.areas,
        )

    def without_column_promises(self) -> Progress:
        """Without promises over columns."""
        return self.with_column_promises({}) if self.column_promises else self

    def without_group_column_promises(self) -> Progress:
        """Without promises over columns that hold for one group alone."""
        return replace(self, group_column_promises={}) if self.group_column_promises else self


def _above(scoped: Mapping[Scope, int], cti: int) -> dict[Scope, int]:
    return {scope: time for scope, time in scoped.items() if time > cti}


NO_PROGRESS = Progress()


def scope_values(values: pa.Array) -> list[Any]:
    """Values of a column as parts of a scope: dictionary keys, with one NaN, so that it is found.

    >>> (scope_values(pa.array([float("nan")]))[0],) in {(math.nan,): 5}
    True
    """
    keys: list[Any] = python_values(values)
    if pa.types.is_floating(values.type):
        return [math.nan if key is not None and math.isnan(key) else key for key in keys]
    return keys
