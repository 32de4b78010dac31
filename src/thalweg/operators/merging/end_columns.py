"""The second tier of the index at R3: the end of each row in each input and in the output.

Columns are by slot of the top tier; ABSENT where an input or the output lacks the row.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from thalweg.model.rows import Codes, Rows
from thalweg.model.time import Times
from thalweg.operators.merging.chains import ABSENT
from thalweg.operators.merging.digest_table import grown
from thalweg.operators.merging.slot_ranges import Slots
from thalweg.operators.merging.top_tier import TopTier

__all__ = ["EndColumns"]

_SAVED = ("_slot", "_start", "_open", "_out", "_kept")
"""Columns of a saved row, before its ends in the inputs and its payload."""


class EndColumns:
    """
    >>> ends = EndColumns(8)
    >>> ends.attach(1)
    >>> ends.inputs[1, 3:5] = 20, 30
    >>> ends.count([0, 1], np.array([3, 5])).tolist()
    [1, 0]
    >>> ends.forget(slice(0, 8))
    >>> ends.count([0, 1], np.array([3, 5])).tolist()
    [0, 0]
    """

    def __init__(self, capacity: int) -> None:
        self.inputs: npt.NDArray[np.int64] = np.full((0, capacity), ABSENT)
        """By input and slot."""
        self.out: Times = np.full(capacity, ABSENT)
        self.kept: Times | None = None
        """With `missing="keep"`: ends of rows that inputs which have left can no longer remove."""

    @property
    def nbytes(self) -> int:
        kept = 0 if self.kept is None else self.kept.nbytes
        return self.inputs.nbytes + self.out.nbytes + kept

    def attach(self, column: int) -> None:
        """Make sure that there is a column for an input."""
        missing = column + 1 - len(self.inputs)
        if missing > 0:
            more = np.full((missing, len(self.out)), ABSENT)
            self.inputs = np.concatenate([self.inputs, more])

    def grow(self, capacity: int) -> None:
        if len(self.out) >= capacity:
            return
        self.out = grown(self.out, capacity, ABSENT)
        self.inputs = grown(self.inputs, capacity, ABSENT)
        if self.kept is not None:
            self.kept = grown(self.kept, capacity, ABSENT)

    def forget(self, slots: Slots) -> None:
        """Clear the ends of rows that are dropped."""
        self.out[slots] = ABSENT
        self.inputs[:, slots] = ABSENT
        if self.kept is not None:
            self.kept[slots] = ABSENT

    def keep(self, slots: Codes, ends: Times) -> None:
        """Keep rows with these ends, whether or not an input has them."""
        if self.kept is None:
            self.kept = np.full(len(self.out), ABSENT)
        self.kept[slots] = ends

    def not_kept(self, column: int) -> Codes:
        """The slots of an input's rows that are not among the kept rows."""
        has = self.inputs[column] != ABSENT
        return np.flatnonzero(has if self.kept is None else has & (self.kept == ABSENT))

    def count(self, columns: Sequence[int], slots: Codes) -> Codes:
        """How many of some inputs have each of these rows."""
        total = np.zeros(len(slots), np.int64)
        for column in columns:
            total += self.inputs[column, slots] != ABSENT
        return total

    def first(self, columns: Sequence[int], slots: Codes) -> Times:
        """The end of each row in the first of these inputs that has the row, else its kept end."""
        found: Times = np.full(len(slots), ABSENT)
        for column in columns:
            open_ = found == ABSENT
            found[open_] = self.inputs[column, slots[open_]]
        return found if self.kept is None else np.where(found == ABSENT, self.kept[slots], found)

    # ------------------------------------------------------------------------------------------
    # state

    def saved(self, slots: Codes, top: TopTier) -> Rows:
        """Some rows with their ends, as they are saved."""
        kept = np.full(len(slots), ABSENT) if self.kept is None else self.kept[slots]
        columns = [slots, top.start[slots], top.open[slots], self.out[slots], kept]
        columns += [ends[slots] for ends in self.inputs]
        names = [*_SAVED, *(f"_in{at}" for at in range(len(self.inputs)))]
        rows = top.payloads.take(slots)
        return pa.RecordBatch.from_arrays(
            [*map(pa.array, columns), *rows.columns], names=[*names, *rows.schema.names]
        )

    def restore(self, pages: Sequence[Rows], width: int) -> None:
        """Restore the ends from saved pages, whose payloads have `width` columns. A page may also
        have ends of inputs that have left since."""
        for rows in pages:
            slots, _, _, out, kept, *inputs = (
                column.to_numpy(zero_copy_only=False)
                for column in rows.columns[: rows.num_columns - width]
            )
            self.out[slots] = out
            if (kept != ABSENT).any():
                self.keep(slots, kept)
            for own, ends in zip(self.inputs, inputs, strict=False):
                own[slots] = ends
