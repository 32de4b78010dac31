"""The window of a query before it is applied to a stream: one function for each kind.

`apply` makes the windows of the rows of a stream (in groups). Membership of a window over time goes
by the time stamp of a row, of a snapshot by its lifetime; kinds that go by the start of a row
themselves need no help.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

import pyarrow as pa

from thalweg.expr import Cast, Column, Expr, call, lit
from thalweg.plan.aggregates import AggregateCall, max_
from thalweg.plan.expressions import START
from thalweg.stream import GroupedStream, WindowedStream
from thalweg.windows.calendar import UNITS
from thalweg.windows.calendar import calendar as calendar_kind
from thalweg.windows.specification import Rank, Rows

__all__ = [
    "AssignedWindow",
    "by_tuple",
    "calendar",
    "cumulate",
    "hop",
    "landmark",
    "row_landmark",
    "rows",
    "session",
    "snapshot",
]

_LAST_START = "_last_start"


@dataclass(frozen=True, slots=True)
class AssignedWindow:
    """How rows fall into windows."""

    name: str
    apply: Callable[[GroupedStream], WindowedStream]
    as_points: bool = False
    """Whether rows that last must become points first, so that they count where they start."""
    partition: tuple[str, ...] = ()
    """Columns whose values have windows of their own; they are keys of the groups too."""
    has_start: bool = True
    """Whether the start of an answer is the start of its window."""
    end: Expr | None = None
    """The end of the window, over an answer and its start."""
    helper: tuple[str, AggregateCall] | None = None
    """An aggregate that `end` needs."""
    time: Column | None = None
    """The column by which the window goes, where that is not the start of the rows but progresses
    too."""
    by_arrival: int | None = None
    """The resolution in ticks of the arrival times, where the window is defined on them."""
    size: int | None = None
    hop: int | None = None
    offset: int = 0
    several: tuple[AssignedWindow, ...] = ()
    """Windows of several sizes, where a row is in windows of each; the whole is their union."""
    added_end: tuple[str, Expr] | None = None
    """A column for the end of the window, where windows of several sizes are one stream."""

    @property
    def kinds(self) -> tuple[AssignedWindow, ...]:
        return self.several or (self,)

    @property
    def is_tumbling(self) -> bool:
        """Whether each row is in exactly one window, which its time determines."""
        return (
            self.size is not None
            and self.size == self.hop
            and self.time is None
            and self.by_arrival is None
        )


def _after_start(size: int) -> Expr:
    return Column(START) + lit(size)


def hop(size: int, step: int, offset: int = 0) -> AssignedWindow:
    """Windows of `size` that begin at `offset` and every `step` from there."""
    return AssignedWindow(
        "TUMBLE" if size == step else "HOP",
        lambda stream: stream.hopping(size, step, offset=offset),
        as_points=True,
        end=_after_start(size),
        size=size,
        hop=step,
        offset=offset,
    )


def calendar(unit: str, zone: str) -> AssignedWindow:
    """Periods of a zone's calendar. A period ends where the next one begins on the wall clock."""
    kind = calendar_kind(unit, zone)
    start = Cast(Column(START), pa.timestamp("us", zone))
    wall = call("at_time_zone", start, zone)
    months = {"month": 1, "quarter": 3, "year": 12}.get(kind.unit)
    days = timedelta(days=UNITS[kind.unit])
    later = wall + days if months is None else call("add_months", wall, months)
    return AssignedWindow(
        "CALENDAR",
        lambda stream: stream.windows(kind),
        end=Cast(call("at_time_zone", later, zone), pa.int64()),
    )


_CUMULATED_END = "_cumulated_end"


def cumulate(step: int, size: int, offset: int = 0) -> AssignedWindow:
    """Windows that begin every `size` and grow by `step` until they are that long: for each of the
    lengths, windows of that length that begin every `size`."""
    lengths = range(step, size + 1, step)
    several = tuple(
        replace(
            hop(length, size, offset),
            name="CUMULATE",
            added_end=(_CUMULATED_END, _after_start(length)),
        )
        for length in lengths
    )
    return replace(
        hop(size, size, offset),
        name="CUMULATE",
        hop=None,
        several=several,
        end=Column(_CUMULATED_END),
    )


def session(gap: int) -> AssignedWindow:
    """Windows of activity, closed by a pause of `gap`. A session ends `gap` after its last row."""
    helper = (_LAST_START, max_(Column(START)))
    return AssignedWindow(
        "SESSION",
        lambda stream: stream.session(gap),
        end=Column(_LAST_START) + lit(gap),
        helper=helper,
    )


def snapshot() -> AssignedWindow:
    """Windows between the instants at which something changes, over the lifetimes of rows."""
    return AssignedWindow("SNAPSHOT", lambda stream: stream.snapshot())


def landmark(slide: int) -> AssignedWindow:
    """Everything so far, anew every `slide`."""
    return AssignedWindow("landmark", lambda stream: stream.landmark(slide), has_start=False)


def rows(
    size: int, step: int, order: Rows | Rank, partition: tuple[str, ...] = ()
) -> AssignedWindow:
    """The last `size` rows, every `step` rows. An answer stands at the instant at which its window
    was complete."""
    return AssignedWindow(
        "rows",
        lambda stream: stream.sliding(size, step, over=order, partition_by=partition),
        partition=partition,
        has_start=False,
    )


def row_landmark(step: int, order: Rows | Rank, partition: tuple[str, ...] = ()) -> AssignedWindow:
    """All rows so far, every `step` rows."""
    return AssignedWindow(
        "rows",
        lambda stream: stream.landmark(step, over=order, partition_by=partition),
        partition=partition,
        has_start=False,
    )


def by_tuple(
    size: int, every: int, order: Rows | Rank, partition: tuple[str, ...] = ()
) -> AssignedWindow:
    """The last `size` of time at every n-th row."""
    return AssignedWindow(
        "slide by tuple",
        lambda stream: stream.slide_by_tuple(
            size, every=every, order=order, partition_by=partition
        ),
        partition=partition,
        end=_after_start(size),
    )
