"""From rows in windows to a module's answers as rows of the stream: calls, stamps, failures.

Output is stamped by the query's policy; an event that the module stamped before its window is a
failure. A failure raises (`fail`), or goes to the dead letters (`skip`) and the window has no
answer.
"""

from __future__ import annotations

import json
import zlib
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from thalweg.errors import ModuleError
from thalweg.model.delta import Delta
from thalweg.model.rows import Bools, Codes, take_rows
from thalweg.model.sorting import sort_pairs
from thalweg.operators.window.modules.dead_letters import DeadLetters
from thalweg.operators.window.modules.module_rows import ModuleRows
from thalweg.operators.window.modules.window_entries import Answered, Entries
from thalweg.operators.window.modules.window_frames import Spans
from thalweg.plan.nodes import WidApply, WindowApply
from thalweg.udm.calls import Caller
from thalweg.udm.cells import Cells
from thalweg.udm.results import Answers

__all__ = ["ModuleWindows", "Stepped", "checksum"]

_SAMPLE = 3
"""How many rows a message or a dead letter shows."""


class Stepped(NamedTuple):
    """The state that an incremental module keeps for a window, and how many rows it counts."""

    state: Any
    filled: int


class ModuleWindows(ModuleRows):
    """The module of a node, called on windows of held rows."""

    def __init__(self, node: WindowApply | WidApply) -> None:
        super().__init__(node)
        self._front = len(node.columns) + (1 if isinstance(node, WidApply) and node.wid else 0)
        outputs = node.schema.names[self._front :]
        self.caller = Caller(
            node.module,
            node.params,
            pa.schema([node.schema.field(name) for name in outputs]),
            node.time_limit,
        )
        self.letters = DeadLetters()

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
        """The answers of windows from their rows. Windows that fail are marked in `failed`;
        `states`, if given, receives the new states."""
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
        """How many rows of each window are counted."""
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
        """Update the states of the windows that `has` marks by the rows added and removed. A state
        that fails is built again from the rows of its window."""
        places = np.flatnonzero(has)
        if not len(places):
            return
        rank = np.cumsum(has) - 1
        carried = has[window]
        row, window, times = row[carried], rank[window[carried]], times[carried]
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


def checksum(rows: Delta) -> int:
    """A number that tells two answers apart, whatever the order of their rows."""
    times = list(zip(rows.start.tolist(), rows.end.tolist(), strict=True))
    texts = sorted(
        repr(pair) for pair in zip(times, map(repr, rows.payload.to_pylist()), strict=True)
    )
    return zlib.crc32("".join(texts).encode())
