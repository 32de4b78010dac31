"""Column promises: every row that still changes reaches a bound in one of some columns.

The column promise {a: 5, b: 7} says of a stream that every row that still changes has a >= 5 or
b >= 7, in a value that is not null. Over one column that is an individual punctuation, over
several a joint one.

A join makes column promises of the times that its rows carry; an operator that groups by those
columns, or makes one of them its time, can close the answers below the bounds.

The promises of one stream are held by their columns: `{("a", "b"): (5, 7)}`. Bounds only grow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from operator import gt
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from thalweg.model.rows import Bools, Rows
from thalweg.model.time import MIN_TIME

__all__ = [
    "ColumnPromises",
    "column_promise",
    "inside",
    "join_column_promises",
    "lowest_corners",
    "meet_column_promises",
    "merge_column_promises",
    "rename_column_promises",
]

ColumnPromises: TypeAlias = Mapping[tuple[str, ...], tuple[int, ...]]

_CORNERS = 256
"""A promise is found by looking at the corners of all column promises together; with more than this
many it is not looked for."""


def column_promise(bounds: Mapping[str, int]) -> dict[tuple[str, ...], tuple[int, ...]]:
    """The promise that every row that still changes reaches one of these bounds."""
    columns = tuple(sorted(bounds))
    return {columns: tuple(map(bounds.__getitem__, columns))}


def merge_column_promises(earlier: ColumnPromises, later: ColumnPromises) -> ColumnPromises:
    """The column promises of both; over the same columns the later one,
    unless it is smaller.

    >>> merge_column_promises({("a",): (3,)}, {("a",): (5,), ("a", "b"): (5, 1)})
    {('a',): (5,), ('a', 'b'): (5, 1)}
    """
    if not earlier or earlier is later:
        return later
    newer = {
        columns: bounds
        for columns, bounds in later.items()
        if (earlier_bounds := earlier.get(columns)) is None or any(map(gt, bounds, earlier_bounds))
    }
    if not newer:  # as most often
        return earlier
    merged = {**earlier, **newer}
    return later if merged == later else merged


def meet_column_promises(left: ColumnPromises, right: ColumnPromises) -> ColumnPromises:
    """The promises that hold for the union of two streams: the smaller bounds, over columns that
    both have."""
    return {
        columns: tuple(map(min, left[columns], right[columns]))
        for columns in left.keys() & right.keys()
    }


def join_column_promises(left: ColumnPromises, right: ColumnPromises) -> ColumnPromises:
    """The promises that hold for the pairs of a join: each of one side combined with
    each of the other, since a pair changes only when one of its rows does."""
    pairs = product(left.items(), right.items())
    found: ColumnPromises = {}
    for (left_columns, low), (right_columns, high) in pairs:
        if not set(left_columns) & set(right_columns):
            found = merge_column_promises(
                found,
                column_promise(
                    dict(zip((*left_columns, *right_columns), (*low, *high), strict=True))
                ),
            )
    return found


def rename_column_promises(promises: ColumnPromises, names: Mapping[str, str]) -> ColumnPromises:
    """The promises with their columns renamed; those over removed columns are dropped. No two
    columns get the same name."""
    kept: dict[tuple[str, ...], tuple[int, ...]] = {}
    for columns, bounds in promises.items():
        renamed = [names[column] for column in columns if column in names]
        if len(renamed) == len(columns):
            kept |= column_promise(dict(zip(renamed, bounds, strict=True)))
    return kept


def inside(promises: ColumnPromises, rows: Rows) -> Bools:
    """Which rows lie below all bounds of a promise, and so do not change any more."""
    settled = np.zeros(rows.num_rows, np.bool_)
    for columns, bounds in promises.items():
        if bounds and all(column in rows.schema.names for column in columns):
            within = np.ones(rows.num_rows, np.bool_)
            for column, bound in zip(columns, bounds, strict=True):
                values = rows.column(column)
                if pa.types.is_timestamp(values.type):  # bounds are in ticks
                    values = values.cast(pa.timestamp("us")).cast(pa.int64())
                present = (
                    values.is_valid().to_numpy(zero_copy_only=False) if values.null_count else True
                )
                within &= present & (values.fill_null(0).to_numpy(zero_copy_only=False) < bound)
            settled |= within
    return settled


def lowest_corners(promises: ColumnPromises, columns: Sequence[str]) -> list[dict[str, int]]:
    """The lowest values that a row may have which still changes: of each promise it
    reaches the bound of one column.

    >>> corners = lowest_corners({("a",): (2,), ("a", "b"): (5, 7)}, ["a", "b"])
    >>> corners == [{"a": 5, "b": MIN_TIME}, {"a": 2, "b": 7}]
    True
    """
    useful = [
        list(zip(names, bounds, strict=True))
        for names, bounds in promises.items()
        if set(names) <= set(columns)
    ]
    size = 1
    for choices in useful:
        size *= len(choices)
    if size > _CORNERS:
        return [dict.fromkeys(columns, MIN_TIME)]
    corners = []
    for choice in product(*useful):
        corner = dict.fromkeys(columns, MIN_TIME)
        for column, bound in choice:
            corner[column] = max(corner[column], bound)
        corners.append(corner)
    return corners
