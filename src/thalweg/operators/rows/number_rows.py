"""Number rows: each row with the number under which it arrived here, in its partition, and the
largest start so far.

    (s, e, p) -> (s, e, p + {_row, _at})      _row = 1, 2, ...
                                              _at = the largest s of the partition up to _row

An adjust keeps the number of its row; a row that is taken back leaves its number unused, and its
start in `_at` of those behind it. So a change of a row that started at or after the CTI never makes
a later row count earlier. Every insert counts, also of a row that the same batch takes back:
numbers do not depend on where a batch is cut. The result depends on the order of arrival: the one
operator for which that is the meaning.

State: rows that may still be adjusted, with their numbers, in a row set (none for an insert-only
input); per partition its last number and largest start, in columns. They are saved as marks of a
row without an end, so that a snapshot writes only those that have changed. Progress passes.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from thalweg.errors import UnknownRowError
from thalweg.model.batch import Batch
from thalweg.model.column_promises import ColumnPromises, column_promise
from thalweg.model.delta import Delta
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.model.rows import Codes, Rows, encode_together, whole_column
from thalweg.model.time import INFINITY, MIN_TIME, Times
from thalweg.operators.base import (
    Operator,
    Slices,
    StateSize,
    progress_of_slice,
    slice_of_progress,
)
from thalweg.operators.rows.chain_roots import chain_roots
from thalweg.plan.nodes import NumberRows
from thalweg.plan.nodes.wid import ROW_NUMBER
from thalweg.state import Arrangement, Hits, KeyIndex, RowSet
from thalweg.state.search import occurrence

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
        self._width = len(node.input.schema)
        self._live = RowSet(node.schema, identity=self._width, what="number_rows")
        fields = [node.input.schema.field(name) for name in node.partition]
        self._partitions = KeyIndex(fields)
        # A record batch without columns has no rows.
        self._last_schema = pa.schema(fields or [pa.field("_row", pa.bool_())])
        self._last = Arrangement(self._last_schema, self._partition, marks=2, what="number_rows")
        self._progress = NO_PROGRESS
        self._forget()

    def _partition(self, rows: Rows) -> Codes:
        return self._partitions.numbers([rows.column(name) for name in self._names], rows.num_rows)

    def process(self, port: int, batch: Batch) -> Batch:
        self._progress = self._progress.advance(batch.progress)
        answer = self._numbered(batch) if len(batch) else Batch.empty(self.schema)
        if not self._progress.ended:
            self._live.purge(self._progress.cti - 1)
        settled = self._settled_numbers()
        if self._progress.ended:
            self._forget()
        return answer.with_progress(self._progress.merge(Progress(column_promises=settled)))

    def _settled_numbers(self) -> ColumnPromises:
        """The promise on numbers: whatever still changes has a later one. A filter above lets it
        pass, so that a window over numbers is complete at the right time."""
        if self._names or not len(self._number):
            return {}
        least = self._live.least([ROW_NUMBER])
        if self._progress.ended or least is None or least[0] == INFINITY:
            return column_promise({ROW_NUMBER: int(self._number[0]) + 1})
        return column_promise({ROW_NUMBER: least[0]})

    def _numbered(self, batch: Batch) -> Batch:
        row, at = self._numbers(batch)
        columns = [*batch.payload.columns, whole_column(row), whole_column(at)]
        return batch.with_payload(pa.RecordBatch.from_arrays(columns, schema=self.schema))

    def _numbers(self, batch: Batch) -> tuple[Codes, Times]:
        """The number of every element: a new one for an insert, that of its row for an adjust."""
        size, adjusts = len(batch), batch.is_adjust
        if adjusts is None:
            row, at = self._next(batch.payload, batch.start)
            if self._tracks:
                self._hold(batch, batch.end, row, at, np.arange(size))
            return row, at
        row, at = np.zeros(size, np.int64), np.zeros(size, np.int64)
        inserts = batch.filter(~adjusts)
        row[~adjusts], at[~adjusts] = self._next(inserts.payload, inserts.start)
        new_end = (
            batch.end if batch.new_end is None else np.where(adjusts, batch.new_end, batch.end)
        )
        leaves = np.flatnonzero(new_end > batch.start)
        after = Delta(batch.payload, batch.start, new_end, np.ones(size, np.int64)).take(leaves)
        adjust = np.flatnonzero(adjusts)
        if len(adjust):
            candidates = self._candidates(batch.take(adjust))
            held = len(candidates)
            owner = self._owners(batch.take(adjust), candidates, after)
            # Each adjust takes its number from a live row or from an earlier element of the batch.
            origin = np.arange(size)
            inside = owner >= held
            origin[adjust[inside]] = leaves[owner[inside] - held]
            numbers = [candidates.column(name).to_numpy() for name in self.schema.names[-2:]]
            row[adjust[~inside]] = numbers[0][owner[~inside]]
            at[adjust[~inside]] = numbers[1][owner[~inside]]
            first = chain_roots(origin)
            row, at = row[first], at[first]
            weight = candidates.weight
            weight[owner[~inside]] = 0
            candidates.set_weight(weight)
            leaves = np.delete(leaves, owner[inside] - held)
        if self._tracks:
            self._hold(batch, new_end, row, at, leaves)
        return row, at

    def _hold(self, batch: Batch, end: Times, row: Codes, at: Times, which: Codes) -> None:
        """Keep the rows that elements of a batch leave, with their numbers."""
        numbers = [pa.array(row), pa.array(at)]
        numbered = pa.RecordBatch.from_arrays(
            [*batch.payload.columns, *numbers], schema=self.schema
        )
        rows = Delta(numbered, batch.start, end, np.ones(len(batch), np.int64))
        self._live.change(rows if len(which) == len(batch) else rows.take(which))

    def _candidates(self, adjusts: Batch) -> Hits:
        """The live rows that adjusts may take, the oldest first."""
        ones = np.ones(len(adjusts), np.int64)
        rows = Delta(adjusts.payload, adjusts.start, adjusts.end, ones)
        found, _ = self._live.find_rows(rows).distinct()
        return found

    def _owners(self, adjusts: Batch, live: Hits, after: Delta) -> Codes:
        """For each adjust the row that it takes: a position in the live rows followed by what the
        elements of the batch leave. Of several equal rows the oldest is taken first."""
        by_age = np.argsort(live.column(ROW_NUMBER).to_numpy(), kind="stable")
        rows = live.payload(self.schema.names[: self._width])
        candidates = [
            pa.concat_arrays([older.take(pa.array(by_age)), newer])
            for older, newer in zip(
                [*rows.columns, pa.array(live.start), pa.array(live.end)],
                [*after.payload.columns, pa.array(after.start), pa.array(after.end)],
                strict=True,
            )
        ]
        columns = [*adjusts.payload.columns, pa.array(adjusts.start), pa.array(adjusts.end)]
        adjust, candidate = _paired(columns, candidates)
        if len(adjust) < len(adjusts):
            raise UnknownRowError("number_rows: adjust of a row that was never inserted.")
        owner = np.empty(len(adjusts), np.int64)
        position = np.append(by_age, np.arange(len(live), len(candidates[0])))
        owner[adjust] = position[candidate]
        return owner

    def _forget(self) -> None:
        self._live.clear()
        self._last.clear()
        self._partitions.clear()
        none = np.empty(0, np.int64)
        self._number, self._latest, self._changed = none, none, none != 0

    def _next(self, rows: Rows, start: Times) -> tuple[Codes, Times]:
        """Numbers for new rows, in the order in which they arrived."""
        if not len(start):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        partition = self._partition(rows)
        self._grow()
        order = partition.argsort(kind="stable")
        partition, start = partition[order], start[order]
        position = np.arange(len(start))
        number = self._number[partition] + 1 + position - partition.searchsorted(partition)
        latest = _running_max(np.maximum(start, self._latest[partition]), partition)
        # Of several values for one partition the last one stays.
        self._number[partition], self._latest[partition] = number, latest
        self._changed[partition] = True
        row, at = np.empty_like(number), np.empty_like(latest)
        row[order], at[order] = number, latest
        return row, at

    def _grow(self) -> None:
        """Make room for all partitions."""
        size = len(self._number)
        if len(self._partitions) > size:
            none = np.zeros(max(len(self._partitions), 2 * size) - size, np.int64)
            self._number = np.concatenate([self._number, none])
            self._latest = np.concatenate([self._latest, none + MIN_TIME])
            self._changed = np.concatenate([self._changed, none != 0])

    def _write(self) -> None:
        """Bring what is saved of partitions up to date."""
        partition = self._changed.nonzero()[0]
        self._changed[partition] = False
        found = self._last.of_groups(partition)
        old = partition[found.owner]
        found.set_mark(0, self._number[old])
        found.set_mark(1, self._latest[old])
        new = np.delete(partition, found.owner)
        keys = self._partitions.columns(new) or [pa.array(np.ones(len(new), np.bool_))]
        none = np.zeros(len(new), np.int64)
        rows = pa.RecordBatch.from_arrays(keys, schema=self._last_schema)
        fresh = Delta(rows, none, none + INFINITY, none + 1)
        self._last.add(fresh, new, (self._number[new], self._latest[new]))

    def snapshot(self) -> Slices:
        self._write()
        return {
            **self._live.snapshot("live"),
            **self._last.snapshot("last"),
            "progress": slice_of_progress([self._progress]),
        }

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self._forget()
        self._live.restore("live", slices)
        self._last.restore("last", slices)
        self._grow()
        last = self._last.all()
        self._number[last.group], self._latest[last.group] = last.mark(0), last.mark(1)
        self._progress = progress_of_slice(slices["progress"])[0]
        self._live.purge(self._progress.cti - 1)

    def state_size(self) -> StateSize:
        count = len(self._partitions)
        return self._live.size() + StateSize(count, 16 * count + self._partitions.nbytes)


def _paired(left: list[pa.Array], right: list[pa.Array]) -> tuple[Codes, Codes]:
    """Equal rows of two sides, one to one: the n-th of a value on the left with the n-th on the
    right."""
    codes, other, size = encode_together(left, right, (len(left[0]), len(right[0])))
    if not len(codes) or not len(other):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    span = max(len(codes), len(other))
    assert size * span < 2**62
    key, other_key = codes * span + occurrence(codes), other * span + occurrence(other)
    _, at, other_at = np.intersect1d(key, other_key, assume_unique=True, return_indices=True)
    return at, other_at


def _running_max(values: Times, group: Codes) -> Times:
    """The largest value so far in each run of equal groups; groups ascend."""
    if group[0] == group[-1]:
        return np.maximum.accumulate(values)
    distinct, place = np.unique(values, return_inverse=True)
    lifted = np.maximum.accumulate(group * len(distinct) + place)
    found: Times = distinct[lifted - group * len(distinct)]
    return found
