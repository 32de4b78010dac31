"""Patches: changes of runs that were written before, as a log of small slices.

A snapshot adds one patch for all runs. Patches are merged like runs, where the later entry wins,
and lose the entries of runs that were dropped; so there are few of them and they stay small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from thalweg.model.delta import Weights
from thalweg.model.rows import Codes, Rows
from thalweg.model.time import Times

__all__ = ["Patch", "PatchLog"]


@dataclass(slots=True, eq=False)
class Patch:
    """New weights and marks by run and position."""

    run: Codes
    position: Codes
    weight: Weights
    marks: tuple[Times, ...]
    number: int
    written: Rows | None = None

    def __len__(self) -> int:
        return len(self.run)

    def write(self) -> Rows:
        if self.written is None:
            columns = [self.run, self.position, self.weight, *self.marks]
            names = ["run", "position", "weight", *(f"mark{at}" for at in range(len(self.marks)))]
            self.written = pa.RecordBatch.from_arrays([pa.array(c) for c in columns], names=names)
        return self.written

    @classmethod
    def read(cls, written: Rows, number: int) -> Patch:
        run, position, weight, *marks = (column.to_numpy() for column in written.columns)
        return cls(run, position, weight, tuple(marks), number, written)

    @classmethod
    def concat(cls, parts: Sequence[Patch], number: int) -> Patch:
        """All entries of several patches, under one number."""
        return cls(
            np.concatenate([part.run for part in parts]),
            np.concatenate([part.position for part in parts]),
            np.concatenate([part.weight for part in parts]),
            tuple(np.concatenate(marks) for marks in zip(*(p.marks for p in parts), strict=True)),
            number,
        )


@dataclass(slots=True)
class PatchLog:
    """All patches, the oldest first."""

    patches: list[Patch] = field(default_factory=list)

    def add(self, newest: Patch, runs: set[int]) -> None:
        """Add a patch; `runs` are the numbers of the runs that there are."""
        while self.patches and len(self.patches[-1]) <= 2 * len(newest):
            newest = _merged(self.patches.pop(), newest)
        kept = np.isin(newest.run, list(runs))
        if kept.any():
            self.patches.append(newest if kept.all() else _taken(newest, np.flatnonzero(kept)))

    def forget(self, runs: set[int]) -> None:
        """Drop the patches of runs of which none is in `runs`."""
        self.patches = [p for p in self.patches if not runs.isdisjoint(np.unique(p.run).tolist())]


def _merged(older: Patch, newer: Patch) -> Patch:
    both = Patch.concat([older, newer], newer.number)
    order = np.lexsort((both.position, both.run))
    run, position = both.run[order], both.position[order]
    last = np.ones(len(order), np.bool_)
    last[:-1] = (run[1:] != run[:-1]) | (position[1:] != position[:-1])
    return _taken(both, order[last])


def _taken(patch: Patch, which: Codes) -> Patch:
    marks = tuple(mark[which] for mark in patch.marks)
    return Patch(patch.run[which], patch.position[which], patch.weight[which], marks, patch.number)
