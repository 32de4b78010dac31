"""Stream elements as Python objects, for tests, notebooks and documents. Kernels never see them:
they work on batches.

    insert(p, s, e)          adds the row (p, s, e)
    adjust(p, s, e, n)       the row (p, s, e) now ends at n; n == s removes it
    cti(t), cti(t, scope)    no later element changes anything before t (in rows that match scope)

The sync time of an element is the earliest time it changes: `start` of an insert, `min(end,
new_end)` of an adjust (`start` when it removes the row).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, TypeAlias

import numpy as np

from thalweg.model.time import INFINITY, TimeLike, time_us

__all__ = [
    "Adjust",
    "Cti",
    "Element",
    "Insert",
    "Payload",
    "adjust",
    "cti",
    "insert",
    "point",
    "remove",
]

Payload: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Insert:
    payload: Payload
    start: int
    end: int = INFINITY

    @property
    def sync(self) -> int:
        return self.start


@dataclass(frozen=True, slots=True)
class Adjust:
    payload: Payload
    start: int
    end: int
    new_end: int

    @property
    def sync(self) -> int:
        return min(self.end, self.new_end)


@dataclass(frozen=True, slots=True)
class Cti:
    time: int
    scope: Payload | None = None


Element: TypeAlias = Insert | Adjust | Cti


def _ticks(time: TimeLike | None) -> int:
    """A time as ticks, None as infinity; what is no time stays, for the ingress to refuse."""
    if isinstance(time, (date, np.datetime64)):
        return time_us(time)
    return INFINITY if time is None else time


def insert(payload: Payload, start: TimeLike, end: TimeLike | None = None) -> Insert:
    """A row that starts to exist; without an end it never ends. Times are ticks, datetimes, or
    times of pandas or NumPy.

    >>> insert({"v": 1}, 3, 7).sync
    3
    """
    return Insert(payload, _start(start), _ticks(end))


def _start(time: TimeLike) -> int:
    """A start as ticks: it is never infinite."""
    return time_us(time) if isinstance(time, (date, np.datetime64)) else time


def _tick_after(start: Any) -> Any:
    """The end of a point; that of what is no time is left to the ingress, which refuses the
    start."""
    return start + 1 if isinstance(start, (int, float, np.number)) else start


def point(payload: Payload, start: TimeLike) -> Insert:
    """An event of the smallest duration.

    >>> from datetime import datetime
    >>> point({"v": 1}, datetime(1970, 1, 1, 0, 0, 1))
    Insert(payload={'v': 1}, start=1000000, end=1000001)
    """
    ticks = _start(start)
    return Insert(payload, ticks, _tick_after(ticks))


def adjust(
    payload: Payload, start: TimeLike, end: TimeLike | None, new_end: TimeLike | None
) -> Adjust:
    """A row whose end becomes another; `None` is infinity."""
    return Adjust(payload, _start(start), _ticks(end), _ticks(new_end))


def remove(payload: Payload, start: TimeLike, end: TimeLike | None) -> Adjust:
    """A row that turns out never to have existed (a full retraction)."""
    ticks = _start(start)
    return Adjust(payload, ticks, _ticks(end), ticks)


def cti(time: TimeLike | None, scope: Payload | None = None) -> Cti:
    """A promise; `None` is infinity: the stream has ended."""
    return Cti(_ticks(time), scope)
