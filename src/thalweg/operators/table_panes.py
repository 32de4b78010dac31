"""Panes from a table of fixed size: the low level of a two-level aggregation, as in Gigascope.

Meaning: that of `Panes`; the sums go across batches. A group has one place in the table, by its hash; a sum that finds another one in
its place sends it off and takes the place. What is sent is a partial sum like any other, so that the high level (`CombinePanes`)
does not care when it comes.

When a window ends, its sums have to leave. All at once (`at end`) they make a surge of work; one for every so many rows (`slow`), or
only when their places are needed (`lazy`), they do not. That is possible because nobody asks for order. A sum is sent at the latest
when `late` windows have ended after its own; the promise waits for the oldest sum that is still there.

State: the table, and the keys of the groups in it. It does not grow.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.progress import Progress
from thalweg.model.rows import Bools, Codes, Rows, encode
from thalweg.model.time import INFINITY, MIN_TIME
from thalweg.operators.arguments import ArgumentProjection
from thalweg.operators.base import Operator, Slices, StateSize
from thalweg.operators.cells import Numbers, sum_by
from thalweg.operators.hopping_grid import FOREVER, NEVER, Grid
from thalweg.operators.key_book import KeyBook
from thalweg.operators.partials import Partials
from thalweg.plan.nodes import Panes

__all__ = ["TablePanesKernel"]

_CHUNK = 8_192
"""Rows that are summed before they meet the table."""

_SPREAD = 2_654_435_761


class TablePanesKernel(Operator):
    """
    >>> import thalweg as tw
    >>> windows = tw.source("s", {"k": "int64"}).group_by("k").tumbling(10).two_level(64, flush="slow")
    >>> tw.table(windows.aggregate(n=tw.count()), {"s": [tw.point({"k": 1}, 2), tw.point({"k": 1}, 7), tw.point({"k": 2}, 12)]})
    [(0, 10, {'k': 1, 'n': 2}), (10, 20, {'k': 2, 'n': 1})]
    """

    def __init__(self, node: Panes) -> None:
        assert node.table is not None
        self.schema = node.schema
        self._keys, self._table = node.keys, node.table
        self._grid = Grid(node.window)
        self._arguments = ArgumentProjection(node.aggregates, node.keys, node.input.schema)
        self._partials = Partials(self._arguments, node.schema)
        self._book = KeyBook([node.schema.field(name) for name in node.keys])
        slots = node.table.slots
        self._group, self._first, self._beyond = np.full(slots, -1, np.int64), np.zeros(slots, np.int64), np.zeros(slots, np.int64)
        self._sums = np.zeros((len(self._partials.names), slots), np.int64)
        self._cti, self._newest, self._position, self._credit = MIN_TIME, NEVER, 0, 0

    # -------------------------------------------------------------------------------------------------------- flow

    def process(self, port: int, batch: Batch) -> Batch:
        sent: list[tuple[Codes, Codes, Codes, Numbers]] = []
        if len(batch):
            delta = Delta.of_batch(batch)
            for begin in range(0, len(delta), _CHUNK):
                sent += self._chunk(delta.take(np.arange(begin, min(begin + _CHUNK, len(delta)))) if len(delta) > _CHUNK else delta)
        self._cti = max(self._cti, batch.progress.cti)
        sent.append(self._send(self._overdue()))
        promise = self._promise()
        if self._book.is_untidy and self._keys:
            payload = self._batch(sent, promise)
            self._tidy()
            return payload
        return self._batch(sent, promise)

    def _chunk(self, delta: Delta) -> list[tuple[Codes, Codes, Codes, Numbers]]:
        rows = self._arguments.project(delta.payload, delta.start)
        group = self._book.numbers([rows.column(name) for name in self._keys], len(delta))
        first, beyond = self._grid.first(delta.start), self._grid.beyond(delta.end)
        sums = np.array(self._partials.of_rows(rows, delta.weight), np.int64)
        length = beyond - first
        even = bool((length == length[0]).all())
        cell, count = encode([group, first, *([] if even else [beyond])], len(group))
        someone, totals = sum_by(cell, count, sums)
        sent = self._pace(len(delta), int(first.max()))
        return [*sent, *self._put(group[someone], first[someone], beyond[someone], totals)]

    def _put(self, group: Codes, first: Codes, beyond: Codes, sums: Numbers) -> list[tuple[Codes, Codes, Codes, Numbers]]:
        """Into the table; what has no place there any more is sent."""
        slot = (group * _SPREAD) % self._table.slots
        order = np.lexsort((first, slot))  # the newest of a place stays
        last = np.ones(len(order), np.bool_)
        last[:-1] = slot[order][1:] != slot[order][:-1]
        stays, goes = order[last], order[~last]
        at = slot[stays]
        same = (self._group[at] == group[stays]) & (self._first[at] == first[stays]) & (self._beyond[at] == beyond[stays])
        self._sums[:, at[same]] += sums[:, stays[same]]
        other, takes = at[~same], stays[~same]
        evicted = self._send(_mask(other[self._group[other] >= 0], self._table.slots))
        self._group[other], self._first[other], self._beyond[other] = group[takes], first[takes], beyond[takes]
        self._sums[:, other] = sums[:, takes]
        return [evicted, (group[goes], first[goes], beyond[goes], sums[:, goes])]

    # ----------------------------------------------------------------------------------------------------- flushing

    def _pace(self, rows: int, newest: int) -> list[tuple[Codes, Codes, Codes, Numbers]]:
        """What leaves because time goes on, besides collisions."""
        began = newest > self._newest
        self._newest = max(self._newest, newest)
        if self._table.flush == "at end":
            return [self._send((self._group >= 0) & (self._first < self._newest))] if began else []
        if self._table.flush == "slow":
            if began:
                self._position = 0
            self._credit += rows
            many, self._credit = divmod(self._credit, self._table.every)
            old = np.flatnonzero((self._group >= 0) & (self._first < self._newest))
            ahead = old[old >= self._position][:many]
            if len(ahead):
                self._position = int(ahead[-1]) + 1
            return [self._send(_mask(ahead, self._table.slots))]
        return []

    def _overdue(self) -> Bools:
        """Sums that may not wait any longer."""
        if self._cti == INFINITY:
            return self._group >= 0
        if self._cti == MIN_TIME:
            return np.zeros(self._table.slots, np.bool_)
        return (self._group >= 0) & (self._first < self._pane(self._cti) - self._table.late)

    def _pane(self, time: int) -> int:
        return int(self._grid.first(np.array([time]))[0])

    def _send(self, mask: Bools) -> tuple[Codes, Codes, Codes, Numbers]:
        at = np.flatnonzero(mask)
        out = self._group[at].copy(), self._first[at].copy(), self._beyond[at].copy(), self._sums[:, at]
        self._group[at] = -1
        return out

    def _promise(self) -> int:
        if self._cti in (MIN_TIME, INFINITY):
            return self._cti
        there = self._first[self._group >= 0]
        return self._start(min(self._pane(self._cti), int(there.min(initial=FOREVER))))

    def _start(self, first: int) -> int:
        return (first - 1) * self._grid.hop + self._grid.offset + self._grid.size

    def _batch(self, sent: list[tuple[Codes, Codes, Codes, Numbers]], promise: int) -> Batch:
        group, first, beyond = (np.concatenate([part[i] for part in sent]) for i in range(3))
        sums = np.concatenate([part[3] for part in sent], axis=1)
        payload = pa.RecordBatch.from_arrays([*self._book.columns(group), *map(pa.array, sums)], schema=self.schema)
        start = (first - 1) * self._grid.hop + self._grid.offset + self._grid.size
        end = np.where(beyond == FOREVER, INFINITY, np.where(beyond == FOREVER, 0, beyond) * self._grid.hop + self._grid.offset)
        return Batch(payload, start, end, progress=Progress(promise))

    # ------------------------------------------------------------------------------------------------------- state

    def _tidy(self) -> None:
        used = np.unique(self._group[self._group >= 0])
        moved = self._book.keep(used)
        at = np.flatnonzero(self._group >= 0)
        entries = moved[self._group[at]], self._first[at].copy(), self._beyond[at].copy(), self._sums[:, at].copy()
        self._group[:] = -1
        # A place follows from the number of a group, so that new numbers mean new places; no two sums meet, or one would be lost.
        free = (entries[0] * _SPREAD) % self._table.slots
        self._place_all(free, entries)

    def _place_all(self, wanted: Codes, entries: tuple[Codes, Codes, Codes, Numbers]) -> None:
        group, first, beyond, sums = entries
        order = np.argsort(wanted, kind="stable")
        alone = np.ones(len(order), np.bool_)
        alone[1:] = wanted[order][1:] != wanted[order][:-1]
        rest = np.setdiff1d(np.arange(self._table.slots), wanted)
        at = wanted.copy()
        at[order[~alone]] = rest[: int((~alone).sum())]
        self._group[at], self._first[at], self._beyond[at] = group, first, beyond
        self._sums[:, at] = sums

    def snapshot(self) -> Slices:
        at = np.flatnonzero(self._group >= 0)
        keys = self._book.columns(self._group[at])
        columns = [*keys, pa.array(self._first[at]), pa.array(self._beyond[at]), *(pa.array(column[at]) for column in self._sums)]
        marks = [self._cti, self._newest, self._position, self._credit]
        return {
            "table": pa.RecordBatch.from_arrays(columns, names=[*self._keys, "_first", "_beyond", *self._partials.names]),
            "marks": pa.RecordBatch.from_arrays([pa.array(marks, pa.int64())], names=["marks"]),
        }

    def restore(self, slices: Mapping[str, Rows]) -> None:
        rows = slices["table"]
        self._book.clear()
        self._group[:] = -1
        group = self._book.numbers(rows.columns[: len(self._keys)], rows.num_rows)
        sums = np.array([rows.column(name).to_numpy() for name in self._partials.names], np.int64).reshape(len(self._partials.names), -1)
        entries = group, rows.column("_first").to_numpy(), rows.column("_beyond").to_numpy(), sums
        self._place_all((group * _SPREAD) % self._table.slots, entries)
        self._cti, self._newest, self._position, self._credit = slices["marks"].column(0).to_pylist()

    def state_size(self) -> StateSize:
        fixed = self._group.nbytes + self._first.nbytes + self._beyond.nbytes + self._sums.nbytes
        return StateSize(int((self._group >= 0).sum()), fixed + self._book.nbytes)


def _mask(at: Codes, size: int) -> Bools:
    mask = np.zeros(size, np.bool_)
    mask[at] = True
    return mask
