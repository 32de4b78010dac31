"""What an engine takes in: batches, Arrow tables, or elements; each becomes batches.

A table has either the control columns of the exchange form, or `_start` and `_end` before its payload. `events` makes
such a table from one with ordinary time columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from thalweg.errors import MalformedElementError, SchemaChangeError, TimeRangeError, UnknownColumnError
from thalweg.model.batch import CONTROL_COLUMNS, Batch, batches_of
from thalweg.model.elements import Adjust, Cti, Element, Insert
from thalweg.model.rows import empty_rows
from thalweg.model.time import INFINITY, Duration, Times, duration_us

__all__ = ["Feed", "Input", "batches_from", "events"]

Input: TypeAlias = "Batch | pa.Table | pa.RecordBatch | Element"
Feed: TypeAlias = "Input | Iterable[Input]"


def batches_from(feed: Feed, schema: pa.Schema, source: str, *, size: int | None = None) -> Iterator[Batch]:
    """A feed as batches: elements are gathered up to the next CTI (or `size`), tables are taken as they are."""
    items: Iterable[Input] = [feed] if isinstance(feed, (Batch, pa.Table, pa.RecordBatch, Insert, Adjust, Cti)) else feed
    held: list[Element] = []
    for number, item in enumerate(items):
        if isinstance(item, (Insert, Adjust)):
            held.append(item)
            if size is not None and len(held) >= size:
                yield from batches_of(held, schema)
                held = []
            continue
        if isinstance(item, Cti):
            yield from batches_of([*held, item], schema)
            held = []
            continue
        yield from batches_of(held, schema)
        held = []
        if isinstance(item, Batch):
            yield item
        elif isinstance(item, (pa.Table, pa.RecordBatch)):
            yield _from_table(item, schema, f"source {source!r}, input {number}")
        else:
            raise MalformedElementError(f"source {source!r}, input {number}: expected a batch, an Arrow table or an element; got {item!r}.")
    yield from batches_of(held, schema)


def _from_table(table: pa.Table | pa.RecordBatch, schema: pa.Schema, where: str) -> Batch:
    names = table.schema.names
    if tuple(names[:4]) == CONTROL_COLUMNS:
        _refuse_nulls(table, CONTROL_COLUMNS, where)
        return Batch.from_table(table)
    if names[:2] != ["_start", "_end"]:
        raise SchemaChangeError(
            f"{where}: a table needs the columns _start and _end first (see thalweg.events); it has {', '.join(names)}."
        )
    _refuse_nulls(table, ("_start", "_end"), where)
    one = table.combine_chunks().to_batches() if isinstance(table, pa.Table) else [table]
    rows = one[0] if one else empty_rows(table.schema)
    if rows.schema.names[2:] != schema.names:
        raise SchemaChangeError(f"{where}: the columns are {', '.join(names[2:])}; the source declared {', '.join(schema.names)}.")
    payload = pa.RecordBatch.from_arrays(rows.columns[2:], names=rows.schema.names[2:])
    return Batch(payload, rows.column(0).to_numpy(), rows.column(1).to_numpy())


def _refuse_nulls(table: pa.Table | pa.RecordBatch, names: Iterable[str], where: str) -> None:
    for name in names:
        column = table.column(name)
        if not pa.types.is_integer(column.type):
            raise TimeRangeError(f"{where}: the column {name} must be whole ticks (int64); it is {column.type}.")
        if column.null_count:
            at = int(
                np.argmax(column.is_null().to_numpy(zero_copy_only=False) if isinstance(column, pa.Array) else column.is_null().to_numpy())
            )
            raise TimeRangeError(f"{where}, row {at}: the {name.lstrip('_')} is null.")


def events(table: pa.Table, start: str, end: str | None = None, *, duration: Duration = 1, keep_times: bool = False) -> pa.Table:
    """A table of events from one with ordinary columns: `start` and `end` name time columns; without an end each event lasts `duration`.

    Timestamps become microseconds since the epoch; whole numbers stay as they are. A null end is infinity. A null or
    not finite start is an error that names the row.

    >>> events(pa.table({"ts": [3, 4], "v": ["a", "b"]}), "ts").to_pylist()
    [{'_start': 3, '_end': 4, 'v': 'a'}, {'_start': 4, '_end': 5, 'v': 'b'}]
    """
    for name in (start, end):
        if name is not None and name not in table.schema.names:
            raise UnknownColumnError(name, table.schema.names, "events")
    starts = _ticks(table, start, infinite=False)
    ends = starts + duration_us(duration) if end is None else _ticks(table, end, infinite=True)
    names = [n for n in table.schema.names if keep_times or n not in (start, end)]
    return pa.Table.from_arrays([pa.array(starts), pa.array(ends), *(table.column(n) for n in names)], names=["_start", "_end", *names])


def _ticks(table: pa.Table, name: str, *, infinite: bool) -> Times:
    column = table.column(name).combine_chunks()
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    elif pa.types.is_floating(column.type):
        values = column.to_numpy(zero_copy_only=False)
        odd = np.flatnonzero(~np.isfinite(values))
        if len(odd):
            raise TimeRangeError(f"events, row {odd[0]}: the time {name!r} is {values[odd[0]]}, not a finite number.")
        column = column.cast(pa.int64(), safe=False)
    elif not pa.types.is_integer(column.type):
        raise TimeRangeError(f"events: the column {name!r} is {column.type}; a time is a timestamp or a whole number.")
    if column.null_count:
        if not infinite:
            at = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            raise TimeRangeError(f"events, row {at}: the time {name!r} is null.")
        column = column.fill_null(INFINITY)
    ticks: Times = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return ticks
