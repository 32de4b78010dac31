"""Aggregates over windows of the temporal core."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from thalweg.errors import PlanError, WindowError
from thalweg.model.clocks import lasting
from thalweg.plan.aggregates import AggregateCall
from thalweg.plan.expressions import Keys
from thalweg.plan.nodes.base import Node
from thalweg.plan.nodes.families import WindowOperator, by_columns, columns_of, show_keys
from thalweg.plan.nodes.schemas import lifetime_schema, require_known
from thalweg.plan.properties import StreamProperties
from thalweg.plan.strategies import STRATEGIES, Decision, Evaluation, Volume, choose
from thalweg.plan.update_streams import UpdateStream
from thalweg.windows import AnyWindow, Category, HoppingWindow, Window

__all__ = ["WindowAggregate", "call_columns", "refuse_sketches", "show_calls"]


@dataclass(frozen=True, eq=False)
class WindowAggregate(WindowOperator):
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
    """The column with the origin of a row: an adaptive evaluation measures how far origins lie
    apart."""

    evaluation: str | None = None
    """The strategy that the plan decided on: set once, when it is rewritten
    (`rules.decide`)."""

    not_state: ClassVar[frozenset[str]] = frozenset({"expected", "fill", "strategy"})

    never_revises = True
    state = "what windows that are not closed need: sums by key and pane, or their rows"

    def __post_init__(self) -> None:
        require_known(self.keys, self.input.schema, "aggregate")
        if self.sources is not None:
            require_known((self.sources,), self.input.schema, "expecting")
            asked_for = STRATEGIES.get(self.strategy or "")
            if asked_for is None or not asked_for.adaptive:
                raise WindowError(
                    "expecting(sources=...): only an adaptive evaluation watches sources; say"
                    ' using("adaptive").'
                )
        if not self.aggregates:
            raise PlanError("aggregate: name at least one aggregate, such as n=count().")
        if self.window.no_aggregates is not None:
            raise WindowError(f"aggregate: {self.window.no_aggregates}")
        if self.fill is not None and self.window.grid is None:
            raise WindowError("fill: only hopping and tumbling windows have empty windows to fill.")
        if self.strategy is not None and self.window.grid is None:
            raise WindowError(f"strategy: {self.window} windows are evaluated in one way only.")
        seen = lifetime_schema(self.input.schema)
        key_fields = [self.input.schema.field(name) for name in self.keys]
        results = [pa.field(name, call.type_in(seen)) for name, call in self.aggregates]
        self._settle(
            pa.schema([*key_fields, *results]),
            StreamProperties(
                unique_start=True,
                payload_start_key=True,
                constant_duration=self.window.length,
                firm_ends=self.window.firm_ends,
                group_keys=self.keys,
                group_ctis=self.input.properties.group_ctis
                and self.window.closes_by_group
                and self.fill is None,
            ),
        )
        if self.window.grid is not None:
            self.decide()
        else:
            refuse_sketches(self.aggregates, self.window)

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

    def update_stream(self, inputs: tuple[UpdateStream | None, ...]) -> UpdateStream | None:
        """One answer for each window that was served: windows start at multiples of the hop, so
        rows in one tumbling window of that size have one mark."""
        (found,) = inputs
        served = None if found is None else found.window
        if found is not None and served is not None:
            by_mark = self.window == HoppingWindow(served.hop, served.hop, 0)
            if by_mark and columns_of(*found.keys) <= set(self.grouping):
                return UpdateStream(found.keys, found.source)
        return super().update_stream(inputs)

    @property
    def whole_runs_when_final(self) -> bool:
        """Windows on a grid close together, unless groups have promises of their own."""
        return self.window.grid is not None and not self.properties.group_ctis

    @property
    def reach(self) -> int | None:
        return super().reach if self.fill is None else None

    @property
    def details(self) -> str:
        filled = f", {len(self.fill)} groups filled" if self.fill is not None else ""
        return f"{self.window}{show_keys(self.keys)}: {show_calls(self.aggregates)}{filled}"

    def remarks(self) -> Iterator[str]:
        window = self.window.grid
        if window is None:
            return
        decision = self.decide()
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

    @property
    def evaluated(self) -> Evaluation:
        """What is true of the strategy that evaluates the windows."""
        return STRATEGIES[self.chosen]

    def decide(self) -> Decision:
        """How the windows of a hopping aggregate would be evaluated, and why."""
        assert self.window.grid is not None
        seen, facts = lifetime_schema(self.input.schema), self.input.properties
        calls = [call for _, call in self.aggregates]
        return choose(
            self.window.grid,
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


def refuse_sketches(aggregates: tuple[tuple[str, AggregateCall], ...], window: AnyWindow) -> None:
    """Refuse aggregates that cannot be computed again from the same rows."""
    for _, call in aggregates:
        if not call.aggregate.repeatable:
            raise WindowError(
                f"{call}: sketches are kept for hopping, tumbling and sliding windows over time, "
                f"not for {window}."
            )


def _pane(ticks: int) -> str:
    """How long a pane is."""
    shown = lasting(ticks)
    return f"{ticks:,} ticks" if shown == str(ticks) else shown
