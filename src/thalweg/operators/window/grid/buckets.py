"""Hopping windows over points, by buckets: WID, Paned-WID, buffering, and a choice between them for
each group.

Meaning: that of a hopping aggregate (`rows`). A row is tagged with the windows it belongs
to, first .. beyond - 1, and becomes

    eager, by window    a part of the partial result of each of its windows, at once     (WID)
    eager, by pane      a part of the partial result of its pane, gcd(range, slide) long (Paned-WID)
    lazy                itself, in a buffer, until its last window has closed

A window's answer merges its parts in all three forms, so that a group may change from one form to
another at any time without a change of the answer. An adaptive kernel does so by the rules of
`adaptation`: every group begins lazy; it turns eager when rows arrive, by making partial results of
its buffer; it turns lazy when windows close, and its partial results stay until their windows close
too.

Rows are never retracted. Null keys are a group. A late row is added to windows that have answered,
which answer again if their result changed. State: cells by window or pane, the buffer, and for an
adaptive kernel a flag and a count for each group; closing a window drops what only it needs. The
promise is the start of the earliest window that is not closed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
import pyarrow as pa

from thalweg.model.delta import Delta
from thalweg.model.names import internal
from thalweg.model.rows import (
    Bools,
    Codes,
    Rows,
    empty_rows,
    encode,
    used_codes,
)
from thalweg.model.sorting import representatives
from thalweg.model.time import INFINITY, MIN_TIME, Times
from thalweg.operators.arguments import PRESENT, ArgumentProjection
from thalweg.operators.base import Slices, StateSize
from thalweg.operators.consistency import Consistency
from thalweg.operators.groups import covered, ranges
from thalweg.operators.window.accumulators import Accumulators
from thalweg.operators.window.extents import Frames, occupied
from thalweg.operators.window.grid.eager_groups import EagerGroups
from thalweg.operators.window.grid.grid import FOREVER, NEVER
from thalweg.operators.window.grid.loop import Arrivals, ComparingGridOperator
from thalweg.operators.window.items import Items
from thalweg.plan.nodes import CombinePanes, WindowAggregate
from thalweg.state.key_index import KeyIndex
from thalweg.state.placed import PlacedSlices
from thalweg.windows import HoppingWindow

__all__ = ["BucketAggregateKernel"]


_AT = internal("at")

_FEW = 3
"""Up to this many windows, each row is added to each of them; for more, ranges of rows are
merged."""


class BucketAggregateKernel(ComparingGridOperator[Items]):
    """
    >>> import thalweg as tw
    >>> events = tw.source("s", {"v": "int64"}, insert_only=True)
    >>> query = events.sliding(10, 5).using("adaptive").aggregate(most=tw.max_("v"))
    >>> tw.table(query, {"s": [tw.point({"v": 1}, 2), tw.point({"v": 3}, 7)]})
    [(-5, 5, {'most': 1}), (0, 10, {'most': 3}), (5, 15, {'most': 3})]
    """

    def __init__(
        self,
        node: WindowAggregate | CombinePanes,
        consistency: Consistency,
        *,
        eager: bool = True,
        by_pane: bool = False,
        adaptive: bool = False,
    ) -> None:
        assert isinstance(node.window, HoppingWindow)
        self.schema = node.schema
        rows = node.rows if isinstance(node, CombinePanes) else node.input.schema
        self._sources = None if isinstance(node, CombinePanes) else node.sources
        self._keys, self._window = node.keys, node.window
        self._eager, self._by_pane, self._adaptive = eager, by_pane, adaptive
        self._arguments = ArgumentProjection(node.aggregates, node.keys, rows)
        self._sums = Accumulators(self._arguments, node.schema)
        self._place_on(node.window, consistency)
        fields = [node.schema.field(name) for name in node.keys]
        self._key_index = KeyIndex(fields)
        nothing = np.empty(0, np.int64)
        self._none = Items(nothing, nothing, empty_rows(self._sums.schema))
        concat = partial(Items.concat, none=self._none)
        self._cells = PlacedSlices(concat, self._merged)
        """By window, or by pane."""
        # A buffered row is its arguments, which are fewer than the columns of a partial result;
        # Arrow cannot count rows of none.
        arguments = [f for f in self._arguments.schema if f.name not in node.keys]
        self._bare = not arguments
        self._row_schema = pa.schema(arguments or [PRESENT])
        self._buffer = PlacedSlices(concat)
        """By time."""
        self._sketched = not all(call.aggregate.repeatable for _, call in node.aggregates)
        results = pa.schema([node.schema.field(name) for name, _ in node.aggregates])
        self._no_answers = Items(nothing, nothing, empty_rows(results))
        self._out = PlacedSlices(concat)
        self._no_rows = Items(nothing, nothing, empty_rows(self._row_schema))
        self._step = node.window.pane if by_pane else node.window.hop
        self._choice = EagerGroups(
            self._key_index,
            self._buffer,
            _bytes_of(self._sums.schema),
            _bytes_of(self._row_schema),
            node.window.size,
            self._step,
        )
        self.switches = self._choice.switches

    # --------------------------------------------------------------------------------------------
    # rows in

    def read(self, delta: Delta, first: Codes, beyond: Codes) -> Arrivals[Items]:
        rows = self._project(delta)
        group = self._key_index.numbers([rows.column(name) for name in self._keys], len(delta))
        if self._adaptive:
            source = None if self._sources is None else delta.payload.column(self._sources)
            self._choice.see(delta.start, first, beyond, self._release.cti, source)
        return Arrivals(Items(group, delta.start, self._as_rows(rows)), group, first, beyond)

    def hold(self, arrivals: Arrivals[Items]) -> None:
        self._add(arrivals.rows, arrivals.first, arrivals.beyond)

    def _project(self, delta: Delta) -> Rows:
        """The keys and arguments of each row."""
        return self._arguments.project(delta.payload, delta.start)

    def _as_rows(self, rows: Rows) -> Rows:
        if self._bare:
            return pa.RecordBatch.from_arrays(
                [pa.array(np.ones(rows.num_rows, np.bool_))], schema=self._row_schema
            )
        return rows.select(self._row_schema.names)

    def _as_parts(self, items: Items) -> Items:
        """The partial results of rows."""
        return Items(items.group, items.at, self._sums.of_rows(items.parts, items.at))

    def _add(self, items: Items, first: Codes, beyond: Codes) -> None:
        if self._choice.watches:
            self._turn_eager(items.group)
            eager = self._choice.is_eager[items.group]
        else:
            eager = np.full(len(items), self._eager)
        if eager.all():
            self._add_eager(items, first, beyond)
            return
        if eager.any():
            self._add_eager(items.where(eager), first[eager], beyond[eager])
        lazy = items.where(~eager)
        self._buffer.add(lazy)
        self._choice.count(lazy.group, 1)

    def _add_eager(self, items: Items, first: Codes, beyond: Codes) -> None:
        """Add rows to the cells of their windows, or of their panes."""
        items = self._as_parts(items)
        if self._by_pane:
            items = Items(items.group, self._pane(items.at), items.parts)
        else:
            low = np.maximum(first, self._release.closed + 1)
            many = np.maximum(beyond - low, 0)
            if (many == 1).all():
                items = Items(items.group, low, items.parts)
            else:
                which, window = ranges(low, many)
                items = Items(items.group[which], window, items.parts.take(pa.array(which)))
        if len(items):
            self._cells.add(self._merged(items))

    def _pane(self, start: Times) -> Codes:
        return (start - self._grid.offset) // self._window.pane

    def _some(
        self, held: PlacedSlices[Items], low: int, beyond: int, touched: Bools | None
    ) -> list[Items]:
        """Items with low <= place < beyond, of all groups or of some; for all groups, items of
        equal group and place are merged."""
        if touched is None:
            return held.between(low, beyond, summed=True)
        found = held.between(low, beyond)
        return [items.where(touched[items.group]) for items in found]

    def _merged(self, items: Items) -> Items:
        """Merge partial results of equal group and place."""
        if len(items) < 2:
            return items
        code, size = encode([items.group, items.at], len(items))
        if size == len(items):
            return items
        representative = representatives(code, size)
        return Items(
            items.group[representative],
            items.at[representative],
            self._sums.merge(items.parts, code, size),
        )

    # --------------------------------------------------------------------------------------------
    # answering

    def evaluate(self, low: int, high: int, groups: Codes | None = None) -> Delta:
        return self._answers(self._parts_of(low, high, self._mask(groups)))

    def _mask(self, groups: Codes | None) -> Bools | None:
        if groups is None:
            return None
        mask = np.zeros(len(self._key_index), np.bool_)
        mask[groups] = True
        return mask

    def _parts_of(self, low: int, high: int, touched: Bools | None = None) -> Items:
        """The partial results of the windows low .. high, of all groups or of some."""
        begin, end = self._grid.start(low), self._grid.end(high)
        rows = Items.concat(self._some(self._buffer, begin, end, touched), self._no_rows)
        timed, eager = self._as_parts(rows), self._none
        if self._by_pane:
            first, beyond = (
                (time - self._grid.offset) // self._window.pane for time in (begin, end)
            )
            panes = Items.concat(self._some(self._cells, first, beyond, touched), self._none)
            at = self._pane_start(panes.at)
            timed = Items.concat([timed, Items(panes.group, at, panes.parts)], self._none)
        else:
            eager = Items.concat(self._some(self._cells, low, high + 1, touched), self._none)
            eager = eager if touched is None else self._merged(eager)
        lazy = self._expanded(timed, low, high)
        if not len(eager) or not len(lazy):
            return eager if len(eager) else lazy
        both = np.zeros(len(self._key_index), np.bool_)
        both[eager.group] = True
        items = Items.concat([eager, lazy], self._none)
        return (
            self._merged(items) if both[lazy.group].any() else items
        )  # only a group in transition has both

    def _pane_start(self, pane: Codes) -> Times:
        return pane * self._window.pane + self._grid.offset

    def _expanded(self, items: Items, low: int, high: int) -> Items:
        """The partial results of the windows low .. high, from rows and panes, each of which lies
        in one of these windows at least."""
        if not len(items):
            return self._none
        if low == high:
            return self._merged(Items(items.group, np.full(len(items), low), items.parts))
        first = max(low, int(self._grid.first(items.at).min()))
        last = min(high, int(self._grid.beyond(items.at + 1).max()) - 1)
        if last - first < _FEW:
            begin, beyond = (
                np.maximum(self._grid.first(items.at), first),
                np.minimum(self._grid.beyond(items.at + 1), last + 1),
            )
            which, at = ranges(begin, np.maximum(beyond - begin, 0))
            return self._merged(Items(items.group[which], at, items.parts.take(pa.array(which))))
        window = self._reached(items.at, first, last)
        start = self._grid.start(window)
        frames = Frames(
            np.zeros(len(window), np.int64),
            start,
            start + self._grid.size,
            start,
            start + self._grid.size,
            window,
        )
        found = occupied(frames, np.zeros(len(items), np.int64), items.group, items.at)
        merged = self._sums.over_ranges(items.parts.take(pa.array(found.rows)), found.lo, found.hi)
        return Items(items.group[found.representative], window[found.frame], merged)

    def _reached(self, at: Times, low: int, high: int) -> Codes:
        """The windows low .. high that contain some of these times, however far apart the times
        are."""
        at = np.sort(at)
        first = np.maximum(self._grid.first(at), low)
        return covered(first, np.minimum(self._grid.beyond(at + 1), high + 1))

    def shown(self, low: int, high: int, groups: Codes) -> Delta:
        """The answers of some windows and groups that have answered. Sums are computed again;
        answers of sketches are kept."""
        touched = self._mask(groups)
        assert touched is not None
        if not self._sketched:
            return self._results(self._parts_of(low, high, touched))
        shown: list[Items] = []

        def touches(items: Items) -> Bools:
            touching: Bools = touched[items.group] & (items.at >= low) & (items.at <= high)
            shown.append(items.take(np.flatnonzero(touching)))
            return touching

        self._out.drop(touches, low, high + 1)
        answers = Items.concat(shown, self._no_answers)
        return self._stamped(answers, answers.parts.columns)

    def _answers(self, items: Items) -> Delta:
        answers = self._results(items)
        if self._sketched and len(items):
            width = len(self._keys)
            results = pa.RecordBatch.from_arrays(
                answers.payload.columns[width:], schema=self._no_answers.parts.schema
            )
            self._out.add(Items(items.group, items.at, results))
        return answers

    def _stamped(self, items: Items, results: list[pa.Array]) -> Delta:
        """Answers from the groups and windows of items, and their aggregates."""
        columns = self._key_index.columns(items.group) if self._keys else []
        payload = pa.RecordBatch.from_arrays([*columns, *results], schema=self.schema)
        start = self._grid.start(items.at)
        return Delta(payload, start, start + self._grid.size, np.ones(len(items), np.int64))

    def _results(self, items: Items) -> Delta:
        return self._stamped(items, self._sums.results(items.parts))

    def _turn_eager(self, group: Codes) -> None:
        """Turn the buffered rows of groups that become eager into partial results."""
        dense = self._choice.turn_eager(group)
        if dense is None:
            return
        leaving: list[Items] = []

        def is_dense(items: Items) -> Bools:
            leaves: Bools = dense[items.group]
            leaving.append(items.where(leaves))
            return leaves

        self._buffer.drop(is_dense)
        moving = Items.concat(leaving, self._no_rows)
        self._add_eager(moving, self._grid.first(moving.at), self._grid.beyond(moving.at + 1))

    # --------------------------------------------------------------------------------------------
    # forgetting

    @property
    def index(self) -> KeyIndex:
        return self._key_index

    def close(self, expired: int) -> None:
        closed = self._release.closed
        if self._adaptive:
            self._choice.close(closed, self._cells, self._window.pane if self._by_pane else None)
        open_from = self._grid.start(closed + 1)
        for rows in self._buffer.take_until(open_from - 1):
            self._choice.count(rows.group, -1)
        last = closed
        if self._by_pane:
            last = (open_from - self._grid.offset) // self._window.pane - 1
        self._cells.drop_until(last)
        self._out.drop_until(closed)

    def held_groups(self) -> Codes:
        return used_codes([held.groups() for held in self._stores()])

    def _stores(self) -> list[PlacedSlices[Items]]:
        return [self._buffer, self._cells, self._out]

    def drop_closed(self, closed: Codes) -> None:
        begin = np.full(len(closed), MIN_TIME)
        some = (closed != NEVER) & (closed != FOREVER)
        begin[some] = self._grid.start(closed[some] + 1)
        begin[closed == FOREVER] = INFINITY

        def rows_over(rows: Items) -> Bools:
            over: Bools = rows.at < begin[rows.group]
            self._choice.count(rows.group[over], -1)
            return over

        def panes_over(cells: Items) -> Bools:
            over: Bools = self._pane_start(cells.at) < begin[cells.group]
            return over

        def windows_over(cells: Items) -> Bools:
            over: Bools = cells.at <= closed[cells.group]
            return over

        self._buffer.drop(rows_over)
        self._cells.drop(panes_over if self._by_pane else windows_over)
        self._out.drop(windows_over)

    def clear(self) -> None:
        for held in self._stores():
            held.clear()
        self._choice.clear()
        self._key_index.clear()

    def renumber(self, moved: Codes) -> None:
        for held in self._stores():
            held.renumber(moved)
        self._choice.renumber(moved)

    # --------------------------------------------------------------------------------------------
    # state

    def _write(self, items: Items) -> Rows:
        columns = {
            _AT: pa.array(items.at),
            **dict(zip(items.parts.schema.names, items.parts.columns, strict=True)),
        }
        keys = self._key_index.columns(items.group) if self._keys else []
        return pa.RecordBatch.from_arrays([*keys, *columns.values()], names=[*self._keys, *columns])

    def _write_groups(self, groups: Codes) -> Slices:
        return {
            "eager": pa.RecordBatch.from_arrays(
                [*self._key_index.columns(groups), pa.array(np.ones(len(groups), np.bool_))],
                names=[*self._keys, PRESENT.name],
            )
        }

    def _groups_of(self, rows: Rows) -> Codes:
        return self._key_index.numbers(rows.columns[: len(self._keys)], rows.num_rows)

    def _read(self, rows: Rows, schema: pa.Schema) -> Items:
        parts = pa.RecordBatch.from_arrays(
            [rows.column(name) for name in schema.names], schema=schema
        )
        return Items(self._groups_of(rows), rows.column(_AT).to_numpy(), parts)

    def save(self) -> Slices:
        slices: Slices = {}
        for name, held in zip(("buffer", "cells", "out"), self._stores(), strict=True):
            slices |= held.snapshot(name, self._write)
        if self._adaptive:
            slices |= self._choice.snapshot(self._write_groups)
        return slices

    def load(self, slices: Mapping[str, Rows]) -> None:
        self.clear()
        schemas = (self._row_schema, self._sums.schema, self._no_answers.parts.schema)
        names = ("buffer", "cells", "out")
        for name, held, schema in zip(names, self._stores(), schemas, strict=True):
            held.restore(name, slices, partial(self._read, schema=schema))
        if self._adaptive:
            self._choice.restore(slices, self._groups_of)

    def state_size(self) -> StateSize:
        own = StateSize(0, self._choice.nbytes + self._key_index.nbytes)
        return own + self._buffer.size() + self._cells.size() + self._out.size()


def _bytes_of(schema: pa.Schema) -> float:
    """The bytes of an item: group, place and columns."""
    return 16.0 + sum(
        field.type.bit_width / 8 if pa.types.is_primitive(field.type) else 16.0 for field in schema
    )
