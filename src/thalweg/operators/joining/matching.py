"""Matching the rows of two sides by equal keys: the shared ground of joins and clips.

Null keys match nothing; group columns (`same`) match when they are identical, null included. Rows
are held with their keys evaluated once, as columns `_key0`, `_key1`, ... at the end; a key that is
the same column on both sides is that column.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import pyarrow as pa

from thalweg.expr import Column, Expr
from thalweg.model.delta import Delta, Revision
from thalweg.model.rows import Bools, Codes, Rows, encode_together
from thalweg.operators.frames import frame_of
from thalweg.plan.nodes import lifetime_schema

__all__ = ["KeyedSide", "key_codes", "keyed_sides", "touched_by"]

Changes = TypeVar("Changes", Delta, Revision)


class KeyedSide:
    """How one side's rows are held: payload columns, then key columns in a type both sides
    share."""

    def __init__(
        self,
        schema: pa.Schema,
        keys: tuple[Expr, ...],
        names: tuple[str, ...],
        types: tuple[pa.DataType, ...],
    ) -> None:
        self.payload_schema = schema
        self.key_names = names
        self.key_of = {
            key.name: name for key, name in zip(keys, names, strict=True) if isinstance(key, Column)
        }
        """The key that a column of this side is."""
        self._made = tuple(
            (key, name, kind)
            for key, name, kind in zip(keys, names, types, strict=True)
            if name not in schema.names
        )
        self._used = frozenset(column for key, _, _ in self._made for column in key.columns())
        self.schema = pa.schema([*schema, *(pa.field(name, kind) for _, name, kind in self._made)])

    def project(self, changes: Changes, *, only_matchable: bool = False) -> Changes:
        """The changes with their keys; `only_matchable` leaves out rows with a null key, which
        nothing can match."""
        keyed = changes
        if self._made:
            frame = frame_of(changes.payload, changes.start, self._used)
            made: list[pa.Array] = [
                _in_type(key.evaluate(frame), kind) for key, _, kind in self._made
            ]
            keyed = changes.with_payload(
                pa.RecordBatch.from_arrays([*changes.payload.columns, *made], schema=self.schema)
            )
        if only_matchable and any(keyed.payload.column(name).null_count for name in self.key_names):
            return keyed.filter(self.matchable(keyed.payload))
        return keyed

    def unmatchable(self, delta: Delta) -> Delta:
        """The changes of rows with a null key, without their keys."""
        keyed = self.project(delta)
        return delta.filter(~self.matchable(keyed.payload))

    def matchable(self, keyed: Rows) -> Bools:
        """Which rows, with their keys, have none that is null."""
        valid = np.ones(keyed.num_rows, np.bool_)
        for name in self.key_names:
            valid &= keyed.column(name).is_valid().to_numpy(zero_copy_only=False)
        return valid

    def payload(self, rows: Rows) -> Rows:
        """The rows without their keys."""
        if not self._made:
            return rows
        width = len(self.payload_schema)
        return pa.RecordBatch.from_arrays(rows.columns[:width], schema=self.payload_schema)


def _in_type(values: pa.Array, kind: pa.DataType) -> pa.Array:
    return values if values.type == kind else values.cast(kind)


def keyed_sides(
    schemas: tuple[pa.Schema, pa.Schema],
    left_keys: tuple[Expr, ...],
    right_keys: tuple[Expr, ...],
    same: tuple[str, ...],
) -> tuple[KeyedSide, KeyedSide]:
    """Both sides, with one name and one type for each key."""
    names: list[str] = []
    types: list[pa.DataType] = []
    for left_key, right_key in zip(left_keys, right_keys, strict=True):
        left_type, right_type = (
            left_key.type_in(lifetime_schema(schemas[0])),
            right_key.type_in(lifetime_schema(schemas[1])),
        )
        if left_type == right_type or pa.types.is_null(right_type):
            types.append(left_type)
        else:
            types.append(right_type if pa.types.is_null(left_type) else pa.int64())
        column = (
            left_key.name
            if isinstance(left_key, Column)
            and isinstance(right_key, Column)
            and left_key.name == right_key.name
            and left_type == right_type
            else None
        )
        shared = column is not None and column != "_start" and column not in (*names, *same)
        new_name = f"_key{len(names)}"
        while any(new_name in schema.names for schema in schemas):
            new_name = f"_{new_name}"  # no name of a user's column is taken
        names.append(column if shared and column is not None else new_name)
    left, right = (
        KeyedSide(schema, keys, tuple(names), tuple(types))
        for schema, keys in zip(schemas, (left_keys, right_keys), strict=True)
    )
    return left, right


def key_codes(
    left: Rows, right: Rows, names: tuple[str, ...], same: tuple[str, ...]
) -> tuple[Codes, Codes]:
    """Key codes of both sides; rows with a null key get -1."""
    columns = (*names, *same)
    if not columns:
        return np.zeros(left.num_rows, np.int64), np.zeros(right.num_rows, np.int64)
    sizes = (left.num_rows, right.num_rows)
    left_codes, right_codes, _ = encode_together(
        [left.column(n) for n in columns], [right.column(n) for n in columns], sizes
    )
    for rows, codes in ((left, left_codes), (right, right_codes)):
        for name in names:
            column = rows.column(name)
            if column.null_count:
                codes[column.is_null().to_numpy(zero_copy_only=False)] = -1
    return left_codes, right_codes


def touched_by(rows: Rows, changes: Rows, names: tuple[str, ...], same: tuple[str, ...]) -> Bools:
    """Which rows have a key that one of the changes has."""
    if not rows.num_rows or not changes.num_rows:
        return np.zeros(rows.num_rows, np.bool_)
    own, changed = key_codes(rows, changes, names, same)
    hit = np.zeros(int(max(own.max(), changed.max())) + 2, np.bool_)
    hit[changed[changed >= 0]] = True
    return (own >= 0) & hit[own]
