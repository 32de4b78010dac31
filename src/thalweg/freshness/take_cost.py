"""What a row takes that leaves a queue: from one take to the next while rows wait, and from a take
to its delivery when none does."""

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
        """When rows were last taken, and how many, if others were left."""
        self.is_measured = False
        """Whether there was a measure, so that the cost is more than a guess."""

    def taken(self, now: int, rows: int, *, others_wait: bool) -> None:
        """Rows have been taken."""
        if rows and others_wait:
            self._last = (now, rows)

    def next_take(self, now: int) -> None:
        """More rows are taken: those before have taken until now."""
        began, rows = self._last
        if rows and now > began:
            self._observe(now - began, rows)

    def delivered(self, now: int, taken_at: int, rows: int) -> None:
        """Rows have been delivered; they are measured where nothing waited behind them."""
        if taken_at != NEVER and rows and not self._last[1] and now > taken_at:
            self._observe(now - taken_at, rows)

    def _observe(self, duration: int, rows: int) -> None:
        if self.is_measured:
            self._monitor.observe(duration, rows)
        else:  # the first measure replaces the guess
            self._monitor.cost = duration / rows
        self._last = (NEVER, 0)
        self.is_measured = True
