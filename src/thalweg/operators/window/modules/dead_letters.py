"""Dead letters: windows that a module failed on, with the reason, for queries that go on without
them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from thalweg.model.rows import Rows

__all__ = ["DEAD_LETTERS", "DeadLetters", "WritesLetters"]

DEAD_LETTERS = pa.schema(
    [
        ("module", pa.string()),
        ("group", pa.string()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("reason", pa.string()),
        ("sample", pa.string()),
    ]
)
"""The module, the group's keys as text, the window, the reason of the failure, and some rows of the
window."""


class WritesLetters(ABC):
    """An operator that may go on without the answer of a window."""

    @property
    @abstractmethod
    def dead_letters(self) -> DeadLetters: ...


@dataclass
class DeadLetters:
    """Letters that were not taken yet, and how many there were in all."""

    count: int = 0
    _letters: list[dict[str, Any]] = field(default_factory=list)

    def add(self, **letter: Any) -> None:
        self._letters.append(letter)
        self.count += 1

    def take(self) -> pa.Table:
        """The letters since the last call."""
        letters, self._letters = self._letters, []
        return pa.Table.from_pylist(letters, schema=DEAD_LETTERS)

    def __bool__(self) -> bool:
        return bool(self._letters)

    def slices(self) -> dict[str, Rows]:
        columns = {name: [letter[name] for letter in self._letters] for name in DEAD_LETTERS.names}
        rows = pa.RecordBatch.from_pydict(columns, schema=DEAD_LETTERS)
        mark = pa.RecordBatch.from_arrays([pa.array([self.count])], names=["count"])
        return {"letters": rows, "letter_count": mark}

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self._letters = slices["letters"].to_pylist()
        self.count = int(slices["letter_count"].column(0)[0].as_py())
