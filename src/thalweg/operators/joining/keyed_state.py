"""The rows of two inputs, each in an arrangement, under one index of keys: the state of joins and
clips.

A promise for a group of one input frees rows of that group: `groups_promised` finds these groups
in the index, where the group is named by columns that are keys.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from thalweg.model.progress import Progress, Scope
from thalweg.model.rows import Codes, Rows
from thalweg.model.time import Times
from thalweg.operators.group_promises import (
    newly_promised_groups,
    promised_groups,
    promises_of_rows,
)
from thalweg.operators.indexed_arrangements import IndexedArrangements
from thalweg.operators.joining.matching import KeyedSide
from thalweg.state import Arrangement, Hits, KeyIndex

__all__ = ["KeyedState"]

_SIDES = ("left", "right")


class KeyedState(IndexedArrangements):
    def __init__(
        self,
        sides: tuple[KeyedSide, KeyedSide],
        same: tuple[str, ...],
        *,
        schemas: tuple[pa.Schema, pa.Schema] | None = None,
        marks: tuple[int, int] = (0, 0),
        what: str,
    ) -> None:
        """`schemas` are those of the rows that are held, where they are not those of the sides."""
        self._sides = sides
        self._same = same
        self.keys = (*sides[0].key_names, *same)
        self._fields = [sides[0].schema.field(name) for name in self.keys]
        schemas = schemas or (sides[0].schema, sides[1].schema)
        held = {
            name: Arrangement(schema, self.groups, marks=count, what=what)
            for name, schema, count in zip(_SIDES, schemas, marks, strict=True)
        }
        super().__init__(KeyIndex(self._fields), held)

    def groups(self, rows: Rows) -> Codes:
        """The number of each row's key."""
        return self.index.numbers([rows.column(name) for name in self.keys], rows.num_rows)

    def _key_columns(self, port: int, progress: Progress) -> list[str] | None:
        """The keys that the columns of promises for groups are; None where one is no key."""
        key_of = self._sides[port].key_of | {name: name for name in self._same}
        found = [key_of.get(column) for column in progress.scope_columns]
        named = [column for column in found if column is not None]
        return named if len(named) == len(found) else None

    def names_groups(self, progress: Progress) -> bool:
        """Whether the columns of promises for groups of the left side are keys."""
        return self._key_columns(0, progress) is not None

    def groups_promised(
        self, port: int, before: Progress, now: Progress
    ) -> tuple[Codes, Times] | None:
        """The groups whose promise by one input has moved: group and time."""
        columns = self._key_columns(port, now) if now.speaks_of_groups else None
        if columns is None:
            return None
        found = newly_promised_groups(self.index, self._fields, columns, before, now)
        return None if found is None or not len(found[0]) else found

    def groups_of_scopes(
        self, columns: tuple[str, ...], scopes: list[Scope]
    ) -> tuple[Codes, Codes]:
        """The groups that scopes over columns of the left side name: group, and which scope."""
        keys = self._key_columns(0, Progress(scope_columns=columns))
        assert keys is not None
        return promised_groups(
            self.index, self._fields, keys, dict(zip(scopes, range(len(scopes)), strict=True))
        )

    def scope_keys(self, progress: Progress, rows: Hits) -> dict[str, pa.Array]:
        """The values of held rows that name the groups of promises, by column of the left side."""
        names = self._key_columns(0, progress)
        assert names is not None
        keys = rows.payload(names)
        return dict(zip(progress.scope_columns, keys.columns, strict=True))

    def promised_to(self, port: int, progress: Progress, rows: Rows) -> Times:
        """What one input promises for the keys of rows of the other."""
        columns = self._key_columns(port, progress) if progress.speaks_of_groups else None
        if columns is None:
            return np.full(rows.num_rows, progress.cti)
        return promises_of_rows(progress, rows, columns)
