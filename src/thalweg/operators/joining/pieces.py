"""Rows in pieces: the maximal parts of a lifetime that other lifetimes cover, or do not cover.

    covered:    [since, until) ∩ the union of the cover, as maximal pieces
    uncovered:  [since, until) minus that union

Duplicates of a lifetime cover once. A row may have had a piece open at `since`, which began at
`begin`, before all of the cover that is still held.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from thalweg.model.delta import ABSENT, Weights
from thalweg.model.rows import Bools, Codes
from thalweg.model.sorting import sort_pairs
from thalweg.model.time import Times

__all__ = ["Cover", "Pieces", "RowSpans", "pieces_of", "revised_pieces"]


class RowSpans(NamedTuple):
    """The part of each row that is looked at, and where the piece that is open at its begin
    began."""

    since: Times
    until: Times
    begin: Times


class Cover(NamedTuple):
    """Pairs of a row and the lifetime of a match; the weights of a lifetime add up."""

    owner: Codes
    start: Times
    end: Times
    weight: Weights


class Pieces(NamedTuple):
    """Pieces of rows: which row, and the lifetime of the piece."""

    row: Codes
    start: Times
    end: Times


class _Stretches(NamedTuple):
    """Rows cut where their cover changes, in order."""

    row: Codes
    start: Times
    end: Times
    first: Bools
    """By version of the cover and stretch: whether a piece begins there ..."""
    last: Bools
    """... and whether a piece ends there."""


def pieces_of(rows: RowSpans, cover: Cover, *, covered: bool) -> Pieces:
    """The maximal pieces of each row that are covered or not.

    >>> times = [np.array([at]) for at in (0, 9, 0)]
    >>> match = Cover(*(np.array([at]) for at in (0, 3, 5, 1)))
    >>> pieces_of(RowSpans(*times), match, covered=False).end.tolist()
    [3, 9]
    """
    if not len(cover.owner):
        row = (rows.until > rows.since).nonzero()[0] if not covered else cover.owner
        return Pieces(row, rows.begin[row], rows.until[row])
    cuts = _cut(rows, [cover], covered=covered)
    first, last = cuts.first[0].nonzero()[0], cuts.last[0].nonzero()[0]
    row = cuts.row[first]
    return Pieces(row, _begins(cuts.start[first], rows, row), cuts.end[last])


def revised_pieces(
    rows: RowSpans, before: Cover, change: Cover, *, covered: bool
) -> tuple[Pieces, Times]:
    """The pieces that a change of the cover alters, with their ends before it, and their ends after
    it; `ABSENT` where a piece is not there. All rows are cut once, and each stretch belongs to a
    piece before the change, to one after it, or to both."""
    cuts = _cut(rows, [before, change], covered=covered)
    ends = np.full(cuts.first.shape, ABSENT)
    ends[cuts.first] = cuts.end[cuts.last.nonzero()[1]]
    at = (ends[0] != ends[1]).nonzero()[0]
    row = cuts.row[at]
    return Pieces(row, _begins(cuts.start[at], rows, row), ends[0, at]), ends[1, at]


def _begins(time: Times, rows: RowSpans, row: Codes) -> Times:
    """Where pieces that are there from a time on began."""
    return np.where(time == rows.since[row], rows.begin[row], time)


def _cut(rows: RowSpans, covers: list[Cover], *, covered: bool) -> _Stretches:
    """Cut each row where its cover changes. There is a version of each row for each cover: it is
    covered by that and all covers before it."""
    size, since = len(rows.since), rows.since
    every, until = np.arange(size), np.maximum(since, rows.until)
    owners, times = [every, every], [since, until]
    for cover in covers:
        owners += (cover.owner, cover.owner)
        times += (cover.start, cover.end)
    owner, time = np.concatenate(owners), np.concatenate(times)
    time = np.minimum(np.maximum(time, since[owner]), until[owner])
    change = np.zeros((len(covers), len(owner)), np.int64)
    at = 2 * size
    for version, cover in enumerate(covers):
        middle, end = at + len(cover.owner), at + 2 * len(cover.owner)
        change[version:, at:middle] = cover.weight
        change[version:, middle:end] = -cover.weight
        at = end
    order = sort_pairs(owner, time)
    owner, time = owner[order], time[order]
    depth = change[:, order].cumsum(axis=1)
    # The last change at a time is followed by a stretch up to the next time of the same row.
    at = ((owner[1:] == owner[:-1]) & (time[1:] > time[:-1])).nonzero()[0]
    row, depth = owner[at], depth[:, at]
    inside: Bools = depth > 0 if covered else depth == 0
    goes_on = inside[:, 1:] & inside[:, :-1] & (row[1:] == row[:-1])
    first, last = inside.copy(), inside.copy()
    first[:, 1:] ^= goes_on  # both sides of it belong to pieces
    last[:, :-1] ^= goes_on
    return _Stretches(row, time[at], time[at + 1], first, last)
