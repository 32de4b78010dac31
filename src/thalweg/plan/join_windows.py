"""Windows for joins: which rows of two streams may meet, by the times of both.

Every kind gives the rows of each side a lifetime, such that two rows may meet exactly when these
overlap. Of windows it is their ids that overlap; they are counted in hops of the right side, so
that lifetimes stay close to the time they are about.

    band(before, after)   l - before <= r < l + after          left [l - before, l + after),
                                                               right [r, r + 1)
    ranges(left, right)   l - right < r < l + left             each row lives as long as its window
    same_window(size)     floor(l / size) = floor(r / size)    the id of the window, on both sides
    widjoin(...)          some window i of l is related to     left match(l), right wids(r)
                          some window j of r
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from thalweg.errors import WindowError
from thalweg.expr import Expr, ExprLike, Frame, as_expr, col, is_monotone_in, lit
from thalweg.model.clocks import lasting
from thalweg.model.time import Duration, duration_us
from thalweg.plan.expressions import START, substitute
from thalweg.windows import HoppingWindow
from thalweg.windows.kinds import hopping, positive_ticks

__all__ = ["Band", "JoinWindow", "WindowPairs", "band", "ranges", "same_window", "widjoin"]

Lifetime: TypeAlias = tuple[Expr, Expr]
"""Start and end of a row's lifetime in the join, as expressions over its time `_start`."""

Grid: TypeAlias = (
    "HoppingWindow | Duration | tuple[Duration, Duration] | tuple[Duration, Duration, Duration]"
)
"""Windows of one stream: their size, or size and hop, or size, hop and offset."""

_TIME = col(START)
_SAMPLE = np.arange(-1_000, 1_001)
"""Window ids for which a relation is tried out."""


class JoinWindow(ABC):
    """Which rows of two streams may meet. A new kind is a frozen class with two lifetimes;
    everything else follows from them."""

    __slots__ = ()

    @abstractmethod
    def left(self) -> Lifetime:
        """The lifetime of a left row in the join."""

    @abstractmethod
    def right(self) -> Lifetime:
        """The lifetime of a right row in the join; two rows may meet when theirs overlap."""

    def condition(self, left: Expr, right: Expr) -> Expr | None:
        """What must hold of the times of a pair besides."""
        return None


@dataclass(frozen=True, slots=True)
class Band(JoinWindow):
    """A right row is at most `before` earlier than the left row, and less than `after` later."""

    before: int
    after: int

    def left(self) -> Lifetime:
        return _plus(_TIME, -self.before), _plus(_TIME, self.after)

    def right(self) -> Lifetime:
        return _TIME, _TIME + lit(1)

    def __str__(self) -> str:
        return f"band({lasting(self.before)} before, {lasting(self.after)} after)"


@dataclass(frozen=True, slots=True)
class WindowPairs(JoinWindow):
    """Windows on both sides, and for each window of the left those of the right whose rows it
    meets: `first` to `last`."""

    left_windows: HoppingWindow
    right_windows: HoppingWindow
    first: Expr
    last: Expr

    def left(self) -> Lifetime:
        first, last = wids(self.left_windows)
        return self._hops(substitute(self.first, {"i": first})), self._hops(
            substitute(self.last, {"i": last}) + lit(1)
        )

    def right(self) -> Lifetime:
        first, last = wids(self.right_windows)
        return self._hops(first), self._hops(last + lit(1))

    def _hops(self, number: Expr) -> Expr:
        return _plus(number * lit(self.right_windows.hop), self.right_windows.offset)

    def condition(self, left: Expr, right: Expr) -> Expr | None:
        """Where windows have gaps between them: that both rows lie in a window."""
        found: Expr | None = None
        for window, time in ((self.left_windows, left), (self.right_windows, right)):
            if window.hop > window.size:
                since = _plus(time, -window.offset)
                inside = since - since // lit(window.hop) * lit(window.hop) < lit(window.size)
                found = inside if found is None else found & inside
        return found

    def __str__(self) -> str:
        return f"{self.left_windows} i with {self.right_windows} {self.first} to {self.last}"


def wids(window: HoppingWindow) -> tuple[Expr, Expr]:
    """The first and the last window that a row is in; window k is [offset + k * hop, offset + k *
    hop + size).

    A row between two windows is given the second of them, so that it is there; `condition` says
    that it is in none.
    """
    since = _plus(_TIME, -window.offset)
    first, last = (since - lit(window.size)) // lit(window.hop) + lit(1), since // lit(window.hop)
    return first, last if window.hop <= window.size else first


def band(*, before: Duration, after: Duration) -> Band:
    """Right rows at most `before` earlier and less than `after` later than the left row; a negative
    bound is on the other side.

    >>> band(before="2 min", after="3 min")
    Band(before=120000000, after=180000000)
    """
    bounds = Band(_ticks(before, "band, before"), _ticks(after, "band, after"))
    if bounds.before + bounds.after <= 0:
        raise WindowError(
            f"band: nothing lies between {before!r} before and {after!r} after; the two together "
            "must be positive."
        )
    return bounds


def ranges(*, left: Duration, right: Duration) -> Band:
    """A window of its own length on each stream: two rows meet when the windows that begin with
    them overlap.

    >>> ranges(left=3, right=2)
    Band(before=1, after=3)
    """
    return Band(positive_ticks(right, "ranges, right") - 1, positive_ticks(left, "ranges, left"))


def same_window(size: Duration, *, offset: Duration = 0) -> WindowPairs:
    """Rows of the same tumbling window."""
    window = hopping(size, size, offset)
    return WindowPairs(window, window, col("i"), col("i"))


def widjoin(
    *, left: Grid, right: Grid, match: tuple[ExprLike, ExprLike] | ExprLike = "i"
) -> WindowPairs:
    """Any relation of windows: the rows of window `i` of the left meet those of the windows `match`
    of the right.

    `match` is one expression over `i`, or the first and the last window as two. Both must rise with
    `i`: as time goes on on one side, it goes on on the other.

    >>> str(widjoin(left="1 h", right="1 h", match="i - 24"))  # the same hour of the day before
    'tumbling(3600000000) i with tumbling(3600000000) i - 24 to i - 24'
    """
    first, last = (
        (as_expr(match[0]), as_expr(match[1]))
        if isinstance(match, tuple)
        else (as_expr(match), as_expr(match))
    )
    for name, expr in (("first", first), ("last", last)):
        if expr.columns() - {"i"} or not pa.types.is_integer(
            expr.type_in(pa.schema([("i", pa.int64())]))
        ):
            raise WindowError(
                f"widjoin: the {name} window must be a whole number computed from i; got {expr}."
            )
        if not is_monotone_in(expr, {"i"}):
            raise WindowError(
                f"widjoin: the {name} window {expr} must not fall while i rises; else no row could "
                "ever be dropped."
            )
    pairs = WindowPairs(_grid(left), _grid(right), first, last)
    _check(pairs)
    return pairs


def _check(pairs: WindowPairs) -> None:
    """A left row meets the windows from the first of its first to the last of its last: there must
    be none between to leave out."""
    frame = Frame({"i": pa.array(_SAMPLE)}, len(_SAMPLE))
    first, last = (
        expr.evaluate(frame).to_numpy(zero_copy_only=False) for expr in (pairs.first, pairs.last)
    )
    empty = np.flatnonzero(first > last)
    if len(empty):
        at = int(_SAMPLE[empty[0]])
        raise WindowError(
            f"widjoin: window i = {at} meets {first[empty[0]]} to {last[empty[0]]}, which is "
            "nothing."
        )
    gaps = np.flatnonzero(first[1:] > last[:-1] + 1)
    if len(gaps) and pairs.left_windows.size > pairs.left_windows.hop:
        at = int(gaps[0])
        raise WindowError(
            f"widjoin: a left row in the windows i = {_SAMPLE[at]} and {_SAMPLE[at + 1]} would meet"
            f" {first[at]} to {last[at]} and {first[at + 1]} to {last[at + 1]}, but not what lies "
            "between. Where windows of the left overlap, the windows that neighbours meet must "
            "touch."
        )


def _grid(grid: Grid) -> HoppingWindow:
    if isinstance(grid, HoppingWindow):
        return grid
    parts = grid if isinstance(grid, tuple) else (grid,)
    return hopping(
        parts[0], parts[1] if len(parts) > 1 else parts[0], parts[2] if len(parts) > 2 else 0
    )


def _plus(expr: Expr, ticks: int) -> Expr:
    return expr if not ticks else expr + lit(ticks) if ticks > 0 else expr - lit(-ticks)


def _ticks(value: Duration, what: str) -> int:
    return duration_us(value, what=what)
