"""Events in ticks, from tables with ordinary time columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from thalweg.errors import TimeRangeError, UnknownColumnError
from thalweg.model.rows import Bools
from thalweg.model.time import (
    INFINITY,
    MAX_TIME,
    MIN_TIME,
    Duration,
    Times,
    duration_us,
    greatest,
    least,
)

__all__ = ["TimeColumns", "events", "without_bad_times"]


@dataclass(frozen=True, slots=True)
class TimeColumns:
    """Which columns of the rows of a source are times: the start, and the end if rows have one;
    without it they last `duration`."""

    start: str
    end: str | None = None
    duration: int = 1

    @property
    def names(self) -> tuple[str, ...]:
        return (self.start,) if self.end is None else (self.start, self.end)


def events(
    table: pa.Table,
    start: str,
    end: str | None = None,
    *,
    duration: Duration = 1,
    keep_times: bool = False,
    where: str = "events",
) -> pa.Table:
    """A table of events from one with ordinary columns: `start` and `end` name time columns;
    without an end each event lasts `duration`.

    Timestamps become microseconds since the epoch; whole numbers stay as they are. A null end is
    infinity. A start that is null, and any time that is not finite, not whole (a fraction, parts of
    a microsecond) or outside the range of the clock, is an error that names the row; `where` begins
    its message.

    >>> events(pa.table({"ts": [3, 4], "v": ["a", "b"]}), "ts").to_pylist()
    [{'_start': 3, '_end': 4, 'v': 'a'}, {'_start': 4, '_end': 5, 'v': 'b'}]
    """
    for name in (start, end):
        if name is not None and name not in table.schema.names:
            raise UnknownColumnError(name, table.schema.names, where)

    def refuse(bad: Bools, why: Why) -> None:
        if bad.any():
            at = int(np.argmax(bad))
            raise TimeRangeError(f"{where}, row {at}: {why(at)}.")

    starts, ends = _lifetimes(table, start, end, duration_us(duration), refuse)
    names = [n for n in table.schema.names if keep_times or n not in (start, end)]
    return pa.Table.from_arrays(
        [pa.array(starts), pa.array(ends), *(table.column(n) for n in names)],
        names=["_start", "_end", *names],
    )


def without_bad_times(
    table: pa.Table, start: str, end: str | None, *, duration: Duration
) -> tuple[pa.Table, dict[int, str]]:
    """The rows whose times `events` takes, and by number those it refuses, with the reason.

    >>> kept, bad = without_bad_times(pa.table({"ts": [3, None, 5]}), "ts", None, duration=1)
    >>> kept["ts"].to_pylist(), bad
    ([3, 5], {1: "the time 'ts' is null; leave such rows out first"})
    """
    reasons: dict[int, str] = {}

    def note(bad: Bools, why: Why) -> None:
        for at in np.flatnonzero(bad).tolist():
            reasons.setdefault(at, why(at))

    if any(name is not None and name not in table.schema.names for name in (start, end)):
        return table, {}  # `events` reports a column that is not there
    with np.errstate(invalid="ignore"):
        _lifetimes(table, start, end, duration_us(duration), note)
    if not reasons:
        return table, {}
    kept = np.ones(len(table), np.bool_)
    kept[list(reasons)] = False
    return table.filter(pa.array(kept)), dict(sorted(reasons.items()))


Why: TypeAlias = Callable[[int], str]
Refuse: TypeAlias = Callable[[Bools, Why], None]


def _lifetimes(
    table: pa.Table, start: str, end: str | None, duration: int, refuse: Refuse
) -> tuple[Times, Times]:
    """The start and the end of each row; `refuse` is called with those that have none."""
    starts = _ticks(table, start, refuse, infinite=False)
    if end is not None:
        return starts, _ticks(table, end, refuse, infinite=True)
    ends = starts + duration  # two times of the clock add up to less than int64 holds
    if not _within(ends, MIN_TIME, MAX_TIME):
        refuse(
            (ends <= MIN_TIME) | (ends >= MAX_TIME),
            lambda at: f"the end {ends[at]} is outside the range of the clock",
        )
    return starts, ends


def _within(values: Times, low: int, high: int) -> bool:
    """Whether low < value < high for all values. Two reductions take a third of the time of the
    masks that tell which ones are not."""
    return not len(values) or (least(values) > low and greatest(values) < high)


_MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}


def _ticks(table: pa.Table, name: str, refuse: Refuse, *, infinite: bool) -> Times:
    column = table.column(name)
    if pa.types.is_string(column.type):
        from thalweg.io.written_times import first_wrong_time, parse_times, time_type

        written = time_type(column)
        if written is None:
            texts = column
            wrong = np.arange(len(texts)) == first_wrong_time(texts)
            refuse(
                wrong,
                lambda at: (
                    f"the time {name!r} is {texts[at].as_py()!r}, which is no ISO 8601, "
                    "such as 2026-03-01T10:05:00Z"
                ),
            )
        else:
            column = parse_times(column, written)
    if pa.types.is_null(column.type):
        column = column.cast(pa.int64())
    if pa.types.is_date(column.type):
        column = (
            column.cast(pa.timestamp("s"))
            if column.type == pa.date32()
            else column.cast(pa.timestamp("ms"))
        )
    kind = column.type
    if not (pa.types.is_timestamp(kind) or pa.types.is_floating(kind) or pa.types.is_integer(kind)):
        raise TimeRangeError(
            f"events: the column {name!r} is {kind}; a time is a timestamp or a whole number."
        )
    null: Bools | None = column.is_null().to_numpy() if column.null_count else None
    if null is not None:
        if not infinite:
            refuse(null, lambda _: f"the time {name!r} is null; leave such rows out first")
        column = column.fill_null(pa.scalar(0, kind))
    if pa.types.is_timestamp(kind):
        ticks = _from_timestamps(column.cast(pa.int64()).to_numpy(), kind.unit, name, refuse)
    elif pa.types.is_floating(kind):
        ticks = _from_floats(column.cast(pa.float64()).to_numpy(), name, refuse)
    else:
        values = column.to_numpy()
        if values.dtype == np.uint64:
            refuse(
                values > INFINITY,
                lambda at: f"the time {name!r} is {values[at]}, outside the range of the clock",
            )
        ticks = values.astype(np.int64, copy=False)
    if not _within(ticks, MIN_TIME, MAX_TIME):
        outside = (ticks <= MIN_TIME) | (ticks >= MAX_TIME)
        if infinite:
            outside &= ticks != INFINITY
        refuse(
            outside, lambda at: f"the time {name!r} is {ticks[at]}, outside the range of the clock"
        )
    return ticks if null is None else np.where(null, INFINITY, ticks)


def _from_timestamps(values: Times, unit: str, name: str, refuse: Refuse) -> Times:
    if unit == "ns":
        refuse(
            values % 1_000 != 0,
            lambda at: f"the time {name!r} is {values[at]} ns, not a whole number of microseconds",
        )
        return values // 1_000
    scale = _MICROSECONDS[unit]
    limit = MAX_TIME // scale
    if not _within(values, -limit - 1, limit + 1):
        refuse(
            (values < -limit) | (values > limit),
            lambda at: f"the time {name!r} is {values[at]} {unit}, outside the range of the clock",
        )
    return values if scale == 1 else values * scale


def _from_floats(values: npt.NDArray[np.float64], name: str, refuse: Refuse) -> Times:
    refuse(
        ~np.isfinite(values), lambda at: f"the time {name!r} is {values[at]}, not a finite number"
    )
    refuse(
        np.abs(values) >= MAX_TIME,
        lambda at: f"the time {name!r} is {values[at]}, outside the range of the clock",
    )
    refuse(
        values != np.floor(values),
        lambda at: f"the time {name!r} is {values[at]}, not a whole number of ticks",
    )
    return values.astype(np.int64)
