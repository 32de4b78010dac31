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
from thalweg.windows.window import Instant, Window

__all__ = ["CountWindow", "count_window"]


@dataclass(frozen=True, slots=True)
class CountWindow(Window):
    grid = None
    firm_ends = False
    closes_by_group = True
    only_cut = False
    no_top_k = 'count windows have no top-k of their own; write .apply("top_k", ...).'
    no_time_bound = (
        "where a count window ends is known only when its last row has come, so that its rows "
        "answer before and after that; time-bound output needs other windows."
    )

    count: int
    by: Instant = "start"

    @property
    def instant(self) -> Instant:
        return self.by

    @property
    def no_aggregates(self) -> str | None:
        if self.by == "start":
            return None
        return 'count windows by end take modules, as in .apply("average", "price").'

    @property
    def remark(self) -> str:
        return (
            f"the last {self.count - 1} distinct {self.by}s of a group are kept for windows to come"
        )

    def __str__(self) -> str:
        return f"count({self.count} by {self.by})"


def count_window(count: int, by: Instant) -> CountWindow:
    """
    >>> str(count_window(3, "start"))
    'count(3 by start)'
    """
    if type(count) is not int or count < 1:
        raise WindowError(
            f"a count window holds a whole number of {by}s, at least 1; got {count!r}."
        )
    return CountWindow(count, by)
