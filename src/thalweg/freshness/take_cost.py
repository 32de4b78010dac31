"""The time to serve a row of a queue: from one take to the next while rows wait, and from a take to
its delivery when no row waits."""

from __future__ import annotations

from thalweg.freshness._arrays import NEVER
from thalweg.freshness.rates import CostMonitor

__all__ = ["TakeCost"]


class TakeCost:
    """Measures takes for a monitor.

    >>> monitor = CostMonitor()
    >>> cost = TakeCost(monitor)
    >>> cost.taken(10, 4, others_wait=True)
    >>> cost.next_take(18)
    >>> monitor.cost, cost.is_measured
    (2.0, True)
    """

    def __init__(self, monitor: CostMonitor) -> None:
        self._monitor = monitor
        self._last = (NEVER, 0)
        """The time of the last take and its number of rows, if other rows were left waiting."""
        self.is_measured = False
        """Whether there was a measurement, so that the cost is more than a guess."""

    def taken(self, now: int, rows: int, *, others_wait: bool) -> None:
        """Note that rows were taken."""
        if rows and others_wait:
            self._last = (now, rows)

    def next_take(self, now: int) -> None:
        """Note the next take: the rows of the last one were served until now."""
        began, rows = self._last
        if rows and now > began:
            self._observe(now - began, rows)

    def delivered(self, now: int, taken_at: int, rows: int) -> None:
        """Note that rows were delivered; they are measured if no rows waited behind them."""
        if taken_at != NEVER and rows and not self._last[1] and now > taken_at:
            self._observe(now - taken_at, rows)

    def _observe(self, duration: int, rows: int) -> None:
        if self.is_measured:
            self._monitor.observe(duration, rows)
        else:  # the first measurement replaces the guess
            self._monitor.cost = duration / rows
        self._last = (NEVER, 0)
        self.is_measured = True
