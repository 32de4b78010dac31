"""The tables of a host's queries that are kept in memory and in its checkpoint."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from thalweg.shards.host.query_registry import HostedQuery
from thalweg.shards.output.kept_table import KeptTable

__all__ = ["HostTables"]


class HostTables:
    """By the id of a query: its table. `folder` is the place of all of them in the checkpoint."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tables: dict[str, KeptTable] = {}

    def open(self, entry: HostedQuery, schema: pa.Schema, *, last: int, finished: int) -> None:
        """Read the table of a query that has one already. `last` and `finished` are as for
        `KeptTable`."""
        place = self._place(entry)
        if entry.to == "memory" and place.exists():
            self._tables[entry.id] = KeptTable(schema, place, last=last, finished=finished)

    def get(self, entry: HostedQuery) -> KeptTable | None:
        """The table of a query; None before its first micro-batch."""
        return self._tables.get(entry.id)

    def take(
        self, entry: HostedQuery, schema: pa.Schema, batch: int, blobs: Iterable[bytes]
    ) -> None:
        """Apply the changes of a micro-batch to the table of a query."""
        table = self._tables.get(entry.id)
        if table is None:
            table = KeptTable(schema, self._place(entry))
            table.begin(batch)
            self._tables[entry.id] = table
        table.take(batch, blobs)

    def drop(self, id_: str) -> None:
        self._tables.pop(id_, None)

    def _place(self, entry: HostedQuery) -> Path:
        return self._folder / entry.id.replace("/", "%2F")
