"""Stream elements as Python objects, for tests, notebooks and documents. Kernels never see them:
they work on batches.

    insert(p, s, e)          adds the row (p, s, e)
    adjust(p, s, e, n)       the row (p, s, e) now ends at n; n == s removes it
    cti(t), cti(t, scope)    no later element changes anything before t (for the rows that match scope)

The sync time of an element is the earliest time it changes: `start` of an insert, `min(end,
new_end)` of an adjust (`start` when it removes the row).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from thalweg.model.time import INFINITY

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


def insert(payload: Payload, start: int, end: int | None = None) -> Insert:
    """A row that starts to exist; without an end it never ends.

    >>> insert({"v": 1}, 3, 7).sync
    3
    """
    return Insert(payload, start, INFINITY if end is None else end)


def point(payload: Payload, start: int) -> Insert:
    """An event of the smallest duration."""
    return Insert(payload, start, start + 1)


def adjust(payload: Payload, start: int, end: int | None, new_end: int | None) -> Adjust:
    """A row whose end becomes another; `None` is infinity."""
    return Adjust(
        payload, start, INFINITY if end is None else end, INFINITY if new_end is None else new_end
    )


def remove(payload: Payload, start: int, end: int | None) -> Adjust:
    """A row that turns out never to have existed (a full retraction)."""
    return Adjust(payload, start, INFINITY if end is None else end, start)


def cti(time: int | None, scope: Payload | None = None) -> Cti:
    """A promise; `None` is infinity: the stream has ended."""
    return Cti(INFINITY if time is None else time, scope)
