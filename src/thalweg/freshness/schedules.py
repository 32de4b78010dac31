"""Key schedules: which of the waiting keys is served next.

A schedule holds the cells that wait, and for each the time since when it waits (its first update
after it was last served). Notation: s is that waiting time, the key's queue staleness; u is the
rate of its updates; c the cost of serving one key.

| name | serves |
| --- | --- |
| `fifo` | the key whose newest update is the oldest; a new update sends its key to the tail |
| `in-place` | the key that waits longest; a new update keeps the place of its key |
| `linecutting-literal` | as in-place, but of n waiting keys one with u < 1 / (c n) goes first |
| `linecutting` | the same with n counting all known keys; keys that cut form a line of their own |
| `gain` | the key with the largest s^2/2 + s/u |
| `deadline` | the key whose freshness target runs out, or ran out, first |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from thalweg.errors import PlanError, did_you_mean
from thalweg.freshness.class_schedules import DeadlineSchedule, GainSchedule
from thalweg.freshness.key_schedule import Schedule, Standing
from thalweg.freshness.line_schedules import (
    FifoSchedule,
    InPlaceSchedule,
    LineCutting,
    LiteralLineCutting,
)

__all__ = [
    "SCHEDULES",
    "DeadlineSchedule",
    "FifoSchedule",
    "GainSchedule",
    "InPlaceSchedule",
    "LineCutting",
    "LiteralLineCutting",
    "Schedule",
    "Standing",
    "make_schedule",
    "schedule_for",
]

DEFAULT_TARGET = 1_000_000

SCHEDULES: Mapping[str, Callable[[], Schedule]] = {
    "fifo": FifoSchedule,
    "in-place": InPlaceSchedule,
    "linecutting-literal": LiteralLineCutting,
    "linecutting": LineCutting,
    "gain": GainSchedule,
    "deadline": lambda: DeadlineSchedule(DEFAULT_TARGET),
}


def make_schedule(name: str) -> Schedule:
    """
    >>> type(make_schedule("in-place")).__name__
    'InPlaceSchedule'
    """
    if name not in SCHEDULES:
        raise PlanError(
            f"no schedule {name!r}{did_you_mean(name, SCHEDULES)} There are: "
            f"{', '.join(SCHEDULES)}."
        )
    return SCHEDULES[name]()


def schedule_for(name: str, freshness: int | None) -> Schedule:
    """As `make_schedule`; deadlines follow the freshness target, if there is one.

    >>> schedule_for("deadline", 2_000_000).target
    2000000
    """
    if name == "deadline" and freshness is not None:
        return DeadlineSchedule(freshness)
    return make_schedule(name)
