"""A clock that only tests move."""

from __future__ import annotations

from datetime import datetime

from thalweg.model import Duration, duration_us, time_us

__all__ = ["FakeClock"]


class FakeClock:
    """Processing time under the control of a test: call it to read it, `advance` it by hand.

    >>> clock = FakeClock()
    >>> clock()
    0
    >>> clock.advance("2 s")
    2000000
    >>> clock.advance_to(2_500_000), clock()
    (2500000, 2500000)
    """

    def __init__(self, now: int | datetime = 0) -> None:
        self._now = time_us(now)

    def __call__(self) -> int:
        """The current time in microseconds (or whatever unit the test uses)."""
        return self._now

    def advance(self, by: Duration) -> int:
        """Moves on by a duration and returns the new time."""
        return self.advance_to(self._now + duration_us(by, what="advance"))

    def advance_to(self, time: int | datetime) -> int:
        """Moves on to a time, which may not lie in the past, and returns it."""
        there = time_us(time)
        if there < self._now:
            raise ValueError(f"a clock does not go back: it is {self._now}; asked for {there}.")
        self._now = there
        return there

    def __repr__(self) -> str:
        return f"FakeClock({self._now})"
