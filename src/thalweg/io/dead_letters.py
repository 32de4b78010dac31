"""Dead letters: records that could not be read, each with its place and the reason."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

__all__ = ["LETTERS", "DeadLetters"]

LETTERS = pa.schema(
    [("where", pa.string()), ("line", pa.int64()), ("text", pa.string()), ("reason", pa.string())]
)
"""A dead letter: where it was found, the number of its line or row there, what it says, and why it
cannot be read."""


@dataclass(slots=True)
class DeadLetters:
    """Records that could not be read: how many, and each with the reason."""

    count: int = 0
    tables: list[pa.Table] = field(default_factory=list)

    def note(self, where: str, entries: list[tuple[int, str, str]]) -> None:
        """Letters as (line, text, reason)."""
        if entries:
            lines, texts, reasons = (list(column) for column in zip(*entries, strict=True))
            self.count += len(entries)
            self.tables.append(
                pa.table([[where] * len(entries), lines, texts, reasons], schema=LETTERS)
            )

    def take(self) -> pa.Table:
        """All letters since the last call."""
        tables, self.tables = self.tables, []
        return pa.concat_tables([LETTERS.empty_table(), *tables])
