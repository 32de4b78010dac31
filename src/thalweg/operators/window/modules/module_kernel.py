"""The base of the kernels of modules: the module, the two indices, the computation of answers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from thalweg.model.delta import Delta
from thalweg.model.rows import Codes, Rows, encode, used_codes
from thalweg.model.time import Times
from thalweg.operators.base import Slices, StateSize
from thalweg.operators.consistency import Consistency
from thalweg.operators.window.modules.dead_letters import DeadLetters, WritesLetters
from thalweg.operators.window.modules.event_index import EventIndex
from thalweg.operators.window.modules.module_windows import ModuleWindows
from thalweg.operators.window.modules.taking_back import TakingBack
from thalweg.operators.window.modules.window_entries import Answered, Entries
from thalweg.operators.window.modules.window_frames import Frame, Spans, frame_for
from thalweg.operators.window.modules.window_index import WindowIndex
from thalweg.operators.window.partitions import Partitions
from thalweg.operators.window.window_operator import WindowOperator
from thalweg.plan.nodes import WindowApply
from thalweg.state import KeyIndex
from thalweg.udm.cells import Cells

__all__ = ["ModuleKernel", "matches"]

Objects = npt.NDArray[np.object_]


class ModuleKernel(WindowOperator, WritesLetters):
    """The common part: rows in the event index, windows in the window index."""

    def __init__(self, node: WindowApply, consistency: Consistency) -> None:
        self.schema = node.schema
        self._node = node
        self._consistency = consistency
        self._frame: Frame = frame_for(node.window)
        self._module = ModuleWindows(node)
        # A value that was built up step by step may differ in its last bits from one built at once:
        # not where only ends may change.
        # Windows that count rows get other bounds with nearly every change, so that a state is
        # hardly ever carried on: from their rows, in one call, they are computed sooner.
        at_once = self._frame.counts and node.module.in_columns
        self._in_steps = node.module.incremental and not node.passes_cti and not at_once
        self._partitions = Partitions(self._module.held, node.keys)
        self._events = EventIndex(
            self._module.held,
            self._partitions,
            f"apply({node.module.name!r})",
            by=self._frame.by,
            ends=node.module.time_sensitive,
        )
        self._windows = WindowIndex(
            self._module.key_schema, self._partitions, node.schema, stepped=self._in_steps
        )
        self._taking_back = TakingBack(self._module)

    @property
    def dead_letters(self) -> DeadLetters:
        return self._module.letters

    def _cells_of(self, entries: Entries) -> Cells:
        """The rows of some windows, as they are held now."""
        found = self._events.find(entries.partition, entries.start, entries.end)
        spans = Spans(np.arange(len(entries)), entries.start, entries.end)
        return self._module.cells(
            found.delta(), np.arange(len(found)), found.owner, found.weight, spans
        )

    def _compute(self, entries: Entries) -> tuple[Answered, Entries]:
        """The answers of windows, from their states or from their rows; and the windows with new
        states, and which of them failed."""
        ready = np.zeros(len(entries), np.bool_)
        if self._in_steps:
            ready = np.array([state is not None for state in entries.state], np.bool_)
        parts, failed, states = [], np.zeros(len(entries), np.bool_), entries.state.copy()
        if ready.any():
            parts.append(self._module.from_states(entries, np.flatnonzero(ready), failed))
        if not ready.all():
            rest = np.flatnonzero(~ready)
            some = entries.take(rest)
            steps = states if self._in_steps else None
            parts.append(self._module.from_rows(some, self._cells_of(some), rest, failed, steps))
        joined = Answered(
            Delta.concat([part.rows for part in parts], self.schema),
            np.concatenate([part.window for part in parts]),
            np.concatenate([part.out for part in parts]),
        )
        done = entries.but(failed=failed, state=states)
        return joined, self._taking_back.choose(joined, done)

    @property
    def index(self) -> KeyIndex:
        return self._partitions.index

    def held_groups(self) -> Codes:
        return used_codes([self._events.rows.groups(), self._windows.groups()])

    def renumber(self, moved: Codes) -> None:
        self._events.rows.renumber(moved)
        self._windows.renumber(moved)

    def clear(self) -> None:
        self._events.clear()
        self._windows.clear()
        self._partitions.clear()

    def snapshot(self) -> Slices:
        return {
            **self._events.snapshot(),
            **self._windows.snapshot(),
            **self._module.letters.slices(),
        }

    def _restore(self, slices: Mapping[str, Rows], answered: int, closed: int) -> None:
        self._partitions.clear()
        self._events.restore(slices)
        self._windows.restore(slices, answered, closed)
        self._module.letters.restore(slices)

    def state_size(self) -> StateSize:
        return self._events.size() + self._windows.size()


def matches(code: Codes, start: Times, end: Times, spans: Spans) -> Codes:
    """For each window the position of the old window with the same code and span, or -1."""
    match = np.full(len(spans), -1)
    if not len(code) or not len(spans):
        return match
    columns = [
        np.concatenate(pair)
        for pair in ((code, spans.code), (start, spans.start), (end, spans.end))
    ]
    alike, size = encode(columns, len(columns[0]))
    position = np.full(size, -1)
    position[alike[: len(code)]] = np.arange(len(code))
    return position[alike[len(code) :]]
