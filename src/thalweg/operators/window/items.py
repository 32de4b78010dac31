"""Items: partial results or rows of groups at positions, in columns, for stores that keep slices of
neighbouring positions (see `state.placed`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from thalweg.model.rows import Bools, Codes, Rows, concat_rows

__all__ = ["Items"]


@dataclass(frozen=True, slots=True)
class Items:
    """Columns (group, position, value): a position is the index of a window or a time, a value a
    partial result or a row of the buffer."""

    group: Codes
    at: Codes
    parts: Rows

    @classmethod
    def concat(cls, parts: Sequence[Items], none: Items) -> Items:
        """Items of several parts; `none` where there are none."""
        full = [part for part in parts if len(part)]
        if len(full) <= 1:
            return full[0] if full else none
        return cls(
            np.concatenate([part.group for part in full]),
            np.concatenate([part.at for part in full]),
            concat_rows([part.parts for part in full], full[0].parts.schema),
        )

    def __len__(self) -> int:
        return len(self.group)

    @property
    def nbytes(self) -> int:
        return self.group.nbytes + self.at.nbytes + int(self.parts.nbytes)

    @property
    def place(self) -> Codes:
        return self.at

    def take(self, which: Codes | slice) -> Items:
        if isinstance(which, slice):
            parts = self.parts.slice(which.start, which.stop - which.start)
        else:
            parts = self.parts.take(pa.array(which))
        return Items(self.group[which], self.at[which], parts)

    def renumbered(self, moved: Codes) -> Items:
        """The same with other numbers of groups."""
        return Items(moved[self.group], self.at, self.parts)

    def where(self, mask: Bools) -> Items:
        return (
            self
            if mask.all()
            else Items(self.group[mask], self.at[mask], self.parts.filter(pa.array(mask)))
        )
