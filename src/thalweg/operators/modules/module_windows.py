"""From rows in windows to a module's answers as rows of the stream: clipping, order, calls, stamps,
failures.

The rows of a window reach the module in canonical order (start, then the values of its inputs, then
end), so that what it returns cannot depend on the order of arrival. Output is stamped by the
query's policy; an event that the module stamped before its window is a failure. A failure raises
(`fail`), or goes to the dead letters (`skip`) and the window has no answer.
"""

from __future__ import annotations

import json
import zlib
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.errors import ModuleError
from thalweg.expr import Frame
from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.names import internal
from thalweg.model.nested import nested_texts
from thalweg.model.rows import Bools, Codes, Rows, encode, take_rows
from thalweg.model.sorting import order_by_code, representatives, sort_pairs
from thalweg.model.time import Times, greatest, least
from thalweg.operators.arguments import PRESENT
from thalweg.operators.frames import frame_of
from thalweg.operators.modules.dead_letters import DeadLetters
from thalweg.operators.modules.window_entries import Answered, Entries
from thalweg.operators.modules.window_frames import Spans
from thalweg.plan.nodes import WidApply, WindowApply
from thalweg.udm.calls import Caller, Cells
from thalweg.udm.results import Answers

__all__ = ["ModuleWindows", "Stepped", "checksum"]

_SAMPLE = 3
"""Rows that a message or a dead letter shows."""


class Stepped(NamedTuple):
    """What an incremental module remembers of a window, and of how many rows that count."""

    state: Any
    filled: int


class ModuleWindows:
    """The module of a node, ready to be called on windows of held rows."""

    def __init__(self, node: WindowApply | WidApply) -> None:
        self.node = node
        self.module = node.module
        keys = [node.input.schema.field(name) for name in node.columns]
        self.key_schema = pa.schema(keys or [PRESENT])
        """Arrow cannot count rows without columns: a stream without groups has a column that says
        nothing."""
        self._names = [internal(f"argument{at}") for at in range(len(node.arguments))]
        self._used = frozenset(name for _, expr in node.arguments for name in expr.columns())
        self.inputs = node.input_schema()
        types = self.inputs.types
        self.held = pa.schema(
            [
                *self.key_schema,
                *(pa.field(name, kind) for name, kind in zip(self._names, types, strict=True)),
            ]
        )
        self._front = len(node.columns) + (1 if isinstance(node, WidApply) and node.wid else 0)
        outputs = node.schema.names[self._front :]
        self.caller = Caller(
            node.module,
            node.params,
            pa.schema([node.schema.field(name) for name in outputs]),
            node.time_limit,
        )
        self.letters = DeadLetters()

    # --------------------------------------------------------------------------------------------
    # rows

    def project(self, batch: Batch) -> Delta:
        """The changes a batch makes to the rows that are held: keys and arguments."""
        delta = Delta.of_batch(batch)
        frame = frame_of(delta.payload, delta.start, self._used)
        columns = [delta.payload.column(name) for name in self.node.columns] or [
            pa.array(np.ones(len(delta), np.bool_))
        ]
        columns += self._evaluated(frame)
        return Delta(
            pa.RecordBatch.from_arrays(columns, schema=self.held),
            delta.start,
            delta.end,
            delta.weight,
        )

    def _evaluated(self, frame: Frame) -> list[pa.Array]:
        found = []
        for (_, expr), kind in zip(self.node.arguments, self.inputs.types, strict=True):
            array = expr.evaluate(frame)
            found.append(array if array.type == kind else _cast(array, kind))
        return found

    @property
    def argument_fields(self) -> list[pa.Field]:
        return list(self.held)[len(self.key_schema) :]

    def argument_columns(self, delta: Delta) -> list[pa.Array]:
        """The module's inputs, of some rows."""
        return self._evaluated(frame_of(delta.payload, delta.start, self._used))

    def arguments(self, rows: Rows) -> Rows:
        return pa.RecordBatch.from_arrays(rows.columns[len(self.key_schema) :], schema=self.inputs)

    def keys(self, rows: Rows) -> Rows:
        return pa.RecordBatch.from_arrays(
            rows.columns[: len(self.key_schema)], schema=self.key_schema
        )

    def clipped(self, start: Times, end: Times, spans: Spans, window: Codes) -> tuple[Times, Times]:
        """Lifetimes as the module sees them; where it sees none, they are all alike."""
        if not self.module.time_sensitive:
            return np.zeros(len(start), np.int64), np.ones(len(start), np.int64)
        if self.node.clip in ("left", "full"):
            start = np.maximum(start, spans.start[window])
        if not self.node.ends_matter:
            end = np.minimum(end, spans.end[window])
        return start, end

    def net(
        self, delta: Delta, row: Codes, window: Codes, spans: Spans
    ) -> tuple[Codes, Codes, Codes]:
        """What changes mean to windows: pairs (row, window) and how often it came or went, as far
        as the module can tell."""
        if least(delta.weight) > 0:  # nothing cancels out
            return row, window, delta.weight[row]
        start, end = self.clipped(delta.start[row], delta.end[row], spans, window)
        payload, _ = encode(self.arguments(delta.payload).columns, len(delta))
        position = (
            [] if self.module.properties.any_order else [delta.start[row]]
        )  # rows come in order of start
        alike, count = encode([window, payload[row], start, end, *position], len(row))
        total = np.zeros(count, np.int64)
        np.add.at(total, alike, delta.weight[row])
        representative = representatives(alike, count)
        live = np.flatnonzero(total)
        return row[representative[live]], window[representative[live]], total[live]

    def cells(self, rows: Delta, row: Codes, window: Codes, times: Codes, spans: Spans) -> Cells:
        """The windows with their rows, in canonical order. `times` says how often each pair
        counts."""
        if not (times == 1).all():
            row, window = np.repeat(row, times), np.repeat(window, times)
        return self.cells_of(self.arguments(rows.payload), rows.start, rows.end, row, window, spans)

    def cells_of(
        self, inputs: Rows, start: Times, end: Times, row: Codes, window: Codes, spans: Spans
    ) -> Cells:
        """The windows with their rows, in canonical order, each pair of a row and a window once;
        `inputs` are what the module gets of the rows."""
        order = (
            order_by_code(window, len(spans))
            if self.module.properties.any_order
            else self.order(inputs, start, end, row, window)
        )
        row, window = row[order], window[order]
        start, end = start[row], end[row]
        if self.module.time_sensitive:
            start, end = self.clipped(start, end, spans, window)
        offsets = np.zeros(len(spans) + 1, np.int64)
        np.cumsum(np.bincount(window, minlength=len(spans)), out=offsets[1:])
        return Cells(take_rows(inputs, row), start, end, offsets, spans.start, spans.end)

    def order(self, rows: Rows, start: Times, end: Times, row: Codes, window: Codes) -> Codes:
        """The canonical order of pairs of a row and a window."""
        starts = start[row]
        order = sort_pairs(window, starts)
        cell, first = window[order], starts[order]
        if not ((cell[1:] == cell[:-1]) & (first[1:] == first[:-1])).any():
            return order
        ranks = [_rank(column)[row] for column in rows.columns]
        return np.lexsort((end[row], *reversed(ranks), starts, window))

    # --------------------------------------------------------------------------------------------
    # answers

    def answered(
        self, answers: Answers, entries: Entries, cells: Cells | None
    ) -> tuple[Answered, list[int]]:
        """Answers as rows of the stream, and the windows (positions in `entries`) that failed."""
        cell, start, end = answers.cell, answers.start, answers.end
        failures = dict(answers.failures)
        keep = np.ones(len(cell), np.bool_)
        if self.node.stamp == "align":
            start, end = entries.start[cell], entries.end[cell]
        elif self.node.stamp == "clip":
            start, end = np.maximum(start, entries.start[cell]), np.minimum(end, entries.end[cell])
            keep = start < end
        elif self.node.stamp != "unrestricted":
            early = start < entries.start[cell]
            for at in np.flatnonzero(early).tolist():
                failures.setdefault(
                    int(cell[at]),
                    f"it stamped an event [{start[at]}, {end[at]}), before its window",
                )
            keep = (
                ~np.isin(cell, np.flatnonzero(np.isin(np.arange(len(entries)), list(failures))))
                if early.any()
                else keep
            )
        for at, reason in failures.items():
            self.fail(entries, at, reason, cells)
        if not self.module.properties.ordered and self.node.stamp != "align":
            order = sort_pairs(cell, start)
            cell, start, end, keep = cell[order], start[order], end[order], keep[order]
            payload = take_rows(answers.payload, order)
        else:
            payload = answers.payload
        if not keep.all():
            payload, cell, start, end = (
                take_rows(payload, np.flatnonzero(keep)),
                cell[keep],
                start[keep],
                end[keep],
            )
        keys = take_rows(entries.keys, cell).columns if self._front else []
        whole = pa.RecordBatch.from_arrays([*keys, *payload.columns], schema=self.node.schema)
        rows = Delta(whole, start, end, np.ones(len(cell), np.int64))
        return Answered(rows, entries.id[cell], np.ones(len(cell), np.bool_)), sorted(failures)

    def from_rows(
        self,
        entries: Entries,
        cells: Cells,
        at: Codes,
        failed: Bools,
        states: npt.NDArray[Any] | None,
    ) -> Answered:
        """The answers of windows from their rows; marks those that failed, and notes states where
        they are wanted."""
        if states is None:
            answers = self.caller.compute(cells)
        else:
            built, wrong = self.caller.build(cells)
            filled = self._filled(cells)
            for position, place in enumerate(at.tolist()):
                states[place] = (
                    None if position in wrong else Stepped(built[position], int(filled[position]))
                )
            answers = self._results(built, filled, entries, wrong)
        found, bad = self.answered(answers, entries, cells)
        for position in bad:
            failed[at[position]] = True
            if states is not None:
                states[at[position]] = None
        return found

    def from_states(self, entries: Entries, at: Codes, failed: Bools) -> Answered:
        """The answers of windows from their states."""
        some = entries.take(at)
        states = [state.state for state in some.state]
        filled = np.array([state.filled for state in some.state], np.int64)
        found, bad = self.answered(self._results(states, filled, some, {}), some, None)
        failed[at[np.array(bad, np.int64)]] = True
        return found

    def _results(
        self, states: list[Any], filled: Codes, entries: Entries, wrong: dict[int, str]
    ) -> Answers:
        if not wrong:
            return self.caller.results(states, filled, entries.start, entries.end)
        good = np.array([at for at in range(len(states)) if at not in wrong], np.int64)
        found = self.caller.results(
            [states[at] for at in good], filled[good], entries.start[good], entries.end[good]
        )
        failures = {int(good[at]): reason for at, reason in found.failures.items()} | wrong
        return Answers(good[found.cell], found.start, found.end, found.payload, failures)

    def _filled(self, cells: Cells) -> Codes:
        """How many rows of each window count."""
        offsets = cells.without_nulls().offsets if self.module.nulls == "skip" else cells.offsets
        return offsets[1:] - offsets[:-1]

    def carry(
        self,
        arriving: Entries,
        old: Entries,
        match: Codes,
        has: Bools,
        delta: Delta,
        row: Codes,
        window: Codes,
        times: Codes,
    ) -> None:
        """Tell windows that have a state what came and what went; a state that fails is built again
        when it is asked for."""
        places = np.flatnonzero(has)
        if not len(places):
            return
        rank = np.cumsum(has) - 1
        told = has[window]
        row, window, times = row[told], rank[window[told]], times[told]
        spans = Spans(places, arriving.start[places], arriving.end[places])
        states = [old.state[at].state for at in match[places].tolist()]
        filled = np.array([old.state[at].filled for at in match[places].tolist()], np.int64)
        lost: set[int] = set()
        for adding, mask in ((True, times > 0), (False, times < 0)):
            if not mask.any():
                continue
            cells = self.cells(delta, row[mask], window[mask], np.abs(times[mask]), spans)
            touched = np.unique(window[mask])
            some = [states[at] for at in touched]
            changed, wrong = self.caller.update(some, cells.some(touched), adding=adding)
            lost |= {int(touched[at]) for at in wrong}
            for at, state in zip(touched.tolist(), changed, strict=True):
                states[at] = state
            filled += self._filled(cells) if adding else -self._filled(cells)
        for at, place in enumerate(places.tolist()):
            arriving.state[place] = None if at in lost else Stepped(states[at], int(filled[at]))

    def fail(
        self, entries: Entries, at: int, reason: str, cells: Cells | None, *, always: bool = False
    ) -> None:
        """Raise, or write a dead letter."""
        window = f"[{entries.start[at]}, {entries.end[at]})"
        group = entries.keys.slice(at, 1).to_pylist()[0] if self._front else {}
        sample = []
        if cells is not None:
            begin, stop = int(cells.offsets[at]), int(cells.offsets[at + 1])
            sample = cells.rows.slice(begin, min(stop - begin, _SAMPLE)).to_pylist()
        if self.node.on_error == "fail" or always:
            where = f" of the group {group}" if group else ""
            raise ModuleError(
                f"module {self.module.label} failed on the window {window}{where}: {reason}. Some "
                f"of its input: {sample}. Mend it, or say on_error='skip' to go on without such "
                "windows."
            )
        text = json.dumps(group, default=str)
        self.letters.add(
            module=self.module.label,
            group=text,
            start=int(entries.start[at]),
            end=int(entries.end[at]),
            reason=reason,
            sample=json.dumps(sample, default=str),
        )


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """An array of another type. Whole numbers that are floats without rounding need no kernel of
    Arrow, which costs as much as ten thousand of them."""
    if pa.types.is_int64(array.type) and pa.types.is_float64(kind) and not array.null_count:
        whole = array.to_numpy()
        if len(whole) and least(whole) >= -_EXACT and greatest(whole) <= _EXACT:
            return pa.array(whole.astype(np.float64))
    return array.cast(kind)


_EXACT = 2**53
"""Whole numbers up to this are floats."""


def _rank(column: pa.Array) -> Codes:
    """Numbers that sort like the values of a column, nulls last."""
    if pa.types.is_nested(column.type):
        column = nested_texts(column)
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    if pa.types.is_null(column.type):
        return np.zeros(len(column), np.int64)
    ranks: Codes = (
        pc.rank(column, sort_keys="ascending", tiebreaker="dense").to_numpy().astype(np.int64)
    )
    return ranks


def checksum(rows: Delta) -> int:
    """A number that tells two answers apart, whatever the order of their rows."""
    times = list(zip(rows.start.tolist(), rows.end.tolist(), strict=True))
    texts = sorted(
        repr(pair) for pair in zip(times, map(repr, rows.payload.to_pylist()), strict=True)
    )
    return zlib.crc32("".join(texts).encode())
