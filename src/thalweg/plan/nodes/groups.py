"""Nodes whose result depends on several rows: chains of rows, windows, top-k, group-and-apply."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import pyarrow as pa

from thalweg.errors import PlanError, WindowError
from thalweg.expr import Expr
from thalweg.model.clocks import lasting
from thalweg.plan.aggregates import AggregateCall, require_order
from thalweg.plan.expressions import Keys
from thalweg.plan.nodes.base import (
    Grid,
    Named,
    Node,
    columns_schema,
    lifetime_schema,
    require_known,
)
from thalweg.plan.nodes.families import GroupedOperator, by_columns, columns_of
from thalweg.plan.nodes.rows import show_columns
from thalweg.plan.nodes.sources import GroupInput
from thalweg.plan.nodes.traversal import find, replace, walk
from thalweg.plan.properties import StreamProperties
from thalweg.plan.strategies import Decision, Volume, choose
from thalweg.windows import (
    Category,
    CountWindow,
    HoppingWindow,
    SessionWindow,
    SnapshotWindow,
    Window,
)

__all__ = ["Distinct", "GroupApply", "SessionLifetime", "Stitch", "TopK", "WindowAggregate"]


def show_keys(keys: tuple[str, ...]) -> str:
    """Grouping columns as `explain()` shows them."""
    return f" by {', '.join(keys)}" if keys else ""


def closing_grid(window: object) -> Grid | None:
    """Hopping windows close at their ends, so that below them only promises at `offset + size + k *
    hop` are of use; other windows can use any promise."""
    if not isinstance(window, HoppingWindow):
        return None
    return window.hop, (window.offset + window.size) % window.hop


def window_reach(window: HoppingWindow) -> int:
    """A row belongs to windows that begin before it ends."""
    return window.size + window.hop


def closing_promise(window: object) -> str:
    """What a window can promise, in words."""
    if isinstance(window, HoppingWindow):
        return "the start of the first window that t leaves open"
    return "the start of the first window that t leaves open, at most t"


@dataclass(frozen=True, eq=False)
class SessionLifetime(GroupedOperator):
    """Trill's session: (s, e, p) -> (s, session end, p). The running form: every row lives until
    its session closes.

    The starts of a group, in order, form chains: the next start belongs to the chain while it is
    less than `timeout` after the previous one. A row ends `timeout` after the last start of its
    chain. With `max_duration` m the chain is also cut on a fixed grid: at L, L + m, L + 2m, ...
    where L is the first multiple of m after the chain's first start if that start is itself a
    multiple, and the second if it is not; a row ends at the first cut after its start if that comes
    before the end of the chain.
    """

    input: Node
    timeout: int
    max_duration: int | None = None
    keys: tuple[str, ...] = ()

    never_revises = False
    state = "the rows of sessions that are not closed"
    promise = "t"

    def __post_init__(self) -> None:
        if self.timeout <= 0 or (self.max_duration is not None and self.max_duration <= 0):
            raise WindowError("session_lifetime: timeout and max_duration must be positive.")
        require_known(self.keys, self.input.schema, "session_lifetime")
        self._settle(self.input.schema, self.input.properties.with_new_lifetimes())

    @property
    def grouping(self) -> tuple[str, ...]:
        return self.keys

    @property
    def details(self) -> str:
        longest = f", at most {lasting(self.max_duration)}" if self.max_duration else ""
        return f"timeout {lasting(self.timeout)}{longest}{show_keys(self.keys)}"


@dataclass(frozen=True, eq=False)
class EqualRows(GroupedOperator):
    """What `Stitch` and `Distinct` share: rows of equal payload form a group."""

    never_revises = False
    promise = "t, or the earliest start of a row that may still grow"
    details = ""

    @property
    def grouping(self) -> tuple[str, ...]:
        return tuple(self.schema.names)

    def group_changes(
        self, keys: tuple[str, ...], partitions: list[tuple[str, ...]]
    ) -> dict[str, Any]:
        """The grouping columns are part of the payload."""
        return {}

    @cached_property
    def endless_by(self) -> Node | None:
        return self.inputs[0].endless_by


@dataclass(frozen=True, eq=False)
class Stitch(EqualRows):
    """Rows of equal payload where one ends exactly when another starts become one row, as often as
    possible.

    With duplicates: at each time t the rows that end at t, ordered by (start, end), are joined one
    to one with the rows that start at t, ordered by end, as many as there are of the fewer. A chain
    of joined rows becomes [start of its first row, end of its last row).
    """

    input: Node

    state = "the rows that may still be touched"

    def __post_init__(self) -> None:
        self._settle(self.input.schema, self.input.properties.with_new_lifetimes())


@dataclass(frozen=True, eq=False)
class Distinct(EqualRows):
    """At every instant each payload once: the snapshots of the rows of equal payload."""

    input: Node

    state = "the rows that the CTI has not passed"

    def __post_init__(self) -> None:
        before = self.input.properties
        self._settle(
            self.input.schema,
            StreamProperties(
                payload_start_key=True, group_ctis=before.group_ctis, group_keys=before.group_keys
            ),
        )

    @cached_property
    def progressing(self) -> frozenset[str]:
        return self.input.progressing


@dataclass(frozen=True, eq=False)
class TopK(GroupedOperator):
    """Per window (by default snapshots), the rows whose rank by `by` is at most k; ties are kept
    whole.

    rank = 1 + the number of rows of the window that are strictly better. Output rows live as long
    as the window.
    """

    input: Node
    k: int
    by: Expr
    descending: bool = True
    rank: str | None = None
    keys: tuple[str, ...] = ()
    window: Window = SnapshotWindow()

    never_revises = True
    state = "the rows of windows that are not closed"

    def __post_init__(self) -> None:
        if self.k <= 0:
            raise WindowError(f"top_k: k must be positive; got {self.k}.")
        if isinstance(self.window, CountWindow):
            raise WindowError(
                'top_k: count windows have no top-k of their own; write .apply("top_k", ...).'
            )
        if isinstance(self.window, SessionWindow):
            raise WindowError(
                "top_k: sessions have no top-k; use a snapshot, tumbling or hopping window."
            )
        require_order(self.by.type_in(lifetime_schema(self.input.schema)), f"top_k by {self.by}")
        require_known(self.keys, self.input.schema, "top_k")
        schema = self.input.schema
        if self.rank is not None:
            schema = pa.schema([*schema, pa.field(self.rank, pa.int64())])
        self._settle(
            schema,
            StreamProperties(group_keys=self.keys, group_ctis=self.input.properties.group_ctis),
        )

    @property
    def grouping(self) -> tuple[str, ...]:
        return self.keys

    def useful_promises(self, output_grid: Grid | None) -> Grid | None:
        return closing_grid(self.window)

    @property
    def reach(self) -> int | None:
        return window_reach(self.window) if isinstance(self.window, HoppingWindow) else None

    @property
    def promise(self) -> str:
        return closing_promise(self.window)

    @property
    def details(self) -> str:
        order = "largest" if self.descending else "smallest"
        rank = f", rank as {self.rank}" if self.rank else ""
        return f"{self.k} {order} {self.by}, {self.window}{show_keys(self.keys)}{rank}"


@dataclass(frozen=True, eq=False)
class WindowAggregate(GroupedOperator):
    """Per group and window with at least one row: (window start, window end, keys + aggregates).

    `fill` names groups that get a row (count 0, other aggregates null) for empty windows too,
    between the first and the last window that is not empty for any group.
    """

    input: Node
    window: Window
    aggregates: tuple[tuple[str, AggregateCall], ...]
    keys: tuple[str, ...] = ()
    fill: tuple[tuple[Any, ...], ...] | None = None
    strategy: str | None = None
    """How hopping windows are evaluated (see `plan.strategies`); None: the cheapest that is
    possible."""
    expected: Volume | None = None
    sources: str | None = None
    """The column that tells where a row came from: an adaptive evaluation watches how far sources
    lie apart."""

    evaluation: str | None = None
    """The strategy that the plan decided on: set once, when it is rewritten
    (`rules.evaluation`)."""

    not_state: ClassVar[frozenset[str]] = frozenset({"expected", "fill", "strategy"})

    never_revises = True
    state = "what windows that are not closed need: sums by key and pane, or their rows"

    def __post_init__(self) -> None:
        require_known(self.keys, self.input.schema, "aggregate")
        if self.sources is not None:
            require_known((self.sources,), self.input.schema, "expecting")
            if self.strategy is None or "adaptive" not in self.strategy:
                raise WindowError(
                    "expecting(sources=...): only an adaptive evaluation watches sources; say"
                    ' using("adaptive").'
                )
        if not self.aggregates:
            raise PlanError("aggregate: name at least one aggregate, such as n=count().")
        if isinstance(self.window, CountWindow) and self.window.by != "start":
            raise WindowError(
                'aggregate: count windows by end take modules, as in .apply("average", "price").'
            )
        if self.fill is not None and not isinstance(self.window, HoppingWindow):
            raise WindowError("fill: only hopping and tumbling windows have empty windows to fill.")
        if self.strategy is not None and not isinstance(self.window, HoppingWindow):
            raise WindowError(f"strategy: {self.window} windows are evaluated in one way only.")
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
                group_ctis=self.input.properties.group_ctis
                and not isinstance(self.window, SessionWindow)
                and self.fill is None,
            ),
        )
        if hop:
            self.decide()
        else:
            _refuse_sketches(self.aggregates, str(self.window))

    @property
    def grouping(self) -> tuple[str, ...]:
        return self.keys

    @property
    def divided_by(self) -> tuple[Keys, ...] | None:
        """Filling needs to see all groups at once: a silence of one is known from the others."""
        return (() if self.fill is not None else by_columns(self.keys),)

    @property
    def identity(self) -> frozenset[str]:
        """With `fill` the range of a group's empty windows depends on all groups."""
        return frozenset() if self.fill is not None else frozenset(self.keys)

    @property
    def columns_read(self) -> tuple[frozenset[str] | None, ...]:
        watched = frozenset() if self.sources is None else frozenset({self.sources})
        return (watched.union(self.keys, call_columns(self.aggregates)),)

    def useful_promises(self, output_grid: Grid | None) -> Grid | None:
        return closing_grid(self.window)

    @property
    def reach(self) -> int | None:
        if not isinstance(self.window, HoppingWindow) or self.fill is not None:
            return None
        return window_reach(self.window)

    @property
    def promise(self) -> str:
        return closing_promise(self.window)

    @property
    def details(self) -> str:
        filled = f", {len(self.fill)} groups filled" if self.fill is not None else ""
        return f"{self.window}{show_keys(self.keys)}: {show_calls(self.aggregates)}{filled}"

    def remarks(self) -> Iterator[str]:
        if not isinstance(self.window, HoppingWindow):
            return
        window, decision = self.window, self.decide()
        panes = window.size // window.pane
        start = lasting(window.origin + window.hop - window.size)
        yield (
            f"window ids: {Category.CF}; window w is [{start} + {lasting(window.hop)} w, + "
            f"{lasting(window.size)})"
        )
        yield (
            f"panes: {panes:,} a window, {_pane(window.pane)} each; possible: "
            f"{', '.join(decision.possible)}"
        )
        yield f"evaluation: {decision.strategy}, {decision.reason}"
        yield from decision.remarks()

    @property
    def chosen(self) -> str:
        """The strategy that evaluates the windows."""
        return self.evaluation if self.evaluation is not None else self.decide().strategy

    def decide(self) -> Decision:
        """How the windows of a hopping aggregate would be evaluated, and why."""
        assert isinstance(self.window, HoppingWindow)
        seen, facts = lifetime_schema(self.input.schema), self.input.properties
        calls = [call for _, call in self.aggregates]
        return choose(
            self.window,
            differential=all(call.adds_up(seen) for call in calls),
            bounded=all(call.bounded for call in calls),
            mergeable=facts.insert_only and facts.constant_duration == 1,
            volume=self.expected,
            strategy=self.strategy,
            sketched=next((str(call) for call in calls if not call.aggregate.repeatable), None),
        )


def call_columns(aggregates: tuple[tuple[str, AggregateCall], ...]) -> frozenset[str]:
    """The columns that aggregates read."""
    return columns_of(*(part for _, call in aggregates for part in (call.of, call.by, call.where)))


def show_calls(aggregates: tuple[tuple[str, AggregateCall], ...]) -> str:
    """Aggregates as `explain()` shows them."""
    return ", ".join(f"{name} = {call}" for name, call in aggregates)


def _refuse_sketches(aggregates: tuple[tuple[str, AggregateCall], ...], where: str) -> None:
    for _, call in aggregates:
        if not call.aggregate.repeatable:
            raise WindowError(
                f"{call}: sketches are kept for hopping, tumbling and sliding windows over time, "
                f"not for {where}."
            )


@dataclass(frozen=True, eq=False)
class GroupApply(Node):
    """For each distinct value of the keys, the inner query over the rows of that group; then the
    keys are put in front.

    `group` is the leaf that stands for the group's rows inside `inner`.
    """

    input: Node
    keys: Named
    group: GroupInput
    inner: Node
    result: Named | None = None

    row_by_row = False
    before_exchange = False
    reads_start = True
    never_revises = False
    progressing = frozenset()
    identity = frozenset()
    state = "what its inner query keeps"
    promise = "what its inner query promises"

    def __post_init__(self) -> None:
        seen = lifetime_schema(self.input.schema)
        keys = columns_schema(self.keys, seen)
        if self.group not in set(walk(self.inner)):
            raise PlanError("group_apply: the inner query does not use the group it was given.")
        if any(node.fill is not None for node in find(self.inner, WindowAggregate)):
            # A group that falls silent could be filled only once it speaks again: no promise could
            # ever be made.
            raise PlanError(
                "fill: not inside a group; group by all the keys outside and list the known groups "
                "there."
            )
        if self.result is None:
            fields_ = [*keys, *(f for f in self.inner.schema if f.name not in keys.names)]
            schema = pa.schema(fields_)
        else:
            schema = columns_schema(self.result, lifetime_schema(self.result_schema()))
        _ = self.endless_by
        before = self.inner.properties
        if self.result is None:
            names = tuple(name for name, _ in self.keys)
            self._settle(schema, before.but(group_keys=(*names, *before.group_keys), ordered=False))
        else:
            self._settle(
                schema,
                before.but(
                    group_keys=(),
                    ordered=False,
                    unique_start=False,
                    payload_start_key=False,
                    group_ctis=False,
                ),
            )

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    @property
    def contained(self) -> tuple[Node, ...]:
        return (self.inner,)

    def _child_fields(self) -> tuple[str, ...]:
        return "input", "inner"

    # The rules rewrite it away before anything asks for more than its text.

    @cached_property
    def endless_by(self) -> Node | None:
        """A group's rows have no end where those of the input have none, so that the inner query is
        asked as it reads the input. A join in it that would keep them for ever is refused."""
        if self.input.endless_by is None:
            return self.inner.endless_by
        return replace(self.inner, {self.group: self.input}).endless_by

    def useful_promises(self, output_grid: Grid | None) -> Grid | None:
        return None

    @property
    def divided_by(self) -> tuple[Keys, ...] | None:
        return (tuple(expr for _, expr in self.keys),)

    def result_keys(self, *keys: Keys) -> Keys | None:
        return None

    def lower_keys(self, keys: Keys) -> Keys | None:
        return None

    @property
    def columns_read(self) -> tuple[frozenset[str] | None, ...]:
        return (None,)

    def group_changes(
        self, keys: tuple[str, ...], partitions: list[tuple[str, ...]]
    ) -> dict[str, Any]:
        return {}

    @property
    def details(self) -> str:
        result = f": {show_columns(self.result)}" if self.result is not None else ""
        return f"by {show_columns(self.keys)}{result}"

    def result_schema(self) -> pa.Schema:
        """What `result` sees: `key_<name>` for each key, then the inner columns."""
        keys = columns_schema(self.keys, lifetime_schema(self.input.schema))
        return pa.schema([*(pa.field(f"key_{f.name}", f.type) for f in keys), *self.inner.schema])


def _pane(ticks: int) -> str:
    """How long a pane is."""
    shown = lasting(ticks)
    return f"{ticks:,} ticks" if shown == str(ticks) else shown
