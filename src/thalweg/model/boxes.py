"""Boxes: promises over columns. A box {a: 5, b: 7} says of a stream that every row that still
changes has a >= 5 or b >= 7.

A box of one column is an individual punctuation on that column, a box of several a joint one. A
join makes them of the times its rows carry; an operator that groups by those columns, or makes one
of them its time, can close what lies inside. Every row that changes later has a value, not null, that reaches
its bound in some column of each box.

Boxes of one stream are held by their columns: `{("a", "b"): (5, 7)}`. They only grow.
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
    "Boxes",
    "box",
    "inside",
    "join_boxes",
    "lowest_corners",
    "meet_boxes",
    "merge_boxes",
    "rename_boxes",
]

Boxes: TypeAlias = Mapping[tuple[str, ...], tuple[int, ...]]

_CORNERS = 256
"""A promise is found by looking at the corners of all boxes together; with more than this many it
is not looked for."""


def box(bounds: Mapping[str, int]) -> dict[tuple[str, ...], tuple[int, ...]]:
    """One box, as boxes are held."""
    columns = tuple(sorted(bounds))
    return {columns: tuple(map(bounds.__getitem__, columns))}


def merge_boxes(earlier: Boxes, later: Boxes) -> Boxes:
    """The boxes of both; of two boxes over the same columns the later one, unless it is smaller.

    >>> merge_boxes({("a",): (3,)}, {("a",): (5,), ("a", "b"): (5, 1)})
    {('a',): (5,), ('a', 'b'): (5, 1)}
    """
    if not earlier or earlier is later:
        return later
    news = {
        columns: bounds
        for columns, bounds in later.items()
        if (earlier_bounds := earlier.get(columns)) is None or any(map(gt, bounds, earlier_bounds))
    }
    if not news:  # as most often
        return earlier
    merged = {**earlier, **news}
    return later if merged == later else merged


def meet_boxes(left: Boxes, right: Boxes) -> Boxes:
    """The promises that hold for the union of two streams: the smaller bounds, over columns that
    both have."""
    return {
        columns: tuple(map(min, left[columns], right[columns]))
        for columns in left.keys() & right.keys()
    }


def join_boxes(left_boxes: Boxes, right_boxes: Boxes) -> Boxes:
    """The promises that hold for the pairs of a join: every box of one side combined with every box
    of the other, since a pair changes only when one of its rows does."""
    pairs = product(left_boxes.items(), right_boxes.items())
    found: Boxes = {}
    for (left_columns, low), (right_columns, high) in pairs:
        if not set(left_columns) & set(right_columns):
            found = merge_boxes(
                found, box(dict(zip((*left_columns, *right_columns), (*low, *high), strict=True)))
            )
    return found


def rename_boxes(boxes: Boxes, names: Mapping[str, str]) -> Boxes:
    """The boxes with their columns renamed; boxes over removed columns are dropped. No two columns
    get the same name."""
    kept: dict[tuple[str, ...], tuple[int, ...]] = {}
    for columns, bounds in boxes.items():
        renamed = [names[column] for column in columns if column in names]
        if len(renamed) == len(columns):
            kept |= box(dict(zip(renamed, bounds, strict=True)))
    return kept


def inside(boxes: Boxes, rows: Rows) -> Bools:
    """Which rows lie in one of the boxes, and so will not change any more."""
    settled = np.zeros(rows.num_rows, np.bool_)
    for columns, bounds in boxes.items():
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


def lowest_corners(boxes: Boxes, columns: Sequence[str]) -> list[dict[str, int]]:
    """The lowest values that a row may have which still changes: it lies outside each box, by one
    of its columns.

    >>> lowest_corners({("a",): (2,), ("a", "b"): (5, 7)}, ["a", "b"]) == [{"a": 5, "b": MIN_TIME}, {"a": 2, "b": 7}]
    True
    """
    useful = [
        list(zip(names, bounds, strict=True))
        for names, bounds in boxes.items()
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
