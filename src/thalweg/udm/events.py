"""What a time-sensitive module sees: events with lifetimes, and the window they are in."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["Event", "Window"]


class Event(NamedTuple):
    """A payload over [start, end). A module may also return one, to stamp its output itself."""

    start: int
    end: int
    payload: Any

    @property
    def duration(self) -> int:
        return self.end - self.start


class Window(NamedTuple):
    """The span of the window that a module computes."""

    start: int
    end: int

    @property
    def duration(self) -> int:
        return self.end - self.start
