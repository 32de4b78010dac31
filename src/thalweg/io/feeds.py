"""What an engine takes in: batches, frames, or elements; each becomes batches.

A frame (see `frames`) has the time column that its source named, or `_start` and, if its rows last,
`_end`; or the control columns of the exchange form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import pyarrow as pa

from thalweg.errors import MalformedElementError, SchemaChangeError, list_names
from thalweg.io.events import TimeColumns, events
from thalweg.io.frames import conform, is_frame, table_of
from thalweg.model.batch import CONTROL_COLUMNS, Batch, one_batch, ticks_of
from thalweg.model.element_batches import batch_of
from thalweg.model.elements import Adjust, Cti, Element, Insert

__all__ = ["Feed", "Frame", "Input", "batches_from"]

Frame: TypeAlias = Any
"""An Arrow table, or anything that shows its columns to Arrow; a list of dictionaries."""

Input: TypeAlias = "Batch | Frame | Element"
Feed: TypeAlias = "Input | Iterable[Input]"


def batches_from(
    feed: Feed,
    schema: pa.Schema,
    source: str,
    *,
    times: TimeColumns | None = None,
    size: int | None = None,
    due: Callable[[], bool] | None = None,
) -> Iterator[Batch]:
    """A feed as batches: elements are gathered up to the next CTI (or `size`), tables are taken as
    they are.

    A CTI does not wait for a batch to be full, and neither does a timer: when `due` says so, what
    was gathered leaves.
    """
    single = isinstance(feed, (Batch, Insert, Adjust, Cti, Mapping)) or is_frame(feed)
    if not single and not isinstance(feed, Iterable):
        raise MalformedElementError(
            f"source {source!r}: expected batches, frames or elements; got {feed!r}."
        )
    items: Iterable[Input] = [feed] if single else feed  # type: ignore[assignment]

    def place(number: int) -> str:
        return f"source {source!r}, input {number}"

    held: list[Insert | Adjust] = []
    number = -1
    for number, item in enumerate(items):
        if isinstance(item, (Insert, Adjust)):
            held.append(item)
            if (size is not None and len(held) >= size) or (due is not None and due()):
                yield batch_of(held, schema, first=number + 1 - len(held), place=place)
                held = []
            continue
        if isinstance(item, Cti):
            yield batch_of(held, schema, item, first=number - len(held), place=place)
            held = []
            continue
        if held:
            yield batch_of(held, schema, first=number - len(held), place=place)
            held = []
        if isinstance(item, Batch):
            yield item
        elif isinstance(item, Mapping) and not is_frame(item):
            yield _from_frame([dict(item)], schema, times, place(number))
        elif is_frame(item):
            yield _from_frame(item, schema, times, place(number))
        else:
            raise MalformedElementError(
                f"{place(number)}: expected a batch, a frame or an element; got {item!r}."
            )
    if held:
        yield batch_of(held, schema, first=number + 1 - len(held), place=place)


def _from_frame(frame: Frame, schema: pa.Schema, times: TimeColumns | None, where: str) -> Batch:
    table = table_of(frame, schema, where)
    names = table.schema.names
    if tuple(names[:4]) == CONTROL_COLUMNS:
        payload = conform(table.select(names[4:]), schema, where)
        controls = [table.column(name) for name in CONTROL_COLUMNS]
        whole = pa.Table.from_arrays(
            [*controls, *payload.columns], names=[*CONTROL_COLUMNS, *schema.names]
        )
        return Batch.from_table(whole, where=where)
    if times is not None and times.start in names:
        table = events(table, times.start, times.end, duration=times.duration, where=where)
        names = table.schema.names
    elif "_start" not in names:
        time_column = "_start (and _end)" if times is None else repr(times.start)
        raise SchemaChangeError(
            f"{where}: a frame needs the time column {time_column} (see thalweg.events, or name it:"
            f" source(..., time=...)); it has {list_names(names)}."
        )
    payload = conform(
        table.select([name for name in names if name not in ("_start", "_end")]), schema, where
    )
    rows = one_batch(payload, where)
    start = ticks_of(table.column("_start").combine_chunks(), "_start", where)
    end = (
        ticks_of(table.column("_end").combine_chunks(), "_end", where)
        if "_end" in names
        else start + 1
    )
    return Batch(rows, start, end)
