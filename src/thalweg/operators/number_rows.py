"""Number rows: each row with the number under which it arrived here, in its partition, and the
largest start so far.

    (s, e, p) -> (s, e, p + {_row, _at})      _row = 1, 2, ...; _at = the largest s among the rows of the partition numbered up to it

An adjust keeps the number of its row; a row that is taken back leaves its number unused, and its
start in `_at` of those behind it. So a change of a row that started at or after the CTI never makes
a later row count earlier. What comes twice within a batch, an insert and its adjust, is one row.
The result depends on the order of arrival: the one operator for which that is the meaning.

State: rows that may still be adjusted, with their numbers (none for an insert-only input); per
partition its last number. Progress passes.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from thalweg.errors import UnknownRowError
from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.progress import NO_PROGRESS
from thalweg.model.rows import Codes, Rows, concat_rows, empty_rows, encode, encode_together
from thalweg.model.time import INFINITY, MIN_TIME, Times
from thalweg.operators.base import (
    Operator,
    Slices,
    StateSize,
    delta_of_slice,
    progress_of_slice,
    slice_of_delta,
    slice_of_progress,
)
from thalweg.operators.groups import group_codes
from thalweg.plan.nodes import NumberRows

__all__ = ["NumberRowsKernel"]


class NumberRowsKernel(Operator):
    """
    >>> import thalweg as tw
    >>> query = tw.source("s", {"v": "int64"}).number_rows()
    >>> tw.table(query, {"s": [tw.point({"v": 1}, 5), tw.point({"v": 2}, 3)]})
    [(3, 4, {'v': 2, '_row': 2, '_at': 5}), (5, 6, {'v': 1, '_row': 1, '_at': 5})]
    """

    def __init__(self, node: NumberRows) -> None:
        self.schema = node.schema
        self._names = node.partition
        self._tracks = not node.input.properties.insert_only
        self._live = Delta.empty(node.schema)
        fields = [node.input.schema.field(name) for name in node.partition]
        self._last = empty_rows(
            pa.schema([*fields, pa.field("_row", pa.int64()), pa.field("_at", pa.int64())])
        )
        self._progress = NO_PROGRESS

    def process(self, port: int, batch: Batch) -> Batch:
        self._progress = self._progress.merge(batch.progress)
        out = self._number(Delta.of_batch(batch)) if len(batch) else Delta.empty(self.schema)
        if self._tracks:
            live = Delta.concat([self._live, out], self.schema)
            live = live.consolidate() if (out.weight < 0).any() else live
            cti = self._progress.cti
            self._live = live.filter((live.end >= cti) & (cti != INFINITY))
        return out.to_batch(self._progress)

    def _number(self, delta: Delta) -> Delta:
        if (delta.weight == 1).all():
            return self._with(delta, *self._next(delta), delta.weight)
        net = delta.consolidate() if (delta.weight < 0).any() else delta
        unit = np.repeat(np.arange(len(net)), np.abs(net.weight))
        leaves = net.weight[unit] < 0
        gone, came = net.take(unit[leaves]), net.take(unit[~leaves])
        old_row, old_at = self._known(gone)
        row, at = np.zeros(len(came), np.int64), np.zeros(len(came), np.int64)
        moved, from_ = _paired(
            [*came.payload.columns, pa.array(came.start)],
            [*gone.payload.columns, pa.array(gone.start)],
        )
        row[moved], at[moved] = old_row[from_], old_at[from_]
        fresh = np.ones(len(came), np.bool_)
        fresh[moved] = False
        row[fresh], at[fresh] = self._next(
            came.filter(fresh) if fresh.any() else Delta.empty(net.schema)
        )
        taken = self._with(gone, old_row, old_at, np.full(len(gone), -1))
        return Delta.concat(
            [taken, self._with(came, row, at, np.ones(len(came), np.int64))], self.schema
        )

    def _with(self, rows: Delta, row: Codes, at: Times, weight: Codes) -> Delta:
        payload = pa.RecordBatch.from_arrays(
            [*rows.payload.columns, pa.array(row), pa.array(at)], schema=self.schema
        )
        return Delta(payload, rows.start, rows.end, weight)

    def _known(self, gone: Delta) -> tuple[Codes, Times]:
        """The numbers of rows that change or leave."""
        width = len(self.schema) - 2
        live = [
            *self._live.payload.columns[:width],
            pa.array(self._live.start),
            pa.array(self._live.end),
        ]
        mine, theirs = _paired(
            [*gone.payload.columns, pa.array(gone.start), pa.array(gone.end)], live
        )
        if len(mine) < len(gone):
            raise UnknownRowError("number_rows: adjust of a row that was never inserted.")
        row, at = np.zeros(len(gone), np.int64), np.zeros(len(gone), np.int64)
        row[mine] = self._live.payload.column("_row").to_numpy()[theirs]
        at[mine] = self._live.payload.column("_at").to_numpy()[theirs]
        return row, at

    def _next(self, rows: Delta) -> tuple[Codes, Times]:
        """Numbers for rows that are new, in the order in which they came."""
        if not len(rows):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        first, highest = self._so_far(rows)
        code, _ = group_codes(rows.payload, self._names)
        order = np.argsort(code, kind="stable")
        sorted_ = code[order]
        begins = np.searchsorted(sorted_, sorted_, side="left")
        row, at = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
        row[order] = first[order] + np.arange(len(rows)) - begins + 1
        at[order] = _running_max(np.maximum(rows.start, highest)[order], sorted_)
        self._remember(rows, code, row, at)
        return row, at

    def _so_far(self, rows: Delta) -> tuple[Codes, Times]:
        """The last number and the largest start of each row's partition."""
        mine = [rows.payload.column(name) for name in self._names]
        known = [self._last.column(name) for name in self._names]
        own, theirs, size = encode_together(mine, known, (len(rows), self._last.num_rows))
        number, highest = np.zeros(max(size, 1), np.int64), np.full(max(size, 1), MIN_TIME)
        number[theirs] = self._last.column("_row").to_numpy()
        highest[theirs] = self._last.column("_at").to_numpy()
        return number[own], highest[own]

    def _remember(self, rows: Delta, code: Codes, row: Codes, at: Times) -> None:
        newest = np.empty(int(code.max()) + 1, np.int64)
        newest[code[np.argsort(row, kind="stable")]] = np.argsort(row, kind="stable")
        columns = [rows.payload.column(name).take(pa.array(newest)) for name in self._names]
        fresh = pa.RecordBatch.from_arrays(
            [*columns, pa.array(row[newest]), pa.array(at[newest])], schema=self._last.schema
        )
        both = concat_rows([self._last, fresh], self._last.schema)
        group, size = encode([both.column(name) for name in self._names], both.num_rows)
        last = np.empty(size, np.int64)
        last[group] = np.arange(both.num_rows)  # what came later stands behind
        self._last = both.take(pa.array(last))

    def snapshot(self) -> Slices:
        return {
            "live": slice_of_delta(self._live),
            "last": self._last,
            "progress": slice_of_progress([self._progress]),
        }

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self._live, self._last = delta_of_slice(slices["live"]), slices["last"]
        self._progress = progress_of_slice(slices["progress"])[0]

    def state_size(self) -> StateSize:
        return StateSize(
            len(self._live) + self._last.num_rows, self._live.nbytes + int(self._last.nbytes)
        )


def _paired(one: list[pa.Array], two: list[pa.Array]) -> tuple[Codes, Codes]:
    """Rows that are equal, one to one: the first of the one with the first of the other, and so
    on."""
    mine, theirs, size = encode_together(one, two, (len(one[0]), len(two[0])))
    if not len(mine) or not len(theirs):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    span = max(len(mine), len(theirs))
    assert size * span < 2**62
    one_key, two_key = mine * span + _occurrence(mine), theirs * span + _occurrence(theirs)
    _, left, right = np.intersect1d(one_key, two_key, assume_unique=True, return_indices=True)
    return left, right


def _occurrence(code: Codes) -> Codes:
    """How many rows of equal code stand in front of each."""
    order = np.argsort(code, kind="stable")
    sorted_ = code[order]
    rank = np.empty(len(code), np.int64)
    rank[order] = np.arange(len(code)) - np.searchsorted(sorted_, sorted_, side="left")
    return rank


def _running_max(values: Times, group: Codes) -> Times:
    """The largest value so far in each run of equal groups."""
    distinct, place = np.unique(values, return_inverse=True)
    lifted = np.maximum.accumulate(group * len(distinct) + place)
    found: Times = distinct[lifted - group * len(distinct)]
    return found
