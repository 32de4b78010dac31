"""Calendar windows: days, weeks, months, quarters and years as a time zone's calendar has them.

A tuple belongs to the period that its time, on the wall clocks of the zone, lies in:

    window(t) = floor(wall(t), unit)          wall(t): the local date and time of the instant t
    [start, end) = [instant(w), instant(next(w)))

So a day is 23 or 25 hours long where clocks are changed, and periods meet without gap or overlap. A
midnight that a zone skips is the first instant after it; of one that comes twice, the first. Weeks
begin on Monday. The id of a window is the number of its first day since 1970-01-01.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.errors import EvaluationError, WindowError, did_you_mean
from thalweg.model.clocks import zone_named
from thalweg.model.rows import Bools, Codes
from thalweg.model.time import Times, greatest, least
from thalweg.windows.framework import Membership, Tuples, WindowIds, WindowKind

__all__ = ["UNITS", "CalendarWindow", "calendar"]

UNITS = {"day": 1, "week": 7, "month": 31, "quarter": 92, "year": 366}
"""The units, and how many days each has at most."""

_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_DAY = 86_400_000_000
_LAST_YEAR = 30_000
_FARTHEST = (_LAST_YEAR - 1970) * 365 * _DAY
"""Arrow counts years in 16 bits, and is silently wrong for times that lie farther away."""

Days = npt.NDArray[np.datetime64]


@dataclass(frozen=True, slots=True)
class CalendarWindow(WindowKind):
    """Periods of a calendar: `unit` in `zone`."""

    context = frozenset()
    consecutive = True
    unit: str
    zone: str = "UTC"

    @property
    def longest(self) -> int:
        """The longest period of the unit, and a day more: a zone may move its clocks by that."""
        return (UNITS[self.unit] + 1) * _DAY

    def windows(self, tuples: Tuples) -> WindowIds:
        numbers = self._periods(tuples.ts)
        both = np.unique(np.stack([numbers, tuples.partition]), axis=1)
        return WindowIds.of(both[0], both[1])

    def extent(self, window: int, partition: int, tuples: Tuples) -> Bools:
        start, end = self.time_range(np.array([window]))
        inside: Bools = (
            (tuples.ts >= start[0]) & (tuples.ts < end[0]) & (tuples.partition == partition)
        )
        return inside

    def wids(self, tuples: Tuples) -> Membership:
        return Membership(np.arange(len(tuples)), self._periods(tuples.ts))

    def time_range(self, windows: Codes) -> tuple[Times, Times]:
        days: Days = np.asarray(windows, np.int64).astype("M8[D]")
        return self._instants(days), self._instants(self._following(days))

    def _periods(self, ts: Times) -> Codes:
        """For each instant, the first day of its period."""
        for time in (least(ts), greatest(ts)) if len(ts) else ():
            if abs(time) > _FARTHEST:
                raise EvaluationError(
                    f"{self}: the time {time} lies beyond the year {_LAST_YEAR}; calendars count "
                    "times in microseconds."
                )
        wall = pc.local_timestamp(pa.array(ts).cast(pa.timestamp("us", self.zone)))
        first = pc.floor_temporal(wall, unit=self.unit, week_starts_monday=True)
        days: Codes = np.floor_divide(first.cast(pa.int64()).to_numpy(), _DAY)
        return days

    def _following(self, days: Days) -> Days:
        """The first day of the period after each."""
        if self.unit in _MONTHS:
            later = days.astype("M8[M]") + np.timedelta64(_MONTHS[self.unit], "M")
            return later.astype("M8[D]")
        return days + np.timedelta64(UNITS[self.unit], "D")

    def _instants(self, days: Days) -> Times:
        """When each day begins in the zone."""
        walls = pa.array(days.astype("M8[us]"), pa.timestamp("us"))
        zoned = pc.assume_timezone(walls, self.zone, ambiguous="earliest", nonexistent="latest")
        ticks: Times = zoned.cast(pa.int64()).to_numpy()
        return ticks

    def __str__(self) -> str:
        return f"calendar({self.unit}, {self.zone})"


def calendar(unit: str, zone: str) -> CalendarWindow:
    """Calendar windows; an unknown unit or zone is refused.

    >>> calendar("months", "Europe/Berlin")
    CalendarWindow(unit='month', zone='Europe/Berlin')
    """
    name = str(unit).strip().lower().removesuffix("s")
    if name not in UNITS:
        raise WindowError(
            f"calendar: the unit is one of {', '.join(UNITS)}{did_you_mean(name, UNITS)} Got "
            f"{unit!r}."
        )
    if zone_named(str(zone)) is None:
        raise WindowError(
            f"calendar: unknown time zone {zone!r}; zones are named like 'Europe/Berlin' or 'UTC'."
        )
    return CalendarWindow(name, zone)
