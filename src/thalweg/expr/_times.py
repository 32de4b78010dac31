"""Kernels of times: arithmetic with durations, parts of a date, zones. Null in, null out.

A timestamp with a zone is an instant, and its parts (`hour`, `date_trunc`, ...) are those of its
zone's calendar; one without a zone is read as it stands. Weeks begin on Monday. Units and
numbers of months are constants. A duration beside a whole number counts in ticks, microseconds, so
that `_start + INTERVAL '1' MINUTE` is a time of the clock whatever the clock shows.

| function | gives |
| --- | --- |
| timestamp + duration, timestamp - timestamp | a timestamp, a duration |
| extract(unit, t), year(t), ..., unix_timestamp(t) | int64 |
| date_trunc(unit, t) | a timestamp: where the unit began |
| timestampdiff(unit, a, b) | whole units from a to b, rounded towards zero |
| datediff(b, a) | midnights between a and b |
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from thalweg.expr.kinds import Datum, Refusal, column, constant, moment

__all__ = [
    "add_months",
    "add_times",
    "at_time_zone",
    "date_trunc",
    "datediff",
    "extract",
    "has_times",
    "part",
    "subtract_times",
    "timestampadd",
    "timestampdiff",
    "unix_timestamp",
    "wall_time",
]

_US = pa.duration("us")
_UNITS_US = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_UNITS = (*_UNITS_US, *_MONTHS)


def has_times(*values: Datum) -> bool:
    """Whether one of the values is a time or a duration."""
    return any(types.is_temporal(value.type) for value in values)


def _unit(value: Datum, what: str) -> str:
    found = constant(value, what)
    name = str(found).lower()
    name = name if name in _UNITS else name.removesuffix("s")
    if name not in _UNITS:
        raise Refusal(f"{what} is one of {', '.join(_UNITS)}; {found!r} is none")
    return name


# ------------------------------------------------------------------------------------------------
# arithmetic


def add_times(left: Datum, right: Datum) -> Datum:
    """The sum of a time and a duration, in either order, of two durations, or of ticks and a
    duration."""
    if types.is_duration(left.type) and not types.is_duration(right.type):
        left, right = right, left
    return pc.add_checked(*_operands(left, right, "+"))


def subtract_times(left: Datum, right: Datum) -> Datum:
    """The duration between two times; a time, a duration or ticks less a duration."""
    return pc.subtract_checked(*_operands(left, right, "-"))


def _operands(left: Datum, right: Datum, sign: str) -> tuple[Datum, Datum]:
    if types.is_date(left.type):
        left = left.cast(pa.timestamp("us"))
    if types.is_date(right.type):
        right = right.cast(pa.timestamp("us"))
    if types.is_duration(right.type):
        right = right.cast(_US)
        if types.is_integer(left.type):
            return left.cast(pa.int64()), right.cast(pa.int64())
        if types.is_timestamp(left.type):
            return left.cast(pa.timestamp("us", left.type.tz)), right
        if types.is_duration(left.type):
            return left.cast(_US), right
    elif sign == "-" and types.is_timestamp(left.type):
        end, begin = (
            value.cast(pa.timestamp("us", value.type.tz)) for value in moment([left, right])
        )
        return end, begin
    raise Refusal(
        f"{left.type} {sign} {right.type} has no meaning; a time takes a duration, such as INTERVAL"
        " '1' HOUR"
    )


def add_months(value: Datum, months: Datum) -> Datum:
    """The time `months` months later, on the same day or on the last day of a shorter month."""
    count = _month_count(months)
    if isinstance(value, pa.Scalar):
        return column(add_months(pa.array([value.as_py()], value.type), months))[0]
    if types.is_null(value.type):
        return value
    wall = column(wall_time(value)).cast(pa.timestamp("us"))
    times = wall.to_numpy(zero_copy_only=False).astype("M8[us]")
    month = times.astype("M8[M]")
    day = times.astype("M8[D]") - month.astype("M8[D]")
    later = month + np.timedelta64(count, "M")
    last = (later + np.timedelta64(1, "M")).astype("M8[D]") - later.astype("M8[D]")
    moved = (
        later.astype("M8[D]")
        + np.minimum(day, last - np.timedelta64(1, "D"))
        + (times - times.astype("M8[D]"))
    )
    return _zoned(pa.array(moved, pa.timestamp("us"), mask=np.isnat(times)), value.type)


def _month_count(value: Datum) -> int:
    count = constant(value, "the number of months")
    if not isinstance(count, int) or isinstance(count, bool):
        raise Refusal(f"the number of months is a whole number, not {count!r}")
    return count


def wall_time(value: Datum) -> Datum:
    """A time as the calendar of its zone shows it."""
    if types.is_date(value.type):
        return value.cast(pa.timestamp("us"))
    if not types.is_timestamp(value.type):
        raise Refusal(f"a time is needed, not {value.type}; convert it with CAST(... AS timestamp)")
    return value if value.type.tz is None else pc.local_timestamp(value)


def _zoned(wall: Datum, type_: pa.DataType) -> Datum:
    zone = type_.tz if types.is_timestamp(type_) else None
    if zone is None:
        return wall
    return pc.assume_timezone(wall, zone, ambiguous="earliest", nonexistent="latest")


def timestampadd(unit: Datum, count: Datum, value: Datum) -> Datum:
    """The time `count` units later."""
    name = _unit(unit, "the unit")
    if name in _MONTHS:
        return add_months(value, pa.scalar(_month_count(count) * _MONTHS[name]))
    if not types.is_integer(count.type):
        raise Refusal(f"the number of {name}s is a whole number, not {count.type}")
    ticks = pc.multiply_checked(count.cast(pa.int64()), pa.scalar(_UNITS_US[name]))
    return add_times(value, ticks.cast(_US))


def timestampdiff(unit: Datum, begin: Datum, end: Datum) -> Datum:
    """Whole units from one time to another, rounded towards zero."""
    name = _unit(unit, "the unit")
    if name in _MONTHS:
        raise Refusal("months have no fixed length; count weeks, days or shorter units")
    ticks = subtract_times(end, begin).cast(pa.int64())
    size = pa.scalar(_UNITS_US[name])
    sign = pc.sign(ticks).cast(pa.int64())
    return pc.multiply(pc.divide(pc.abs(ticks), size), sign)  # whole numbers divide towards zero


def datediff(end: Datum, begin: Datum) -> Datum:
    """Midnights from the second time to the first, as Spark counts days."""
    return pc.days_between(wall_time(begin), wall_time(end))


# ------------------------------------------------------------------------------------------------
# parts


def date_trunc(unit: Datum, value: Datum) -> Datum:
    """The start of the unit (hour, day, month, ...) that contains the time."""
    name = _unit(unit, "the unit of date_trunc")
    wall = wall_time(value)
    if wall is value or name in ("microsecond", "millisecond", "second", "minute"):
        time = wall if types.is_date(value.type) else value
        return pc.floor_temporal(time, unit=name, week_starts_monday=True)
    return _zoned(pc.floor_temporal(wall, unit=name, week_starts_monday=True), value.type)


_PARTS: dict[str, Callable[[Datum], Datum]] = {
    "year": pc.year,
    "quarter": pc.quarter,
    "month": pc.month,
    "week": pc.iso_week,
    "day": pc.day,
    "dayofweek": lambda value: pc.add(
        pc.day_of_week(value, count_from_zero=True, week_start=7), pa.scalar(1)
    ),
    "isodow": lambda value: pc.day_of_week(value, count_from_zero=False, week_start=1),
    "dayofyear": pc.day_of_year,
    "hour": pc.hour,
    "minute": pc.minute,
    "second": pc.second,
    "millisecond": pc.millisecond,
    "microsecond": lambda value: pc.add(
        pc.multiply(pc.millisecond(value), pa.scalar(1_000)), pc.microsecond(value)
    ),
}
_PART_NAMES = {
    "dow": "dayofweek",
    "doy": "dayofyear",
    "dayofmonth": "day",
    "weekofyear": "week",
    "dayofweek_iso": "isodow",
    "dow_iso": "isodow",
}


def part(name: str) -> Callable[[Datum], Datum]:
    """`year`, `hour` and their kind, as functions of their own."""
    run = _PARTS[name]

    def apply(value: Datum) -> Datum:
        if types.is_null(value.type):
            return value.cast(pa.int64())
        return run(wall_time(value)).cast(pa.int64())

    return apply


def extract(unit: Datum, value: Datum) -> Datum:
    """EXTRACT(unit FROM t)."""
    part_name = str(constant(unit, "the part of a time")).lower()
    name = _PART_NAMES.get(part_name, part_name)
    if name == "epoch":
        return unix_timestamp(value)
    if name not in _PARTS:
        raise Refusal(f"a time has no part {part_name!r}; its parts are epoch, {', '.join(_PARTS)}")
    return part(name)(value)


def unix_timestamp(value: Datum) -> Datum:
    """Whole seconds since 1970 began in UTC."""
    if types.is_timestamp(value.type):
        utc = pc.floor_temporal(value.cast(pa.timestamp("us")), unit="second")
        return utc.cast(pa.timestamp("s")).cast(pa.int64())
    return unix_timestamp(wall_time(value))


def at_time_zone(value: Datum, zone: Datum) -> Datum:
    """A time without a zone as an instant of that zone; an instant as that zone's calendar shows
    it."""
    name = str(constant(zone, "the time zone"))
    if not types.is_timestamp(value.type):
        value = wall_time(value)
    if value.type.tz is None:
        return pc.assume_timezone(value, name, ambiguous="earliest", nonexistent="latest")
    return pc.local_timestamp(value.cast(pa.timestamp(value.type.unit, name)))
