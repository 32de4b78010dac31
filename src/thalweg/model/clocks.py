"""What the times of a stream are to its reader: whole ticks, or timestamps of a zone.

Inside, a time is always an int64 of microseconds. A stream whose source was read from timestamps
has that type as its clock, and everything that leaves the system shows its times in it; infinity is
null there. Without a clock, times are the whole numbers that they were given as.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import cache
from typing import TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pyarrow as pa

from thalweg.model.time import INFINITY, MIN_TIME, Times

__all__ = [
    "UNITS",
    "Clock",
    "brief_duration",
    "clock_type",
    "common_clock",
    "duration_text",
    "lasting",
    "shown_by",
    "shown_duration",
    "shown_time",
    "time_column",
    "time_value",
    "with_times",
    "zone_named",
]

Clock: TypeAlias = "pa.DataType | None"
"""The timestamp type that times are shown in; None: whole ticks."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def clock_type(type_: pa.DataType) -> Clock:
    """The clock of a source whose time column has a type: timestamps count, in microseconds.

    >>> clock_type(pa.timestamp("ns", "Asia/Tokyo")), clock_type(pa.int64())
    (TimestampType(timestamp[us, tz=Asia/Tokyo]), None)
    """
    if pa.types.is_date(type_):
        return pa.timestamp("us")
    return pa.timestamp("us", type_.tz) if pa.types.is_timestamp(type_) else None


_OFFSET = re.compile(r"([+-])([01]\d|2[0-3]):([0-5]\d)")


@cache
def zone_named(name: str) -> tzinfo | None:
    """A time zone by a name that Arrow takes, a region or an offset from UTC; None: unknown.

    >>> print(zone_named("Asia/Tokyo"), zone_named("+02:00"), zone_named("Mars"))
    Asia/Tokyo UTC+02:00 None
    """
    if offset := _OFFSET.fullmatch(name):
        sign, hours, minutes = offset.groups()
        ahead = timedelta(hours=int(hours), minutes=int(minutes))
        return timezone(-ahead if sign == "-" else ahead)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def common_clock(clocks: list[Clock]) -> Clock:
    """The clock of several sources together: theirs where they agree, UTC where zones differ, ticks
    where one of them counts."""
    if not clocks or any(clock is None for clock in clocks):
        return None
    first = clocks[0]
    return first if all(clock == first for clock in clocks) else pa.timestamp("us", "UTC")


def time_column(ticks: Times, clock: Clock) -> pa.Array:
    """Times as a column of their reader's type; without end is null in a column of timestamps."""
    if clock is None:
        return pa.array(ticks)
    endless = ticks == INFINITY
    return pa.array(np.where(endless, 0, ticks), pa.int64(), mask=endless).cast(clock)


def with_times(table: pa.Table, names: Iterable[str], clock: Clock) -> pa.Table:
    """The table with these columns of ticks in the type of a clock."""
    for name in () if clock is None else names:
        ticks = table.column(name).to_numpy()
        at = table.schema.get_field_index(name)
        table = table.set_column(at, name, time_column(ticks, clock))
    return table


def time_value(ticks: int, clock: Clock) -> int | datetime | None:
    """One time, as Python has it; None is without end. A year that Python does not have stays a
    number."""
    if clock is None:
        return ticks
    if ticks == INFINITY:
        return None
    try:
        instant = _EPOCH + timedelta(microseconds=ticks)
        if clock.tz is None:
            return instant.replace(tzinfo=None)
        return instant if clock.tz == "UTC" else instant.astimezone(zone_named(clock.tz))
    except (OverflowError, ValueError):
        return ticks


def shown_time(ticks: int, clock: Clock = None) -> str:
    """A time as a message says it.

    >>> shown_time(60_000_000), shown_time(60_000_000, pa.timestamp("us", "UTC"))
    ('60000000', '1970-01-01 00:01:00+00:00')
    """
    if ticks <= MIN_TIME:
        return "nothing"
    return "the end" if ticks == INFINITY else str(time_value(ticks, clock))


UNITS = (
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("min", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
    ("us", 1),
)
"""Units of durations with their ticks, the largest first."""


def shown_duration(ticks: int, clock: Clock = None) -> str:
    """A duration as a message says it.

    >>> shown_duration(5_400_000_000, pa.timestamp("us")), shown_duration(5)
    ('1 h 30 min', '5')
    """
    if clock is None or ticks == INFINITY:
        return "without end" if ticks == INFINITY else str(ticks)
    parts, rest = [], abs(ticks)
    for unit, size in UNITS:
        if rest >= size:
            parts.append(f"{rest // size} {unit}")
            rest %= size
    return ("-" if ticks < 0 else "") + (" ".join(parts) or "0 s")


def brief_duration(ticks: int) -> str:
    """A duration in three digits.

    >>> brief_duration(3_900_430_030), brief_duration(54_305_738), brief_duration(7)
    ('1.08 h', '54.3 s', '7 us')
    """
    for name, unit in UNITS:
        if ticks >= unit:
            return f"{ticks / unit:.3g} {name}"
    return f"{ticks} us"


def duration_text(ticks: int) -> str:
    """A duration in the largest unit that divides it.

    >>> duration_text(90_000_000), duration_text(120_000_000), duration_text(7)
    ('90 s', '2 min', '7 us')
    """
    for name, unit in UNITS:
        if ticks and ticks % unit == 0:
            return f"{ticks // unit} {name}"
    return f"{ticks} us"


_SHOWN_BY: ContextVar[Clock] = ContextVar("clock of the text that is written", default=None)


@contextmanager
def shown_by(clock: Clock) -> Iterator[None]:
    """A context in which `lasting` shows durations in the units of this clock."""
    before = _SHOWN_BY.set(clock)
    try:
        yield
    finally:
        _SHOWN_BY.reset(before)


def lasting(ticks: int) -> str:
    """A duration in what a plan says of itself: ticks, or units within `shown_by`.

    >>> lasting(300_000_000)
    '300000000'
    >>> with shown_by(pa.timestamp("us")):
    ...     lasting(300_000_000)
    '5 min'
    """
    return shown_duration(ticks, _SHOWN_BY.get())
