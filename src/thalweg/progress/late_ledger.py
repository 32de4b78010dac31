"""The ledger of late rows: none is lost silently, whatever becomes of it."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.time import Times

__all__ = ["LateLedger"]


@dataclass(slots=True)
class LateLedger:
    """Late elements: how many, and each with the promise it broke and what became of it."""

    count: int = 0
    tables: list[pa.Table] = field(default_factory=list)

    def note(self, batch: Batch, promise: Times, action: list[str]) -> None:
        if len(batch):
            self.count += len(batch)
            table = (
                batch.to_table()
                .append_column("_promise", pa.array(promise))
                .append_column("_action", pa.array(action, pa.string()))
            )
            self.tables.append(table)

    def take(self, schema: pa.Schema) -> pa.Table:
        """All entries since the last call; they are handed over, not copied."""
        entries, self.tables = self.entries(schema), []
        return entries

    def entries(self, schema: pa.Schema) -> pa.Table:
        empty = (
            Batch.empty(schema)
            .to_table()
            .append_column("_promise", pa.array([], pa.int64()))
            .append_column("_action", pa.array([], pa.string()))
        )
        return pa.concat_tables([empty, *self.tables])
