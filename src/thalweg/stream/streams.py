"""A stream: one logical node, and the methods that build queries from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import pyarrow as pa

from thalweg.errors import PlanError, UnknownColumnError
from thalweg.expr import Column, Expr, ExprLike, as_expr, col, lit
from thalweg.model.time import Duration, duration_us
from thalweg.plan import nodes
from thalweg.plan.automata import Pattern
from thalweg.plan.clock import as_ticks, clock_of, understood
from thalweg.plan.drawing import mermaid
from thalweg.plan.explain import explain
from thalweg.plan.expressions import START
from thalweg.plan.join_windows import JoinWindow
from thalweg.plan.nodes import Named, Node
from thalweg.plan.nodes.detect import Simultaneous
from thalweg.plan.other_names import unknown_method
from thalweg.plan.properties import StreamProperties
from thalweg.plan.update_rules import check_update_rules, conflating_source, newest_window
from thalweg.plan.wid_windows import stamped
from thalweg.progress.conflation import NewestWindow
from thalweg.stream import grouped, joins, windowed
from thalweg.stream.arguments import (
    Columns,
    Keys,
    On,
    Registers,
    column_names,
    duration_or_expr,
    key_pairs,
    lasting_ticks,
    named_columns,
    require_column,
    shown_columns,
)
from thalweg.windows import WindowKind
from thalweg.windows.kinds import hopping, positive_ticks
from thalweg.windows.specification import Arrival, Rank, Rows, Size

if TYPE_CHECKING:
    from thalweg.stream.grouped import GroupedStream
    from thalweg.stream.windowed import WindowedStream

__all__ = [
    "Stream",
    "draws_streams",
    "require_stream",
]

_Picture = TypeVar("_Picture")
_PLOT: list[Callable[..., Any]] = []
"""The function that draws a query. It runs the query, so it lives above the fluent API, and registers
itself here."""


def draws_streams(draw: Callable[..., _Picture]) -> Callable[..., _Picture]:
    """Let `Stream.plot` call this."""
    _PLOT[:] = [draw]
    return draw


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Stream:
    """A continuous query: a table that changes over time, and what it is made from."""

    node: Node

    def __post_init__(self) -> None:
        check_update_rules(self.node)

    @property
    def schema(self) -> pa.Schema:
        return self.node.schema

    @property
    def properties(self) -> StreamProperties:
        return self.node.properties

    def __repr__(self) -> str:
        return f"<Stream {self.node.label} ({shown_columns(self.schema)})>"

    def __getattr__(self, name: str) -> NoReturn:
        raise unknown_method(self, name)

    def explain(self, *, consistency: str | None = None, format: str = "text") -> str:  # noqa: A002 - the word that others use
        """The plan, what is known about each stream in it, and what the rewrite rules make of it;
        with `format="mermaid"`, the plan as a flow chart."""
        if format not in ("text", "mermaid"):
            raise PlanError(f"explain: format is 'text' or 'mermaid'; got {format!r}.")
        if format == "mermaid":
            return mermaid(self.node)
        return explain(self.node, consistency=consistency)

    def plot(
        self, inputs: Mapping[str, Any] | None = None, *, consistency: str = "speculative"
    ) -> Any:
        """The query over a little input as a timeline: lifetimes, windows, promises, answers that
        were taken back. A notebook shows the picture; `.save("picture.svg")` keeps it. Inputs are
        those of `tw.table`. Needs `thalweg[plot]`."""
        return _PLOT[0](self, inputs, consistency=consistency)

    def _repr_html_(self) -> str:
        columns = "".join(f"<tr><td>{e.name}</td><td>{e.type}</td></tr>" for e in self.schema)
        return f"<table><caption>Stream: {self.node.label}</caption>{columns}</table>"

    def update_key(
        self,
        *columns: str,
        schedule: str = "gain",
        freshness: Duration | None = None,
        targets: Mapping[Any, Duration] | None = None,
        inputs: Sequence[str] = (),
        truth: str | None = None,
        capacity: int = 256 * 2**20,
        adaptive: bool = False,
    ) -> Stream:
        """Only the newest row of each key matters: a row replaces the one before it that has the
        same values in these columns (without columns: the one before it).

        When rows come faster than they are worked on, a queue before this source keeps the newest
        row of each key and serves keys by `schedule`; what it leaves out is counted. `freshness` is
        how old an answer may be, `targets` says it for single keys (a value, or a tuple of them; an
        application that looks at a key r times a second sets 1/r), and `schedule="deadline"` serves
        the key that is due first. `capacity` is the bytes that waiting rows and keys may take.
        With `adaptive` all rows are served as long as they can be within `freshness`.

        With `inputs` the source is a union of several: of a key it passes on the youngest row at
        hand and drops what is older, one row for each time; where two inputs have one time, that of
        `truth` counts, else the first that came.

        >>> quotes = source("quotes", {"symbol": "string", "price": "int64"}, insert_only=True)
        >>> quotes.update_key("symbol").where("price > 10")
        <Stream where (symbol string, price int64)>
        """
        return Stream(
            conflating_source(
                self.node,
                columns,
                schedule=schedule,
                freshness=None
                if freshness is None
                else positive_ticks(freshness, "update_key, freshness"),
                capacity=capacity,
                inputs=tuple(inputs),
                truth=truth,
                adaptive=adaptive,
                targets=tuple(
                    (
                        key if isinstance(key, tuple) else (key,),
                        positive_ticks(target, "update_key, targets"),
                    )
                    for key, target in (targets or {}).items()
                ),
            )
        )

    def newest_window(
        self, size: Duration, hop: Duration | None = None, *, rule: str = "auto"
    ) -> WindowedStream:
        """Behind `update_key`: the newest window of each key matters, not the newest row. The queue
        serves whole windows, so that under overload windows are left out and none is answered from
        half of its rows.

        `rule` says which window of a key is the newest: the last that closed (`lazy`), the last
        that started (`eager`), or what fits the gaps between its rows (`auto`).

        >>> quotes = source("quotes", {"symbol": "string", "price": "int64"}, insert_only=True)
        >>> from thalweg.plan.aggregates import max_
        >>> quotes.update_key("symbol").newest_window(10, 5).aggregate(top=max_("price"))
        <Stream set_duration (symbol string, top int64)>
        """
        ticks = positive_ticks(size, "newest_window, size")
        every = ticks if hop is None else positive_ticks(hop, "newest_window, hop")
        node = newest_window(self.node, NewestWindow(ticks, every, rule))
        assert node.conflation is not None
        return windowed.MarkedWindows(node, node.conflation.key, hopping(every, every))

    # ----------------------------------------------------------------------------------------------------
    # payload

    def where(self, condition: ExprLike) -> Stream:
        """The rows for which the condition is true."""
        return Stream(nodes.Where(self.node, self._read(condition)))

    def select(self, /, *names: str | Column, **columns: ExprLike) -> Stream:
        """Only these columns: existing ones by name, new ones as `name=expression`."""
        return Stream(nodes.Select(self.node, self._columns("select", names, columns)))

    def with_columns(self, /, **columns: ExprLike) -> Stream:
        """All columns, and new or replaced ones."""
        named = {name: Column(name) for name in self.schema.names} | {
            name: self._read(value) for name, value in columns.items()
        }
        return Stream(nodes.Select(self.node, tuple(named.items())))

    def drop(self, *names: str) -> Stream:
        """All columns but these."""
        for name in names:
            require_column(name, self.schema, "drop")
        return self.select(*(name for name in self.schema.names if name not in names))

    def rename(self, /, **names: str) -> Stream:
        """`rename(old="new")`."""
        for old in names:
            require_column(old, self.schema, "rename")
        return Stream(
            nodes.Select(
                self.node,
                tuple((names.get(name, name), Column(name)) for name in self.schema.names),
            )
        )

    def select_many(
        self,
        *names: str | Column,
        repeat: ExprLike | int | None = None,
        unnest: str | None = None,
        **columns: ExprLike,
    ) -> Stream:
        """Several rows for each: `repeat` copies, or one for each item of the list column `unnest`.
        All columns by default."""
        chosen = self._columns(
            "select_many", names or (() if columns else tuple(self.schema.names)), columns
        )
        times = (
            lit(repeat) if isinstance(repeat, int) else None if repeat is None else as_expr(repeat)
        )
        return Stream(nodes.SelectMany(self.node, chosen, times, unnest))

    def _columns(
        self, what: str, names: Iterable[str | Column], columns: Mapping[str, ExprLike]
    ) -> Named:
        kept = [name.name if isinstance(name, Column) else name for name in names]
        for name in kept:
            if name not in self.schema.names:
                if name.isidentifier():
                    raise UnknownColumnError(name, self.schema.names, what)
                raise PlanError(
                    f"{what}: {name!r} is not a column. What is computed needs a name: {what}(name={name!r})."
                )
        return (
            *((name, Column(name)) for name in kept),
            *((name, self._read(value)) for name, value in columns.items()),
        )

    def _read(self, value: ExprLike) -> Expr:
        """An expression over the rows of this stream, as its user means it."""
        return understood(as_expr(value), self.node)

    # ---------------------------------------------------------------------------------------------------
    # lifetimes

    def set_duration(self, duration: Duration | Expr | None) -> Stream:
        """Every row lasts this long; `None` or `"forever"`: without end.

        An expression over `_start` and the columns (`col("ttl")`, or text that is no duration, such
        as `"ttl * 2"`) gives each row its own; a row with a null or no positive one is left out.
        """
        lasts = duration_or_expr(duration)
        if isinstance(lasts, Expr):
            return Stream(nodes.Retime(self.node, col("_start"), col("_start") + lasts))
        return Stream(nodes.SetDuration(self.node, lasting_ticks(lasts, "set_duration")))

    def points(self) -> Stream:
        """Every row lasts the smallest duration."""
        return self.set_duration(1)

    def alter_lifetime(self, *, start: ExprLike, duration: Duration | None) -> Stream:
        """New starts from an expression over `_start` and the columns, one duration for all."""
        ticks = as_ticks(self._read(start), nodes.lifetime_schema(self.schema))
        return Stream(
            nodes.AlterLifetime(self.node, ticks, lasting_ticks(duration, "alter_lifetime"))
        )

    def shift(self, by: Duration | Expr) -> Stream:
        """Every lifetime moves: by a duration (`"1 min"`, `"-5 s"`), or by an expression such as
        `col("delay")`."""
        return Stream(
            nodes.Shift(self.node, by if isinstance(by, Expr) else duration_us(by, what="shift"))
        )

    def extend(self, by: Duration) -> Stream:
        """Every end moves; a negative duration shortens, and a row with nothing left is gone."""
        return Stream(nodes.Extend(self.node, duration_us(by, what="extend")))

    def clip_duration(self, limit: Duration) -> Stream:
        """No row lasts longer than this."""
        return Stream(nodes.ClipDuration(self.node, positive_ticks(limit, "clip_duration")))

    def clip_by(self, other: Stream, on: On = None) -> Stream:
        """Each row ends, at the latest, at the next start of a matching row of the other stream."""
        return Stream(
            nodes.ClipBy(self.node, require_stream(other, "clip_by").node, *key_pairs(on))
        )

    def edges(self, on: On = None) -> Stream:
        """Samples of a signal: each row lasts until the next row of the same key starts."""
        lasting = self.set_duration(None)
        return lasting.clip_by(lasting, on)

    def point_at_end(self) -> Stream:
        """A point where each row ends."""
        return Stream(nodes.PointAtEnd(self.node))

    def chop(self, period: Duration, offset: Duration = 0) -> Stream:
        """Each row in pieces, cut where the grid `offset + k * period` passes through it."""
        return Stream(
            nodes.Chop(
                self.node, positive_ticks(period, "chop"), duration_us(offset, what="chop offset")
            )
        )

    def stitch(self) -> Stream:
        """Rows of equal payload that touch become one."""
        return Stream(nodes.Stitch(self.node))

    def in_order(self) -> Stream:
        """The same rows as inserts in the order of their starts, each when nothing can change it
        any more: for readers that need order, such as a merge at R0 or R1. A row waits for all that
        start before it to end."""
        return Stream(nodes.InOrder(self.node))

    def hopping_lifetime(
        self, size: Duration, hop: Duration | None = None, offset: Duration = 0
    ) -> Stream:
        """Trill's hopping window as a lifetime: the start rounded up to the grid, then `size`."""
        ticks = positive_ticks(size, "hopping_lifetime size")
        step = ticks if hop is None else positive_ticks(hop, "hopping_lifetime hop")
        return Stream(
            nodes.HoppingLifetime(
                self.node, ticks, step, duration_us(offset, what="hopping_lifetime offset")
            )
        )

    def quantize(
        self,
        size: Duration,
        hop: Duration | None = None,
        *,
        progress: Duration | None = None,
        offset: Duration = 0,
    ) -> Stream:
        """Trill's quantize: the start rounded down to the grid, the end up, at least `size`
        apart."""
        ticks = positive_ticks(size, "quantize size")
        step = ticks if hop is None else positive_ticks(hop, "quantize hop")
        finer = None if progress is None else positive_ticks(progress, "quantize progress")
        return Stream(
            nodes.Quantize(
                self.node, ticks, step, finer, duration_us(offset, what="quantize offset")
            )
        )

    def session_lifetime(
        self, timeout: Duration, *, max_duration: Duration | None = None
    ) -> Stream:
        """Trill's session as a lifetime: each row lasts until its session closes."""
        return grouped.GroupedStream(self.node, ()).session_lifetime(
            timeout, max_duration=max_duration
        )

    # ----------------------------------------------------------------------------------------------------
    # progress

    def describe(
        self,
        *,
        every: Duration | None = None,
        offset: Duration = 0,
        groups: str | Sequence[str] | None = None,
    ) -> Stream:
        """The same rows; of the promises only those that are of use above: on the grid `offset + k
        * every`, for these groups."""
        period = None if every is None else positive_ticks(every, "describe, every")
        columns = (
            (groups,) if isinstance(groups, str) else None if groups is None else tuple(groups)
        )
        return Stream(
            nodes.Describe(self.node, period, duration_us(offset, what="describe, offset"), columns)
        )

    # -------------------------------------------------------------------------------------------
    # several streams

    def union(self, *others: Stream) -> Stream:
        """The rows of all."""
        level = [self.node, *(require_stream(other, "union").node for other in others)]
        while len(level) > 1:  # a row passes few unions, however many streams there are
            pairs = [nodes.Union(*level[at : at + 2]) for at in range(0, len(level) - 1, 2)]
            level = [*pairs, *level[2 * len(pairs) :]]
        return Stream(level[0])

    def join(
        self,
        other: Stream,
        on: On = None,
        *,
        where: ExprLike | None = None,
        how: str = "inner",
        select: Columns | None = None,
        left_only: Columns | None = None,
        right_only: Columns | None = None,
        endless: str | Sequence[str] = (),
    ) -> Stream:
        """Rows of both that match, while both last.

        `where` and `select` write `l.x` and `r.x` (or just `x` where only one side has it). Without
        `select` the result has the left columns, then the right ones without the keys, `_right`
        added to names that clash. In an outer join the columns of the missing side are null, unless
        `left_only` or `right_only` says otherwise. A side whose rows never end is refused, unless
        `endless` names it (`"left"`, `"right"`): it is then kept for ever, as a table of reference
        is.
        """
        right = require_stream(other, "join").node
        kept = (endless,) if isinstance(endless, str) else tuple(endless)
        columns = joins.JoinColumns(select, left_only, right_only)
        return Stream(joins.join_node(self.node, right, on, where, how, columns, endless=kept))

    def left_join(
        self,
        other: Stream,
        on: On = None,
        *,
        where: ExprLike | None = None,
        select: Columns | None = None,
    ) -> Stream:
        """The join, and the left rows while nothing matches them."""
        return self.join(other, on, where=where, how="left", select=select)

    def right_join(
        self,
        other: Stream,
        on: On = None,
        *,
        where: ExprLike | None = None,
        select: Columns | None = None,
    ) -> Stream:
        """The join, and the right rows while nothing matches them."""
        return self.join(other, on, where=where, how="right", select=select)

    def full_join(
        self,
        other: Stream,
        on: On = None,
        *,
        where: ExprLike | None = None,
        select: Columns | None = None,
    ) -> Stream:
        """The join, and the rows of both sides while nothing matches them."""
        return self.join(other, on, where=where, how="full", select=select)

    def semi_join(self, other: Stream, on: On = None, *, where: ExprLike | None = None) -> Stream:
        """The left rows while something matches them."""
        return self.join(other, on, where=where, how="semi")

    def anti_join(self, other: Stream, on: On = None, *, where: ExprLike | None = None) -> Stream:
        """The left rows while nothing matches them."""
        return self.join(other, on, where=where, how="anti")

    def window_join(
        self,
        other: Stream,
        on: On = None,
        *,
        window: JoinWindow,
        where: ExprLike | None = None,
        how: str = "inner",
        select: Columns | None = None,
        at: str = "later",
        left_time: ExprLike = START,
        right_time: ExprLike = START,
        times: tuple[str, str] = ("left_time", "right_time"),
    ) -> Stream:
        """Rows of both whose times lie in a window together: `band`, `ranges`, `same_window` or
        `widjoin`.

        Results are points and carry both times in the columns `times`; `at` says which of them a
        result starts at: the `later` (the default) or `earlier` of both, `left` or `right`. The
        time of a stream is the start of its rows, or a column that carries the time of an earlier
        join. In outer, semi and anti joins a row counts as one: it is matched when it has a partner
        at all.
        """
        right = require_stream(other, "window_join").node
        return Stream(
            joins.window_join_node(
                self.node,
                right,
                on,
                where,
                how,
                select,
                window=window,
                at=at,
                times=(as_expr(left_time), as_expr(right_time)),
                names=times,
            )
        )

    def asof_join(
        self,
        other: Stream,
        on: On = None,
        *,
        within: Duration | None = None,
        exact: bool = True,
        how: str = "inner",
        select: Columns | None = None,
        times: tuple[str, str] = ("left_time", "right_time"),
    ) -> Stream:
        """Each row with the latest row of the other stream that is not later, nor more than
        `within` earlier.

        Without `exact` a row of the same time does not count. When a better row comes late, the
        answer is taken back and given again. `how="left"` keeps rows without a match. Results are
        points at the left time.
        """
        right = require_stream(other, "asof_join").node
        return Stream(
            joins.asof_join_node(
                self.node, right, on, how, select, within=within, exact=exact, names=times
            )
        )

    # ------------------------------------------------------------------------------------------
    # groups and windows

    def group_by(self, /, *keys: str | Column, **named: ExprLike) -> GroupedStream:
        """The stream in groups, by columns or by `name=expression`."""
        names = tuple(name for name, _ in self._columns("group_by", keys, {}))
        for name in named:
            if name in self.schema.names:
                raise PlanError(
                    f"group_by: {name!r} is a column already; name the key otherwise, or write group_by({name!r})."
                )
        if not names and not named:
            raise PlanError(
                "group_by: name at least one column; without groups use the windows of the stream itself."
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
        inner = require_stream(query(Stream(group)), "group_apply: the query")
        return Stream(
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
        return Stream(nodes.Distinct(self.node))

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

        `over` is the time of the stream, a column that progresses, or `arrival()`, the time at which
        rows arrive; or `rows()` or `rank("ts")`: then size and hop count rows.
        `partition_by` divides the stream first, each part having windows of its own. `origin` is
        where windows over time begin; None: at the first row of all.
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

    def number_rows(self, *, partition_by: str | Sequence[str] = ()) -> Stream:
        """Each row with the number `_row` under which it arrives here, from 1; row windows after it
        count by that number."""
        return Stream(nodes.NumberRows(self.node, column_names(partition_by)))

    def stamp_arrivals(self, *, every: Duration = "1 s") -> Stream:
        """Each row with the time `_arrived` at which it came in, in microseconds since the epoch,
        rounded down to a multiple of `every`. The column progresses with the clock, so that windows
        over it close."""
        return Stream(stamped(self.node, positive_ticks(every, "stamp_arrivals")))

    def top_k(
        self, k: int, *, by: ExprLike, descending: bool = True, rank: str | None = None
    ) -> Stream:
        """At every instant, the rows with the k best values of `by`; ties are kept whole. `rank`
        names a column for the rank."""
        return self.snapshot().top_k(k, by=by, descending=descending, rank=rank)


def require_stream(value: object, what: str) -> Stream:
    if not isinstance(value, Stream):
        hint = (
            " Finish it with .aggregate(...) or .top_k(...)."
            if isinstance(value, windowed.WindowedStream | grouped.GroupedStream)
            else ""
        )
        raise PlanError(f"{what} must be a stream; got {value!r}.{hint}")
    return value
