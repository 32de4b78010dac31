"""Logical nodes: what a query means, without a word about how it runs.

Every node is frozen and checked when it is built: schemas, types and windows that make no sense are refused here, with
the user's file and line. A node used twice in a query is one node: plans are DAGs, compared by identity.

In the formulas R is the table (bag of rows (s, e, p)) of the input, and R' the table of the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any

import pyarrow as pa

from thalweg.errors import PlanError, TypeMismatchError, UnknownColumnError, WindowError
from thalweg.expr import Expr
from thalweg.model.batch import CONTROL_COLUMNS
from thalweg.model.time import INFINITY
from thalweg.plan.aggregates import AggregateCall
from thalweg.plan.properties import StreamProperties
from thalweg.windows import HoppingWindow, SessionWindow, SnapshotWindow, Window

__all__ = [
    "AlterLifetime",
    "Chop",
    "ClipBy",
    "ClipDuration",
    "Distinct",
    "Extend",
    "GroupApply",
    "GroupInput",
    "HoppingLifetime",
    "Ingress",
    "Join",
    "Named",
    "Node",
    "PointAtEnd",
    "Quantize",
    "Select",
    "SelectMany",
    "SessionLifetime",
    "SetDuration",
    "Shift",
    "Source",
    "Stitch",
    "TopK",
    "Union",
    "Where",
    "WindowAggregate",
    "lifetime_schema",
    "walk",
]

Named = tuple[tuple[str, Expr], ...]
"""Output columns in order: name and expression."""

JOIN_KINDS = ("inner", "left", "full", "semi", "anti")


@dataclass(frozen=True, eq=False)
class Node:
    """The base of all nodes. Subclasses set `schema` and `properties` when they are built."""

    schema: pa.Schema = field(init=False, repr=False)
    properties: StreamProperties = field(init=False, repr=False)

    @property
    def inputs(self) -> tuple[Node, ...]:
        return tuple(getattr(self, f.name) for f in fields(self) if f.init and isinstance(getattr(self, f.name), Node))

    @property
    def label(self) -> str:
        """The operator's name in `explain()` and in operator ids."""
        name = type(self).__name__
        return "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_")

    def _settle(self, schema: pa.Schema, properties: StreamProperties) -> None:
        if not len(schema):
            raise PlanError(f"{self.label}: a stream needs at least one column.")
        clash = [n for n in schema.names if n in CONTROL_COLUMNS]
        if clash:
            raise PlanError(f"{self.label}: {clash[0]!r} is the name of a control column; choose another.")
        double = {n for n in schema.names if schema.names.count(n) > 1}
        if double:
            raise PlanError(f"{self.label}: the column {min(double)!r} would appear twice; rename one of them.")
        object.__setattr__(self, "schema", schema)
        object.__setattr__(self, "properties", properties)


def lifetime_schema(schema: pa.Schema, *, with_end: bool = False) -> pa.Schema:
    """A payload schema plus the columns that expressions may read: `_start`, and `_end` where it is safe."""
    extra = [pa.field("_start", pa.int64())] + ([pa.field("_end", pa.int64())] if with_end else [])
    return pa.schema([*schema, *extra])


def _condition(expr: Expr, schema: pa.Schema, what: str) -> None:
    kind = expr.type_in(schema)
    if not (pa.types.is_boolean(kind) or pa.types.is_null(kind)):
        raise TypeMismatchError(f"{what} must be a condition (true or false); {expr} is {kind}.")


def _columns(columns: Named, schema: pa.Schema) -> pa.Schema:
    return pa.schema([(name, expr.type_in(schema)) for name, expr in columns])


def _known(names: tuple[str, ...], schema: pa.Schema, what: str) -> None:
    for name in names:
        if name not in schema.names:
            raise UnknownColumnError(name, schema.names, what)


# ---------------------------------------------------------------------------------------------------------- sources


@dataclass(frozen=True, slots=True)
class Ingress:
    """How a source's events are admitted: what is late, what becomes of it, which promises are made.

    An event is late when its sync time lies before the source's current promise: the latest CTI, or, with
    `disorder` d, the largest sync time seen so far minus d (per partition when `partition` names a column).
    """

    late: str = "error"
    """`error`, `drop`, `adjust` (moved to the promise; dropped when nothing is left of it) or `side` (to the ledger only)."""
    disorder: int | None = None
    """How much earlier than the newest event an event may be; None: only CTIs in the data make promises."""
    period: int | None = None
    """Promises made from `disorder` are rounded down to a multiple of this."""
    partition: str | None = None
    """The column whose values have timelines of their own."""
    low_watermark: tuple[int, int] | None = None
    """With `partition`: (period, lag); a common promise at multiples of period, lag behind the newest event of any partition."""


@dataclass(frozen=True, eq=False)
class Source(Node):
    """A stream from outside. R is what its elements say."""

    name: str
    columns: pa.Schema
    ingress: Ingress = Ingress()
    declared: StreamProperties = StreamProperties()

    def __post_init__(self) -> None:
        if self.ingress.partition is not None:
            _known((self.ingress.partition,), self.columns, f"source {self.name!r}, partition")
        if self.ingress.late not in ("error", "drop", "adjust", "side"):
            raise PlanError(f"source {self.name!r}: late must be 'error', 'drop', 'adjust' or 'side'; got {self.ingress.late!r}.")
        self._settle(self.columns, self.declared)


@dataclass(frozen=True, eq=False)
class GroupInput(Node):
    """Inside a group-and-apply: the rows of one group."""

    columns: pa.Schema
    facts: StreamProperties

    def __post_init__(self) -> None:
        self._settle(self.columns, self.facts)


# ------------------------------------------------------------------------------------------------- span operators


@dataclass(frozen=True, eq=False)
class Where(Node):
    """R' = {(s, e, p) in R | predicate(p, s)}; a null condition counts as false."""

    input: Node
    predicate: Expr

    def __post_init__(self) -> None:
        _condition(self.predicate, lifetime_schema(self.input.schema), "where")
        self._settle(self.input.schema, self.input.properties)


@dataclass(frozen=True, eq=False)
class Select(Node):
    """R' = {(s, e, f(p, s))}."""

    input: Node
    columns: Named

    def __post_init__(self) -> None:
        schema = _columns(self.columns, lifetime_schema(self.input.schema))
        kept = {str(expr.name) for _, expr in self.columns if hasattr(expr, "name")}
        same = set(self.input.schema.names) <= kept
        before = self.input.properties
        groups = (
            before.group_keys
            if all(dict(self.columns).get(k) is not None and str(dict(self.columns)[k]) == k for k in before.group_keys)
            else ()
        )
        whole = groups == before.group_keys  # a start that is unique in its group says nothing once the group is gone
        self._settle(
            schema,
            before.but(
                unique_start=before.unique_start and whole,
                payload_start_key=whole and (before.unique_start or (before.payload_start_key and same)),
                group_ctis=before.group_ctis and bool(groups or same),
                group_keys=groups,
            ),
        )


@dataclass(frozen=True, eq=False)
class SelectMany(Node):
    """Each row becomes `repeat(p, s)` copies of (s, e, f(p, s)); or one per item of the list column `unnest`."""

    input: Node
    columns: Named
    repeat: Expr | None = None
    unnest: str | None = None

    def __post_init__(self) -> None:
        schema = lifetime_schema(self.input.schema)
        if (self.repeat is None) == (self.unnest is None):
            raise PlanError("select_many: give either repeat= or unnest=.")
        if self.repeat is not None and not pa.types.is_integer(self.repeat.type_in(schema)):
            raise TypeMismatchError(f"select_many: repeat must be a whole number; {self.repeat} is {self.repeat.type_in(schema)}.")
        if self.unnest is not None:
            schema = self.unnested_schema()
        before = self.input.properties
        self._settle(_columns(self.columns, schema), before.but(unique_start=False, payload_start_key=False, group_ctis=False))

    def unnested_schema(self) -> pa.Schema:
        """What the column expressions of an unnest see: the list column holds one item."""
        assert self.unnest is not None
        _known((self.unnest,), self.input.schema, "select_many")
        kind = self.input.schema.field(self.unnest).type
        if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
            raise TypeMismatchError(f"select_many: unnest needs a list column; {self.unnest!r} is {kind}.")
        fields_ = [pa.field(f.name, kind.value_type) if f.name == self.unnest else f for f in self.input.schema]
        return lifetime_schema(pa.schema(fields_))


@dataclass(frozen=True, eq=False)
class SetDuration(Node):
    """R' = {(s, s + ticks, p)}; infinite ticks: [s, infinity)."""

    input: Node
    ticks: int

    def __post_init__(self) -> None:
        if self.ticks <= 0:
            raise WindowError(f"set_duration: a duration must be positive; got {self.ticks}.")
        known = None if self.ticks == INFINITY else self.ticks
        self._settle(self.input.schema, self.input.properties.but(constant_duration=known, firm_ends=True))


@dataclass(frozen=True, eq=False)
class AlterLifetime(Node):
    """R' = {(f(s, p), f(s, p) + ticks, p)}: starts from an expression over `_start` and the payload, one duration for all."""

    input: Node
    start: Expr
    ticks: int

    def __post_init__(self) -> None:
        if self.ticks <= 0:
            raise WindowError(f"alter_lifetime: a duration must be positive; got {self.ticks}.")
        kind = self.start.type_in(lifetime_schema(self.input.schema))
        if not pa.types.is_integer(kind):
            raise TypeMismatchError(f"alter_lifetime: the start must be a whole number of ticks; {self.start} is {kind}.")
        known = None if self.ticks == INFINITY else self.ticks
        before = self.input.properties
        self._settle(
            self.input.schema,
            before.but(
                ordered=False, unique_start=False, payload_start_key=False, constant_duration=known, firm_ends=True, group_ctis=False
            ),
        )


@dataclass(frozen=True, eq=False)
class Shift(Node):
    """R' = {(s + by, e + by, p)}; `by` is a constant or an expression over `_start` and the payload."""

    input: Node
    by: int | Expr

    def __post_init__(self) -> None:
        before = self.input.properties
        if isinstance(self.by, Expr):
            kind = self.by.type_in(lifetime_schema(self.input.schema))
            if not pa.types.is_integer(kind):
                raise TypeMismatchError(f"shift: the amount must be a whole number of ticks; {self.by} is {kind}.")
            before = before.but(ordered=False, unique_start=False, payload_start_key=False, group_ctis=False)
        self._settle(self.input.schema, before)


@dataclass(frozen=True, eq=False)
class Extend(Node):
    """R' = {(s, e + by, p) | e + by > s}; `by` may be negative."""

    input: Node
    by: int

    def __post_init__(self) -> None:
        before = self.input.properties
        duration = None if before.constant_duration is None else before.constant_duration + self.by
        self._settle(self.input.schema, before.but(ordered=before.ordered and self.by >= 0, constant_duration=duration))


@dataclass(frozen=True, eq=False)
class ClipDuration(Node):
    """R' = {(s, min(e, s + limit), p)}."""

    input: Node
    limit: int

    def __post_init__(self) -> None:
        if self.limit <= 0:
            raise WindowError(f"clip_duration: the limit must be positive; got {self.limit}.")
        before = self.input.properties
        known = before.constant_duration
        self._settle(self.input.schema, before.but(constant_duration=None if known is None else min(known, self.limit)))


@dataclass(frozen=True, eq=False)
class PointAtEnd(Node):
    """R' = {(e, e + 1, p) | e finite}."""

    input: Node

    def __post_init__(self) -> None:
        before = self.input.properties
        known = before.constant_duration is not None
        self._settle(
            self.input.schema,
            before.but(
                ordered=before.ordered and known,
                unique_start=before.unique_start and known,
                payload_start_key=before.payload_start_key and known,
                constant_duration=1,
                firm_ends=True,
            ),
        )


@dataclass(frozen=True, eq=False)
class Chop(Node):
    """Each row is cut at every grid point offset + k * period strictly inside its lifetime.

    A row without an end is cut as far as progress reaches."""

    input: Node
    period: int
    offset: int = 0

    def __post_init__(self) -> None:
        if self.period <= 0:
            raise WindowError(f"chop: the period must be positive; got {self.period}.")
        before = self.input.properties
        self._settle(
            self.input.schema,
            before.but(
                ordered=False,
                unique_start=False,
                payload_start_key=False,
                constant_duration=None,
                insert_only=before.insert_only and before.constant_duration is not None,
            ),
        )


@dataclass(frozen=True, eq=False)
class HoppingLifetime(Node):
    """Trill's hopping window: (s, e, p) -> (ceil(s), ceil(s + size), p) on the grid offset + k * hop; the end is ignored.

    Where windows have gaps (size < hop): (T, T + size, p) with T = ceil(s) if s > T - size, and no row otherwise.
    """

    input: Node
    size: int
    hop: int
    offset: int = 0

    def __post_init__(self) -> None:
        if self.size <= 0 or self.hop <= 0:
            raise WindowError(f"hopping_lifetime: size and hop must be positive; got {self.size} and {self.hop}.")
        before = self.input.properties
        known = self.size if self.size % self.hop == 0 else None
        self._settle(
            self.input.schema,
            before.but(unique_start=False, payload_start_key=False, constant_duration=known, firm_ends=True),
        )


@dataclass(frozen=True, eq=False)
class Quantize(Node):
    """Trill's quantize: (s, e, p) -> (floor(s, g), max(ceil(e, hop), floor(s + size, hop)), p); g is `progress` or hop."""

    input: Node
    size: int
    hop: int
    progress: int | None = None
    offset: int = 0

    def __post_init__(self) -> None:
        if self.size <= 0 or self.hop <= 0 or (self.progress is not None and self.progress <= 0):
            raise WindowError("quantize: size, hop and progress must be positive.")
        if self.progress is not None and self.hop % self.progress:
            raise WindowError(f"quantize: hop {self.hop} must be a multiple of progress {self.progress}.")
        before = self.input.properties
        self._settle(
            self.input.schema,
            before.but(ordered=False, unique_start=False, payload_start_key=False, constant_duration=None),
        )


@dataclass(frozen=True, eq=False)
class SessionLifetime(Node):
    """Trill's session: (s, e, p) -> (s, session end, p). The running form: every row lives until its session closes.

    The starts of a group, in order, form chains: the next start belongs to the chain while it is less than `timeout`
    after the previous one. A row ends `timeout` after the last start of its chain. With `max_duration` m the chain is
    also cut on a fixed grid: at L, L + m, L + 2m, ... where L is the first multiple of m after the chain's first start
    if that start is itself a multiple, and the second if it is not; a row ends at the first cut after its start if
    that comes before the end of the chain.
    """

    input: Node
    timeout: int
    max_duration: int | None = None
    keys: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.timeout <= 0 or (self.max_duration is not None and self.max_duration <= 0):
            raise WindowError("session_lifetime: timeout and max_duration must be positive.")
        _known(self.keys, self.input.schema, "session_lifetime")
        before = self.input.properties
        self._settle(self.input.schema, before.but(ordered=False, insert_only=False, constant_duration=None, firm_ends=False))


@dataclass(frozen=True, eq=False)
class Union(Node):
    """R' = R1 + R2 as bags. Nobody waits for anybody; the CTI is the smaller of the two."""

    left: Node
    right: Node

    def __post_init__(self) -> None:
        if self.left.schema.names != self.right.schema.names or self.left.schema.types != self.right.schema.types:
            raise TypeMismatchError(f"union: the columns differ: {_show(self.left.schema)} and {_show(self.right.schema)}.")
        one, two = self.left.properties, self.right.properties
        same = one.constant_duration == two.constant_duration
        self._settle(
            self.left.schema,
            StreamProperties(
                insert_only=one.insert_only and two.insert_only,
                constant_duration=one.constant_duration if same else None,
                firm_ends=one.firm_ends and two.firm_ends,
                group_ctis=one.group_ctis and two.group_ctis,
            ),
        )


def _show(schema: pa.Schema) -> str:
    return "(" + ", ".join(f"{f.name} {f.type}" for f in schema) + ")"


# ------------------------------------------------------------------------------------------------ stateful operators


@dataclass(frozen=True, eq=False)
class Join(Node):
    """Rows of both sides with equal keys, a true predicate and overlapping lifetimes.

    inner:  {([s1, e1) ∩ [s2, e2), result(p1, p2))}
    semi:   each left row, restricted to the union of the lifetimes of its matches (maximal pieces)
    anti:   each left row, minus that union
    left:   inner, and the anti pieces as left_only(p1)
    full:   left, and the anti pieces of the right side as right_only(p2)
    """

    left: Node
    right: Node
    left_keys: tuple[Expr, ...]
    right_keys: tuple[Expr, ...]
    predicate: Expr | None = None
    how: str = "inner"
    result: Named = ()
    left_only: Named = ()
    right_only: Named = ()
    same: tuple[str, ...] = ()
    """Columns of both sides that must be identical too, null being identical to null: the keys of a group."""

    def __post_init__(self) -> None:
        if self.how not in JOIN_KINDS:
            raise PlanError(f"join: how must be one of {', '.join(JOIN_KINDS)}; got {self.how!r}.")
        for one, two in zip(self.left_keys, self.right_keys, strict=True):
            kinds = one.type_in(lifetime_schema(self.left.schema)), two.type_in(lifetime_schema(self.right.schema))
            if not _comparable(*kinds):
                raise TypeMismatchError(f"join: {one} is {kinds[0]} and {two} is {kinds[1]}; keys must be of one type.")
        both = self.pair_schema()
        if self.predicate is not None:
            _condition(self.predicate, both, "join predicate")
        if self.how in ("semi", "anti"):
            schema = self.left.schema
        else:
            schema = _columns(self.result, both)
            if self.how in ("left", "full"):
                schema = _same(schema, _columns(self.left_only, lifetime_schema(self.left.schema)), "left_only")
            if self.how == "full":
                schema = _same(schema, _columns(self.right_only, lifetime_schema(self.right.schema)), "right_only")
        one_, two_ = self.left.properties, self.right.properties
        inserts = one_.insert_only and two_.insert_only and self.how == "inner"
        self._settle(schema, StreamProperties(insert_only=inserts, firm_ends=inserts))

    def pair_schema(self) -> pa.Schema:
        """What the predicate and the result expressions see: `l.x`, `r.x`, and each name alone where only one side has it."""
        fields_ = [pa.field(f"l.{f.name}", f.type) for f in self.left.schema] + [pa.field(f"r.{f.name}", f.type) for f in self.right.schema]
        fields_ += [f for f in self.left.schema if f.name not in self.right.schema.names]
        fields_ += [f for f in self.right.schema if f.name not in self.left.schema.names]
        fields_ += [pa.field("l._start", pa.int64()), pa.field("r._start", pa.int64())]
        return pa.schema(fields_)


def _comparable(one: pa.DataType, two: pa.DataType) -> bool:
    return bool(one == two or (pa.types.is_integer(one) and pa.types.is_integer(two)) or pa.types.is_null(one) or pa.types.is_null(two))


def _same(schema: pa.Schema, other: pa.Schema, what: str) -> pa.Schema:
    """The common schema of rows that come from both sides; a null column takes the other's type."""
    if schema.names != other.names:
        raise TypeMismatchError(f"join: {what} gives the columns {other.names}; the joined rows have {schema.names}.")
    merged = []
    for one, two in zip(schema, other, strict=True):
        if one.type == two.type or pa.types.is_null(two.type):
            merged.append(one)
        elif pa.types.is_null(one.type):
            merged.append(two)
        elif pa.types.is_integer(one.type) and pa.types.is_integer(two.type):
            merged.append(pa.field(one.name, pa.int64()))
        elif (pa.types.is_integer(one.type) or pa.types.is_floating(one.type)) and (
            pa.types.is_integer(two.type) or pa.types.is_floating(two.type)
        ):
            merged.append(pa.field(one.name, pa.float64()))
        else:
            raise TypeMismatchError(f"join: {what} makes {one.name!r} {two.type}; the joined rows have {one.type}.")
    return pa.schema(merged)


@dataclass(frozen=True, eq=False)
class ClipBy(Node):
    """Each left row is cut at the first start, strictly after its own, of a right row with equal keys."""

    left: Node
    right: Node
    left_keys: tuple[Expr, ...]
    right_keys: tuple[Expr, ...]
    same: tuple[str, ...] = ()
    """Columns of both sides that must be identical too, null being identical to null: the keys of a group."""

    def __post_init__(self) -> None:
        for one, two in zip(self.left_keys, self.right_keys, strict=True):
            kinds = one.type_in(lifetime_schema(self.left.schema)), two.type_in(lifetime_schema(self.right.schema))
            if not _comparable(*kinds):
                raise TypeMismatchError(f"clip_by: {one} is {kinds[0]} and {two} is {kinds[1]}; keys must be of one type.")
        before = self.left.properties
        self._settle(
            self.left.schema, before.but(ordered=False, insert_only=False, constant_duration=None, firm_ends=False, group_ctis=False)
        )


@dataclass(frozen=True, eq=False)
class Stitch(Node):
    """Rows of equal payload where one ends exactly when another starts become one row, as often as possible.

    With duplicates: at each time t the rows that end at t, ordered by (start, end), are joined one to one with the rows
    that start at t, ordered by end, as many as there are of the fewer. A chain of joined rows becomes
    [start of its first row, end of its last row).
    """

    input: Node

    def __post_init__(self) -> None:
        before = self.input.properties
        self._settle(self.input.schema, before.but(ordered=False, insert_only=False, constant_duration=None, firm_ends=False))


@dataclass(frozen=True, eq=False)
class Distinct(Node):
    """At every instant each payload once: the snapshots of the rows of equal payload."""

    input: Node

    def __post_init__(self) -> None:
        before = self.input.properties
        self._settle(
            self.input.schema,
            StreamProperties(payload_start_key=True, group_ctis=before.group_ctis, group_keys=before.group_keys),
        )


@dataclass(frozen=True, eq=False)
class TopK(Node):
    """Per window (snapshot unless told), the rows whose rank by `by` is at most k; ties are kept whole.

    rank = 1 + the number of rows of the window that are strictly better. Output rows live as long as the window.
    """

    input: Node
    k: int
    by: Expr
    descending: bool = True
    rank: str | None = None
    keys: tuple[str, ...] = ()
    window: Window = SnapshotWindow()

    def __post_init__(self) -> None:
        if self.k <= 0:
            raise WindowError(f"top_k: k must be positive; got {self.k}.")
        if isinstance(self.window, SessionWindow):
            raise WindowError("top_k: sessions have no top-k; use a snapshot, tumbling or hopping window.")
        self.by.type_in(lifetime_schema(self.input.schema))
        _known(self.keys, self.input.schema, "top_k")
        schema = self.input.schema
        if self.rank is not None:
            schema = pa.schema([*schema, pa.field(self.rank, pa.int64())])
        self._settle(schema, StreamProperties(group_keys=self.keys, group_ctis=self.input.properties.group_ctis))


@dataclass(frozen=True, eq=False)
class WindowAggregate(Node):
    """Per group and window with at least one row: (window start, window end, keys + aggregates).

    `fill` names groups that get a row (count 0, other aggregates null) for empty windows too, between the first and the
    last window that is not empty for any group.
    """

    input: Node
    window: Window
    aggregates: tuple[tuple[str, AggregateCall], ...]
    keys: tuple[str, ...] = ()
    fill: tuple[tuple[Any, ...], ...] | None = None

    def __post_init__(self) -> None:
        _known(self.keys, self.input.schema, "aggregate")
        if not self.aggregates:
            raise PlanError("aggregate: name at least one aggregate, such as n=count().")
        if self.fill is not None and not isinstance(self.window, HoppingWindow):
            raise WindowError("fill: only hopping and tumbling windows have empty windows to fill.")
        seen = lifetime_schema(self.input.schema)
        key_fields = [self.input.schema.field(name) for name in self.keys]
        results = [pa.field(name, call.type_in(seen)) for name, call in self.aggregates]
        hop = isinstance(self.window, HoppingWindow)
        size = self.window.size if isinstance(self.window, HoppingWindow) else None
        self._settle(
            pa.schema([*key_fields, *results]),
            StreamProperties(
                unique_start=True,
                payload_start_key=True,
                constant_duration=size,
                firm_ends=hop or isinstance(self.window, SessionWindow),
                group_keys=self.keys,
                group_ctis=self.input.properties.group_ctis,
            ),
        )


@dataclass(frozen=True, eq=False)
class GroupApply(Node):
    """For each distinct value of the keys, the inner query over the rows of that group; then the keys are put in front.

    `group` is the leaf that stands for the group's rows inside `inner`.
    """

    input: Node
    keys: Named
    group: GroupInput
    inner: Node
    result: Named | None = None

    def __post_init__(self) -> None:
        seen = lifetime_schema(self.input.schema)
        keys = _columns(self.keys, seen)
        if self.group not in set(walk(self.inner)):
            raise PlanError("group_apply: the inner query does not use the group it was given.")
        if self.result is None:
            fields_ = [*keys, *(f for f in self.inner.schema if f.name not in keys.names)]
            schema = pa.schema(fields_)
        else:
            schema = _columns(self.result, lifetime_schema(self.result_schema()))
        before = self.inner.properties
        if self.result is None:
            names = tuple(name for name, _ in self.keys)
            self._settle(schema, before.but(group_keys=(*names, *before.group_keys), ordered=False))
        else:
            self._settle(schema, before.but(group_keys=(), ordered=False, unique_start=False, payload_start_key=False, group_ctis=False))

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def result_schema(self) -> pa.Schema:
        """What `result` sees: `key_<name>` for each key, then the inner columns."""
        keys = _columns(self.keys, lifetime_schema(self.input.schema))
        return pa.schema([*(pa.field(f"key_{f.name}", f.type) for f in keys), *self.inner.schema])


def walk(root: Node) -> Iterator[Node]:
    """Every node once, inputs before the nodes that read them; into the inner query of a group-and-apply too."""
    seen: set[Node] = set()
    stack: list[tuple[Node, bool]] = [(root, False)]
    while stack:
        node, ready = stack.pop()
        if ready:
            yield node
            continue
        if node in seen:
            continue
        seen.add(node)
        stack.append((node, True))
        below = (*node.inputs, node.inner) if isinstance(node, GroupApply) else node.inputs
        stack.extend((child, False) for child in reversed(below))
