"""Methods of a stream that look at several rows: groups, windows, patterns, the best rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from thalweg.errors import PlanError
from thalweg.expr import Column, ExprLike
from thalweg.model.time import Duration
from thalweg.plan import nodes
from thalweg.plan.automata import Pattern
from thalweg.plan.clock import clock_of
from thalweg.plan.nodes.detect import Simultaneous
from thalweg.stream import grouped, streams
from thalweg.stream.arguments import Columns, Keys, Registers, named_columns
from thalweg.stream.payload_methods import PayloadMethods
from thalweg.windows import WindowKind
from thalweg.windows.specification import Arrival, Rank, Rows, Size

if TYPE_CHECKING:
    from thalweg.stream.grouped import GroupedStream
    from thalweg.stream.streams import Stream
    from thalweg.stream.windowed import WindowedStream

__all__ = ["WindowMethods"]


class WindowMethods(PayloadMethods):
    """Groups and windows; a stream without groups is one group."""

    __slots__ = ()

    def group_by(self, /, *keys: str | Column, **named: ExprLike) -> GroupedStream:
        """The stream in groups, by columns or by `name=expression`."""
        names = tuple(name for name, _ in self._columns("group_by", keys, {}))
        for name in named:
            if name in self.schema.names:
                raise PlanError(
                    f"group_by: {name!r} is a column already; name the key otherwise, or write "
                    f"group_by({name!r})."
                )
        if not names and not named:
            raise PlanError(
                "group_by: name at least one column; without groups use the windows of the stream "
                "itself."
            )
        stream = self.with_columns(**named) if named else self
        return grouped.GroupedStream(stream.node, (*names, *named))

    def group_apply(
        self, keys: Keys, query: Callable[[Stream], Stream], *, select: Columns | None = None
    ) -> Stream:
        """The query for each group by itself; the keys stand in front of its columns.

        `select` chooses the result instead: the keys are `key_<name>` there.
        """
        named = (
            named_columns(keys)
            if isinstance(keys, Mapping)
            else named_columns([keys] if isinstance(keys, str) else keys)
        )
        group = nodes.GroupInput(self.schema, self.properties, clock_of(self.node))
        inner = streams.require_stream(query(streams.Stream(group)), "group_apply: the query")
        return streams.Stream(
            nodes.GroupApply(
                self.node,
                named,
                group,
                inner.node,
                None if select is None else named_columns(select),
            )
        )

    def distinct(self) -> Stream:
        """At every instant, each payload once."""
        return streams.Stream(nodes.Distinct(self.node))

    def snapshot(self) -> WindowedStream:
        """Windows between the instants at which something changes."""
        return grouped.GroupedStream(self.node, ()).snapshot()

    def tumbling(self, size: Duration, *, offset: Duration = 0) -> WindowedStream:
        """Windows of `size`, one after the other."""
        return grouped.GroupedStream(self.node, ()).tumbling(size, offset=offset)

    def hopping(self, size: Duration, hop: Duration, *, offset: Duration = 0) -> WindowedStream:
        """Windows of `size` that begin every `hop`."""
        return grouped.GroupedStream(self.node, ()).hopping(size, hop, offset=offset)

    def session(self, gap: Duration) -> WindowedStream:
        """Windows of activity, closed by a pause of `gap`."""
        return grouped.GroupedStream(self.node, ()).session(gap)

    def count_by_start(self, count: int) -> WindowedStream:
        """Windows of `count` distinct starts that follow each other."""
        return grouped.GroupedStream(self.node, ()).count_by_start(count)

    def count_by_end(self, count: int) -> WindowedStream:
        """Windows of `count` distinct ends that follow each other."""
        return grouped.GroupedStream(self.node, ()).count_by_end(count)

    def sliding(
        self,
        size: Size,
        hop: Size = None,
        *,
        over: str | Rows | Rank | Arrival = "ts",
        partition_by: str | Sequence[str] = (),
        origin: Duration | None = 0,
    ) -> WindowedStream:
        """Windows of the last `size`, a new one every `hop` (default: tumbling). A row belongs to
        them by its start.

        `over` is the time of the stream, a column that progresses, or `arrival()`, the time at
        which rows arrive; or `rows()` or `rank("ts")`: then size and hop count rows. `partition_by`
        divides the stream first, each part having windows of its own. `origin` is where windows
        over time begin; None: at the first row of all.
        """
        return grouped.GroupedStream(self.node, ()).sliding(
            size, hop, over=over, partition_by=partition_by, origin=origin
        )

    def landmark(
        self,
        hop: Size,
        *,
        over: str | Rows | Rank | Arrival = "ts",
        partition_by: str | Sequence[str] = (),
        origin: Duration = 0,
    ) -> WindowedStream:
        """Windows of everything so far, a new one every `hop`."""
        return grouped.GroupedStream(self.node, ()).landmark(
            hop, over=over, partition_by=partition_by, origin=origin
        )

    def slide_by_tuple(
        self,
        size: Duration,
        *,
        every: int = 1,
        order: Rows | Rank | None = None,
        partition_by: str | Sequence[str] = (),
    ) -> WindowedStream:
        """Windows of the last `size` of time, a new one at every tuple, or at every n-th in the
        order of `rows()` or `rank("ts")`."""
        return grouped.GroupedStream(self.node, ()).slide_by_tuple(
            size, every=every, order=order, partition_by=partition_by
        )

    def calendar(self, unit: str, *, zone: str | None = None) -> WindowedStream:
        """Days, weeks, months, quarters or years of a time zone's calendar, across changes of its
        clocks; by default of the zone of the stream's own times, or UTC. A row belongs to them by
        its start."""
        return grouped.GroupedStream(self.node, ()).calendar(unit, zone=zone)

    def windows(
        self, kind: WindowKind, *, partition_by: str | Sequence[str] = ()
    ) -> WindowedStream:
        """Windows of a kind of your own: its three functions and `time_range`, or its assigner."""
        return grouped.GroupedStream(self.node, ()).windows(kind, partition_by=partition_by)

    def detect(
        self,
        pattern: Pattern,
        *,
        within: Duration,
        registers: Registers | None = None,
        overlap: bool = True,
        simultaneous: Simultaneous = "sequence",
    ) -> Stream:
        """Runs of events, in the order of time, that match a pattern of `event`, `then`, `one_of`,
        `repeated`, `optional`; each event of the run must take part.

        `registers` gather values along the way: names with a type, or with a type and the value to
        begin with. They are the columns of a match, which lives from its last event until `within`
        after its first. Without `overlap` a new run begins only when the last one is over.

        >>> s = source("s", {"v": "int64"})
        >>> from thalweg.patterns import event, repeated, then
        >>> up = event("v > top", keep={"top": "v", "n": "n + 1"})
        >>> s.detect(then(event("true", keep={"top": "v"}), repeated(up)), within="1 min",
        ...          registers={"top": "int64", "n": ("int64", 0)})
        <Stream detect (top int64, n int64)>
        """
        return grouped.GroupedStream(self.node, ()).detect(
            pattern,
            within=within,
            registers=registers,
            overlap=overlap,
            simultaneous=simultaneous,
        )

    def top_k(
        self, k: int, *, by: ExprLike, descending: bool = True, rank: str | None = None
    ) -> Stream:
        """At every instant, the rows with the k best values of `by`; ties are kept whole. `rank`
        names a column for the rank."""
        return self.snapshot().top_k(k, by=by, descending=descending, rank=rank)
