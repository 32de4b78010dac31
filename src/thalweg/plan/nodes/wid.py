"""Nodes of the WID framework: tuples numbered as they arrive, and aggregates over any kind of
window."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from thalweg.errors import PlanError, WindowError
from thalweg.plan.aggregates import AggregateCall
from thalweg.plan.expressions import Keys
from thalweg.plan.nodes.base import Node, lifetime_schema, require_known
from thalweg.plan.nodes.families import GroupedOperator, by_columns, show_keys
from thalweg.plan.nodes.window_aggregate import call_columns, refuse_sketches, show_calls
from thalweg.plan.properties import StreamProperties
from thalweg.windows import (
    Category,
    LandmarkTime,
    SlideByTuple,
    SlidingRows,
    SlidingTime,
    WindowKind,
)

__all__ = ["ARRIVED_AT", "ROW_NUMBER", "NumberRows", "WidAggregate", "WidOperator"]

ROW_NUMBER, ARRIVED_AT = "_row", "_at"
"""The columns that `NumberRows` adds: the number, and the largest time among the rows that have got
a number so far."""


@dataclass(frozen=True, eq=False)
class NumberRows(GroupedOperator):
    """Each row with the number under which it arrived here, from 1, in its partition; a row that is
    taken back leaves its number unused.

    The one operator whose result depends on the order of arrival: what comes after it looks at the
    numbers as data, and no longer at the order. `_at` never goes back from one number to the next.
    """

    input: Node
    partition: tuple[str, ...] = ()

    never_revises = False
    promise = "t"

    def __post_init__(self) -> None:
        require_known(self.partition, self.input.schema, "number_rows")
        if ROW_NUMBER in self.input.schema.names:
            raise PlanError("number_rows: the rows are numbered already; number them once.")
        fields = [
            *self.input.schema,
            pa.field(ROW_NUMBER, pa.int64()),
            pa.field(ARRIVED_AT, pa.int64()),
        ]
        self._settle(pa.schema(fields), self.input.properties.but(payload_start_key=True))

    @property
    def grouping(self) -> tuple[str, ...]:
        return self.partition

    @property
    def identity(self) -> frozenset[str]:
        """None: a filter below would change the numbers."""
        return frozenset()

    def group_changes(
        self, keys: tuple[str, ...], partitions: list[tuple[str, ...]]
    ) -> dict[str, Any]:
        return {"partition": (*keys, *self.partition)}

    @cached_property
    def endless_by(self) -> Node | None:
        return self.input.endless_by

    @property
    def state(self) -> str | None:
        return (
            "the last number of each partition, and the numbers of rows that may still be adjusted"
        )

    @property
    def details(self) -> str:
        return show_keys(self.partition).strip()


class WidOperator(GroupedOperator):
    """What is true of every operator over windows of a kind: how groups and windows lie."""

    input: Node
    kind: WindowKind
    keys: tuple[str, ...]
    partition: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a group: partition, then keys."""
        return (*self.partition, *(key for key in self.keys if key not in self.partition))

    @property
    def grouping(self) -> tuple[str, ...]:
        return self.columns

    @property
    def divided_by(self) -> tuple[Keys, ...] | None:
        """By columns that may be seen apart: windows that follow from the time alone need no other
        group, others their partition."""
        counts = isinstance(self.kind, SlideByTuple | SlidingRows | SlidingTime)
        alone = isinstance(self.kind, LandmarkTime) or not (counts or self.kind.context)
        if isinstance(self.kind, SlidingTime):
            alone = self.kind.origin is not None
        if alone:
            return (by_columns(self.columns),)
        return (by_columns(() if isinstance(self.kind, SlidingTime) else self.partition),)

    @property
    def identity(self) -> frozenset[str]:
        """None: rows of other groups may decide where windows lie."""
        return frozenset()

    @property
    def reach(self) -> int | None:
        """Where windows follow from the time or the tuple they end with: how long they last. Others
        depend on how many rows there were, or on the first one."""
        kind = self.kind
        if isinstance(kind, SlideByTuple):
            return None if kind.ranked and kind.every > 1 else kind.range
        if isinstance(kind, SlidingRows | LandmarkTime) or kind.context:
            return None
        if isinstance(kind, SlidingTime) and kind.origin is None:
            return None
        return kind.longest if kind.assigner() is None else None

    def group_changes(
        self, keys: tuple[str, ...], partitions: list[tuple[str, ...]]
    ) -> dict[str, Any]:
        """The windows of a group are those of a partition."""
        if isinstance(self.kind, SlidingTime) and self.kind.origin is None:
            raise PlanError(
                "group_apply: windows that begin with the first row cannot differ from group to "
                "group; give origin=."
            )
        rows = isinstance(self.kind, SlidingRows)
        kind = replace(self.kind, partitioned=True) if rows else self.kind  # type: ignore[type-var]
        return {"partition": (*keys, *self.partition), "kind": kind}

    def remembers(self) -> str:
        """What the kind must know besides a row, for `explain`."""
        if isinstance(self.kind, SlidingRows) and self.kind.partitioned and not self.kind.ranked:
            return "; the number of rows so far is kept for each partition"
        if self.kind.category is Category.FCA:
            return "; which windows a row belongs to is known when rows after it have come"
        return ""

    @property
    def by_number(self) -> bool:
        """Whether the windows count rows as they arrived."""
        return (
            isinstance(self.kind, SlidingRows | SlideByTuple)
            and not self.kind.ranked
            and getattr(self.kind, "every", 2) > 1
        )


@dataclass(frozen=True, eq=False)
class WidAggregate(WidOperator):
    """Per window of a kind, and group in it: (lifetime of the window, partition + keys +
    aggregates).

    `partition` splits the stream before it is divided into windows, `keys` split each window. A row
    belongs to windows by its start. Lifetimes, for the range r, the slide s and the origin o:

        sliding over time       [o + (w + 1) s - r, o + (w + 1) s), o being the smallest start of
                                all rows if it was not given
        slide by tuple          [w - r + 1, w + 1): the instants that the window covers
        sliding over rows       the instant at which its last row was there: the start of that row,
                                by rank; `_at`, by arrival. A window answers when it is complete
        landmark                [o + w s, o + w' s), w' being the next window in which the group has
                                a row; without end for the last
        a user's kind           what its `time_range` says
    """

    input: Node
    kind: WindowKind
    aggregates: tuple[tuple[str, AggregateCall], ...]
    keys: tuple[str, ...] = ()
    partition: tuple[str, ...] = ()
    wid: str | None = None
    """A column for the id of the window."""
    strategy: str | None = None
    """How slide-by-tuple windows are evaluated: from `rows`, or in one pass with partial results in
    `bins`; None: rows."""

    state = "the rows that windows which are not settled need, or one partial result a group"
    promise = "the start of the first window that t leaves open, at most t"

    def __post_init__(self) -> None:
        require_known(
            (*self.partition, *self.keys, *self.kind.reads), self.input.schema, "aggregate"
        )
        if not self.aggregates:
            raise PlanError("aggregate: name at least one aggregate, such as n=count().")
        refuse_sketches(self.aggregates, self.kind)
        holistic = next(
            (str(c) for _, c in self.aggregates if not c.bounded or c.aggregate.grows), None
        )
        if holistic is not None and (
            isinstance(self.kind, LandmarkTime) or getattr(self.kind, "range", 0) is None
        ):
            raise WindowError(
                f"{self.kind}: {holistic} needs every row or value there ever was; use a bounded "
                "aggregate, or a window with a range."
            )
        if self.by_number and ROW_NUMBER not in self.input.schema.names:
            raise WindowError(f"{self.kind}: the rows have no numbers; put NumberRows below.")
        self._check_strategy()
        seen = lifetime_schema(self.input.schema)
        fields = [self.input.schema.field(name) for name in self.columns]
        ids = [] if self.wid is None else [pa.field(self.wid, pa.int64())]
        results = [pa.field(name, call.type_in(seen)) for name, call in self.aggregates]
        landmark = isinstance(self.kind, LandmarkTime)
        length = (
            self.kind.range
            if isinstance(self.kind, SlidingTime | SlideByTuple)
            else 1
            if isinstance(self.kind, SlidingRows)
            else None
        )
        facts = StreamProperties(
            firm_ends=not landmark, constant_duration=length, group_keys=self.columns
        )
        self._settle(pa.schema([*fields, *ids, *results]), facts)

    @property
    def strategies(self) -> tuple[str, ...]:
        """In which ways the windows can be evaluated."""
        bounded = self.input.properties.insert_only and all(
            call.bounded for _, call in self.aggregates
        )
        return ("rows", "bins") if isinstance(self.kind, SlideByTuple) and bounded else ("rows",)

    def _check_strategy(self) -> None:
        if self.strategy is None:
            return
        if not isinstance(self.kind, SlideByTuple):
            raise WindowError(f"strategy: {self.kind} is evaluated in one way only.")
        if self.strategy not in self.strategies:
            raise WindowError(
                f"using({self.strategy!r}): cannot evaluate {self.kind}; possible: "
                f"{', '.join(self.strategies)}. Bins need bounded aggregates over a source that is "
                "declared insert_only."
            )

    @property
    def columns_read(self) -> tuple[frozenset[str] | None, ...]:
        if isinstance(self.kind, SlidingRows) and self.kind.ranked:
            return (None,)  # equal starts are ordered by all columns
        numbers = {ROW_NUMBER, ARRIVED_AT} if self.by_number else set()
        return (call_columns(self.aggregates).union(self.columns, self.kind.reads, numbers),)

    @cached_property
    def never_revises(self) -> bool:
        return self.properties.firm_ends

    @property
    def details(self) -> str:
        parts = f", partitions {', '.join(self.partition)}" if self.partition else ""
        named = f", id as {self.wid}" if self.wid is not None else ""
        calls = show_calls(self.aggregates)
        return f"{self.kind}{parts}{show_keys(self.keys)}: {calls}{named}; {self.kind.category}"

    def remarks(self) -> Iterator[str]:
        yield f"window ids: {self.kind.category}{self.remembers()}"
        if len(self.strategies) > 1:
            yield f"evaluation: {self.strategy or 'rows'}; possible: {', '.join(self.strategies)}"
