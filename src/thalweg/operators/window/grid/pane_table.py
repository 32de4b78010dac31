"""Panes from a table of fixed size: the low level of a two-level aggregation, as in Gigascope.

Meaning: that of `Panes`; the sums go across batches. A group has one place in the table, by its
hash; a sum that finds the sum of another group in its place sends that on and takes the place. A
sum that is sent is a partial sum like any other, so that the high level (`CombinePanes`) accepts it
at any time.

When a window ends, its sums have to be sent. Sending all of them at once (`at end`) makes a surge
of work; sending one for every so many rows (`slow`), or only when their places are needed (`lazy`),
does not. Both are possible because sums may be sent in any order. A sum is sent at the latest when
`late` windows have ended after its own; the promise waits for the oldest sum in the table. A
promise for a group sends the sums of that group. An adjust takes away from windows that are over
what it adds to them again: where both are below the promise for their group, they are sent
together, with the batch.

A sum is a column of whole numbers: the identity of its group, its first window, the first window
after its own, and the partials.

State: the table, keys in columns of their own, and the promises for groups. The table does not
grow: keys of whole numbers are their own identity; of other types, and where there are nulls, a key
index gives the groups in the table their numbers.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from thalweg.model.area_promises import NO_AREAS, AreaPromises
from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.names import internal
from thalweg.model.progress import NO_PROGRESS, Progress, Scope
from thalweg.model.python_rows import column_of
from thalweg.model.rows import Codes, Rows, encode_together, whole_column
from thalweg.model.sorting import sort_pairs
from thalweg.model.time import INFINITY, MIN_TIME, Times, greatest, least
from thalweg.operators.arguments import ArgumentProjection
from thalweg.operators.base import (
    Operator,
    Slices,
    StateSize,
    progress_of_slice,
    slice_of_progress,
)
from thalweg.operators.group_promises import groups_in_areas, promises_of_rows
from thalweg.operators.window.grid.cells import Numbers, sum_alike
from thalweg.operators.window.grid.grid import FOREVER, NEVER, Grid
from thalweg.operators.window.partials import Partials
from thalweg.plan.nodes import Panes
from thalweg.state.key_index import KeyIndex
from thalweg.state.pages import Pages, read_whole

__all__ = ["TablePanesKernel"]

_CHUNK = 8_192
"""How many rows are summed at a time before they are put into the table."""

_FREE, _SPREAD = FOREVER + 1, np.uint64(0x9E3779B97F4A7C15)
"""The first window of a free place: later than all windows, so that a free place is never old."""


_FIRST, _BEYOND = internal("first"), internal("beyond")


class TablePanesKernel(Operator):
    """
    >>> import thalweg as tw
    >>> windows = tw.source("s", {"k": "int64"}).group_by("k").tumbling(10)
    >>> query = windows.two_level(64, flush="slow").aggregate(n=tw.count())
    >>> tw.table(query, {"s": [tw.point({"k": k}, t) for k, t in ((1, 2), (1, 7), (2, 12))]})
    [(0, 10, {'k': 1, 'n': 2}), (10, 20, {'k': 2, 'n': 1})]
    """

    def __init__(self, node: Panes) -> None:
        assert node.table is not None
        self.schema = node.schema
        self._keys, self._table = node.keys, node.table
        self._grid = Grid(node.window)
        self._arguments = ArgumentProjection(node.aggregates, node.keys, node.input.schema)
        self._partials = Partials(self._arguments, node.schema)
        self._fields = [node.schema.field(name) for name in node.keys]
        self._whole = all(pa.types.is_signed_integer(field.type) for field in self._fields)
        self._key_index = KeyIndex(self._fields)
        slots = node.table.slots
        width = self._width = max(len(self._keys), 1)
        self._held = np.zeros((width + 2 + len(self._partials.names), slots), np.int64)
        self._first = self._held[width]
        self._first[:] = _FREE
        self._none = self._held[:, :0]
        self._pages = Pages()
        self._cti, self._newest, self._position, self._credit = MIN_TIME, NEVER, 0, 0
        self._arrived = NO_PROGRESS
        """The promises that came with the last batch ..."""
        self._promised_so_far = NO_PROGRESS
        """... and with all of them, for all groups and for each that is open."""
        self._swept = NEVER
        """For a promise in this pane or before, no sum in the table is overdue."""

    # --------------------------------------------------------------------------------------------
    # flow

    def process(self, port: int, batch: Batch) -> Batch:
        sent: list[Numbers] = []
        if len(batch):
            delta = Delta.of_batch(batch)
            if self._whole and any(delta.payload.column(name).null_count for name in self._keys):
                sent.append(self._give_numbers())
            for begin in range(0, len(delta), _CHUNK):
                end = min(begin + _CHUNK, len(delta))
                sent += self._chunk(delta if end - begin == len(delta) else delta.slice(begin, end))
        self._cti = max(self._cti, batch.progress.cti)
        sent.append(self._send_overdue())
        promised, areas = self._promised(batch.progress)
        if promised:
            sent.append(self._send_promised(batch.progress.scope_columns, promised))
        if areas:
            sent.append(self._send_areas(batch.progress))
        if batch.is_adjust is not None:
            sent.append(self._send_settled())
        promise = self._promise()
        scoped = {scope: self._grid.last_end_by(time) for scope, time in promised.items()}
        scoped = {scope: time for scope, time in scoped.items() if time > promise}
        progress = Progress(promise)
        if scoped or areas:
            areas = areas.map(self._grid.last_end_by).merge(NO_AREAS, promise)
            progress = Progress(promise, batch.progress.scope_columns, scoped, areas=areas)
        answer = self._batch(sent, progress)
        if self._key_index.is_untidy:
            self._tidy()
        return answer

    def _chunk(self, delta: Delta) -> list[Numbers]:
        """Put the sums of some rows into the table; returns the sums that leave it."""
        arguments = self._arguments.arguments(delta.payload, delta.start)
        keys = [delta.payload.column(name) for name in self._keys]
        identity = self._identify(keys, len(delta))
        first, beyond = self._grid.first(delta.start), self._grid.beyond(delta.end)
        partials = self._partials.of_rows(arguments.__getitem__, delta.start, delta.weight)
        length = beyond - first
        even = least(length) == greatest(length)
        alike = [*identity, first, *([] if even else [beyond])]
        representative, totals = sum_alike(alike, len(first), partials)
        sums = np.empty((len(self._held), len(representative)), np.int64)
        sums[: self._width] = identity.take(representative, axis=1)
        sums[self._width] = first[representative]
        sums[self._width + 1] = beyond[representative]
        sums[self._width + 2 :] = totals
        return [*self._pace(len(delta), greatest(first)), *self._put(sums)]

    def _give_numbers(self) -> Numbers:
        """Null is no whole number: from now on all groups have numbers of their own. What was in
        the table leaves it. Nothing may have been sent before in this batch: it would be named by
        the wrong numbers."""
        sent = self._send(self._full())
        keys = self._named(sent)
        self._whole = False
        sent[: self._width] = self._identify(keys, sent.shape[1])
        return sent

    def _identify(self, keys: list[pa.Array], length: int) -> Numbers:
        """The identity of each group, as rows of whole numbers."""
        if self._whole and keys:
            return np.array([key.to_numpy() for key in keys], np.int64)
        return np.concatenate(
            [
                self._key_index.numbers(keys, length)[None],
                np.zeros((self._width - 1, length), np.int64),
            ]
        )

    def _slots(self, sums: Numbers) -> Codes:
        """The place of each sum in the table, by its group."""
        mixed = np.zeros(sums.shape[1], np.uint64)
        for row in sums[: self._width].astype(np.uint64):
            mixed = (mixed ^ row) * _SPREAD
            mixed ^= mixed >> np.uint64(29)
        return (mixed % np.uint64(self._table.slots)).astype(np.int64)

    def _put(self, sums: Numbers) -> list[Numbers]:
        """Put sums into the table; returns the sums that lose their places."""
        width = self._width
        # An adjust may change what is long over.
        self._swept = min(self._swept, least(sums[width]) + self._table.late)
        slot = self._slots(sums)
        order = sort_pairs(slot, sums[width])
        slot, sums = slot.take(order), sums.take(order, axis=1)
        newest = np.ones(len(slot), np.bool_)  # of a place: it stays
        np.not_equal(slot[1:], slot[:-1], out=newest[:-1])
        sent = []
        if np.count_nonzero(newest) < len(newest):
            sent.append(sums.take((~newest).nonzero()[0], axis=1))
            slot, sums = slot[newest], sums.take(newest.nonzero()[0], axis=1)
        held = self._held.take(slot, axis=1)
        same = np.logical_and.reduce(held[: width + 2] == sums[: width + 2], axis=0)
        sums[width + 2 :] += held[width + 2 :] * same
        others = (~same & (held[width] != _FREE)).nonzero()[0]
        if len(others):
            sent.append(held.take(others, axis=1))
        self._held[:, slot] = sums
        self._pages.touch(slot)
        return sent

    def _named(self, sums: Numbers) -> list[pa.Array]:
        """The keys of the groups of some sums."""
        if self._whole:
            return [
                pa.array(row, field.type) for row, field in zip(sums, self._fields, strict=False)
            ]
        return self._key_index.columns(sums[0])

    # --------------------------------------------------------------------------------------------
    # flushing

    def _full(self) -> Codes:
        """The places that have a sum."""
        return np.flatnonzero(self._first != _FREE)

    def _old(self) -> Codes:
        """The places of sums of windows that are over by the newest row."""
        return np.flatnonzero(self._first < self._newest)

    def _next_old(self, many: int) -> Codes:
        """At most `many` of these places, after those found last."""
        found, slots, step = [np.empty(0, np.int64)], self._table.slots, max(8 * many, 4_096)
        while many and self._position < slots:
            at = (
                np.flatnonzero(self._first[self._position : self._position + step] < self._newest)[
                    :many
                ]
                + self._position
            )
            self._position = (
                int(at[-1]) + 1 if len(at) == many else min(self._position + step, slots)
            )
            many -= len(at)
            found.append(at)
        return np.concatenate(found)

    def _pace(self, rows: int, newest: int) -> list[Numbers]:
        """The sums that leave the table as time advances, besides collisions."""
        began = newest > self._newest
        self._newest = max(self._newest, newest)
        if self._table.flush == "at end":
            return [self._send(self._old())] if began else []
        if self._table.flush == "slow":
            if began:
                self._position = 0
            self._credit += rows
            many, self._credit = divmod(self._credit, self._table.every)
            return [self._send(self._next_old(many))]
        return []

    def _send_overdue(self) -> Numbers:
        """The sums that may not wait any longer."""
        if self._cti == INFINITY:
            return self._send(self._full())
        # Windows end by what rows tell, too: without promises nothing else would.
        pane = self._newest
        if self._cti != MIN_TIME:
            pane = max(pane, self._pane(self._cti))
        if pane <= self._swept:
            return self._none
        self._swept = pane
        return self._send((self._first < pane - self._table.late).nonzero()[0])

    def _promised(self, progress: Progress) -> tuple[Mapping[Scope, int], AreaPromises]:
        """Promises for groups that are new, where they are about the keys: for one group, and for
        areas."""
        last, self._arrived = self._arrived, progress
        if progress is last:
            return {}, NO_AREAS
        before = self._promised_so_far
        if not set(progress.scope_columns) <= set(self._keys):
            progress = Progress(progress.cti)
        named, areas = progress.scoped, progress.areas
        self._promised_so_far = before.advance(
            Progress(progress.cti, progress.scope_columns, named, areas=areas)
        )
        before = before.naming(progress.scope_columns)
        news = {scope: time for scope, time in named.items() if time > before.of(scope)}
        return news, NO_AREAS if areas == last.areas else areas

    def _send_areas(self, progress: Progress) -> Numbers:
        """The sums of windows that are over by the promises for areas of groups."""
        at = self._full()
        keys = dict(zip(self._keys, self._named(self._held[:, at]), strict=True))
        return self._send_over(at, groups_in_areas(progress, keys, len(at)))

    def _send_settled(self) -> Numbers:
        """Sums of windows that are over for their group by all that was promised so far."""
        at, promised = self._full(), self._promised_so_far
        times = np.full(len(at), promised.cti)
        if promised.speaks_of_groups:
            keys = pa.RecordBatch.from_arrays(
                self._named(self._held[:, at]), names=list(self._keys)
            )
            times = promises_of_rows(promised, keys, promised.scope_columns)
        return self._send_over(at, times)

    def _send_over(self, at: Codes, promised: Times) -> Numbers:
        """Of the sums at some places those of windows that are over; for each, what is promised to
        its group."""
        until = np.full(len(at), NEVER)
        until[promised == INFINITY] = _FREE
        some = (promised > MIN_TIME) & (promised < INFINITY)
        until[some] = self._grid.first(promised[some])
        return self._send(at[self._first[at] < until])

    def _send_promised(self, columns: tuple[str, ...], promised: Mapping[Scope, int]) -> Numbers:
        """The sums of windows that are over by the promises for their groups. A sum that was
        restored may be anywhere in the table."""
        at = self._full()
        named = dict(zip(self._keys, self._named(self._held[:, at]), strict=True))
        held = [named[name] for name in columns]
        scopes = [
            column_of(values, column.type)
            for values, column in zip(zip(*promised, strict=True), held, strict=True)
        ]
        group, scope, size = encode_together(held, scopes, (len(at), len(promised)))
        times = promised.values()
        until = np.full(size, NEVER)
        until[scope] = [_FREE if time == INFINITY else self._pane(time) for time in times]
        return self._send(at[self._first[at] < until[group]])

    def _pane(self, time: int) -> int:
        """The first window of a row that starts at a time."""
        return self._grid.last_ending_by(time) + 1

    def _send(self, at: Codes) -> Numbers:
        if not len(at):
            return self._none
        sent = self._held.take(at, axis=1)
        self._first[at] = _FREE
        self._pages.touch(at)
        return sent

    def _promise(self) -> int:
        if self._cti in (MIN_TIME, INFINITY):
            return self._cti
        return self._start(min(self._pane(self._cti), least(self._first)))

    def _start(self, first: int) -> int:
        """The start of the pane of rows with this first window."""
        return self._grid.end(first - 1)

    def needs(self, time: int) -> tuple[int, ...]:
        if time <= MIN_TIME or time == INFINITY:
            return (time,)
        pane = self._pane(time) if self._start(self._pane(time)) >= time else self._pane(time) + 1
        waiting = self._first[self._first < pane]
        return (
            self._start(
                max(pane, int(waiting.max()) + self._table.late + 1) if len(waiting) else pane
            ),
        )

    def _batch(self, sent: list[Numbers], progress: Progress) -> Batch:
        sent = [sums for sums in sent if sums.shape[1]]
        if not sent:
            return Batch.empty(self.schema, progress)
        sums = sent[0] if len(sent) == 1 else np.concatenate(sent, axis=1)
        columns = [*self._named(sums), *map(whole_column, sums[self._width + 2 :])]
        payload = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        first, beyond = sums[self._width], sums[self._width + 1]
        start, end = self._grid.end(first - 1), self._grid.ending_at(beyond)
        return Batch(payload, start, end, progress=progress)

    # --------------------------------------------------------------------------------------------
    # state

    def _tidy(self) -> None:
        """Number only the groups in the table. The place of a group follows from its number, so
        that all sums are placed anew."""
        at = self._full()
        sums = self._held.take(at, axis=1)
        moved = self._key_index.keep(np.unique(sums[0]))
        sums[0] = moved[sums[0]]
        self._first[:] = _FREE
        self._pages.touch_all()
        self._place(sums)

    def _place(self, sums: Numbers) -> None:
        """Place the sums of a saved table. Where two sums have the same place, one gets a free
        place, in which it is found by time alone."""
        wanted = self._slots(sums)
        order = np.argsort(wanted, kind="stable")
        alone = np.ones(len(order), np.bool_)
        alone[1:] = wanted[order][1:] != wanted[order][:-1]
        free = np.setdiff1d(np.arange(self._table.slots), wanted)
        at = wanted.copy()
        at[order[~alone]] = free[: int((~alone).sum())]
        self._held[:, at] = sums

    def snapshot(self) -> Slices:
        marks = [self._cti, self._newest, self._position, self._credit, int(self._whole)]
        slices = {
            **self._pages.snapshot(self._first != _FREE, self._write),
            "marks": pa.RecordBatch.from_arrays([pa.array(marks, pa.int64())], names=["marks"]),
        }
        if self._promised_so_far.speaks_of_groups:
            slices["promised"] = slice_of_progress([self._promised_so_far])
        return slices

    def _write(self, at: Codes) -> Slices:
        sums = self._held.take(at, axis=1)
        columns = [*self._named(sums), *map(whole_column, sums[self._width :])]
        names = [*self._keys, _FIRST, _BEYOND, *self._partials.names]
        return {"table": pa.RecordBatch.from_arrays(columns, names=names)}

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self._cti, self._newest, self._position, self._credit, whole = (
            slices["marks"].column(0).to_pylist()
        )
        self._whole, self._swept, self._arrived = bool(whole), NEVER, NO_PROGRESS
        self._promised_so_far = Progress(self._cti)
        if "promised" in slices:
            [self._promised_so_far] = progress_of_slice(slices["promised"])
        self._key_index.clear()
        self._first[:] = _FREE
        self._pages.touch_all()
        rows = read_whole("table", slices)
        if rows is None:
            return
        identity = self._identify([rows.column(name) for name in self._keys], rows.num_rows)
        names = [_FIRST, _BEYOND, *self._partials.names]
        rest = [rows.column(name).to_numpy() for name in names]
        self._place(np.concatenate([identity, np.array(rest, np.int64)]))

    def state_size(self) -> StateSize:
        return StateSize(len(self._full()), self._held.nbytes + self._key_index.nbytes)
