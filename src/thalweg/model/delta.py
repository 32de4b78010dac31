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
from thalweg.model.rows import Bools, Codes, Rows, concat_rows, empty_rows, encode, ones, take_rows
from thalweg.model.sorting import sort_pairs
from thalweg.model.time import MIN_TIME, Times, greatest, least

__all__ = ["ABSENT", "Delta", "MovedEnds", "Revision", "Weights"]

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
            return cls(batch.payload, batch.start, batch.end, ones(len(batch)))
        leaving = batch.is_adjust.nonzero()[0]
        final_end = np.where(batch.is_adjust, batch.new_end, batch.end)
        arriving = (~batch.is_adjust | (batch.new_end > batch.start)).nonzero()[0]
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

    def slice(self, begin: int, end: int) -> Delta:
        """Rows that stand side by side, without copying them."""
        payload = self.payload.slice(begin, end - begin)
        return Delta(payload, self.start[begin:end], self.end[begin:end], self.weight[begin:end])

    def reweighted(self, which: Codes, weight: Weights) -> Delta:
        """The rows at these positions, with other weights."""
        return Delta(take_rows(self.payload, which), self.start[which], self.end[which], weight)

    def filter(self, mask: Bools) -> Delta:
        which = mask.nonzero()[0]
        if len(which) == len(mask):
            return self
        return self.take(which) if len(which) else self.slice(0, 0)

    def with_payload(self, payload: Rows) -> Delta:
        return Delta(payload, self.start, self.end, self.weight)

    def negate(self) -> Delta:
        return Delta(self.payload, self.start, self.end, -self.weight)

    def consolidate(self) -> Delta:
        """Equal rows become one with the sum of their weights; rows that cancel out are gone."""
        if len(self) < 2:
            return self.filter(self.weight != 0)
        keep, weight = self.consolidation()
        if len(keep) == len(self):
            return self
        return self.reweighted(keep, weight)

    def consolidation(self) -> tuple[Codes, Weights]:
        """The rows that stay when equal ones become one, by position, and their weights."""
        codes, size = encode([*self.payload.columns, self.start, self.end], len(self))
        if size == len(self):
            keep = self.weight.nonzero()[0]
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
        if least(self.weight) > 0:
            return self._inserts(progress)
        if len(self) <= _FEW:
            return self._changes(progress)
        # Of many rows most may cancel out; those are not worth sorting.
        net = self.consolidate()
        if not len(net):
            return Batch.empty(self.schema, progress)
        return net._inserts(progress) if least(net.weight) > 0 else net._changes(progress)

    def _changes(self, progress: Progress) -> Batch:
        """The batch of a delta with negative weights: equal rows add up, the others are paired."""
        # Rows that differ at most in their ends stand side by side, by end: equal ones add up, and
        # of the others each that leaves is the partner of one that arrives.
        row, _ = encode([*self.payload.columns, self.start], len(self))
        at = sort_pairs(row, self.end)
        row, end = row[at], self.end[at]
        first = np.ones(len(at), np.bool_)
        first[1:] = (row[1:] != row[:-1]) | (end[1:] != end[:-1])
        weight = np.add.reduceat(self.weight[at], first.nonzero()[0])
        at, row = at[first], row[first]
        stays = weight.nonzero()[0]
        if not len(stays):
            return Batch.empty(self.schema, progress)
        at, row, weight = at[stays], row[stays], weight[stays]
        if least(weight) > 0:
            order = np.argsort(at)
            kept = self.take(at[order])
            return Delta(kept.payload, kept.start, kept.end, weight[order])._inserts(progress)
        if least(weight) < -1 or greatest(weight) > 1:
            unit = np.repeat(np.arange(len(at)), np.abs(weight))
            at, row, weight = at[unit], row[unit], weight[unit]
        leaves = weight < 0
        leaving, arriving = leaves.nonzero()[0], (~leaves).nonzero()[0]
        return self._paired((at[leaving], row[leaving]), (at[arriving], row[arriving]), progress)

    def _inserts(self, progress: Progress) -> Batch:
        """Rows of positive weight, one by one."""
        if greatest(self.weight) == 1:
            return Batch(self.payload, self.start, self.end, progress=progress)
        unit = np.repeat(np.arange(len(self)), self.weight)
        return Batch(
            take_rows(self.payload, unit), self.start[unit], self.end[unit], progress=progress
        )

    def _paired(
        self, leaves: tuple[Codes, Codes], arrives: tuple[Codes, Codes], progress: Progress
    ) -> Batch:
        """Of positions and codes of rows, those that leave and those that arrive, each by row and
        end: the first that leaves becomes the first that arrives of its row, and so on."""
        (leaving, left), (arriving, arrived) = leaves, arrives
        left_rank, arrived_rank = _ranks(left), _ranks(arrived)
        span = 1 + max(greatest(left_rank), greatest(arrived_rank) if len(arrived) else 0)
        left_key, arrived_key = left * span + left_rank, arrived * span + arrived_rank
        # Both are in order and without repetition.
        at = np.searchsorted(arrived_key, left_key)
        meets = np.zeros(len(leaving), np.bool_)
        inside = at < len(arriving)
        meets[inside] = arrived_key[at[inside]] == left_key[inside]
        lone = np.ones(len(arriving), np.bool_)
        lone[at[meets]] = False
        lone_leaving, lone_arriving = leaving[~meets], arriving[lone]
        which = np.concatenate([leaving[meets], lone_leaving, lone_arriving])
        new_end = np.concatenate(
            [self.end[arriving[at[meets]]], self.start[lone_leaving], self.end[lone_arriving]]
        )
        adjusts = np.arange(len(which)) < len(leaving)
        payload = take_rows(self.payload, which)
        return Batch(payload, self.start[which], self.end[which], new_end, adjusts, progress)


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


@dataclass(frozen=True, slots=True)
class Revision:
    """Rows of positive weight with their ends before a change and after it, `ABSENT` where a row is
    not there: like `MovedEnds` a change that needs no search, with rows that come or go whole."""

    payload: Rows
    start: Times
    before: Times | None
    """None: all rows are new."""
    after: Times
    weight: Weights

    @classmethod
    def of_batch(cls, batch: Batch) -> Revision:
        """The changes a batch makes, element by element."""
        weight = np.ones(len(batch), np.int64)
        if batch.is_adjust is None or batch.new_end is None:
            return cls(batch.payload, batch.start, None, batch.end, weight)
        before = np.where(batch.is_adjust, batch.end, ABSENT)
        after = np.where(batch.is_adjust, batch.new_end, batch.end)
        after[after <= batch.start] = ABSENT
        return cls(batch.payload, batch.start, before, after, weight)

    def __len__(self) -> int:
        return len(self.start)

    @property
    def latest(self) -> Times:
        """The later end of each row."""
        return self.after if self.before is None else np.maximum(self.before, self.after)

    def with_payload(self, payload: Rows) -> Revision:
        return Revision(payload, self.start, self.before, self.after, self.weight)

    def filter(self, mask: Bools) -> Revision:
        which = mask.nonzero()[0]
        if len(which) == len(mask):
            return self
        return Revision(
            take_rows(self.payload, which),
            self.start[which],
            None if self.before is None else self.before[which],
            self.after[which],
            self.weight[which],
        )

    def arriving(self) -> Delta:
        """The rows with their ends after the change; `ABSENT` where a row goes."""
        return Delta(self.payload, self.start, self.after, self.weight)

    def leaving(self) -> Delta:
        """The rows taken back with their ends before the change; `ABSENT` where a row is new."""
        assert self.before is not None
        return Delta(self.payload, self.start, self.before, -self.weight)

    def to_batch(self, progress: Progress = NO_PROGRESS) -> Batch:
        """The elements that make these changes."""
        if not len(self.start):
            return Batch.empty(self.payload.schema, progress)
        rows, start, before, after = self.payload, self.start, self.before, self.after
        if greatest(self.weight) > 1:
            unit = np.repeat(np.arange(len(start)), self.weight)
            rows, start, after = take_rows(rows, unit), start[unit], after[unit]
            before = None if before is None else before[unit]
        adjusts = None if before is None else before != ABSENT
        if before is None or adjusts is None or not np.count_nonzero(adjusts):
            return Batch(rows, start, after, progress=progress)
        end, new_end = np.where(adjusts, before, after), np.where(after == ABSENT, start, after)
        return Batch(rows, start, end, new_end, adjusts, progress)


ABSENT: int = MIN_TIME
"""No row ends there."""
_NONE = np.empty(0, np.int64)
_FEW = 1_024
"""Up to so many rows are sorted at once."""


def _ranks(row: Codes) -> Codes:
    """How many equal codes stand before each one; equal ones stand side by side."""
    position = np.arange(len(row))
    begins = position.copy()
    begins[1:][row[1:] == row[:-1]] = 0
    return position - np.maximum.accumulate(begins)
