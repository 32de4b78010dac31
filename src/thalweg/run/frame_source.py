"""A frame as a stream: the shortest way from a table to an answer.

>>> from thalweg.plan.aggregates import count
>>> from thalweg.run.pulling import table
>>> orders = from_frame([{"ts": 3, "item": "a"}, {"ts": 12, "item": "b"}], time="ts")
>>> table(orders.tumbling(10).aggregate(n=count()))
[(0, 10, {'n': 1}), (10, 20, {'n': 1})]
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from thalweg.errors import PlanError
from thalweg.io.frame_events import events
from thalweg.io.frames import table_of
from thalweg.model.time import Duration, duration_us
from thalweg.plan.nodes import Source
from thalweg.stream import Stream, source

__all__ = ["from_frame"]


def from_frame(
    frame: object,
    *,
    time: str,
    end: str | None = None,
    duration: Duration = 1,
    name: str | None = None,
    **facts: Any,
) -> Stream:
    """A frame (Arrow, pandas, Polars, DuckDB, a list of dictionaries) as a stream of events; or a
    file, a folder or a glob of Parquet, Arrow, CSV or JSON lines, named by text or a path.

    `time` is the column with the start, `end` the one with the end; without it events last
    `duration`. `tw.table(query)` and `tw.changes(query)` then need no inputs. Other arguments are
    those of `source`.
    """
    if isinstance(frame, (str, Path)):
        from thalweg.io.discovery import place_name  # with the file systems of Arrow

        name = name or place_name(str(frame))
        table = _read(str(frame), time, end)
    else:
        name = name or "frame"
        table = _with_times(table_of(frame, where=f"source {name!r}"), (time, end))
    if set(table.schema.names) <= {time, end}:
        raise PlanError(
            f"source {name!r}: its rows have nothing but their times; add a column, if only a constant."
        )
    if end is None:
        facts = {"constant_duration": duration, **facts}
    node = source(name, table.schema, time=time, end=end, insert_only=True, **facts).node
    assert isinstance(node, Source) and node.times is not None
    lasting = duration_us(duration, what=f"source {name!r}, duration")
    rows = events(table, time, end, duration=duration)
    return Stream(replace(node, feed=rows, times=replace(node.times, duration=lasting)))


def _read(path: str, time: str, end: str | None) -> pa.Table:
    """All rows of files, in the order of their names."""
    from thalweg.io.discovery import discover

    found = discover(path, times=(time, end))
    return pa.concat_tables(found.read()).select(found.schema.names)


def _with_times(table: pa.Table, names: tuple[str | None, ...]) -> pa.Table:
    """Times that are written as ISO 8601 are read as they are in files."""
    from thalweg.io.text import parse_times, time_type

    for name in names:
        at = table.schema.get_field_index(name) if name is not None else -1
        if at >= 0 and pa.types.is_string(table.schema.field(at).type):
            kind = time_type(table.column(at))
            if kind is not None:
                times = parse_times(table.column(at), kind)
                table = table.set_column(at, table.schema.names[at], times)
    return table
