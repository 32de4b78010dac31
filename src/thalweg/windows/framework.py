"""The WID framework: a kind of window is three functions over a set of tuples.

    windows(T)       the ids of the windows
    extent(w, T)     the tuples of one window                       what the window means
    wids(T)          for every tuple, the windows it belongs to     what an implementation needs

The last two are duals: t in extent(w, T) if and only if w in wids(t, T). `duality` looks for a pair
on which a kind breaks that law. A kind is a frozen value that knows nothing of queries; `Tuples` is
all it may look at: the time of each tuple, the number under which it arrived (from 1), its
partition, and columns by name where a kind asks for some.

What `wids` must know about other tuples decides how a window can be evaluated (the kind's
category):

    CF   context free: the tuple itself is enough
    FCF  forward-context free: tuples that came before it, such as how many there were
    FCA  forward-context aware: tuples that come after it, so that its windows are known only later
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa

from thalweg.errors import WindowError
from thalweg.model.rows import Bools, Codes
from thalweg.model.time import Times
from thalweg.windows.window import AnyWindow

__all__ = ["Category", "DecidedBy", "Membership", "Tuples", "WindowIds", "WindowKind", "duality"]


DecidedBy = Literal["tuple", "partition", "stream"]


class Category(Enum):
    """What a kind must know to tell the windows of a tuple."""

    CF = "context free"
    FCF = "forward-context free"
    FCA = "forward-context aware"

    def __str__(self) -> str:
        return f"{self.name} ({self.value})"


@dataclass(frozen=True, slots=True)
class Tuples:
    """A set of tuples in columns."""

    ts: Times
    number: Codes
    """The position in which each tuple arrived, from 1; within its partition, where there are
    partitions."""
    partition: Codes
    columns: Mapping[str, pa.Array] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        ts: Times,
        number: Codes | None = None,
        partition: Codes | None = None,
        **columns: pa.Array,
    ) -> Tuples:
        """
        >>> Tuples.of(np.array([30, 10])).number.tolist()
        [1, 2]
        """
        arrived = np.arange(1, len(ts) + 1) if number is None else number
        return cls(
            ts, arrived, np.zeros(len(ts), np.int64) if partition is None else partition, columns
        )

    def __len__(self) -> int:
        return len(self.ts)

    def take(self, which: Codes) -> Tuples:
        columns = {name: column.take(pa.array(which)) for name, column in self.columns.items()}
        return Tuples(self.ts[which], self.number[which], self.partition[which], columns)


@dataclass(frozen=True, slots=True)
class WindowIds:
    """Windows: a number each, and the partition they belong to (0 where there are none)."""

    number: Codes
    partition: Codes

    @classmethod
    def of(cls, number: Codes, partition: Codes | None = None) -> WindowIds:
        return cls(number, np.zeros(len(number), np.int64) if partition is None else partition)

    def __len__(self) -> int:
        return len(self.number)

    def pairs(self) -> set[tuple[int, int]]:
        return set(zip(self.number.tolist(), self.partition.tolist(), strict=True))


@dataclass(frozen=True, slots=True)
class Membership:
    """Tuple `member[i]` belongs to the window `window[i]`, of the tuple's own partition."""

    member: Codes
    window: Codes


class WindowKind(AnyWindow):
    """The three functions, and facts with safe answers. Subclasses are frozen dataclasses."""

    context: ClassVar[frozenset[str]] = frozenset({"backward", "forward"})
    """Which tuples `wids` reads besides the tuple itself: "backward" (those before it), "forward"
    (those after it), both or none. A kind that does not say so may depend on all of them."""
    reads: ClassVar[tuple[str, ...]] = ()
    """Payload columns that `wids` reads."""
    consecutive: ClassVar[bool] = False
    """Whether a tuple belongs to the one window that its time lies in: windows meet without gap or
    overlap."""
    strategies: ClassVar[tuple[str, ...]] = ("rows",)
    """In which ways the windows can be evaluated; the first is the usual one."""

    # --------------------------------------------------------------------------------------------
    # facts that follow from the context, and that a kind may know better

    @property
    def decided_by(self) -> DecidedBy:
        """Whose rows decide which windows there are: rows that are divided by other columns than
        these must stay together."""
        return "partition" if self.context else "tuple"

    @property
    def reach(self) -> int | None:
        return None if self.context or self.assigner() is not None else self.longest

    @property
    def length(self) -> int | None:
        return None

    @property
    def firm_ends(self) -> bool:
        """Without an assigner the end of a window follows from its id."""
        return self.assigner() is None

    @property
    def is_bounded(self) -> bool:
        """Whether windows end; the others grow with the stream."""
        return True

    @property
    def by_number(self) -> bool:
        """Whether windows count rows as they arrived, so that rows must have numbers."""
        return False

    @property
    def orders_by_all(self) -> bool:
        """Whether rows of equal time are ordered by all their columns."""
        return False

    @property
    def remark(self) -> str | None:
        if self.category is Category.FCA:
            return "which windows a row belongs to is known when rows after it have come"
        return None

    def of_groups(self) -> WindowKind:
        """The kind for a stream of which every group has windows of its own."""
        return self

    @property
    def longest(self) -> int:
        """The longest time that a window lasts, from `time_range`: how far a promise must lag
        behind."""
        raise WindowError(
            f"{self}: say how long a window lasts at most, with an attribute or property `longest`."
        )

    @abstractmethod
    def windows(self, tuples: Tuples) -> WindowIds:
        """The ids of all windows that some tuple may belong to."""

    @abstractmethod
    def extent(self, window: int, partition: int, tuples: Tuples) -> Bools:
        """Which tuples belong to one window."""

    @abstractmethod
    def wids(self, tuples: Tuples) -> Membership:
        """The windows of every tuple."""

    def time_range(self, windows: Codes) -> tuple[Times, Times]:
        """From window ids back to time: the start and the end of each, where they follow from the
        id alone."""
        raise WindowError(
            f"{self}: the times of a window follow from its tuples, not from its id; aggregate "
            "min_('_start')."
        )

    def assigner(self) -> object:
        """The run time of a kind that must know other tuples (see `operators.window.assigners`);
        None: `wids` and `time_range` say everything about one tuple at a time."""
        return None

    @property
    def category(self) -> Category:
        if "forward" in self.context:
            return Category.FCA
        return Category.FCF if self.context else Category.CF


def duality(kind: WindowKind, tuples: Tuples) -> str | None:
    """A tuple and a window on which `extent` and `wids` disagree, in words; None: the kind keeps
    the law."""
    ids = kind.windows(tuples)
    centric = set()
    for number, partition in zip(ids.number.tolist(), ids.partition.tolist(), strict=True):
        inside = np.flatnonzero(kind.extent(number, partition, tuples))
        centric |= {(at, number) for at in inside.tolist()}
    found = kind.wids(tuples)
    tagged = set(zip(found.member.tolist(), found.window.tolist(), strict=True))
    for pairs, more, less in (
        (centric - tagged, "extent", "wids"),
        (tagged - centric, "wids", "extent"),
    ):
        if pairs:
            at, window = min(pairs)
            return (
                f"{kind}: by {more} the tuple {at} (ts {tuples.ts[at]}) belongs to window {window},"
                f" by {less} it does not."
            )
    return None
