"""Arrangements whose groups are numbered by one index of keys: they are saved, and forget keys,
together."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from thalweg.model.rows import Rows
from thalweg.state import Arrangement, KeyIndex, Slices, StateSize

__all__ = ["IndexedArrangements"]


class IndexedArrangements:
    """By the name under which the rows of each are saved."""

    def __init__(self, index: KeyIndex, held: Mapping[str, Arrangement]) -> None:
        self.index = index
        self._names = tuple(held)
        self.held = tuple(held.values())

    def tidy(self) -> None:
        """Forget keys without rows, when the index has doubled."""
        if self.index.is_untidy:
            used = np.unique(np.concatenate([held.groups() for held in self.held]))
            moved = self.index.keep(used)
            for held in self.held:
                held.renumber(moved)

    def clear(self) -> None:
        for held in self.held:
            held.clear()
        self.index.clear()

    def snapshot(self) -> Slices:
        return {
            slice_name: rows
            for name, held in zip(self._names, self.held, strict=True)
            for slice_name, rows in held.snapshot(name).items()
        }

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self.index.clear()
        for name, held in zip(self._names, self.held, strict=True):
            held.restore(name, slices)

    def size(self) -> StateSize:
        return sum((held.size() for held in self.held), StateSize())
