"""The ledger of late rows: none is lost silently, whatever becomes of it.

Entries wait until they are taken. With a `limit` the newest are kept and the others are only
counted, so that a ledger that is never read does not grow the state; without one the
runner takes them after every batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.rows import Rows
from thalweg.model.time import Times

__all__ = ["LateLedger"]


@dataclass(slots=True)
class LateLedger:
    """Late elements: how many, and each with the promise it broke and what became of it."""

    count: int = 0
    tables: list[pa.Table] = field(default_factory=list)
    limit: int | None = None
    """The most entries that wait to be taken; None: all."""
    unlisted: int = 0
    """Entries that were given up because more came than the limit allows."""

    def note(self, batch: Batch, promise: Times, action: list[str]) -> None:
        if len(batch):
            self.count += len(batch)
            table = (
                batch.to_table()
                .append_column("_promise", pa.array(promise))
                .append_column("_action", pa.array(action, pa.string()))
            )
            self.tables.append(table)
            self._give_up()

    def _give_up(self) -> None:
        """Forget the oldest entries beyond the limit."""
        if self.limit is None:
            return
        beyond = sum(map(len, self.tables)) - self.limit
        while beyond > 0:
            oldest = self.tables.pop(0)
            dropped = min(len(oldest), beyond)
            if dropped < len(oldest):
                self.tables.insert(0, oldest.slice(dropped))
            self.unlisted += dropped
            beyond -= dropped

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

    def snapshot(self, name: str, schema: pa.Schema) -> dict[str, Rows]:
        """The entries that wait, as a slice; nothing when there are none."""
        if not self.tables:
            return {}
        self.tables = [self.entries(schema).combine_chunks()]
        return {name: self.tables[0].to_batches()[0]}

    def restore(self, name: str, slices: Mapping[str, Rows]) -> None:
        """The inverse of `snapshot`."""
        self.tables = [pa.Table.from_batches([slices[name]])] if name in slices else []
