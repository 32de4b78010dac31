"""Partitions of the state of a window operator: the groups of some columns, by number; and the new
promises for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.model.progress import NO_PROGRESS, Progress, Scope, scope_values
from thalweg.model.python_rows import column_of
from thalweg.model.rows import Codes, Rows, encode_together
from thalweg.model.time import Times
from thalweg.operators.group_promises import groups_in_areas
from thalweg.state import KeyIndex

__all__ = ["GroupPromises", "Partitions"]


@dataclass(frozen=True, slots=True)
class GroupPromises:
    """New promises for groups: their scopes and times; and pairs (which promise, partition)."""

    columns: tuple[str, ...]
    scopes: list[Scope]
    times: Times
    which: Codes
    partition: Codes

    @property
    def time(self) -> Times:
        """The promise of each partition."""
        return self.times[self.which]


class Partitions:
    """Partitions of the state by number.

    >>> partitions = Partitions(pa.schema([("k", pa.string()), ("v", pa.int64())]), ("k",))
    >>> partitions.of_rows(pa.RecordBatch.from_pydict({"k": ["a", "b", "a"], "v": [1, 2, 3]}))
    array([0, 1, 0])
    >>> [found.tolist() for found in partitions.of_scopes(("k",), [("b",), ("c",)])]
    [[0, 1], [1, 2]]
    """

    def __init__(self, schema: pa.Schema, columns: tuple[str, ...]) -> None:
        self.columns = columns
        self.fields = [schema.field(name) for name in columns]
        self.index = KeyIndex(self.fields)
        self._seen: Mapping[Scope, int] = {}
        self._seen_areas = NO_PROGRESS

    def clear(self) -> None:
        self.index.clear()
        self._seen = {}
        self._seen_areas = NO_PROGRESS

    def promised(self, progress: Progress, rows: Rows | None = None) -> GroupPromises:
        """Promises for groups that are new, where what is held of one group needs no other. Of an
        area of groups, a promise for each that is held or among `rows`; and of a group that is
        named by some columns, one for each of its parts there."""
        named, columns = progress.scoped, progress.scope_columns
        if not (named or progress.areas) or not set(columns) <= set(self.columns):
            return _NO_PROMISES
        described = progress.areas and progress.areas != self._seen_areas.areas
        if named is self._seen and not described:
            return _NO_PROMISES
        seen, self._seen = self._seen, named
        scopes = [scope for scope, time in named.items() if seen.get(scope) != time]
        if rows is not None and (described or len(columns) < len(self.columns)):
            self.of_rows(rows)
        if described:
            scopes = list(dict.fromkeys([*scopes, *self._in_areas(progress)]))
        if not scopes:
            return _NO_PROMISES
        times = np.array([progress.of(scope) for scope in scopes], np.int64)
        return GroupPromises(columns, scopes, times, *self.of_scopes(columns, scopes))

    def _in_areas(self, progress: Progress) -> list[Scope]:
        """The groups for which area promises say more than before."""
        size = len(self.index)
        keys = dict(zip(self.columns, self.index.columns(np.arange(size)), strict=True))
        before = groups_in_areas(self._seen_areas, keys, size)
        now = groups_in_areas(progress, keys, size)
        self._seen_areas = Progress(areas=progress.areas)
        moved = pa.array(np.flatnonzero(now > np.maximum(before, progress.cti)))
        named = [scope_values(keys[name].take(moved)) for name in progress.scope_columns]
        return list(zip(*named, strict=True))

    def of_rows(self, rows: Rows) -> Codes:
        return self.index.numbers([rows.column(name) for name in self.columns], rows.num_rows)

    def of_scopes(
        self, columns: tuple[str, ...], scopes: Sequence[tuple[Any, ...]]
    ) -> tuple[Codes, Codes]:
        """Pairs (which scope, partition) of scopes and their partitions."""
        values = dict(zip(columns, zip(*scopes, strict=True), strict=True))
        types = {field.name: field.type for field in self.fields}
        keys = {name: column_of(column, types[name]) for name, column in values.items()}
        if set(columns) == set(self.columns):
            found = self.index.numbers([keys[name] for name in self.columns], len(scopes))
            return np.arange(len(scopes)), found
        every = self.index.columns(np.arange(len(self.index)))
        held = [every[self.columns.index(name)] for name in columns]
        own, named, size = encode_together(
            held, [keys[name] for name in columns], (len(self.index), len(scopes))
        )
        which = np.full(size, -1)
        which[named] = np.arange(len(scopes))
        partition = np.flatnonzero(which[own] >= 0)
        return which[own][partition], partition

    def named(self, numbers: Codes) -> list[pa.Array]:
        """The columns of some partitions."""
        return self.index.columns(numbers)


_NONE = np.empty(0, np.int64)
_NO_PROMISES = GroupPromises((), [], _NONE, _NONE, _NONE)
