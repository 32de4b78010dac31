"""A frame as a stream: the shortest way from a table to an answer.

>>> from thalweg.plan.aggregates import count
>>> from thalweg.run.pulling import table
>>> orders = from_frame([{"ts": 3, "item": "a"}, {"ts": 12, "item": "b"}], time="ts")
>>> table(orders.tumbling(10).aggregate(n=count()))
[(0, 10, {'n': 1}), (10, 20, {'n': 1})]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from thalweg.errors import PlanError, TypeMismatchError
from thalweg.io.frame_events import events
from thalweg.io.frames import conform, table_of
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
    columns: pa.Schema | Mapping[str, str | pa.DataType] | None = None,
    **facts: Any,
) -> Stream:
    """A frame (Arrow, pandas, Polars, DuckDB, a list of dictionaries) as a stream of events; or a
    file, a folder or a glob of Parquet, Arrow, CSV or JSON lines, named by text or a path.

    `time` is the column with the start, `end` the one with the end; without it events last
    `duration`. `columns` are the names and types of its columns, instead of those that its rows
    suggest; with them it may have no rows. `tw.table(query)` and `tw.changes(query)` then need no
    inputs. Other arguments are those of `source`.
    """
    if name is None:
        name = _place_name(str(frame)) if isinstance(frame, (str, Path)) else "frame"
    for argument, given in (("time", time), ("end", end)):
        if not isinstance(given, str) and (argument == "time" or given is not None):
            raise PlanError(
                f"source {name!r}: {argument}= is the name of a column, which is text; got "
                f"{given!r}."
            )
    declared = None if columns is None else source(name, columns).schema
    where = f"source {name!r}"
    table = _table(frame, declared, (time, end), where)
    _require_times(table, (time, end), where)
    if set(table.schema.names) <= {time, end}:
        raise PlanError(
            f"{where}: its rows have nothing but their times; add a column, if only a constant."
        )
    if end is None:
        facts = {"constant_duration": duration, **facts}
    node = source(name, table.schema, time=time, end=end, insert_only=True, **facts).node
    assert isinstance(node, Source) and node.times is not None
    lasting = duration_us(duration, what=f"{where}, duration")
    rows = events(table, time, end, duration=duration, where=where)
    return Stream(replace(node, feed=rows, times=replace(node.times, duration=lasting)))


def _place_name(path: str) -> str:
    from thalweg.io.discovery import place_name  # with the file systems of Arrow

    return place_name(path)


def _table(
    frame: object, declared: pa.Schema | None, times: tuple[str | None, ...], where: str
) -> pa.Table:
    """All rows, with the declared columns if there are any."""
    if isinstance(frame, (str, Path)):
        return _read(str(frame), declared, times, where)
    if isinstance(frame, list) and not frame:
        if declared is None:
            raise PlanError(
                f"{where}: an empty list has no columns; give columns= to start without rows."
            )
        return declared.empty_table()
    table = _with_times(table_of(frame, where=where), times)
    return table if declared is None else conform(table, declared, where)


def _read(
    path: str, declared: pa.Schema | None, times: tuple[str | None, ...], where: str
) -> pa.Table:
    """All rows of files, in the order of their names."""
    from thalweg.io.discovery import discover

    found = discover(path, columns=declared, times=times)
    pieces = [found.schema.empty_table(), *found.read(found.schema.names)]
    return pa.concat_tables([conform(piece, found.schema, where) for piece in pieces])


def _require_times(table: pa.Table, names: tuple[str | None, ...], where: str) -> None:
    """Refuse text that is no time by its first value that is none."""
    from thalweg.io.written_times import first_wrong_time

    for name in names:
        if name in table.schema.names and pa.types.is_string(table.schema.field(name).type):
            texts = table.column(name)
            row = first_wrong_time(texts)
            raise TypeMismatchError(
                f"{where}, row {row}: the time {name!r} is {texts[row].as_py()!r}, which is no ISO "
                "8601, such as 2026-03-01T10:05:00Z; parse it first."
            )


def _with_times(table: pa.Table, names: tuple[str | None, ...]) -> pa.Table:
    """Times that are written as ISO 8601 are read as they are in files."""
    from thalweg.io.written_times import parse_times, time_type

    for name in names:
        at = table.schema.get_field_index(name) if name is not None else -1
        if at >= 0 and pa.types.is_string(table.schema.field(at).type):
            kind = time_type(table.column(at))
            if kind is not None:
                times = parse_times(table.column(at), kind)
                table = table.set_column(at, table.schema.names[at], times)
    return table
