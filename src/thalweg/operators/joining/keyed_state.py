"""The rows of two inputs, each in an arrangement, under one index of keys: the state of joins and
clips.

A promise for a group of one input frees rows of that group: `groups_promised` finds these groups
in the index, where the group is named by columns that are keys.
"""

from __future__ import annotations

from collections.abc import Mapping

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
from thalweg.operators.joining.matching import KeyedSide
from thalweg.state import Arrangement, Hits, KeyIndex, Slices, StateSize

__all__ = ["KeyedState"]

_SIDES = ("left", "right")


class KeyedState:
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
        self.index = KeyIndex(self._fields)
        schemas = schemas or (sides[0].schema, sides[1].schema)
        self.held = tuple(
            Arrangement(schema, self.groups, marks=count, what=what)
            for schema, count in zip(schemas, marks, strict=True)
        )

    def groups(self, rows: Rows) -> Codes:
        """The number of each row's key."""
        return self.index.numbers([rows.column(name) for name in self.keys], rows.num_rows)

    def tidy(self) -> None:
        """Forget keys without rows, when the index has doubled."""
        if self.index.is_untidy:
            used = np.union1d(self.held[0].groups(), self.held[1].groups())
            moved = self.index.keep(used)
            for held in self.held:
                held.renumber(moved)

    def clear(self) -> None:
        for held in self.held:
            held.clear()
        self.index.clear()

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

    def snapshot(self) -> Slices:
        return {
            name: rows
            for side, held in zip(_SIDES, self.held, strict=True)
            for name, rows in held.snapshot(side).items()
        }

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self.index.clear()
        for side, held in zip(_SIDES, self.held, strict=True):
            held.restore(side, slices)

    def size(self) -> StateSize:
        return self.held[0].size() + self.held[1].size()
