"""Promises for groups: what a CTI of one group, or a promise for an area of groups, says about
rows, and about the groups of an index.

A group that has its own promise is freed by it: what an operator drops at a common CTI, it
drops of that group alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from thalweg.model.column_promises import rename_column_promises
from thalweg.model.progress import Progress, Scope, scope_values
from thalweg.model.rows import Codes, Rows, encode
from thalweg.model.time import INFINITY, MIN_TIME, Times
from thalweg.state import KeyIndex

__all__ = [
    "drop_ended",
    "groups_in_areas",
    "newly_promised",
    "newly_promised_groups",
    "promised_groups",
    "promises_of_rows",
    "promises_over",
    "scopes_of_rows",
]


def drop_ended(progress: list[Progress], latest: Progress) -> None:
    """Drop, from the promises of two inputs, the groups that both have ended: the last answer had
    their ends already. `latest` is the promise that came last."""
    left, right = progress
    if not latest.scoped or not left.scoped or left.scope_columns != right.scope_columns:
        return
    ended = {
        scope
        for scope, time in left.scoped.items()
        if time == INFINITY and right.of(scope) == INFINITY
    }
    if ended:
        for port, promised in enumerate(progress):
            kept = {scope: time for scope, time in promised.scoped.items() if scope not in ended}
            progress[port] = replace(promised, scoped=kept)


def newly_promised(before: Progress, now: Progress) -> dict[Scope, int]:
    """The groups with a promise of their own that has moved, apart from those that the common one
    has passed."""
    if before is now or not now.scoped:
        return {}
    before = before.naming(now.scope_columns)
    return {
        scope: time
        for scope, time in now.scoped.items()
        if time > before.of(scope) and time > now.cti
    }


def promised_groups(
    index: KeyIndex,
    fields: Sequence[pa.Field],
    columns: Sequence[str],
    promised: Mapping[Scope, int],
) -> tuple[Codes, Times]:
    """The groups of an index, keyed by `fields`, that promises over some of these columns speak
    of: group and time."""
    names = [field.name for field in fields]
    at = [names.index(column) for column in columns]
    values = [
        pa.array(list(column), fields[place].type)
        for place, column in zip(at, zip(*promised, strict=True), strict=True)
    ]
    group, which = index.having(at, values)
    return group, np.array(list(promised.values()), np.int64)[which]


def newly_promised_groups(
    index: KeyIndex,
    fields: Sequence[pa.Field],
    columns: Sequence[str],
    before: Progress,
    now: Progress,
) -> tuple[Codes, Times] | None:
    """The groups of an index, keyed by `fields`, whose promise has moved by itself: group and time.
    Promises name them by `columns`."""
    before = before.naming(now.scope_columns)
    promised = newly_promised(before, now)
    if now.areas is before.areas or not now.areas:
        return promised_groups(index, fields, columns, promised) if promised else None
    names = [field.name for field in fields]
    keys = index.columns(np.arange(len(index)))
    named = dict(zip(now.scope_columns, (keys[names.index(name)] for name in columns), strict=True))
    times = groups_in_areas(now, named, len(index))
    times[times <= groups_in_areas(before, named, len(index))] = MIN_TIME
    if promised:
        np.maximum.at(times, *promised_groups(index, fields, columns, promised))
    group = np.flatnonzero(times > now.cti)
    return group, times[group]


def groups_in_areas(progress: Progress, keys: Mapping[str, pa.Array], size: int) -> Times:
    """What area promises say of groups, given by a column of values for each key."""
    return progress.areas.of_columns(keys, size)


def promises_over(progress: Progress, keys: tuple[str, ...]) -> Progress:
    """What a promise says about groups that are made of these keys: promises for groups, and over
    columns, that name other columns say nothing about them."""
    if not (progress.scoped or progress.column_promises or progress.areas):
        return progress
    columns = rename_column_promises(progress.column_promises, {key: key for key in keys})
    if not set(progress.scope_columns) <= set(keys):
        return Progress(progress.cti, column_promises=columns)
    same = columns == progress.column_promises
    return progress if same else replace(progress, column_promises=columns)


def promises_of_rows(progress: Progress, rows: Rows, columns: Sequence[str]) -> Times:
    """The promise that holds for each row: the common one, or that of its group, which is named by
    these columns."""
    promised = np.full(rows.num_rows, progress.cti)
    if not rows.num_rows:
        return promised
    if progress.scoped:
        group, scopes = scopes_of_rows(rows, columns)
        own = [progress.scoped.get(scope, MIN_TIME) for scope in scopes]
        np.maximum(promised, np.array(own, np.int64)[group], out=promised)
    if progress.areas:
        named = zip(progress.scope_columns, map(rows.column, columns), strict=True)
        within = groups_in_areas(progress, dict(named), rows.num_rows)
        np.maximum(promised, within, out=promised)
    return promised


def scopes_of_rows(rows: Rows, columns: Sequence[str]) -> tuple[Codes, list[Scope]]:
    """The group of each row, as a number, and the values that name each group."""
    keys = [rows.column(name) for name in columns]
    group, count = encode(keys, rows.num_rows)
    representative = np.empty(count, np.int64)
    representative[group] = np.arange(rows.num_rows)
    named = [scope_values(key.take(pa.array(representative))) for key in keys]
    return group, list(zip(*named, strict=True))
