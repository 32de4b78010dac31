"""The window index: every window that is not closed, by group and start.

An entry says where its window ends, how many endpoints of events lie in it (`endpoints`), how many
events are in it (`events`), and whether it has answered. Entries are sorted by (hash of the group,
start): the windows of a group are found by binary search. As endpoints come and go windows split,
merge and vanish; the kernel takes their entries out and puts the new ones in. What a window has
answered is beside it: its rows (`kept`), or how many there were and a checksum, when computing them
again is cheaper than keeping them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from thalweg.model.delta import Delta
from thalweg.model.hashing import Hashes
from thalweg.model.rows import Bools, Codes, Rows, concat_rows, empty_rows, take_rows
from thalweg.model.time import Times
from thalweg.operators.base import StateSize
from thalweg.operators.event_index import key_hashes
from thalweg.operators.groups import ranges

__all__ = ["Answered", "Entries", "WindowIndex"]


@dataclass(frozen=True, slots=True)
class Entries:
    """Windows in columns."""

    keys: Rows
    hash: Hashes
    id: Codes
    start: Times
    end: Times
    endpoints: Codes
    events: Codes
    answered: Bools
    recomputed: Bools
    """Whether its answer was not kept, and is computed again when it has to be taken back."""
    checksum: Codes
    failed: Bools
    state: npt.NDArray[Any]
    """What an incremental module remembers of it; None until it is asked for."""

    def __len__(self) -> int:
        return len(self.id)

    def take(self, which: Codes | Bools) -> Entries:
        at: Codes = (
            np.flatnonzero(which) if which.dtype == np.bool_ else which.astype(np.int64, copy=False)
        )
        columns = {
            entry.name: getattr(self, entry.name)[at]
            for entry in fields(self)
            if entry.name != "keys"
        }
        return Entries(keys=take_rows(self.keys, at), **columns)

    def but(self, **columns: Any) -> Entries:
        return replace(self, **columns)


@dataclass(frozen=True, slots=True)
class Answered:
    """Rows that windows have answered; `out` says which of them have left."""

    rows: Delta
    window: Codes
    out: Bools

    def filter(self, mask: Bools) -> Answered:
        return (
            self
            if mask.all()
            else Answered(self.rows.filter(mask), self.window[mask], self.out[mask])
        )


_NUMBERS = (
    "id",
    "start",
    "end",
    "endpoints",
    "events",
    "answered",
    "recomputed",
    "checksum",
    "failed",
)


class WindowIndex:
    def __init__(self, keys: pa.Schema, names: tuple[str, ...], answers: pa.Schema) -> None:
        self._names = names
        self._key_schema = keys
        self._answer_schema = answers
        self.clear()

    def clear(self) -> None:
        self.entries = self.make(empty_rows(self._key_schema), *[np.empty(0, np.int64)] * 4)
        self.kept = Answered(
            Delta.empty(self._answer_schema), np.empty(0, np.int64), np.empty(0, np.bool_)
        )
        self._next = 0

    def __len__(self) -> int:
        return len(self.entries)

    def make(
        self, keys: Rows, start: Times, end: Times, endpoints: Codes, events: Codes
    ) -> Entries:
        """Entries for new windows, which have not answered."""
        size = len(start)
        answered, recomputed, failed = (np.zeros(size, np.bool_) for _ in range(3))
        numbers = np.arange(size) + getattr(self, "_next", 0)
        self._next = getattr(self, "_next", 0) + size
        state = np.full(size, None, object)
        none = np.zeros(size, np.int64)
        return Entries(
            keys,
            key_hashes(keys, self._names),
            numbers,
            start,
            end,
            endpoints,
            events,
            answered,
            recomputed,
            none,
            failed,
            state,
        )

    def of_groups(self, hashes: Hashes) -> Codes:
        """Positions of the windows of groups with these hashes (sorted, each once)."""
        low = np.searchsorted(self.entries.hash, hashes, side="left")
        high = np.searchsorted(self.entries.hash, hashes, side="right")
        return ranges(low, high - low)[1]

    def exchange(self, leaving: Codes, arriving: Entries) -> None:
        """Take windows out, by position, and put others in."""
        entries = self.entries
        if len(leaving):
            stay = np.ones(len(entries), np.bool_)
            stay[leaving] = False
            self._forget_answers(entries.id[leaving])
            entries = entries.take(stay)
        if not len(arriving):
            self.entries = entries
            return
        order = np.lexsort((arriving.start, arriving.hash))
        arriving = arriving.take(order)
        if not len(entries):
            self.entries = arriving
            return
        both = np.lexsort(
            (
                np.concatenate([entries.start, arriving.start]),
                np.concatenate([entries.hash, arriving.hash]),
            )
        )
        joined = {
            entry.name: np.concatenate(
                [getattr(entries, entry.name), getattr(arriving, entry.name)]
            )[both]
            for entry in fields(Entries)
            if entry.name != "keys"
        }
        keys = take_rows(concat_rows([entries.keys, arriving.keys], self._key_schema), both)
        self.entries = Entries(keys=keys, **joined)

    def note(self, which: Codes, entries: Entries) -> None:
        """What windows, by position, have come to: they have answered, perhaps failed, and have a
        state."""
        for name in ("answered", "recomputed", "checksum", "failed", "state"):
            getattr(self.entries, name)[which] = getattr(entries, name)

    def _forget_answers(self, windows: Codes) -> None:
        if len(self.kept.window):
            self.kept = self.kept.filter(~np.isin(self.kept.window, windows))

    def answers_of(self, windows: Codes) -> Answered:
        """What some windows, by id, have answered."""
        return self.kept.filter(np.isin(self.kept.window, windows))

    def keep(self, answered: Answered) -> None:
        """Remember what windows have answered."""
        if len(answered.window):
            kept = self.kept
            self.kept = Answered(
                Delta.concat([kept.rows, answered.rows], self._answer_schema),
                np.concatenate([kept.window, answered.window]),
                np.concatenate([kept.out, answered.out]),
            )

    # -------------------------------------------------------------------------------------------------------
    # state

    def slices(self) -> dict[str, Rows]:
        entries, kept = self.entries, self.kept
        numbers = [pa.array(getattr(entries, name)) for name in _NUMBERS]
        keys = [] if not self._names else list(entries.keys.columns)
        windows = pa.RecordBatch.from_arrays(
            [*numbers, *keys], names=[*_NUMBERS, *(f"key{at}" for at in range(len(keys)))]
        )
        times = [
            pa.array(kept.window),
            pa.array(kept.out),
            pa.array(kept.rows.start),
            pa.array(kept.rows.end),
        ]
        names = [
            "window",
            "out",
            "start",
            "end",
            *(f"column{at}" for at in range(len(self._answer_schema))),
        ]
        answers = pa.RecordBatch.from_arrays([*times, *kept.rows.payload.columns], names=names)
        mark = pa.RecordBatch.from_arrays([pa.array([self._next])], names=["next"])
        return {"windows": windows, "answers": answers, "next": mark}

    def restore(self, slices: Mapping[str, Rows]) -> None:
        windows, answers = slices["windows"], slices["answers"]
        size = windows.num_rows
        numbers = {
            name: np.array(windows.column(at).to_numpy(zero_copy_only=False))
            for at, name in enumerate(_NUMBERS)
        }
        columns = (
            windows.columns[len(_NUMBERS) :] if self._names else [pa.array(np.ones(size, np.bool_))]
        )
        keys = pa.RecordBatch.from_arrays(columns, schema=self._key_schema)
        self.entries = Entries(
            keys=keys,
            hash=key_hashes(keys, self._names),
            state=np.full(size, None, object),
            **numbers,
        )
        window, out, start, end = (
            np.array(answers.column(at).to_numpy(zero_copy_only=False)) for at in range(4)
        )
        payload = pa.RecordBatch.from_arrays(answers.columns[4:], schema=self._answer_schema)
        self.kept = Answered(Delta(payload, start, end, np.ones(len(start), np.int64)), window, out)
        self._next = int(slices["next"].column(0)[0].as_py())

    def size(self) -> StateSize:
        entries = self.entries
        numbers = sum(getattr(entries, name).nbytes for name in _NUMBERS)
        return StateSize(len(entries), numbers + int(entries.keys.nbytes) + self.kept.rows.nbytes)
