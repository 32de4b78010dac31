"""What every kind of window states about itself: rules, nodes and kernels read these facts, so that
none of them compares kinds.

    AnyWindow     what is stated of all of them
    Window        the temporal core: windows of events, which have lifetimes. A kind that leaves a
                  fact out cannot be instantiated
    WindowKind    windows of tuples, which have a time (see `framework`); users may add kinds
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from thalweg.windows.kinds import HoppingWindow

__all__ = ["AnyWindow", "Instant", "Window"]

Instant: TypeAlias = Literal["start", "end"]


class AnyWindow(ABC):
    """A kind of window, as a frozen value; `str()` of one is what `explain()` shows."""

    __slots__ = ()

    @property
    @abstractmethod
    def firm_ends(self) -> bool:
        """Whether ends of answers never move: one is removed whole and another inserted."""

    @property
    @abstractmethod
    def length(self) -> int | None:
        """How long the answer of every window lasts; None: they differ."""

    @property
    @abstractmethod
    def reach(self) -> int | None:
        """An event that ends at e, or a tuple whose time is e, has no part in windows that end
        later than e + reach; None: not known."""

    @property
    def remark(self) -> str | None:
        """A line for `explain()` about what must be kept or awaited; None: nothing of its own."""
        return None

    @property
    def promise(self) -> str:
        """In words: what its answers promise once the rows have promised t."""
        return f"{_FIRST_OPEN}, at most t"


_FIRST_OPEN = "the start of the first window that t leaves open"


class Window(AnyWindow):
    """A kind of window of the temporal core."""

    __slots__ = ()

    @property
    @abstractmethod
    def grid(self) -> HoppingWindow | None:
        """The grid on which the windows lie, whichever rows there are; None: rows decide where they
        lie."""

    @property
    @abstractmethod
    def instant(self) -> Instant | None:
        """The instant of a row that decides about its windows: its start, or its last tick. None:
        a row is in the windows that its lifetime overlaps."""

    @property
    @abstractmethod
    def closes_by_group(self) -> bool:
        """Whether a promise for one group is one for the answers of that group."""

    @property
    @abstractmethod
    def only_cut(self) -> bool:
        """Whether a later row can only cut a window in two: the part in front of the cut keeps its
        rows, so that the CTI of the input holds for the output."""

    @property
    @abstractmethod
    def no_aggregates(self) -> str | None:
        """Why built-in aggregates are refused over it, and what to write; None: they are not."""

    @property
    @abstractmethod
    def no_top_k(self) -> str | None:
        """Why `top_k` is refused over it, and what to write; None: it is not."""

    @property
    @abstractmethod
    def no_time_bound(self) -> str | None:
        """Why modules cannot stamp their output time-bound over it; None: they can."""

    # --------------------------------------------------------------------------------------------
    # what follows

    @property
    def length(self) -> int | None:
        return None if self.grid is None else self.grid.size

    @property
    def closing_grid(self) -> tuple[int, int] | None:
        """The times at which windows close, (period, offset): below them only promises of these
        times are of use. None: any promise is."""
        if self.grid is None:
            return None
        return self.grid.hop, (self.grid.offset + self.grid.size) % self.grid.hop

    @property
    def reach(self) -> int | None:
        """An event belongs to windows that begin before it ends."""
        return None if self.grid is None else self.grid.size + self.grid.hop

    @property
    def promise(self) -> str:
        return super().promise if self.grid is None else _FIRST_OPEN
