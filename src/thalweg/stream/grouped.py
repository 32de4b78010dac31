"""Streams in groups, and what is done with each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from thalweg.expr import ExprLike
from thalweg.model.time import Duration
from thalweg.model.type_names import arrow_type, shown_columns
from thalweg.plan import nodes
from thalweg.plan.automata import Pattern
from thalweg.plan.clock import clock_of
from thalweg.plan.nodes import Node
from thalweg.plan.nodes.detect import Simultaneous
from thalweg.plan.other_names import unknown_method
from thalweg.plan.wid_windows import (
    by_tuple_windows,
    kind_windows,
    landmark_windows,
    sliding_windows,
)
from thalweg.stream import streams
from thalweg.stream.arguments import Columns, Registers, column_names
from thalweg.stream.windowed import WindowedStream
from thalweg.windows import SnapshotWindow, Window, WindowKind
from thalweg.windows.calendar import calendar
from thalweg.windows.counts import count_window
from thalweg.windows.kinds import hopping, positive_ticks, session
from thalweg.windows.specification import Arrival, Rank, Rows, Size

if TYPE_CHECKING:
    from thalweg.stream.streams import Stream

__all__ = [
    "GroupedStream",
]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GroupedStream:
    """A stream in groups, waiting for what to do with each."""

    node: Node
    keys: tuple[str, ...]

    def detect(
        self,
        pattern: Pattern,
        *,
        within: Duration,
        registers: Registers | None = None,
        overlap: bool = True,
        simultaneous: Simultaneous = "sequence",
    ) -> Stream:
        """Runs of events of a group that match a pattern; see `Stream.detect`."""
        typed = {
            name: given if isinstance(given, tuple) else (given, None)
            for name, given in (registers or {}).items()
        }
        return streams.Stream(
            nodes.Detect(
                self.node,
                pattern,
                positive_ticks(within, "detect within"),
                tuple(
                    nodes.Register(name, arrow_type(kind, f"detect: the register {name!r}"), value)
                    for name, (kind, value) in typed.items()
                ),
                self.keys,
                overlap,
                simultaneous,
            )
        )

    def __repr__(self) -> str:
        return f"<GroupedStream by {', '.join(self.keys)} of ({shown_columns(self.node.schema)})>"

    def __getattr__(self, name: str) -> NoReturn:
        raise unknown_method(self, name)

    def snapshot(self) -> WindowedStream:
        """Windows between the instants at which something changes in the group."""
        return WindowedStream(self.node, self.keys, SnapshotWindow())

    def tumbling(self, size: Duration, *, offset: Duration = 0) -> WindowedStream:
        """Windows of `size`, one after the other."""
        return WindowedStream(self.node, self.keys, hopping(size, size, offset))

    def hopping(self, size: Duration, hop: Duration, *, offset: Duration = 0) -> WindowedStream:
        """Windows of `size` that begin every `hop`."""
        return WindowedStream(self.node, self.keys, hopping(size, hop, offset))

    def session(self, gap: Duration) -> WindowedStream:
        """Windows of activity of the group, closed by a pause of `gap`."""
        return WindowedStream(self.node, self.keys, session(gap))

    def count_by_start(self, count: int) -> WindowedStream:
        """Windows of `count` distinct starts of the group that follow each other."""
        return WindowedStream(self.node, self.keys, count_window(count, "start"))

    def count_by_end(self, count: int) -> WindowedStream:
        """Windows of `count` distinct ends of the group that follow each other."""
        return WindowedStream(self.node, self.keys, count_window(count, "end"))

    def sliding(
        self,
        size: Size,
        hop: Size = None,
        *,
        over: str | Rows | Rank | Arrival = "ts",
        partition_by: str | Sequence[str] = (),
        origin: Duration | None = 0,
    ) -> WindowedStream:
        """Windows of the whole stream, in each of them the groups; `partition_by` instead gives
        every part windows of its own."""
        node, window = sliding_windows(
            self.node, size, hop, over, column_names(partition_by), origin
        )
        return self._windowed(node, window, column_names(partition_by))

    def landmark(
        self,
        hop: Size,
        *,
        over: str | Rows | Rank | Arrival = "ts",
        partition_by: str | Sequence[str] = (),
        origin: Duration = 0,
    ) -> WindowedStream:
        """Windows of everything so far, in each of them the groups."""
        node, window = landmark_windows(self.node, hop, over, column_names(partition_by), origin)
        return self._windowed(node, window, column_names(partition_by))

    def slide_by_tuple(
        self,
        size: Duration,
        *,
        every: int = 1,
        order: Rows | Rank | None = None,
        partition_by: str | Sequence[str] = (),
    ) -> WindowedStream:
        """Windows that end at tuples of the whole stream, in each of them the groups."""
        node, window = by_tuple_windows(self.node, size, every, order, column_names(partition_by))
        return self._windowed(node, window, column_names(partition_by))

    def calendar(self, unit: str, *, zone: str | None = None) -> WindowedStream:
        """Days, weeks, months, quarters or years of a time zone's calendar, in each of them the
        groups."""
        clock = clock_of(self.node)
        own = None if clock is None else clock.tz
        return self.windows(calendar(unit, zone or own or "UTC"))

    def windows(
        self, kind: WindowKind, *, partition_by: str | Sequence[str] = ()
    ) -> WindowedStream:
        """Windows of a kind of your own, in each of them the groups."""
        node, window = kind_windows(self.node, kind)
        return self._windowed(node, window, column_names(partition_by))

    def _windowed(
        self, node: Node, window: Window | WindowKind, partition: tuple[str, ...]
    ) -> WindowedStream:
        if isinstance(window, WindowKind):
            return WindowedStream(node, self.keys, window, partition)
        return WindowedStream(
            node, (*partition, *(key for key in self.keys if key not in partition)), window
        )

    def session_lifetime(
        self, timeout: Duration, *, max_duration: Duration | None = None
    ) -> Stream:
        """Each row lasts until the session of its group closes."""
        longest = (
            None
            if max_duration is None
            else positive_ticks(max_duration, "session_lifetime max_duration")
        )
        return streams.Stream(
            nodes.SessionLifetime(
                self.node, positive_ticks(timeout, "session_lifetime timeout"), longest, self.keys
            )
        )

    def edges(self) -> Stream:
        """Each row lasts until the next row of its group starts."""
        return streams.Stream(self.node).edges(self.keys)

    def top_k(
        self, k: int, *, by: ExprLike, descending: bool = True, rank: str | None = None
    ) -> Stream:
        """At every instant, the rows of each group with the k best values of `by`."""
        return self.snapshot().top_k(k, by=by, descending=descending, rank=rank)

    def apply(self, query: Callable[[Stream], Stream], *, select: Columns | None = None) -> Stream:
        """Any query, for each group by itself."""
        return streams.Stream(self.node).group_apply(self.keys, query, select=select)
