"""Hits: rows that were found in an arrangement, each with the probe that found it.

Hits are positions in runs, so that the weights and marks of the rows can be changed in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np
import pyarrow as pa

from thalweg.model.delta import Delta, Weights
from thalweg.model.rows import (
    Bools,
    Codes,
    Rows,
    concat_rows,
    distinct_codes,
    equal_pairs,
    take_column,
    take_rows,
)
from thalweg.model.time import Times, greatest
from thalweg.state.columns import RowColumns
from thalweg.state.runs import Run

__all__ = ["Hits", "joined"]

_POSITION_BITS = 40

Column = TypeVar("Column", Codes, Bools)


@dataclass(slots=True, eq=False)
class Hits:
    schema: pa.Schema
    owner: Codes
    """Which probe found each hit."""
    parts: list[tuple[Run, Codes]]
    """Positions in runs, in the order of the hits."""

    @classmethod
    def of(cls, rows: Delta, owner: Codes) -> Hits:
        """Hits for rows that are not held in an arrangement."""
        columns = RowColumns(owner, rows.start, rows.end, rows.weight, (), rows.payload)
        found = [(Run.unsorted(columns), np.arange(len(rows)))] if len(rows) else []
        return cls(rows.schema, owner, found).units()

    def __len__(self) -> int:
        return len(self.owner)

    @property
    def start(self) -> Times:
        return joined([run.rows.start[at] for run, at in self.parts])

    @property
    def end(self) -> Times:
        return joined([run.rows.ends(at) for run, at in self.parts])

    @property
    def weight(self) -> Weights:
        return joined([run.rows.weights(at) for run, at in self.parts])

    @property
    def group(self) -> Codes:
        return joined([run.rows.group[at] for run, at in self.parts])

    def mark(self, number: int) -> Times:
        return joined([run.rows.marks[number][at] for run, at in self.parts])

    def payload(self, names: Sequence[str] | None = None) -> Rows:
        """The rows themselves, or some columns of them."""
        schema = self.schema
        if names is not None:
            schema = pa.schema([schema.field(name) for name in names])
        taken = []
        for run, at in self.parts:
            if names is None and _is_whole(run, at):
                taken.append(run.rows.payload)
            else:
                taken.append(run.rows.payload_at(at, names))
        return concat_rows(taken, schema)

    def payload_of(self, which: Codes) -> Rows:
        """The rows at some positions among the hits."""
        if len(self.parts) == 1:
            run, at = self.parts[0]
            return run.rows.payload_at(at[which])
        return take_rows(self.payload(), which)

    def column(self, name: str, which: Codes | None = None) -> pa.Array:
        """One column of the rows, or of those at some positions among them."""
        if which is not None:
            if len(self.parts) != 1:
                return take_column(self.column(name), which)
            run, at = self.parts[0]
            return run.rows.column_at(name, at[which])
        parts = [
            run.rows.payload.column(name) if _is_whole(run, at) else run.rows.column_at(name, at)
            for run, at in self.parts
        ]
        if not parts:
            return pa.array([], self.schema.field(name).type)
        return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)

    def delta(self) -> Delta:
        """The rows with their weights."""
        return Delta(self.payload(), self.start, self.end, self.weight)

    def filter(self, mask: Bools) -> Hits:
        if np.count_nonzero(mask) == len(mask):
            return self
        if len(self.parts) == 1:
            run, at = self.parts[0]
            which = mask.nonzero()[0]
            return Hits(self.schema, self.owner[which], [(run, at[which])] if len(which) else [])
        parts = []
        for (run, at), kept in zip(self.parts, self._cut(mask), strict=True):
            if kept.any():
                parts.append((run, at[kept]))
        return Hits(self.schema, self.owner[mask], parts)

    def equal_to(self, probes: Rows) -> Hits:
        """The hits whose rows equal their probe, in the columns of `probes`."""
        if not len(self) or not probes.num_columns:
            return self
        sought = [take_column(column, self.owner) for column in probes.columns]
        held = [self.column(name) for name in probes.schema.names]
        return self.filter(equal_pairs(sought, held))

    def units(self) -> Hits:
        """Each row repeated by its weight."""
        weight = self.weight
        if not len(weight) or greatest(weight) == 1:
            return self
        counts = zip(self.parts, self._cut(weight), strict=True)
        parts = [(run, at.repeat(count)) for (run, at), count in counts]
        return Hits(self.schema, self.owner.repeat(weight), parts)

    def plus(self, more: Hits) -> Hits:
        """These hits and more behind them."""
        if not len(more):
            return self
        parts = [*self.parts, *more.parts]
        if len(parts) == 2 and parts[0][0] is parts[1][0]:
            (run, left), (_, right) = parts
            parts = [(run, np.concatenate([left, right]))]
        return Hits(self.schema, np.concatenate([self.owner, more.owner]), parts)

    def by_probe(self) -> Hits:
        """The same hits, those of each run in the order of their probes."""
        owners = self._cut(self.owner)
        if not any((owner[1:] < owner[:-1]).any() for owner in owners):
            return self
        orders = [owner.argsort(kind="stable") for owner in owners]
        parts = [(run, at[order]) for (run, at), order in zip(self.parts, orders, strict=True)]
        ordered = [owner[order] for owner, order in zip(owners, orders, strict=True)]
        return Hits(self.schema, joined(ordered), parts)

    def distinct(self) -> tuple[Hits, Codes]:
        """Each row that was found, once; and for every hit the position of its row among them."""
        if len(self.parts) == 1:
            run, at = self.parts[0]
            found, which = distinct_codes(at)
            return Hits(self.schema, np.arange(len(found)), [(run, found)]), which
        places = joined(
            [at + (number << _POSITION_BITS) for number, (_, at) in enumerate(self.parts)]
        )
        unique, inverse = np.unique(places, return_inverse=True)
        number, position = unique >> _POSITION_BITS, unique & ((1 << _POSITION_BITS) - 1)
        parts = [
            (run, position[number == at])
            for at, (run, _) in enumerate(self.parts)
            if (number == at).any()
        ]
        return Hits(self.schema, np.arange(len(unique)), parts), inverse

    def set_weight(self, weight: Weights) -> None:
        """Change the weights of rows that are held."""
        for (run, at), values in zip(self.parts, self._cut(weight), strict=True):
            before = run.rows.weights(at)
            changed = before != values
            if changed.any():
                run.dead += int(np.count_nonzero(before)) - int(np.count_nonzero(values))
                run.rows.set_weights(at, values)
                run.touch(at[changed])

    def set_mark(self, number: int, marks: Times) -> None:
        """Change a mark of rows that are held."""
        for (run, at), values in zip(self.parts, self._cut(marks), strict=True):
            changed = run.rows.marks[number][at] != values
            if changed.any():
                run.rows.marks[number][at] = values
                run.touch(at[changed])

    def _cut(self, values: Column) -> list[Column]:
        """Values of all hits, divided by run."""
        if len(self.parts) == 1:
            return [values]
        cuts = np.cumsum([0, *(len(at) for _, at in self.parts)]).tolist()
        return [values[begin:end] for begin, end in pairwise(cuts)]


def _is_whole(run: Run, at: Codes) -> bool:
    """Whether these are the positions of all rows of a run, in order."""
    size = len(run)
    if len(at) != size or at[0] != 0 or at[-1] != size - 1:
        return False
    return bool((at[1:] > at[:-1]).all())


def joined(parts: list[Codes]) -> Codes:
    """The parts as one column; a single part is not copied."""
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)
