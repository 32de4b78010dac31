"""In the workers (`mapInArrow`): makes the rows of a DataFrame, or the sums that the JVM made of
them, into chunks of the exchange.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import pyarrow as pa

from thalweg.plan.nodes import Panes
from thalweg.shards.exchange.cells import bad_times, batch_of_cells
from thalweg.shards.exchange.chunk import UNORDERED
from thalweg.shards.exchange.ingest import Ingest, exchange_rows
from thalweg.shards.host.host_ingest import AnyIngest
from thalweg.shards.sources.event_columns import EventColumns

__all__ = ["chunks_of_rows", "chunks_of_sums"]

_PACKED_ROWS = 1_000_000

Pack: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def chunks_of_rows(ingest: AnyIngest, times: EventColumns, schema: pa.Schema, where: str) -> Pack:
    """For `mapInArrow`: rows as chunks of the exchange."""

    def pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for table in _lots(batches):
            yield _packed(table, times, schema, where, ingest)

    return pack


def chunks_of_sums(
    ingest: Ingest, panes: Panes, times: EventColumns, kind: pa.DataType, where: str
) -> Pack:
    """For `mapInArrow`: sums that the JVM made as chunks of the exchange. `kind` is the type of the
    times."""

    def pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for table in _lots(batches):
            _refuse(bad_times(table, panes).cast(kind), times, where)
            yield exchange_rows(ingest.sums(*batch_of_cells(table, panes), UNORDERED))

    return pack


def _lots(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches joined to tables of at least `_PACKED_ROWS` rows."""
    held: list[pa.RecordBatch] = []
    for rows in batches:
        held.append(rows)
        if sum(part.num_rows for part in held) >= _PACKED_ROWS:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)


def _refuse(bad: pa.ChunkedArray, times: EventColumns, where: str) -> None:
    """Raise the error for the first invalid time, if there are any."""
    if len(bad):
        times.batch(pa.table({times.start: bad}), pa.schema([]), where)
        raise AssertionError(f"{where}: {bad[0]} is a time")


def _packed(
    table: pa.Table, times: EventColumns, schema: pa.Schema, where: str, ingest: AnyIngest
) -> pa.RecordBatch:
    for entry in schema:  # columns that no operator reads were not selected
        if entry.name not in table.schema.names:
            table = table.append_column(entry, pa.nulls(len(table), entry.type))
    batch, header = times.chunk(table, schema, where)
    return exchange_rows(ingest.rows(batch, header, UNORDERED))
