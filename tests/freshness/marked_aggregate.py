"""The aggregate that the marks of a queue of windows are for (see `freshness.window_marks`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["MarkedAggregate"]

State = TypeVar("State")


class MarkedAggregate(Generic[State]):
    """The operator behind the queue, for one key: opens, updates and closes windows by marks.

    >>> total = MarkedAggregate(0, lambda state, value: state + value)
    >>> [total.take(time, mark, 10 * time) for time, mark in [(1, 3), (2, 0), (3, -1), (4, 0)]]
    [None, None, (1, 60), None]
    """

    def __init__(self, zero: State, update: Callable[[State, float], State]) -> None:
        self._zero = zero
        self._update = update
        self._window: tuple[int, int] | None = None
        self._state = zero

    def take(self, time: int, mark: int, value: float) -> tuple[int, State] | None:
        """A row; the first time and the result of the window it completes."""
        if mark > 0:
            self._window, self._state = (time, mark), self._zero
        if self._window is None:
            return None
        self._state = self._update(self._state, value)
        return self.close() if time == self._window[1] else None

    def close(self) -> tuple[int, State] | None:
        """The open window is complete."""
        if self._window is None:
            return None
        begin, self._window = self._window[0], None
        return begin, self._state
