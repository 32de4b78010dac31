"""Number rows: each row with the number under which it arrived here, in its partition, and the
largest start so far.

    (s, e, p) -> (s, e, p + {_row, _at})      _row = 1, 2, ...; _at = the largest s among the rows of the partition numbered up to it

An adjust keeps the number of its row; a row that is taken back leaves its number unused, and its
start in `_at` of those behind it. So a change of a row that started at or after the CTI never makes
a later row count earlier. Every insert counts, also of a row that the same batch takes back: numbers
do not depend on where a batch is cut. The result depends on the order of arrival: the one operator for which that is the meaning.

State: rows that may still be adjusted, with their numbers (none for an insert-only input); per
partition its last number. Progress passes.
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
from thalweg.plan.nodes.wid import ROW_NUMBER

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
        answer = Batch.empty(self.schema)
        if len(batch):
            row, at = self._numbers(batch)
            columns = [*batch.payload.columns, pa.array(row), pa.array(at)]
            answer = batch.with_payload(pa.RecordBatch.from_arrays(columns, schema=self.schema))
        settled = self._settled_numbers()
        self._forget(self._progress.cti)
        return answer.with_progress(self._progress.merge(Progress(boxes=settled)))

    def _settled_numbers(self) -> Boxes:
        """The promise on numbers: whatever still changes has a later one. A filter above lets it
        pass, so that a window over numbers knows when it is complete."""
        if self._names or not self._last.num_rows:
            return {}
        open_ = self._live.filter(self._live.end >= self._progress.cti)
        if self._progress.ended or not len(open_):
            return box({ROW_NUMBER: int(self._last.column(ROW_NUMBER)[0].as_py()) + 1})
        return box({ROW_NUMBER: int(open_.payload.column(ROW_NUMBER).to_numpy().min())})

    def _numbers(self, batch: Batch) -> tuple[Codes, Times]:
        """The number of every element: a new one for an insert, that of its row for an adjust."""
        size = len(batch)
        adjusts = np.zeros(size, np.bool_) if batch.is_adjust is None else batch.is_adjust
        row, at = np.zeros(size, np.int64), np.zeros(size, np.int64)
        inserts = batch.filter(~adjusts)
        row[~adjusts], at[~adjusts] = self._next(inserts.payload, inserts.start)
        new_end = (
            batch.end if batch.new_end is None else np.where(adjusts, batch.new_end, batch.end)
        )
        leaves = np.flatnonzero(new_end > batch.start)
        after = Delta(batch.payload, batch.start, new_end, np.ones(size, np.int64)).take(leaves)
        held = len(self._live)
        taken = np.empty(0, np.int64)
        if adjusts.any():
            takes = np.flatnonzero(adjusts)
            taken = self._owners(batch.take(takes), after)
            # Each adjust takes its number from a live row or from an earlier element of the batch.
            origin = np.arange(size)
            inside = taken >= held
            origin[takes[inside]] = leaves[taken[inside] - held]
            known = _live_numbers(self._live)
            row[takes[~inside]] = known[0][taken[~inside]]
            at[takes[~inside]] = known[1][taken[~inside]]
            first = _first_of_chain(origin)
            row, at = row[first], at[first]
        if self._tracks:
            columns = [*after.payload.columns, pa.array(row[leaves]), pa.array(at[leaves])]
            numbered = pa.RecordBatch.from_arrays(columns, schema=self.schema)
            every = Delta.concat(
                [self._live, Delta(numbered, after.start, after.end, after.weight)], self.schema
            )
            self._live = every.take(np.delete(np.arange(len(every)), taken))
        return row, at

    def _owners(self, takes: Batch, after: Delta) -> Codes:
        """For each adjust the row that it takes: a position in the live rows followed by what the
        elements of the batch leave. Of several equal rows the oldest is taken first."""
        width = len(self.schema) - 2
        live = [*self._live.payload.columns[:width], pa.array(self._live.start)]
        there = [
            pa.concat_arrays([known, left])
            for known, left in zip(
                [*live, pa.array(self._live.end)],
                [*after.payload.columns, pa.array(after.start), pa.array(after.end)],
                strict=True,
            )
        ]
        asked = [*takes.payload.columns, pa.array(takes.start), pa.array(takes.end)]
        mine, theirs = _paired(asked, there)
        if len(mine) < len(takes):
            raise UnknownRowError("number_rows: adjust of a row that was never inserted.")
        taken = np.empty(len(takes), np.int64)
        taken[mine] = theirs
        return taken

    def _forget(self, cti: int) -> None:
        if cti == INFINITY:
            self._live, self._last = Delta.empty(self.schema), empty_rows(self._last.schema)
        elif len(self._live):
            self._live = self._live.filter(self._live.end >= cti)

    def _next(self, rows: Rows, start: Times) -> tuple[Codes, Times]:
        """Numbers for rows that are new, in the order in which they came."""
        if not len(start):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        first, highest = self._so_far(rows)
        code, _ = group_codes(rows, self._names)
        order = np.argsort(code, kind="stable")
        sorted_ = code[order]
        begins = np.searchsorted(sorted_, sorted_, side="left")
        row, at = np.empty(len(start), np.int64), np.empty(len(start), np.int64)
        row[order] = first[order] + np.arange(len(start)) - begins + 1
        at[order] = _running_max(np.maximum(start, highest)[order], sorted_)
        self._remember(rows, code, row, at)
        return row, at

    def _so_far(self, rows: Rows) -> tuple[Codes, Times]:
        """The last number and the largest start of each row's partition."""
        mine = [rows.column(name) for name in self._names]
        known = [self._last.column(name) for name in self._names]
        own, theirs, size = encode_together(mine, known, (rows.num_rows, self._last.num_rows))
        number, highest = np.zeros(max(size, 1), np.int64), np.full(max(size, 1), MIN_TIME)
        number[theirs] = self._last.column("_row").to_numpy()
        highest[theirs] = self._last.column("_at").to_numpy()
        return number[own], highest[own]

    def _remember(self, rows: Rows, code: Codes, row: Codes, at: Times) -> None:
        newest = np.empty(int(code.max()) + 1, np.int64)
        newest[code[np.argsort(row, kind="stable")]] = np.argsort(row, kind="stable")
        columns = [rows.column(name).take(pa.array(newest)) for name in self._names]
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


def _live_numbers(live: Delta) -> tuple[Codes, Times]:
    """The last two columns of the rows that are held: `_row` and `_at`."""
    return live.payload.columns[-2].to_numpy(), live.payload.columns[-1].to_numpy()


def _first_of_chain(origin: Codes) -> Codes:
    """The element at which the chain of each one begins; `origin` is the one before it, or itself.

    The distance doubles with each turn.
    """
    while True:
        further = origin[origin]
        if (further == origin).all():
            return origin
        origin = further


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
