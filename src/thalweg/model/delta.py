"""A delta: changes to the table as weighted rows, the form in which stateful kernels compute.

    insert(p, s, e)      ->  +1 (p, s, e)
    adjust(p, s, e, n)   ->  -1 (p, s, e)  +1 (p, s, n)        (only the first when n == s)

The table after a prefix of the stream is the sum of its deltas. Going back, `to_batch` pairs each
leaving row with an arriving row of equal payload and start into one adjust; what stays unpaired
becomes an insert or a full removal. The pairing matters for promises: a row that started before a
CTI may change its end but may not be removed and put back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.model.rows import Bools, Codes, Rows, concat_rows, empty_rows, encode, take_rows
from thalweg.model.sorting import sort_pairs
from thalweg.model.time import Times, greatest, least

__all__ = ["Delta", "MovedEnds", "Weights"]

Weights = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Delta:
    payload: Rows
    start: Times
    end: Times
    weight: Weights

    @classmethod
    def empty(cls, schema: pa.Schema) -> Delta:
        none = np.empty(0, np.int64)
        return cls(empty_rows(schema), none, none, none)

    @classmethod
    def of_batch(cls, batch: Batch) -> Delta:
        """The changes a batch makes."""
        if batch.is_adjust is None or batch.new_end is None:
            return cls(batch.payload, batch.start, batch.end, np.ones(len(batch), np.int64))
        leaving = np.flatnonzero(batch.is_adjust)
        final_end = np.where(batch.is_adjust, batch.new_end, batch.end)
        arriving = np.flatnonzero(~batch.is_adjust | (batch.new_end > batch.start))
        which = np.concatenate([leaving, arriving])
        weight = np.ones(len(which), np.int64)
        weight[: len(leaving)] = -1
        end = np.concatenate([batch.end[leaving], final_end[arriving]])
        return cls(take_rows(batch.payload, which), batch.start[which], end, weight)

    @classmethod
    def concat(cls, parts: Sequence[Delta], schema: pa.Schema) -> Delta:
        full = [part for part in parts if len(part)]
        if not full:
            return cls.empty(schema)
        if len(full) == 1:
            return full[0]
        return cls(
            concat_rows([part.payload for part in full], schema),
            np.concatenate([part.start for part in full]),
            np.concatenate([part.end for part in full]),
            np.concatenate([part.weight for part in full]),
        )

    def __len__(self) -> int:
        return len(self.start)

    @property
    def schema(self) -> pa.Schema:
        return self.payload.schema

    @property
    def nbytes(self) -> int:
        return int(self.payload.nbytes) + self.start.nbytes + self.end.nbytes + self.weight.nbytes

    def take(self, which: Codes) -> Delta:
        return Delta(
            take_rows(self.payload, which), self.start[which], self.end[which], self.weight[which]
        )

    def filter(self, mask: Bools) -> Delta:
        which = mask.nonzero()[0]
        return self if len(which) == len(mask) else self.take(which)

    def negate(self) -> Delta:
        return Delta(self.payload, self.start, self.end, -self.weight)

    def consolidate(self) -> Delta:
        """Equal rows become one with the sum of their weights; rows that cancel out are gone."""
        if len(self) < 2:
            return self.filter(self.weight != 0)
        keep, weight = self.consolidation()
        if len(keep) == len(self):
            return self
        kept = self.take(keep)
        return Delta(kept.payload, kept.start, kept.end, weight)

    def consolidation(self) -> tuple[Codes, Weights]:
        """The rows that stay when equal ones become one, by position, and their weights."""
        codes, size = encode([*self.payload.columns, self.start, self.end], len(self))
        if size == len(self):
            keep = np.flatnonzero(self.weight)
            return keep, self.weight[keep]
        total = np.zeros(size, np.int64)
        np.add.at(total, codes, self.weight)
        if not np.count_nonzero(total):
            return _NONE, _NONE
        first = np.empty(size, np.int64)
        first[codes[::-1]] = np.arange(len(self) - 1, -1, -1)
        keep = np.sort(first[total != 0])
        return keep, total[codes[keep]]

    def to_batch(self, progress: Progress = NO_PROGRESS) -> Batch:
        """The elements that make these changes."""
        if not len(self):
            return Batch.empty(self.schema, progress)
        net = self if least(self.weight) > 0 else self.consolidate()
        if not len(net):
            return Batch.empty(self.schema, progress)
        if least(net.weight) == greatest(net.weight) == 1:
            return Batch(net.payload, net.start, net.end, progress=progress)
        unit = np.repeat(np.arange(len(net)), np.abs(net.weight))
        leaves = net.weight[unit] < 0
        if not leaves.any():
            return Batch(
                take_rows(net.payload, unit), net.start[unit], net.end[unit], progress=progress
            )
        return _pair(net, unit[leaves], unit[~leaves], progress)


@dataclass(frozen=True, slots=True)
class MovedEnds:
    """Rows that are there, of positive weight, and the other end that each of them gets: a change
    that needs no search for what leaves and what arrives instead."""

    rows: Delta
    end: Times

    def to_batch(self, progress: Progress = NO_PROGRESS) -> Batch:
        rows, end = self.rows, self.end
        if not len(rows):
            return Batch.empty(rows.schema, progress)
        if greatest(rows.weight) > 1:
            unit = np.repeat(np.arange(len(rows)), rows.weight)
            rows, end = rows.take(unit), end[unit]
        adjusts = np.ones(len(rows), np.bool_)
        return Batch(rows.payload, rows.start, rows.end, end, adjusts, progress)


_NONE = np.empty(0, np.int64)


def _pair(net: Delta, leaving: Codes, arriving: Codes, progress: Progress) -> Batch:
    row, _ = encode([*net.payload.columns, net.start], len(net))
    leaving, leaving_rank = _ranked(net, row, leaving)
    arriving, arriving_rank = _ranked(net, row, arriving)
    span = int(max(leaving_rank.max(initial=0), arriving_rank.max(initial=0))) + 1
    leaving_key, arriving_key = (
        row[leaving] * span + leaving_rank,
        row[arriving] * span + arriving_rank,
    )
    # Both are in order and without repetition.
    at = np.searchsorted(arriving_key, leaving_key)
    meets = np.zeros(len(leaving), np.bool_)
    inside = at < len(arriving)
    meets[inside] = arriving_key[at[inside]] == leaving_key[inside]
    lone = np.ones(len(arriving), np.bool_)
    lone[at[meets]] = False
    lone_leaving, lone_arriving = leaving[~meets], arriving[lone]
    which = np.concatenate([leaving[meets], lone_leaving, lone_arriving])
    new_end = np.concatenate(
        [net.end[arriving[at[meets]]], net.start[lone_leaving], net.end[lone_arriving]]
    )
    adjusts = np.arange(len(which)) < len(leaving)
    return Batch(
        take_rows(net.payload, which), net.start[which], net.end[which], new_end, adjusts, progress
    )


def _ranked(net: Delta, row: Codes, which: Codes) -> tuple[Codes, Codes]:
    """Positions ordered by row and end, with each one's rank among its row."""
    order = which[sort_pairs(row[which], net.end[which])]
    group = row[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = group[1:] != group[:-1]
    begins = new.nonzero()[0]
    rank = np.arange(len(order)) - begins[new.cumsum() - 1] if len(order) else _NONE
    return order, rank
