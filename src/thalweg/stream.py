"""The fluent API: a query is a sentence about streams.

>>> from thalweg.plan.aggregates import count, sum_
>>> packets = source("packets", {"src": "string", "len": "int64"}, late="drop", disorder="1 min")
>>> packets.where("len > 40").group_by("src").hopping("10 min", "1 min").aggregate(n=count(), bytes=sum_("len"))
<Stream window_aggregate (src string, n int64, bytes int64)>

A `Stream` wraps one logical node and never changes: every method gives a new stream. Whatever
cannot work (a column nobody has, a sum of text, a window of no length) is refused on the line that
says it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn, TypeAlias, TypeVar

import pyarrow as pa

from thalweg.errors import (
    ExpressionError,
    PlanError,
    TypeMismatchError,
    UnknownColumnError,
    WindowError,
    did_you_mean,
)
from thalweg.expr import Column, Expr, ExprLike, as_expr, col, lit
from thalweg.io.events import TimeColumns
from thalweg.model.clocks import Clock, clock_type
from thalweg.model.time import INFINITY, Duration, duration_us
from thalweg.plan import nodes
from thalweg.plan.aggregates import AggregateCall
from thalweg.plan.applying import ModuleLike, ModuleUse, apply_node
from thalweg.plan.automata import Pattern
from thalweg.plan.clock import as_ticks, clock_of, understood
from thalweg.plan.drawing import mermaid
from thalweg.plan.explain import explain
from thalweg.plan.expressions import START
from thalweg.plan.join_windows import JoinWindow
from thalweg.plan.merging import (
    Broken,
    InsertPolicy,
    Level,
    MergePolicy,
    Missing,
    RevisePolicy,
)
from thalweg.plan.nodes import Ingress, Named, Node
from thalweg.plan.nodes.detect import Simultaneous
from thalweg.plan.nodes.panes import Table, in_panes
from thalweg.plan.other_names import unknown_method
from thalweg.plan.properties import StreamProperties
from thalweg.plan.strategies import Volume
from thalweg.plan.update_rules import check_update_rules, conflating_source, newest_window
from thalweg.plan.wid_windows import (
    by_tuple_windows,
    kind_windows,
    landmark_windows,
    sliding_windows,
    stamped,
)
from thalweg.plan.window_joins import (
    asof_join,
    is_of_points,
    multi_join,
    one_side,
    side_by_side,
    window_join,
)
from thalweg.progress.conflation import NewestWindow
from thalweg.progress.policies import Estimated, LateBy, LateByRows, Policy, Quarantine, policies_of
from thalweg.windows import SessionWindow, SnapshotWindow, Window, WindowKind
from thalweg.windows.calendar import calendar
from thalweg.windows.counts import count_window
from thalweg.windows.kinds import hopping, positive_ticks, session
from thalweg.windows.specification import Arrival, Rank, Rows, Size

__all__ = [
    "GroupedStream",
    "Keys",
    "On",
    "Stream",
    "WindowedStream",
    "draws_streams",
    "join_all",
    "merge",
    "source",
]

Keys: TypeAlias = "str | Sequence[str] | Mapping[str, ExprLike]"
"""Grouping keys: columns, or names with the expressions that give them."""
On: TypeAlias = "str | Expr | Sequence[str | Expr] | Mapping[str, ExprLike] | None"
"""Join keys: expressions that both sides have, or left expressions with their right ones."""
Registers: TypeAlias = "Mapping[str, str | pa.DataType | tuple[str | pa.DataType, Any]]"

Columns: TypeAlias = "Mapping[str, ExprLike] | Sequence[str]"

_Picture = TypeVar("_Picture")
_PLOT: list[Callable[..., Any]] = []
"""What draws a query. It runs it for that, so it stands above the fluent API, and says so here."""


def draws_streams(draw: Callable[..., _Picture]) -> Callable[..., _Picture]:
    """Let `Stream.plot` call this."""
    _PLOT[:] = [draw]
    return draw


_TYPE_NAMES = {
    "int": "int64",
    "bigint": "int64",
    "float": "float64",
    "text": "string",
    "str": "string",
    "boolean": "bool",
}
_ARROW_NAMES = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "float32",
    "float64",
    "string",
    "binary",
    "date32",
)


def source(
    name: str,
    columns: pa.Schema | Mapping[str, str | pa.DataType],
    *,
    time: str | None = None,
    end: str | None = None,
    late: str = "error",
    disorder: Duration | None = None,
    period: Duration | None = None,
    partition: str | None = None,
    low_watermark: tuple[Duration, Duration] | None = None,
    progress: Policy | Sequence[Policy] | None = None,
    quarantine: Quarantine | None = None,
    ordered: bool = False,
    insert_only: bool = False,
    unique_start: bool = False,
    payload_start_key: bool = False,
    constant_duration: Duration | None = None,
    firm_ends: bool = False,
    group_ctis: str | Sequence[str] = (),
    progressing: str | Sequence[str] | Mapping[str, Duration] = (),
    patterns: bool = False,
) -> Stream:
    """A stream from outside.

    `time` and `end` name the columns, among `columns`, that are the start and the end of a row:
    frames are then pushed as they are, and where the times are timestamps all that is shown of the
    stream shows timestamps. `late` and the six arguments after it say how events are admitted (see `Ingress`): `disorder=d`
    is `progress=late_by(d)`, and `progress` takes more policies, such as `late_by_rows`,
    `estimated` and `timer`. The rest declares facts that hold for every form in which this stream
    arrives. `group_ctis` names the columns for whose values promises may come separately; a
    partition is one of them by itself. `progressing` names further columns of whole numbers that
    progress as the start does, so that windows over them close: by punctuation, or, as a mapping,
    each by its own disorder. `patterns` says that punctuation of any form may come (see
    `thalweg.model.punctuation`); in-process it may without.

    >>> source("packets", {"src": "string", "len": "int64"}, disorder="1 min")
    <Stream source (src string, len int64)>
    """
    groups = tuple(
        dict.fromkeys(
            [
                *([partition] if partition else []),
                *([group_ctis] if isinstance(group_ctis, str) else group_ctis),
            ]
        )
    )
    where = f"source {name!r}"
    policies = policies_of(progress, where)
    for one in policies:
        if isinstance(one, LateBy):
            if disorder is not None:
                raise PlanError(f"{where}: disorder= and late_by() say the same; give one of them.")
            disorder = one.ticks
    observed = tuple(one for one in policies if not isinstance(one, LateBy))
    if (
        period is not None
        and disorder is None
        and not any(isinstance(one, (LateByRows, Estimated)) for one in observed)
    ):
        raise PlanError(
            f"{where}: period= rounds the promises that disorder= makes; give disorder= too (0 when events come in order)."
        )
    if low_watermark is not None and partition is None:
        raise PlanError(
            f"{where}: low_watermark= is the common promise of partitions; give partition= too, or use disorder=."
        )
    lag = None
    if low_watermark is not None:
        every, behind = low_watermark
        lag = (
            positive_ticks(every, f"{where}, low_watermark period"),
            _not_negative(behind, f"{where}, low_watermark lag"),
        )
    ingress = Ingress(
        late=late,
        disorder=None if disorder is None else _not_negative(disorder, f"{where}, disorder"),
        period=None if period is None else positive_ticks(period, f"{where}, period"),
        partition=partition,
        low_watermark=lag,
        progress=observed,
        quarantine=quarantine,
        patterns=patterns,
        columns=tuple(
            (column, _not_negative(behind, f"{where}, progressing {column!r}"))
            for column, behind in (progressing.items() if isinstance(progressing, Mapping) else ())
        ),
    )
    further = _names(progressing) if not isinstance(progressing, Mapping) else tuple(progressing)
    declared = StreamProperties(
        ordered=ordered,
        insert_only=insert_only,
        unique_start=unique_start,
        payload_start_key=payload_start_key,
        constant_duration=None
        if constant_duration is None
        else positive_ticks(constant_duration, f"{where}, constant_duration"),
        firm_ends=firm_ends or insert_only,
        group_ctis=bool(groups),
        group_keys=groups,
        progressing=further,
    )
    schema, times, clock = _timed(_schema(columns, where), time, end, where)
    for column in (*groups, *further):
        _known(column, schema, where)
    for column in further:
        if not pa.types.is_integer(schema.field(column).type):
            raise TypeMismatchError(
                f"{where}: progressing= takes columns of whole numbers; {column!r} is {schema.field(column).type}."
            )
    return Stream(nodes.Source(name, schema, ingress, declared, times=times, clock=clock))


def _timed(
    schema: pa.Schema, time: str | None, end: str | None, where: str
) -> tuple[pa.Schema, TimeColumns | None, Clock]:
    """The payload of a source, its time columns and its clock."""
    if time is None:
        if end is not None:
            raise PlanError(f"{where}: end= names the end of rows; name their start too, time=.")
        return schema, None, None
    times = TimeColumns(time, end)
    for name in times.names:
        _known(name, schema, f"{where}, time")
        type_ = schema.field(name).type
        if clock_type(type_) is None and not pa.types.is_integer(type_):
            raise TypeMismatchError(
                f"{where}: the time {name!r} is {type_}; a time is a timestamp, a whole number, or ISO 8601 text in a frame."
            )
    payload = pa.schema([field for field in schema if field.name not in times.names])
    return payload, times, clock_type(schema.field(time).type)


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
        return f"<Stream {self.node.label} ({_show(self.schema)})>"

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
    ) -> Stream:
        """Only the newest row of each key matters: a row replaces the one before it that has the
        same values in these columns (without columns: the one before it).

        When rows come faster than they are worked on, a queue before this source keeps the newest
        row of each key and serves keys by `schedule`; what it leaves out is counted. `freshness` is
        how old an answer may be, `targets` says it for single keys (a value, or a tuple of them; an
        application that looks at a key r times a second sets 1/r), and `schedule="deadline"` serves
        the key that is due first. `capacity` is the bytes that waiting rows and keys may take.

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
        return MarkedWindows(node, node.conflation.key, hopping(every, every))

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
            _known(name, self.schema, "drop")
        return self.select(*(name for name in self.schema.names if name not in names))

    def rename(self, /, **names: str) -> Stream:
        """`rename(old="new")`."""
        for old in names:
            _known(old, self.schema, "rename")
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
        All columns unless told."""
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
        lasts = _duration_or_expr(duration)
        if isinstance(lasts, Expr):
            return Stream(nodes.Retime(self.node, col("_start"), col("_start") + lasts))
        return Stream(nodes.SetDuration(self.node, _lasting(lasts, "set_duration")))

    def points(self) -> Stream:
        """Every row lasts the smallest duration."""
        return self.set_duration(1)

    def alter_lifetime(self, *, start: ExprLike, duration: Duration | None) -> Stream:
        """New starts from an expression over `_start` and the columns, one duration for all."""
        ticks = as_ticks(self._read(start), nodes.lifetime_schema(self.schema))
        return Stream(nodes.AlterLifetime(self.node, ticks, _lasting(duration, "alter_lifetime")))

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
        return Stream(nodes.ClipBy(self.node, require_stream(other, "clip_by").node, *_pairs(on)))

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
        return GroupedStream(self.node, ()).session_lifetime(timeout, max_duration=max_duration)

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
        right = require_stream(other, "join")
        kept = (endless,) if isinstance(endless, str) else tuple(endless)
        if how not in nodes.JOIN_KINDS:
            raise PlanError(
                f"join: how must be one of {', '.join(nodes.JOIN_KINDS)}{did_you_mean(how, nodes.JOIN_KINDS)} Got {how!r}."
            )
        if is_of_points(self.node) and is_of_points(right.node):
            raise PlanError(
                "join: rows of both streams are points, which meet only at the same instant. Say over "
                "which time: window_join(..., window=tw.band(before='10 min', after='10 min')), or "
                "asof_join(...); for the same instant window=tw.same_window(1); or let rows last, "
                "set_duration('10 min')."
            )
        left_keys, right_keys = _pairs(on)
        predicate = None if where is None else as_expr(where)
        if how in ("semi", "anti"):
            if select is not None or left_only is not None or right_only is not None:
                raise PlanError(
                    f"join: a {how} join gives rows of the left side as they are; select afterwards."
                )
            return Stream(
                nodes.Join(
                    self.node, right.node, left_keys, right_keys, predicate, how, endless=kept
                )
            )
        if (left_only is not None and how not in ("left", "full")) or (
            right_only is not None and how not in ("right", "full")
        ):
            raise PlanError(
                f"join: left_only= is for left and full joins, right_only= for right and full joins; this one is {how!r}."
            )
        shared = _shared_keys(left_keys, right_keys) if select is None else set()
        result = (
            _default_result(self.schema, right.schema, shared)
            if select is None
            else named_columns(select)
        )
        mine: Named = ()
        theirs: Named = ()
        if how in ("left", "full"):
            mine = (
                one_side(result, self.schema, right.schema, "l")
                if left_only is None
                else named_columns(left_only)
            )
        if how in ("right", "full"):
            theirs = (
                one_side(result, right.schema, self.schema, "r", shared)
                if right_only is None
                else named_columns(right_only)
            )
        return Stream(
            nodes.Join(
                self.node,
                right.node,
                left_keys,
                right_keys,
                predicate,
                how,
                result,
                mine,
                theirs,
                endless=kept,
            )
        )

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
        right = require_stream(other, "window_join")
        if not isinstance(window, JoinWindow):
            raise PlanError(
                f"window_join: window must be band(...), ranges(...), same_window(...), widjoin(...) or a JoinWindow; got {window!r}."
            )
        if how not in nodes.JOIN_KINDS:
            raise PlanError(
                f"window_join: how must be one of {', '.join(nodes.JOIN_KINDS)}{did_you_mean(how, nodes.JOIN_KINDS)} Got {how!r}."
            )
        if how in ("semi", "anti") and select is not None:
            raise PlanError(
                f"window_join: a {how} join gives rows of the left side as they are; select afterwards."
            )
        keys = _pairs(on)
        shared = _shared_keys(*keys) if select is None else set()
        return Stream(
            window_join(
                (self.node, right.node),
                keys,
                window,
                times=(as_expr(left_time), as_expr(right_time)),
                names=times,
                predicate=None if where is None else as_expr(where),
                how=how,
                result=_default_result(self.schema, right.schema, shared)
                if select is None
                else named_columns(select),
                shared=shared,
                at=at,
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
        right = require_stream(other, "asof_join")
        if how not in ("inner", "left"):
            raise PlanError(
                f"asof_join: how must be inner or left{did_you_mean(how, ('inner', 'left'))} Got {how!r}."
            )
        keys = _pairs(on)
        shared = _shared_keys(*keys) if select is None else set()
        result = (
            _default_result(self.schema, right.schema, shared)
            if select is None
            else named_columns(select)
        )
        limit = None if within is None else positive_ticks(within, "asof_join within")
        return Stream(
            asof_join(
                (self.node, right.node),
                keys,
                within=limit,
                exact=exact,
                names=times,
                how=how,
                result=result,
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
        return GroupedStream(stream.node, (*names, *named))

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
        return GroupedStream(self.node, ()).snapshot()

    def tumbling(self, size: Duration, *, offset: Duration = 0) -> WindowedStream:
        """Windows of `size`, one after the other."""
        return GroupedStream(self.node, ()).tumbling(size, offset=offset)

    def hopping(self, size: Duration, hop: Duration, *, offset: Duration = 0) -> WindowedStream:
        """Windows of `size` that begin every `hop`."""
        return GroupedStream(self.node, ()).hopping(size, hop, offset=offset)

    def session(self, gap: Duration) -> WindowedStream:
        """Windows of activity, closed by a pause of `gap`."""
        return GroupedStream(self.node, ()).session(gap)

    def count_by_start(self, count: int) -> WindowedStream:
        """Windows of `count` distinct starts that follow each other."""
        return GroupedStream(self.node, ()).count_by_start(count)

    def count_by_end(self, count: int) -> WindowedStream:
        """Windows of `count` distinct ends that follow each other."""
        return GroupedStream(self.node, ()).count_by_end(count)

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
        return GroupedStream(self.node, ()).sliding(
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
        return GroupedStream(self.node, ()).landmark(
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
        return GroupedStream(self.node, ()).slide_by_tuple(
            size, every=every, order=order, partition_by=partition_by
        )

    def calendar(self, unit: str, *, zone: str | None = None) -> WindowedStream:
        """Days, weeks, months, quarters or years of a time zone's calendar, across changes of its
        clocks; by default of the zone of the stream's own times, or UTC. A row belongs to them by
        its start."""
        return GroupedStream(self.node, ()).calendar(unit, zone=zone)

    def windows(
        self, kind: WindowKind, *, partition_by: str | Sequence[str] = ()
    ) -> WindowedStream:
        """Windows of a kind of your own: its three functions and `time_range`, or its assigner."""
        return GroupedStream(self.node, ()).windows(kind, partition_by=partition_by)

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
        return GroupedStream(self.node, ()).detect(
            pattern,
            within=within,
            registers=registers,
            overlap=overlap,
            simultaneous=simultaneous,
        )

    def number_rows(self, *, partition_by: str | Sequence[str] = ()) -> Stream:
        """Each row with the number `_row` under which it arrives here, from 1; row windows after it
        count by that number."""
        return Stream(nodes.NumberRows(self.node, _names(partition_by)))

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


def merge(
    *streams: Stream,
    level: Level | None = None,
    groups: str | Sequence[str] = (),
    insert: InsertPolicy = "first seen",
    revise: RevisePolicy = "lazy",
    missing: Missing = "leader",
    lag: Duration = 0,
    share: float = 0.5,
    tolerance: float = 0.0,
    broken: Broken = "cut",
) -> Stream:
    """Streams that mean the same as one (LMerge): answers come from whichever is first, and the
    result can follow all of them.

    The level (R0 to R4) is inferred from what is known of the streams; `explain()` says why. With
    `groups`, or where the plan knows them, there is at most one row for a group and start. For
    streams that come and go while a query runs there is `thalweg.merging.Merger`.
    """
    found = [require_stream(stream, "merge").node for stream in streams]
    policy = MergePolicy(insert, revise, missing, duration_us(lag, what="merge: lag"), share)
    return Stream(nodes.Merge(tuple(found), policy, level, _names(groups), tolerance, broken))


def join_all(
    streams: Mapping[str, Stream],
    on: Mapping[str, str | Sequence[str]] | str | Sequence[str] = (),
    *,
    sizes: Duration | Mapping[str, Duration],
    where: ExprLike | None = None,
    select: Columns | None = None,
) -> Stream:
    """Rows of several streams that are in each other's windows, each of its stream's size: a join
    of any number of inputs.

    Columns are written `name.column` in `where` and `select`; keys are columns that all streams
    have, or given for each. Without `select` the result has every column as `name_column`. Results
    are points at the latest of the times, which stand in the columns `name_time`.

    >>> a, b, c = (source(name, {"k": "int64"}) for name in "abc")
    >>> join_all({"a": a, "b": b, "c": c}, "k", sizes="1 min")
    <Stream select (a_k int64, b_k int64, c_k int64, a_time int64, b_time int64, c_time int64)>
    """
    if len(streams) < 2:
        raise PlanError(
            "join_all: give at least two streams by name: {'orders': orders, 'payments': payments, ...}."
        )
    nodes_ = {
        name: require_stream(stream, f"join_all: {name}").node for name, stream in streams.items()
    }
    exprs = keys_by_name(on, streams, "join_all")
    lengths = {name: sizes[name] if isinstance(sizes, Mapping) else sizes for name in streams}
    ticks = {
        name: positive_ticks(size, f"join_all, size of {name}") for name, size in lengths.items()
    }
    every: Named = tuple(
        (f"{name}_{column}", Column(f"{name}.{column}"))
        for name, node in nodes_.items()
        for column in node.schema.names
    )
    predicate = None if where is None else as_expr(where)
    return Stream(
        multi_join(
            nodes_,
            exprs,
            ticks,
            predicate=predicate,
            result=every if select is None else named_columns(select),
        )
    )


def keys_by_name(
    on: Mapping[str, str | Sequence[str]] | str | Sequence[str],
    streams: Mapping[str, Stream],
    what: str,
) -> dict[str, tuple[Expr, ...]]:
    """The keys of each stream: columns that all have, or given for each."""
    given = (
        {name: on.get(name, ()) for name in streams}
        if isinstance(on, Mapping)
        else dict.fromkeys(streams, on)
    )
    keys = {
        name: tuple(as_expr(key) for key in ([names] if isinstance(names, str) else names))
        for name, names in given.items()
    }
    if len({len(names) for names in keys.values()}) > 1:
        counts = {name: len(names) for name, names in keys.items()}
        raise PlanError(f"{what}: every stream needs the same number of keys; got {counts}.")
    return keys


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
        return Stream(
            nodes.Detect(
                self.node,
                pattern,
                positive_ticks(within, "detect within"),
                tuple(
                    nodes.Register(name, _arrow_type(kind, f"detect: the register {name!r}"), value)
                    for name, (kind, value) in typed.items()
                ),
                self.keys,
                overlap,
                simultaneous,
            )
        )

    def __repr__(self) -> str:
        return f"<GroupedStream by {', '.join(self.keys)} of ({_show(self.node.schema)})>"

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
        node, window = sliding_windows(self.node, size, hop, over, _names(partition_by), origin)
        return self._windowed(node, window, _names(partition_by))

    def landmark(
        self,
        hop: Size,
        *,
        over: str | Rows | Rank | Arrival = "ts",
        partition_by: str | Sequence[str] = (),
        origin: Duration = 0,
    ) -> WindowedStream:
        """Windows of everything so far, in each of them the groups."""
        node, window = landmark_windows(self.node, hop, over, _names(partition_by), origin)
        return self._windowed(node, window, _names(partition_by))

    def slide_by_tuple(
        self,
        size: Duration,
        *,
        every: int = 1,
        order: Rows | Rank | None = None,
        partition_by: str | Sequence[str] = (),
    ) -> WindowedStream:
        """Windows that end at tuples of the whole stream, in each of them the groups."""
        node, window = by_tuple_windows(self.node, size, every, order, _names(partition_by))
        return self._windowed(node, window, _names(partition_by))

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
        return self._windowed(node, window, _names(partition_by))

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
        return Stream(
            nodes.SessionLifetime(
                self.node, positive_ticks(timeout, "session_lifetime timeout"), longest, self.keys
            )
        )

    def edges(self) -> Stream:
        """Each row lasts until the next row of its group starts."""
        return Stream(self.node).edges(self.keys)

    def top_k(
        self, k: int, *, by: ExprLike, descending: bool = True, rank: str | None = None
    ) -> Stream:
        """At every instant, the rows of each group with the k best values of `by`."""
        return self.snapshot().top_k(k, by=by, descending=descending, rank=rank)

    def apply(self, query: Callable[[Stream], Stream], *, select: Columns | None = None) -> Stream:
        """Any query, for each group by itself."""
        return Stream(self.node).group_apply(self.keys, query, select=select)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class WindowedStream:
    """A stream in windows (of groups), waiting for what to compute in each."""

    node: Node
    keys: tuple[str, ...]
    window: Window | WindowKind
    partition: tuple[str, ...] = ()
    expected: Volume | None = None
    table: Table | None = None
    sources: str | None = None
    filled: tuple[tuple[Any, ...], ...] | None = None
    id_column: str | None = None
    strategy: str | None = None

    def __repr__(self) -> str:
        grouped = f" by {', '.join(self.keys)}" if self.keys else ""
        return f"<WindowedStream {self.window}{grouped} of ({_show(self.node.schema)})>"

    def __getattr__(self, name: str) -> NoReturn:
        raise unknown_method(self, name)

    def expecting(
        self, *, tuples: float | None = None, groups: float = 1, sources: str | None = None
    ) -> WindowedStream:
        """The same windows, with the number of tuples a window and groups a pane to expect: what
        the choice of an evaluation rests on.

        `sources` names the column that tells where a row came from, where some sources are behind
        others: an adaptive evaluation then takes into account what has not come yet.
        """
        return replace(
            self, expected=None if tuples is None else Volume(tuples, groups), sources=sources
        )

    def two_level(
        self, slots: int, *, flush: str = "lazy", every: int = 160, late: int = 2
    ) -> WindowedStream:
        """The same windows, summed in a table of fixed size first, then rolled up.

        A sum leaves the table when its place is needed, and at most `late` windows after its own is
        over: `flush` "lazy" leaves it at that, "slow" sends one such sum for every `every` rows,
        "at end" all of them when a window ends.
        """
        return replace(self, table=Table(slots, flush, every, late))

    def fill(self, groups: Iterable[Any] | None = None) -> WindowedStream:
        """The same windows, also where they are empty: `groups` lists those that get a row for empty
        windows too (values, or tuples for several keys); a stream without groups needs none."""
        if isinstance(self.window, WindowKind):
            raise WindowError(
                f"fill: only hopping and tumbling windows have empty windows to fill, not {self.window}."
            )
        return replace(self, filled=_filled(self.node.schema, self.keys, groups))

    def with_id(self, name: str) -> WindowedStream:
        """The same windows; `name` is the column for a window's id, where windows have one."""
        if not isinstance(self.window, WindowKind):
            raise WindowError(
                f"with_id: the id of a window of {self.window} is its start; read `_start` of the answers."
            )
        return replace(self, id_column=name)

    def using(self, strategy: str) -> WindowedStream:
        """The same windows, evaluated in one of the ways that `explain` lists; without it the
        cheapest is taken."""
        return replace(self, strategy=strategy)

    def aggregate(
        self,
        aggregates: Mapping[str, AggregateCall | ModuleUse] | None = None,
        /,
        **named: AggregateCall | ModuleUse,
    ) -> Stream:
        """One row for each window that has rows: the keys and the aggregates, `n=count(),
        total=sum_("x")`, or the same as a mapping of any names. A user's own aggregate stands among
        them as `tw.module(...)`.

        How windows are evaluated, filled and numbered is said before: `using`, `fill`, `with_id`.
        """
        given = {**(aggregates or {}), **named}
        if any(isinstance(one, ModuleUse) for one in given.values()):
            return self._with_modules(given)
        calls = tuple(given.items())
        checked: list[tuple[str, AggregateCall]] = []
        for name, call in calls:
            if isinstance(call, AggregateCall):
                checked.append((name, self._read(call)))
            else:
                raise PlanError(
                    f"aggregate: {name}={call!r} is not an aggregate; write {name}=count() or {name}=sum_('column').{_moved(name)}"
                )
        plain = tuple(checked)
        if isinstance(self.window, WindowKind):
            return Stream(
                nodes.WidAggregate(
                    self.node,
                    self.window,
                    plain,
                    self.keys,
                    self.partition,
                    self.id_column,
                    self.strategy,
                )
            )
        whole = nodes.WindowAggregate(
            self.node,
            self.window,
            plain,
            self.keys,
            self.filled,
            self.strategy,
            self.expected,
            self.sources,
        )
        if self.table is None:
            return Stream(whole)
        halves = in_panes(whole, self.table)
        if halves is None:
            raise WindowError(
                "two_level: partial sums need counts or sums of whole numbers, windows whose size is a multiple of their hop, and no fill."
            )
        return Stream(halves)

    def _with_modules(self, given: Mapping[str, AggregateCall | ModuleUse]) -> Stream:
        """Aggregates of both sorts: each module by itself, joined where group and window are the
        same."""
        plain = {name: one for name, one in given.items() if not isinstance(one, ModuleUse)}
        parts = [self.aggregate(plain).node] if plain else []
        for name, one in given.items():
            if isinstance(one, ModuleUse):
                mapping = [dict(one.named)] if one.named else []
                parts.append(
                    self.apply(
                        one.module, *one.columns, *mapping, params=one.params, name=name
                    ).node
                )
        return Stream(side_by_side(parts, self.keys)).select(*self.keys, *given)

    def _read(self, call: AggregateCall) -> AggregateCall:
        """An aggregate over the rows of this stream, as its user means it."""

        def read(expr: Expr | None) -> Expr | None:
            return None if expr is None else understood(expr, self.node)

        return replace(call, of=read(call.of), by=read(call.by), where=read(call.where))

    def apply(
        self,
        module: ModuleLike,
        /,
        *columns: ExprLike | Mapping[str, ExprLike],
        params: Mapping[str, Any] | None = None,
        clip: str | None = None,
        stamp: str | None = None,
        on_error: str = "fail",
        time_limit: Duration | None = "1 min",
        name: str | None = None,
        **named: ExprLike,
    ) -> Stream:
        """What a module makes of each window: by its name, or the function or class itself.

        `columns`, or `input=expression` (or a mapping), say what the module's inputs are; without
        any it gets the columns of the same names. `params` initialise it. `clip` (none, left, right, full) cuts the
        lifetimes that it sees, `stamp` (align, keep, clip, time-bound, unrestricted) says how long
        its output lives; both are the module's choice unless given. `on_error` is `fail` or `skip`;
        a call that takes longer than `time_limit` is an error. `name` is the column of an
        aggregate.
        """
        plain = [column for column in columns if not isinstance(column, Mapping)]
        for mapping in (column for column in columns if isinstance(column, Mapping)):
            named = {**mapping, **named}
        return Stream(
            apply_node(
                self.node,
                self.window,
                self.keys,
                module,
                plain,
                named,
                params,
                clip,
                stamp,
                on_error,
                time_limit,
                name,
            )
        )

    def top_k(
        self, k: int, *, by: ExprLike, descending: bool = True, rank: str | None = None
    ) -> Stream:
        """The rows of each window with the k best values of `by`; ties are kept whole."""
        if isinstance(k, bool) or not isinstance(k, int):
            raise WindowError(f"top_k: k must be a whole number; got {k!r}.")
        if isinstance(self.window, SessionWindow):
            raise WindowError(
                "top_k: sessions have no ranking; use snapshot, tumbling or hopping windows."
            )
        if isinstance(self.window, WindowKind):
            raise WindowError(
                f"top_k: {self.window} has no ranking; use snapshot, tumbling or hopping windows."
            )
        return Stream(
            nodes.TopK(self.node, k, as_expr(by), descending, rank, self.keys, self.window)
        )


# ---------------------------------------------------------------------------------------------------------
# arguments


class MarkedWindows(WindowedStream):
    """Whole windows that an update queue serves. All rows of a window start where it does, and that
    is their mark: rows of one key and start are those of a window, whichever windows overlap it."""

    def aggregate(
        self,
        aggregates: Mapping[str, AggregateCall | ModuleUse] | None = None,
        /,
        **named: AggregateCall | ModuleUse,
    ) -> Stream:
        """As `WindowedStream.aggregate`; one row for each window that was served."""
        source = self.node
        assert isinstance(source, nodes.Source) and source.conflation is not None
        assert source.conflation.window is not None
        answers = super().aggregate(aggregates, **named)
        return answers.set_duration(source.conflation.window.size)


def _show(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _names(columns: str | Sequence[str]) -> tuple[str, ...]:
    return (columns,) if isinstance(columns, str) else tuple(columns)


def _known(name: str, schema: pa.Schema, what: str) -> None:
    if name not in schema.names:
        raise UnknownColumnError(name, schema.names, what)


def _schema(columns: pa.Schema | Mapping[str, str | pa.DataType], where: str) -> pa.Schema:
    if isinstance(columns, pa.Schema):
        # a file may say that a column has no nulls; a stream does not promise that of rows to come
        return pa.schema([field.with_nullable(True) for field in columns])
    if not isinstance(columns, Mapping):
        raise PlanError(
            f"{where}: columns must be a pyarrow schema or {{'name': 'type'}}; got {columns!r}."
        )
    return pa.schema([(column, _arrow_type(kind, where)) for column, kind in columns.items()])


def _arrow_type(kind: str | pa.DataType, where: str) -> pa.DataType:
    if isinstance(kind, pa.DataType):
        return kind
    try:
        return pa.type_for_alias(_TYPE_NAMES.get(kind, kind))
    except (ValueError, TypeError):
        hint = did_you_mean(str(kind), [*_ARROW_NAMES, *_TYPE_NAMES])
        raise TypeMismatchError(
            f"{where}: unknown type {kind!r}{hint} Types: {', '.join(_ARROW_NAMES)}, or a pyarrow type."
        ) from None


def _not_negative(value: Duration, what: str) -> int:
    ticks = duration_us(value, what=what)
    if ticks < 0:
        raise WindowError(f"{what} must not be negative; got {value!r}.")
    return ticks


def _duration_or_expr(value: Duration | Expr | None) -> Duration | Expr | None:
    """Text that reads as a duration is one; other text is an expression."""
    if not isinstance(value, str) or value == "forever":
        return value
    try:
        return duration_us(value)
    except WindowError:
        try:
            found = as_expr(value)
        except ExpressionError:
            return value  # the mistake is in a duration: its own message is the better one
        return found if found.columns() else value


def _lasting(duration: Duration | None, what: str) -> int:
    endless = duration is None or duration == "forever" or duration == INFINITY
    return INFINITY if endless else positive_ticks(duration, what)  # type: ignore[arg-type]


def require_stream(value: object, what: str) -> Stream:
    if not isinstance(value, Stream):
        hint = (
            " Finish it with .aggregate(...) or .top_k(...)."
            if isinstance(value, WindowedStream | GroupedStream)
            else ""
        )
        raise PlanError(f"{what} must be a stream; got {value!r}.{hint}")
    return value


def named_columns(columns: Columns) -> Named:
    if isinstance(columns, Mapping):
        return tuple((name, as_expr(value)) for name, value in columns.items())
    return tuple((name.split(".")[-1], as_expr(name)) for name in columns)


def _pairs(on: On) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    if on is None:
        return (), ()
    if isinstance(on, Mapping):
        return tuple(as_expr(key) for key in on), tuple(as_expr(value) for value in on.values())
    both = tuple(as_expr(key) for key in ([on] if isinstance(on, str | Expr) else on))
    return both, both


def _shared_keys(left_keys: tuple[Expr, ...], right_keys: tuple[Expr, ...]) -> set[str]:
    """The columns that are keys under one name on both sides: the result has them once."""
    pairs = zip(left_keys, right_keys, strict=True)
    return {
        one.name
        for one, two in pairs
        if isinstance(one, Column) and isinstance(two, Column) and one.name == two.name
    }


def _default_result(left: pa.Schema, right: pa.Schema, shared: set[str]) -> Named:
    mine = [(name, Column(f"l.{name}")) for name in left.names]
    theirs = [
        (f"{name}_right" if name in left.names else name, Column(f"r.{name}"))
        for name in right.names
        if name not in shared
    ]
    return (*mine, *theirs)


def _moved(name: str) -> str:
    """Where an option went that used to be an argument of `aggregate`."""
    method = {"fill": "fill(...)", "wid": 'with_id("w")', "strategy": 'using("panes")'}.get(name)
    return "" if method is None else f" The option is a method before it: .{method}.aggregate(...)."


def _filled(
    schema: pa.Schema, keys: tuple[str, ...], fill: Iterable[Any] | None
) -> tuple[tuple[Any, ...], ...]:
    if fill is None:
        if keys:
            raise PlanError(f"fill: say which groups: a list of values of {', '.join(keys)}.")
        return ((),)
    if not keys:
        raise PlanError("fill: this stream has no groups; write fill().")
    groups = tuple(group if isinstance(group, tuple) else (group,) for group in fill)
    types = [schema.field(key).type for key in keys]
    for group in groups:
        if len(group) != len(types):
            raise PlanError(
                f"fill: the group {group!r} must have a value for each of {', '.join(keys)}."
            )
        for key, value, kind in zip(keys, group, types, strict=True):
            try:
                pa.scalar(value, kind)
            except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError) as reason:
                raise TypeMismatchError(
                    f"fill: {value!r} is not a value of the key {key!r}, which is {kind}."
                ) from reason
    return groups
