"""What every kind of window of the temporal core states about itself.

A kind that leaves one of the facts out cannot be instantiated. Rules, nodes and kernels read the
facts, so that none of them compares kinds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from thalweg.windows.kinds import HoppingWindow

__all__ = ["Instant", "Window"]

Instant: TypeAlias = Literal["start", "end"]


class Window(ABC):
    """A kind of window, as a frozen value; `str()` of one is what `explain()` shows."""

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
    def firm_ends(self) -> bool:
        """Whether ends of answers never move: one is removed whole and another inserted."""

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
    def remark(self) -> str | None:
        """A line for `explain()` about what a module over it keeps; None: nothing of its own."""
        return None

    @property
    def length(self) -> int | None:
        """How long every window lasts; None: they differ."""
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
        """A row that ends at e has no part in windows that end later than e + reach: it belongs to
        windows that begin before it ends. None: not known."""
        return None if self.grid is None else self.grid.size + self.grid.hop

    @property
    def promise(self) -> str:
        """In words: what its answers promise once the rows have promised t."""
        first_open = "the start of the first window that t leaves open"
        return first_open if self.grid is not None else f"{first_open}, at most t"
