"""Rows by group: which groups a change touches, and the rows of those groups.

Kernels that recompute keep their rows in one weighted table. A batch touches some groups; the rows
of the others are put aside, the touched groups are evaluated before and after, and the difference
is the answer.
"""

from __future__ import annotations

import numpy as np

from thalweg.errors import LifetimeError, UnknownRowError
from thalweg.model.delta import Delta
from thalweg.model.rows import Codes, Rows, encode
from thalweg.model.time import INFINITY, greatest, least

__all__ = [
    "covered",
    "group_codes",
    "only_starts",
    "ranges",
    "refuse_negative",
    "units",
]


def group_codes(rows: Rows, keys: tuple[str, ...]) -> tuple[Codes, int]:
    """The group of each row, as a dense code."""
    return encode([rows.column(name) for name in keys], rows.num_rows)


def only_starts(delta: Delta) -> Delta:
    """Rows whose end does not matter: a change of an end is no change."""
    starts = Delta(delta.payload, delta.start, np.full(len(delta), INFINITY), delta.weight)
    return starts.consolidate() if len(delta) and least(delta.weight) < 1 else starts


_MOST_PLACES = 2**30
"""Windows, panes and pieces that one batch may reach: more do not fit any memory."""


def ranges(first: Codes, length: Codes) -> tuple[Codes, Codes]:
    """Every integer of [first, first + length) for each i: (which i, which integer)."""
    if np.count_nonzero(length == 1) == len(length):
        return np.arange(len(first)), first
    if greatest(length) > _MOST_PLACES // len(length) and (
        length.sum(dtype=np.float64) > _MOST_PLACES
    ):
        raise LifetimeError(
            f"a row of this batch reaches over {length.max():,} windows or pieces of time, the "
            f"batch over more than {_MOST_PLACES:,}, which no memory holds. Shorten the lifetimes "
            "before the window (set_duration, clip_by) or make the windows longer."
        )
    which = np.arange(len(first)).repeat(length)
    past: Codes = length.cumsum()
    begin = first + length - past
    return which, begin[which] + np.arange(len(which))


def covered(first: Codes, beyond: Codes) -> Codes:
    """Every integer of any of the ranges first .. beyond - 1, once and in order. Neither bound goes
    back from one range to the next.

    >>> covered(np.array([0, 1, 7]), np.array([2, 4, 9])).tolist()
    [0, 1, 2, 3, 7, 8]
    """
    new = np.ones(len(first), np.bool_)
    new[1:] = first[1:] > beyond[:-1]
    begins = new.nonzero()[0]
    ends = np.append(begins[1:], len(first)) - 1
    return ranges(first[begins], np.maximum(beyond[ends] - first[begins], 0))[1]


def units(rows: Delta) -> Delta:
    """Rows of weight one: a row of weight w as w rows."""
    if (rows.weight == 1).all():
        return rows
    many = rows.take(np.repeat(np.arange(len(rows)), rows.weight))
    return Delta(many.payload, many.start, many.end, np.ones(len(many), np.int64))


def refuse_negative(rows: Delta, where: str) -> None:
    """A row taken away that was never there: the input was not a legal stream."""
    bad = (rows.weight < 0).nonzero()[0]
    if len(bad):
        at = int(bad[0])
        row = rows.payload.slice(at, 1).to_pylist()[0]
        raise UnknownRowError(
            f"{where}: adjust of a row that was never inserted: {row} over [{rows.start[at]}, "
            f"{rows.end[at]})."
        )
