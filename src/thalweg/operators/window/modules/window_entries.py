"""Columns of the windows of modules and of their answers, as the window index holds and returns
them (see `window_index`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from thalweg.model.delta import Delta
from thalweg.model.rows import Bools, Codes, Rows, concat_rows, take_rows
from thalweg.model.time import Times
from thalweg.state import Hits

__all__ = ["Answered", "Entries", "FoundWindows", "HeldBack"]


@dataclass(frozen=True, slots=True)
class Entries:
    """Windows in columns."""

    keys: Rows
    partition: Codes
    id: Codes
    start: Times
    end: Times
    closes: Times
    """The promise that closes each window: no change of it can follow."""
    events: Codes
    recomputed: Bools
    """Whether the answer was not kept, and is computed again when it must be taken back."""
    checksum: Codes
    failed: Bools
    state: npt.NDArray[Any]
    """The state of an incremental module for the window; None before the first."""

    def __len__(self) -> int:
        return len(self.id)

    def take(self, which: Codes | Bools) -> Entries:
        if which.dtype == np.bool_:
            at: Codes = which.nonzero()[0]
            if len(at) == len(which):
                return self
        else:
            at = which.astype(np.int64, copy=False)
        columns = (getattr(self, name)[at] for name in _COLUMNS)
        return Entries(take_rows(self.keys, at), *columns)

    @classmethod
    def concat(cls, parts: Sequence[Entries]) -> Entries:
        """All entries, one part after the other; there is at least one part."""
        if len(parts) == 1:
            return parts[0]
        keys = concat_rows([part.keys for part in parts], parts[0].keys.schema)
        columns = (np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS)
        return cls(keys, *columns)

    def but(self, **columns: Any) -> Entries:
        return replace(self, **columns)


_COLUMNS = tuple(column.name for column in fields(Entries) if column.name != "keys")


@dataclass(frozen=True, slots=True)
class FoundWindows:
    """Windows of the index, with the probe that found each: first those that wait, then those that
    have answered."""

    entries: Entries
    owner: Codes
    waiting: Hits
    out: Hits

    @property
    def answered(self) -> Bools:
        return np.arange(len(self.owner)) >= len(self.waiting)

    def filter(self, mask: Bools) -> FoundWindows:
        if mask.all():
            return self
        cut = len(self.waiting)
        return FoundWindows(
            self.entries.take(mask),
            self.owner[mask],
            self.waiting.filter(mask[:cut]),
            self.out.filter(mask[cut:]),
        )


@dataclass(frozen=True, slots=True)
class Answered:
    """Rows that windows have answered; `out` tells which of them were emitted."""

    rows: Delta
    window: Codes
    out: Bools

    def filter(self, mask: Bools) -> Answered:
        return (
            self
            if mask.all()
            else Answered(self.rows.filter(mask), self.window[mask], self.out[mask])
        )


@dataclass(frozen=True, slots=True)
class HeldBack:
    """Answers that were not emitted: the ends of their windows, the promises that close these, and
    their positions."""

    answered: Answered
    window_end: Times
    closes: Times
    hits: Hits
