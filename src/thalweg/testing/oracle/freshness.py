"""Staleness and update queues by definition: lists of updates, searched from the beginning.

Times are whole numbers. An arrival is (time, key); a delivery says that at `time` the application
got the result of the key's update number `value` (0 is the key's first), which was taken out of the
queue at `taken`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

__all__ = [
    "Delivery",
    "NaivePages",
    "NaiveQueue",
    "Row",
    "application_staleness",
    "integrate",
    "queue_staleness",
    "window_staleness",
    "windows_of",
]


@dataclass(frozen=True)
class Delivery:
    key: int
    value: int
    taken: int
    time: int


def application_staleness(
    arrivals: Sequence[int], deliveries: Sequence[Delivery], t: int, *, before: bool = False
) -> int:
    """Of one key at `t`: how long its oldest pending update has been pending. `before` asks for the
    value just before what happens at `t`."""
    done = [d for d in deliveries if (d.time < t if before else d.time <= t)]
    newest = max((d.value for d in done), default=-1)
    pending = [a for a in arrivals[newest + 1 :] if a <= t]
    return t - pending[0] if pending else 0


def queue_staleness(
    arrivals: Sequence[int], deliveries: Sequence[Delivery], t: int, *, before: bool = False
) -> int:
    """Of one key at `t`: how long its first update after it was last taken has waited."""
    done = [d for d in deliveries if (d.taken < t if before else d.taken <= t)]
    newest = max((d.value for d in done), default=-1)
    waiting = [a for a in arrivals[newest + 1 :] if a <= t]
    return t - waiting[0] if waiting else 0


def integrate(
    staleness: Callable[..., int],
    arrivals: Sequence[int],
    deliveries: Sequence[Delivery],
    begin: int,
    end: int,
) -> Fraction:
    """The integral over [begin, end]: between whole numbers staleness is linear."""
    area = Fraction(0)
    for t in range(begin, end):
        left = staleness(arrivals, deliveries, t)
        right = staleness(arrivals, deliveries, t + 1, before=True)
        area += Fraction(left + right, 2)
    return area


class NaiveQueue:
    """An update queue as a list of [key, number of the newest update, first arrival]."""

    def __init__(self, *, in_place: bool) -> None:
        self.line: list[list[int]] = []
        self._in_place = in_place
        self._numbers: dict[int, int] = {}

    def enqueue(self, key: int, time: int) -> None:
        number = self._numbers[key] = self._numbers.get(key, -1) + 1
        waiting = [entry for entry in self.line if entry[0] == key]
        if not waiting:
            self.line.append([key, number, time])
        elif self._in_place:
            waiting[0][1] = number
        else:
            self.line.remove(waiting[0])
            self.line.append([key, number, waiting[0][2]])

    def dequeue(self) -> list[int] | None:
        return self.line.pop(0) if self.line else None


class NaivePages:
    """Pages as sets of free offsets: MemAdd and MemRem, step by step."""

    def __init__(self, pages: int, locations: int) -> None:
        self._locations = locations
        self.pool = list(range(pages))
        self.free: dict[int, list[int]] = {}
        """Free offsets of each page in use, in the order in which they will be used."""
        self.room: list[int] = []
        """The empty-locations pool: pages with room, in the order in which they got it."""
        self.next: int | None = None

    def add(self) -> int:
        if self.next is None:
            if not self.room:
                if not self.pool:
                    return -1
                page = self.pool.pop(0)
                self.free[page] = list(range(self._locations))
                self.room.append(page)
            self.next = self.room[0]
        page = self.next
        offset = self.free[page].pop(0)
        if not self.free[page]:
            self.room.remove(page)
            self.next = None
        return page * self._locations + offset

    def remove(self, location: int) -> None:
        page, offset = divmod(location, self._locations)
        self.free[page].insert(0, offset)
        if page not in self.room:
            self.room.append(page)
        if len(self.free[page]) == self._locations:
            self.room.remove(page)
            del self.free[page]
            self.pool.insert(0, page)
            if self.next == page:
                self.next = None


@dataclass(frozen=True)
class Row:
    """A row of one key: its source time, and when it arrived."""

    time: int
    arrived: int


def windows_of(
    rows: Sequence[Row], size: int, slide: int
) -> dict[int, tuple[list[int], int | None]]:
    """Every window of one key from its first row on: start -> numbers of its rows, and when it
    closed (the arrival of the first row at its last tick or beyond)."""
    if not rows:
        return {}
    found: dict[int, tuple[list[int], int | None]] = {}
    for start in range(rows[0].time // slide * slide, rows[-1].time + 1, slide):
        inside = [n for n, row in enumerate(rows) if start <= row.time < start + size]
        if inside:
            closing = [row.arrived for row in rows if row.time >= start + size - 1]
            found[start] = (inside, closing[0] if closing else None)
    return found


def window_staleness(
    windows: dict[int, tuple[list[int], int | None]],
    delivered: Sequence[tuple[int, int]],
    t: int,
    *,
    before: bool = False,
) -> int:
    """Application staleness of one key at `t`: the age of the oldest close of a window after the
    newest delivered one. `delivered` holds (window, time)."""
    done = [w for w, time in delivered if (time < t if before else time <= t)]
    newest = max(done, default=-(2**62))
    pending = [
        closed
        for start, (_, closed) in windows.items()
        if start > newest and closed is not None and closed <= t
    ]
    return t - min(pending) if pending else 0
