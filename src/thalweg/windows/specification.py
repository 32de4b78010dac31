"""From what a query says to a kind of window: ranges, slides and what they are counted in, checked
before anything runs.

`rows()` and `rank("ts")` say what a window counts instead of time: tuples as they arrive, or tuples
in the order of time.
"""

from __future__ import annotations

import math
import re
import warnings
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias

from thalweg.errors import WindowError, WindowWarning, did_you_mean, user_stack_level
from thalweg.model.time import Duration
from thalweg.windows.kinds import positive_ticks

__all__ = [
    "TIME_NAMES",
    "Arrival",
    "Rank",
    "Rows",
    "Size",
    "arrival",
    "check_slide",
    "rank",
    "row_count",
    "rows",
    "ticks",
    "warn_about_panes",
]

TIME_NAMES = ("ts", "_start")
"""How a window names the time of the stream."""

Size: TypeAlias = "Duration | None"
"""A range or slide: a duration, a number of rows, or None for everything so far."""

_ROWS_TEXT = re.compile(r"\s*(\d+)\s*rows?\s*", re.IGNORECASE)
_MANY_PANES = 1_000_000


@dataclass(frozen=True, slots=True)
class Rows:
    """Tuples in the order in which they arrive: at the operator, or at the system, before anything
    is filtered."""

    at: str = "operator"

    def __str__(self) -> str:
        return f"rows at the {self.at}"


@dataclass(frozen=True, slots=True)
class Arrival:
    """The time at which tuples arrive at the system, by its clock."""

    def __str__(self) -> str:
        return "arrival"


@dataclass(frozen=True, slots=True)
class Rank:
    """Tuples in the order of their time, whenever they arrive."""

    of: str = "ts"

    def __str__(self) -> str:
        return f"rank({self.of})"


def rows(*, at: str = "operator") -> Rows:
    """Count tuples as they arrive `at` the operator or the system.

    >>> str(rows(at="system"))
    'rows at the system'
    """
    if at not in ("operator", "system"):
        raise WindowError(
            f"rows: at must be 'operator' or 'system'{did_you_mean(at, ('operator', 'system'))} Got"
            f" {at!r}."
        )
    return Rows(at)


def arrival() -> Arrival:
    """Windows by the clock: a tuple belongs to them by the time at which it arrives at the
    system."""
    return Arrival()


def rank(of: str = "ts") -> Rank:
    """Count tuples in the order of their time."""
    if of not in TIME_NAMES:
        raise WindowError(
            f"rank({of!r}): only the time of the stream gives an order that is known to be "
            f"complete; write rank('ts'), after alter_lifetime(start={of!r}, duration=1) if {of!r} "
            "is to be the time."
        )
    return Rank(of)


def ticks(size: Size, what: str) -> int:
    """A span of time, of at least one tick."""
    if isinstance(size, str) and _ROWS_TEXT.fullmatch(size):
        raise WindowError(
            f"{what}: {size!r} counts rows, but the window is over time; write a duration, or "
            "over=rows()."
        )
    if size is None:
        raise WindowError(f"{what}: a duration is missing; everything so far is landmark(hop=...).")
    return positive_ticks(size, what)


def row_count(size: Size, what: str) -> int:
    """A number of rows, of at least one: 1000 or '1000 rows'."""
    if isinstance(size, str):
        found = _ROWS_TEXT.fullmatch(size)
        if not found:
            raise WindowError(
                f"{what}: {size!r} is a duration, but the window counts rows; write a number of "
                "rows such as 1000, or over='ts'."
            )
        size = int(found.group(1))
    if isinstance(size, bool | timedelta) or not isinstance(size, int):
        raise WindowError(
            f"{what}: the window counts rows; write a whole number such as 1000. Got {size!r}."
        )
    if size <= 0:
        raise WindowError(f"{what} must be positive; got {size!r}.")
    return size


def check_slide(range_: int, slide: int, what: str) -> None:
    """Warn of a slide beyond the range: it skips tuples, which is allowed but seldom intended."""
    if slide > range_:
        _warn(
            f"{what}: the hop {slide} is larger than the size {range_}, so that tuples between two "
            f"windows are in none. A tumbling window has hop={range_}."
        )


def warn_about_panes(range_: int, slide: int, what: str) -> None:
    """A tiny common divisor makes a window of millions of panes."""
    pane = math.gcd(range_, slide)
    if range_ // pane > _MANY_PANES:
        rounder = max(slide // 1000 * 1000, 1000)
        _warn(
            f"{what}: the size {range_} and the hop {slide} have the greatest common divisor "
            f"{pane}, so that a window has {range_ // pane:,} panes. A hop of {rounder} and a size "
            f"that is a multiple of it would have {max(range_ // rounder, 1):,}."
        )


def _warn(message: str) -> None:
    warnings.warn(message, WindowWarning, stacklevel=user_stack_level())
