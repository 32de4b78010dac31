"""The answer of a fragment to one micro-batch."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from thalweg.model.batch import Batch

__all__ = ["Answer"]


@dataclass(frozen=True, slots=True)
class Answer:
    """The elements of an answer in order, the promise after them, and figures."""

    batch: Batch
    late_rows: int
    ledgers: dict[str, pa.Table]
    """By input: its late rows."""
    skipped: dict[str, pa.Table]
    """By operator: the windows that its module failed on."""
    elements_in: int
    rows_read: int
    """Rows of the sources that these chunks come from, before anything was filtered or summed."""
    unwanted: int = 0
    """Of these, rows that were left out because no answer needs them."""

    @property
    def adjusts(self) -> int:
        """How many of the elements are adjusts."""
        return 0 if self.batch.is_adjust is None else int(self.batch.is_adjust.sum())
