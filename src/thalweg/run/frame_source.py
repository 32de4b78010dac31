"""A frame as a stream: the shortest way from a table to an answer.

>>> from thalweg.plan.aggregates import count
>>> from thalweg.run.engine import table
>>> orders = from_frame([{"ts": 3, "item": "a"}, {"ts": 12, "item": "b"}], time="ts")
>>> table(orders.tumbling(10).aggregate(n=count()))
[(0, 10, {'n': 1}), (10, 20, {'n': 1})]
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

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
    name: str = "frame",
    **facts: Any,
) -> Stream:
    """A frame (Arrow, pandas, Polars, DuckDB, a list of dictionaries) as a stream of events.

    `time` is the column with the start, `end` the one with the end; without it events last
    `duration`. `tw.table(query)` and `tw.changes(query)` then need no inputs. Other arguments are
    those of `source`.
    """
    table = table_of(frame, where=f"source {name!r}")
    if end is None:
        facts = {"constant_duration": duration, **facts}
    made = source(name, table.schema, time=time, end=end, insert_only=True, **facts).node
    assert isinstance(made, Source) and made.times is not None
    lasting = duration_us(duration, what=f"source {name!r}, duration")
    rows = events(table, time, end, duration=duration)
    return Stream(replace(made, feed=rows, times=replace(made.times, duration=lasting)))
