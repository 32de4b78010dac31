"""Windows over update streams, and the marks by which an aggregate opens them.

Windows of size w and slide d start at the multiples of d: window s holds the rows with
s <= time < s + w. A row *starts* a window when it is the first row of its key at or after a
multiple of d; the newest window it starts is the one at the largest such multiple. A row *closes*
window s when it is the first with time >= s + w - 1, the window's last tick: a key has one row a
tick at most, so nothing of the window can follow.

The queue delivers rows of one window at a time, each with a mark (`win_spec`), and the aggregate
goes by the mark alone:

| mark | the aggregate |
| --- | --- |
| last tick of a window | opens the window from this row to that tick, and updates it |
| 0 (`DISALLOW`) | the row starts a window, which is not opened; updates the open window |
| -1 (`UPDATE`) | updates the open window |
| any, at the window's last tick | updates, then emits the result |

A window whose last tick has no row is closed by the queue without a row.
"""

from __future__ import annotations

from dataclasses import dataclass

from thalweg.errors import WindowError

__all__ = ["DISALLOW", "UPDATE", "UpdateWindow"]

DISALLOW = 0
UPDATE = -1


@dataclass(frozen=True, slots=True)
class UpdateWindow:
    """
    >>> window = UpdateWindow(size=3, slide=2)
    >>> window.newest_start(5), window.last_tick(4), window.newest_closed(5)
    (4, 6, 2)
    >>> window.cost(1)   # rows of this window and of those that overlap it: 3 + 1
    4
    """

    size: int
    slide: int

    def __post_init__(self) -> None:
        if self.size < 1 or self.slide < 1 or self.slide > self.size:
            raise WindowError(
                f"a window behind an update queue needs 1 <= slide <= size; got size {self.size}, "
                f"slide {self.slide}."
            )

    def newest_start(self, time: int) -> int:
        """The start of the latest window that a row at `time` belongs to."""
        return time // self.slide * self.slide

    def last_tick(self, start: int) -> int:
        return start + self.size - 1

    def newest_closed(self, time: int) -> int:
        """The start of the latest window whose last tick is at most `time`."""
        return (time - self.size + 1) // self.slide * self.slide

    def newest_closing(self, previous: int | None, time: int) -> int | None:
        """The start of the latest window with rows that a row at `time`, after one at `previous`,
        closes; None if it closes none.

        >>> window = UpdateWindow(size=4, slide=2)
        >>> window.newest_closing(2, 3), window.newest_closing(3, 4), window.newest_closing(4, 98)
        (0, None, 4)
        """
        closed = self.newest_closed(time)
        if self.last_tick(closed) == time:
            return closed
        if previous is None:
            return None
        start = min(closed, self.newest_start(previous))
        return start if start > self.newest_closed(previous) else None

    def starts(self, previous: int, time: int) -> bool:
        """Whether a row at `time` after one at `previous` starts a window."""
        return time // self.slide > previous // self.slide

    def cost(self, row_cost: int) -> int:
        """The cost of an answer where every window is computed apart: that of its own rows and of
        the rows it shares with the windows that overlap it, sum over i < ceil(w/d) of w - i d."""
        overlap = -(-self.size // self.slide)
        return row_cost * sum(self.size - i * self.slide for i in range(overlap))
