"""Events from frames: times of a frame's own type, timestamps with their zone or whole numbers."""

from __future__ import annotations

import pyarrow as pa

from thalweg.errors import UnknownColumnError
from thalweg.io.events import events as tick_events
from thalweg.io.frames import table_of
from thalweg.model.clocks import clock_type, with_times
from thalweg.model.time import Duration

__all__ = ["events"]


def events(
    frame: object,
    start: str,
    end: str | None = None,
    *,
    duration: Duration = 1,
    keep_times: bool = False,
    where: str = "events",
) -> pa.Table:
    """A table of events from a frame with ordinary columns: `start` and `end` name time columns;
    without an end each event lasts `duration`.

    Timestamps stay timestamps, in microseconds, with their zone; whole numbers stay as they are. A
    null end is infinity. A start that is null, and any time that is not finite, not whole (a
    fraction, parts of a microsecond) or outside the range of the clock, is an error that names the
    row; `where` begins its message.

    >>> events([{"ts": 3, "v": "a"}, {"ts": 4, "v": "b"}], "ts").to_pylist()
    [{'_start': 3, '_end': 4, 'v': 'a'}, {'_start': 4, '_end': 5, 'v': 'b'}]
    """
    table = table_of(frame, where=where)
    if start not in table.schema.names:
        raise UnknownColumnError(start, table.schema.names, where)
    stamped = _with_stamps(table, (start, end))
    rows = tick_events(stamped, start, end, duration=duration, keep_times=keep_times, where=where)
    return with_times(rows, ("_start", "_end"), clock_type(table.schema.field(start).type))


def _with_stamps(table: pa.Table, names: tuple[str | None, ...]) -> pa.Table:
    """Dates as the timestamps at which they begin."""
    for name in names:
        if name is None:
            continue
        at = table.schema.get_field_index(name)
        if at >= 0 and pa.types.is_date(table.schema.field(at).type):
            table = table.set_column(at, name, table.column(at).cast(pa.timestamp("us")))
    return table
