"""Count windows: spans that hold N consecutive endpoints of a group's events.

    by start   for distinct starts t1 < t2 < ...:  [ti, t(i+N-1) + 1), and of the events those that
               start in it
    by end     for distinct finite ends t1 < t2 < ...:  [ti - 1, t(i+N-1)), and of the events those
               whose last tick is in it

Every distinct endpoint begins a window, as long as there are N from it on. Endpoints are counted,
not events: which of two events with one start is the N-th would depend on the order of arrival. An
event that has only begun, or only ends, outside a window is not in it although it overlaps it.
"""

from __future__ import annotations

from dataclasses import dataclass

from thalweg.errors import WindowError

__all__ = ["CountWindow", "count_window"]


@dataclass(frozen=True, slots=True)
class CountWindow:
    count: int
    by: str = "start"
    """`start` or `end`."""

    def __str__(self) -> str:
        return f"count({self.count} by {self.by})"


def count_window(count: int, by: str) -> CountWindow:
    """
    >>> str(count_window(3, "start"))
    'count(3 by start)'
    """
    if type(count) is not int or count < 1:
        raise WindowError(
            f"a count window holds a whole number of {by}s, at least 1; got {count!r}."
        )
    return CountWindow(count, by)
