"""The progress of two inputs, and what both of them promise."""

from __future__ import annotations

from collections.abc import Callable

from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.model.rows import Rows
from thalweg.operators.base import progress_of_slice, slice_of_progress
from thalweg.operators.group_promises import drop_ended

__all__ = ["BothSides"]


class BothSides:
    """
    >>> from thalweg.model.time import MIN_TIME
    >>> sides = BothSides(lambda promise: True)
    >>> [sides.advance(port, Progress(time)).cti == MIN_TIME for port, time in ((0, 5), (1, 3))]
    [True, True]
    >>> sides.advance(0, Progress(9)).cti, sides.both.cti
    (3, 3)
    """

    def __init__(self, names_groups: Callable[[Progress], bool]) -> None:
        """`names_groups`: whether the groups of a promise are groups of both sides."""
        self._names_groups = names_groups
        self.sides: list[Progress] = [NO_PROGRESS, NO_PROGRESS]
        self.both = NO_PROGRESS
        """What both sides promise, without promises over columns; kept, since it is read more often
        than it changes."""

    def advance(self, port: int, news: Progress) -> Progress:
        """Note the progress of one side; returns what both sides promised before."""
        if news.scoped:
            drop_ended(self.sides, news)
            self.both = self._met()
        before, side = self.both, self.sides[port]
        merged = side.merge(news)
        if merged is not side:
            self.sides[port] = merged
            self.both = self._met()
        return before

    def _met(self) -> Progress:
        left, right = self.sides
        if left.speaks_of_groups or right.speaks_of_groups:
            both = left.meet(right).without_column_promises()
            return both if self._names_groups(both) else both.without_scopes()
        cti = min(left.cti, right.cti)
        # Operators behind this one see by the same object that nothing is new.
        return self.both if cti == self.both.cti and self.both.is_common else Progress(cti)

    def snapshot(self) -> Rows:
        return slice_of_progress(self.sides)

    def restore(self, rows: Rows) -> None:
        self.sides = progress_of_slice(rows)
        self.both = self._met()
