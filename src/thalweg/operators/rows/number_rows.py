"""Number rows: each row with the number under which it arrived here, in its partition, and the
largest start so far.

    (s, e, p) -> (s, e, p + {_row, _at})      _row = 1, 2, ...; _at = the largest s among the rows of the partition numbered up to it

An adjust keeps the number of its row; a row that is taken back leaves its number unused, and its
start in `_at` of those behind it. So a change of a row that started at or after the CTI never makes
a later row count earlier. Every insert counts, also of a row that the same batch takes back: numbers
do not depend on where a batch is cut. The result depends on the order of arrival: the one operator for which that is the meaning.

State: rows that may still be adjusted, with their numbers, in a row set (none for an insert-only
input); per partition its last number, as marks of a row without an end. Progress passes.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from thalweg.errors import UnknownRowError
from thalweg.model.batch import Batch
from thalweg.model.boxes import Boxes, box
from thalweg.model.delta import Delta
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.model.rows import Codes, Rows, distinct_codes, encode_together, whole_column
from thalweg.model.time import INFINITY, MIN_TIME, Times
from thalweg.operators.base import (
    Operator,
    Slices,
    StateSize,
    progress_of_slice,
    slice_of_progress,
)
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
        self._newest_number: int | None = None
        """The number of the row that came last; None: it has to be looked up."""

    def _partition(self, rows: Rows) -> Codes:
        return self._partitions.numbers([rows.column(name) for name in self._names], rows.num_rows)

    def process(self, port: int, batch: Batch) -> Batch:
        self._progress = self._progress.advance(batch.progress)
        answer = Batch.empty(self.schema)
        if len(batch):
            row, at = self._numbers(batch)
            columns = [*batch.payload.columns, whole_column(row), whole_column(at)]
            answer = batch.with_payload(pa.RecordBatch.from_arrays(columns, schema=self.schema))
        if not self._progress.ended:
            self._live.purge(self._progress.cti - 1)
        settled = self._settled_numbers()
        if self._progress.ended:
            self._forget()
        return answer.with_progress(self._progress.merge(Progress(boxes=settled)))

    def _settled_numbers(self) -> Boxes:
        """The promise on numbers: whatever still changes has a later one. A filter above lets it
        pass, so that a window over numbers knows when it is complete."""
        if self._names or self._last.is_empty():
            return {}
        least = self._live.least([ROW_NUMBER])
        if self._progress.ended or least is None or least[0] == INFINITY:
            return box({ROW_NUMBER: self._newest() + 1})
        return box({ROW_NUMBER: least[0]})

    def _newest(self) -> int:
        """The last number, where all rows are one partition."""
        if self._newest_number is None:
            self._newest_number = int(self._found(np.zeros(1, np.int64)).mark(0)[0])
        return self._newest_number

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
        takes = np.flatnonzero(adjusts)
        if len(takes):
            candidates = self._candidates(batch.take(takes))
            held = len(candidates)
            taken = self._owners(batch.take(takes), candidates, after)
            # Each adjust takes its number from a live row or from an earlier element of the batch.
            origin = np.arange(size)
            inside = taken >= held
            origin[takes[inside]] = leaves[taken[inside] - held]
            known = [candidates.column(name).to_numpy() for name in self.schema.names[-2:]]
            row[takes[~inside]] = known[0][taken[~inside]]
            at[takes[~inside]] = known[1][taken[~inside]]
            first = _first_of_chain(origin)
            row, at = row[first], at[first]
            weight = candidates.weight
            weight[taken[~inside]] = 0
            candidates.set_weight(weight)
            leaves = np.delete(leaves, taken[inside] - held)
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

    def _candidates(self, takes: Batch) -> Hits:
        """The live rows that adjusts may take, the oldest first."""
        asked = Delta(takes.payload, takes.start, takes.end, np.ones(len(takes), np.int64))
        found, _ = self._live.find_rows(asked).distinct()
        return found

    def _owners(self, takes: Batch, live: Hits, after: Delta) -> Codes:
        """For each adjust the row that it takes: a position in the live rows followed by what the
        elements of the batch leave. Of several equal rows the oldest is taken first."""
        by_age = np.argsort(live.column(ROW_NUMBER).to_numpy(), kind="stable")
        rows = live.payload(self.schema.names[: self._width])
        there = [
            pa.concat_arrays([known.take(pa.array(by_age)), left])
            for known, left in zip(
                [*rows.columns, pa.array(live.start), pa.array(live.end)],
                [*after.payload.columns, pa.array(after.start), pa.array(after.end)],
                strict=True,
            )
        ]
        asked = [*takes.payload.columns, pa.array(takes.start), pa.array(takes.end)]
        asks, held = _paired(asked, there)
        if len(asks) < len(takes):
            raise UnknownRowError("number_rows: adjust of a row that was never inserted.")
        taken = np.empty(len(takes), np.int64)
        taken[asks] = np.append(by_age, np.arange(len(live), len(there[0])))[held]
        return taken

    def _forget(self) -> None:
        self._live.clear()
        self._last.clear()
        self._partitions.clear()
        self._newest_number = None

    def _next(self, rows: Rows, start: Times) -> tuple[Codes, Times]:
        """Numbers for rows that are new, in the order in which they came."""
        if not len(start):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        partition = self._partition(rows)
        touched, code = distinct_codes(partition)
        found = self._found(touched)
        number, so_far = np.zeros(len(touched), np.int64), np.full(len(touched), MIN_TIME)
        number[found.owner], so_far[found.owner] = found.mark(0), found.mark(1)
        first, highest = number[code], so_far[code]
        order = code.argsort(kind="stable")
        sorted_ = code[order]
        begins = sorted_.searchsorted(sorted_, side="left")
        row, at = np.empty(len(start), np.int64), np.empty(len(start), np.int64)
        row[order] = first[order] + np.arange(len(start)) - begins + 1
        at[order] = _running_max(np.maximum(start, highest)[order], sorted_)
        self._remember(rows, found, touched, code, row, at)
        self._newest_number = int(row[-1])
        return row, at

    def _found(self, partition: Codes) -> Hits:
        """What is known of partitions: last number and largest start."""
        size = len(partition)
        return self._last.find(partition, np.full(size, MIN_TIME), np.full(size, INFINITY))

    def _remember(
        self, rows: Rows, found: Hits, touched: Codes, code: Codes, row: Codes, at: Times
    ) -> None:
        newest = np.empty(len(touched), np.int64)
        by_number = row.argsort(kind="stable")
        newest[code[by_number]] = by_number
        found.set_mark(0, row[newest[found.owner]])
        found.set_mark(1, at[newest[found.owner]])
        new = np.ones(len(touched), np.bool_)
        new[found.owner] = False
        if not np.count_nonzero(new):
            return
        which = newest[new]
        columns = [rows.column(name).take(pa.array(which)) for name in self._names]
        keys = pa.RecordBatch.from_arrays(
            columns or [pa.array(np.ones(len(which), np.bool_))], schema=self._last_schema
        )
        none = np.zeros(len(which), np.int64)
        fresh = Delta(keys, none, none + INFINITY, none + 1)
        self._last.add(fresh, touched[new], (row[which], at[which]))

    def snapshot(self) -> Slices:
        return {
            **self._live.snapshot("live"),
            **self._last.snapshot("last"),
            "progress": slice_of_progress([self._progress]),
        }

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self._partitions.clear()
        self._newest_number = None
        self._live.restore("live", slices)
        self._last.restore("last", slices)
        self._progress = progress_of_slice(slices["progress"])[0]
        self._live.purge(self._progress.cti - 1)

    def state_size(self) -> StateSize:
        return self._live.size() + self._last.size()


def _paired(one: list[pa.Array], two: list[pa.Array]) -> tuple[Codes, Codes]:
    """Rows that are equal, one to one: the first of the one with the first of the other, and so
    on."""
    mine, theirs, size = encode_together(one, two, (len(one[0]), len(two[0])))
    if not len(mine) or not len(theirs):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    span = max(len(mine), len(theirs))
    assert size * span < 2**62
    one_key, two_key = mine * span + occurrence(mine), theirs * span + occurrence(theirs)
    _, left, right = np.intersect1d(one_key, two_key, assume_unique=True, return_indices=True)
    return left, right


def _first_of_chain(origin: Codes) -> Codes:
    """The element at which the chain of each one begins; `origin` is the one before it, or itself.

    The distance doubles with each turn.
    """
    while True:
        further = origin[origin]
        if (further == origin).all():
            return origin
        origin = further


def _running_max(values: Times, group: Codes) -> Times:
    """The largest value so far in each run of equal groups; groups ascend."""
    if group[0] == group[-1]:
        return np.maximum.accumulate(values)
    distinct, place = np.unique(values, return_inverse=True)
    lifted = np.maximum.accumulate(group * len(distinct) + place)
    found: Times = distinct[lifted - group * len(distinct)]
    return found
