"""Application time: an int64, half-open lifetimes, one constant for infinity.

Any integer unit works inside one query; the API and Spark use microseconds since the epoch. Finite
times lie strictly between `MIN_TIME` and `MAX_TIME`, a quarter of the int64 range on either side,
so that adding a legal duration to a legal time can never wrap around; `INFINITY` absorbs every
shift.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from thalweg.errors import TimeRangeError, WindowError

__all__ = [
    "INFINITY",
    "MAX_TIME",
    "MIN_TIME",
    "Duration",
    "TimeLike",
    "Times",
    "add_saturating",
    "ceil_to_grid",
    "duration_us",
    "floor_to_grid",
    "greatest",
    "least",
    "time_us",
]

INFINITY: int = 2**63 - 1
MAX_TIME: int = 2**62
MIN_TIME: int = -(2**62)

Times: TypeAlias = npt.NDArray[np.int64]
Duration: TypeAlias = "int | str | timedelta"
TimeLike: TypeAlias = "int | date | np.datetime64"
"""A point in time as people have it: ticks, a date or datetime (pandas' too), a NumPy time."""

_UNITS_US = {
    "us": 1,
    "microsecond": 1,
    "ms": 1_000,
    "millisecond": 1_000,
    "s": 1_000_000,
    "sec": 1_000_000,
    "second": 1_000_000,
    "m": 60_000_000,
    "min": 60_000_000,
    "minute": 60_000_000,
    "h": 3_600_000_000,
    "hour": 3_600_000_000,
    "d": 86_400_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*")


_FEW = 32
"""The least of so few numbers is found faster as Python numbers than by a reduction."""


def least(times: Times) -> int:
    """The smallest of some times; there is at least one.

    >>> least(np.array([4, 2, 3])), greatest(np.array([4, 2, 3]))
    (2, 4)
    """
    return min(times.tolist()) if len(times) <= _FEW else int(times.min())


def greatest(times: Times) -> int:
    """The largest of some times; there is at least one."""
    return max(times.tolist()) if len(times) <= _FEW else int(times.max())


def duration_us(value: Duration, *, what: str = "duration") -> int:
    """A duration as an integer number of ticks: ints as they are, text and timedelta in
    microseconds.

    >>> duration_us("10 min"), duration_us("1h 30s"), duration_us(5)
    (600000000, 3630000000, 5)
    """
    if isinstance(value, bool):
        raise WindowError(
            f"{what} must be a timedelta, text such as '10 min', or whole ticks; got {value!r}."
        )
    if isinstance(value, (int, np.integer)):
        ticks = int(value)
    elif isinstance(value, timedelta):
        ticks = value // timedelta(microseconds=1)
    elif isinstance(value, str):
        ticks = _parse(value, what)
    else:
        raise WindowError(
            f"{what} must be a timedelta, text such as '10 min', or whole ticks; got {value!r}."
        )
    if not MIN_TIME < ticks < MAX_TIME:
        raise WindowError(f"{what} of {value!r} is outside the range of the clock.")
    return ticks


def _parse(text: str, what: str) -> int:
    position, total = 0, 0.0
    negative = text.strip().startswith("-")
    body = text.strip().removeprefix("-")
    while position < len(body):
        found = _PART.match(body, position)
        unit = found.group(2).lower() if found else ""
        scale = _UNITS_US.get(unit) or _UNITS_US.get(unit.removesuffix("s"))
        if not found or scale is None:
            hint = (
                " Months, quarters and years differ in length: calendar('month') makes windows of "
                "them."
                if unit.removesuffix("s") in ("month", "quarter", "year")
                else ""
            )
            raise _not_understood(what, text, hint)
        total += float(found.group(1)) * scale
        position = found.end()
    if not body:
        raise _not_understood(what, text)
    if total != int(total):
        raise WindowError(f"{what} {text!r} is not a whole number of microseconds.")
    return -int(total) if negative else int(total)


def _not_understood(what: str, text: str, hint: str = "") -> WindowError:
    return WindowError(
        f"{what} {text!r} is not understood; write it as '10 min', '1h 30s' or '250 ms'.{hint}"
    )


def time_us(value: TimeLike) -> int:
    """A point in time as ticks: a whole number as it is; a date or a datetime, of pandas and NumPy
    too, in microseconds. Without a zone it is read as UTC.

    >>> time_us(datetime(1970, 1, 1, 0, 0, 1)), time_us(np.datetime64("1970-01-01T00:01"))
    (1000000, 60000000)
    """
    if not isinstance(value, (date, np.datetime64)):
        whole = isinstance(value, (int, np.integer)) or (
            isinstance(value, (float, np.floating)) and float(value).is_integer()
        )
        if not whole:
            raise TimeRangeError(
                f"a time is a whole number of ticks, a date or a datetime; got {value!r}."
            )
        return int(value)
    if value != value:  # NaT, of pandas and of NumPy
        raise TimeRangeError("a time is needed; NaT is none.")
    if isinstance(value, np.datetime64):
        ticks = value.astype("M8[us]")
        if ticks != value:
            raise TimeRangeError(f"the time {value} is not a whole number of microseconds.")
        return int(ticks.astype(np.int64))
    if getattr(value, "nanosecond", 0):
        raise TimeRangeError(f"the time {value} is not a whole number of microseconds.")
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day, tzinfo=UTC)
    aware = value if value.tzinfo else value.replace(tzinfo=UTC)
    return (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def add_saturating(times: Times, ticks: int | Times) -> Times:
    """`times + ticks`, where infinity stays infinite."""
    return np.where(times == INFINITY, INFINITY, times + np.where(times == INFINITY, 0, ticks))


def floor_to_grid(times: Times, step: int, offset: int = 0) -> Times:
    """The grid point `offset + k * step` at or before each time; infinity stays.

    >>> floor_to_grid(np.array([-1, 0, 7, 10]), 5).tolist()
    [-5, 0, 5, 10]
    """
    finite = np.where(times == INFINITY, offset, times)
    grid = (finite - offset) // step * step + offset
    return np.where(times == INFINITY, INFINITY, grid)


def ceil_to_grid(times: Times, step: int, offset: int = 0) -> Times:
    """The grid point at or after each time; infinity stays."""
    finite = np.where(times == INFINITY, offset, times)
    grid = -((offset - finite) // step) * step + offset
    return np.where(times == INFINITY, INFINITY, grid)
