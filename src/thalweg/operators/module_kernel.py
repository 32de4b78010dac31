"""What the kernels of modules share: the module, the two indices, groups as codes, and the way to a
window's answer."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from thalweg.model.delta import Delta
from thalweg.model.rows import Bools, Codes, Rows, encode
from thalweg.operators.base import Operator, StateSize
from thalweg.operators.consistency import Consistency
from thalweg.operators.dead_letters import DeadLetters, WritesLetters
from thalweg.operators.event_index import EventIndex
from thalweg.operators.module_windows import ModuleWindows
from thalweg.operators.taking_back import TakingBack
from thalweg.operators.window_frames import Frame, Spans, frame_for
from thalweg.operators.window_index import Answered, Entries, WindowIndex
from thalweg.plan.nodes import WindowApply

__all__ = ["ModuleKernel", "matches", "merged", "sorted_spans"]

Objects = npt.NDArray[np.object_]


class ModuleKernel(Operator, WritesLetters):
    """State: rows in the event index, windows in the window index."""

    def __init__(self, node: WindowApply, consistency: Consistency) -> None:
        self.schema = node.schema
        self._node = node
        self._consistency = consistency
        self._frame: Frame = frame_for(node.window)
        self._module = ModuleWindows(node)
        self._events = EventIndex(self._module.held, node.keys)
        self._windows = WindowIndex(self._module.key_schema, node.keys, node.schema)
        self._taking_back = TakingBack(self._module)
        # A value that was built up step by step may differ in its last bits from one built at once:
        # not where only ends may change.
        self._in_steps = node.module.incremental and not node.passes_cti

    @property
    def dead_letters(self) -> DeadLetters:
        return self._module.letters

    def _codes(self, rows: list[Rows], keys: Rows) -> tuple[Codes, int]:
        """Group codes of rows and of window keys that agree with each other."""
        size = sum(part.num_rows for part in rows) + keys.num_rows
        if not self._node.keys:
            return np.zeros(size, np.int64), 1
        columns = [
            pa.concat_arrays([*(part.column(name) for part in rows), keys.column(name)])
            for name in self._node.keys
        ]
        return encode(columns, size)

    def _make_entries(self, rows: Delta, row: Codes, window: Codes, spans: Spans) -> Entries:
        """Entries for windows with these members."""
        events = np.bincount(window, rows.weight[row], len(spans)).astype(np.int64)
        inside = (rows.start[row] >= spans.start[window]) * 1 + (
            rows.end[row] <= spans.end[window]
        ) * 1
        endpoints = np.bincount(window, rows.weight[row] * inside, len(spans)).astype(np.int64)
        someone = np.zeros(len(spans), np.int64)
        someone[window] = row
        keys = self._module.keys(rows.payload).take(pa.array(someone))
        return self._windows.make(keys, spans.start, spans.end, endpoints, events)

    def _compute(self, entries: Entries) -> tuple[Answered, Bools, Objects]:
        """The answers of windows, from their states or from their rows; which failed, and the
        states after it."""
        ready = np.zeros(len(entries), np.bool_)
        if self._in_steps:
            ready = np.array([state is not None for state in entries.state], np.bool_)
        parts, failed, states = [], np.zeros(len(entries), np.bool_), entries.state.copy()
        if ready.any():
            parts.append(self._module.from_states(entries, np.flatnonzero(ready), failed))
        if not ready.all():
            rest = np.flatnonzero(~ready)
            some = entries.take(rest)
            rows = self._events.of_groups(np.unique(some.hash))
            code, _ = self._codes([rows.payload], some.keys)
            order, spans = sorted_spans(code[len(rows) :], some)
            row, window = self._frame.members(code[: len(rows)], rows.start, rows.end, spans)
            cells = self._module.cells(rows, row, window, rows.weight[row], spans)
            parts.append(
                self._module.from_rows(
                    some.take(order), cells, rest[order], failed, states if self._in_steps else None
                )
            )
        joined = Answered(
            Delta.concat([part.rows for part in parts], self.schema),
            np.concatenate([part.window for part in parts]),
            np.concatenate([part.out for part in parts]),
        )
        return joined, failed, states

    def _keep_answers(self, answered: Answered, entries: Entries) -> None:
        """Remember the answers that are not computed again when they are taken back."""
        recomputed = entries.id[entries.recomputed]
        self._windows.keep(
            answered.filter(~np.isin(answered.window, recomputed)) if len(recomputed) else answered
        )

    def state_size(self) -> StateSize:
        return self._events.size() + self._windows.size()


def merged(before: Delta, delta: Delta, code: Codes, schema: pa.Schema) -> tuple[Delta, Codes]:
    """The rows after a change, with their group codes; rows that cancel out are gone."""
    if not len(delta):
        return before, code[: len(before)]
    both = Delta.concat([before, delta], schema)
    code = code[: len(both)]
    if not (delta.weight < 0).any():
        return both, code
    alike, size = encode([*both.payload.columns, both.start, both.end], len(both))
    total = np.zeros(size, np.int64)
    np.add.at(total, alike, both.weight)
    someone = np.empty(size, np.int64)
    someone[alike] = np.arange(len(both))
    which = np.sort(someone[total != 0])
    kept = both.take(which)
    return Delta(kept.payload, kept.start, kept.end, total[alike[which]]), code[which]


def matches(code: Codes, old: Entries, spans: Spans) -> Codes:
    """For each window the position of the old one with the same group and span, or -1."""
    match = np.full(len(spans), -1)
    if not len(old) or not len(spans):
        return match
    columns = [
        np.concatenate(pair)
        for pair in ((code, spans.code), (old.start, spans.start), (old.end, spans.end))
    ]
    alike, size = encode(columns, len(columns[0]))
    position = np.full(size, -1)
    position[alike[: len(old)]] = np.arange(len(old))
    return position[alike[len(old) :]]


def sorted_spans(code: Codes, entries: Entries) -> tuple[Codes, Spans]:
    """Windows as spans in order of their group codes, and that order."""
    order = np.lexsort((entries.start, code))
    return order, Spans(code[order], entries.start[order], entries.end[order])
