"""Nodes of the WID framework: tuples numbered as they arrive, and aggregates over any kind of
window."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from thalweg.errors import PlanError, WindowError
from thalweg.plan.aggregates import AggregateCall
from thalweg.plan.expressions import Keys
from thalweg.plan.nodes.base import Node
from thalweg.plan.nodes.families import GroupedOperator, by_columns, show_keys
from thalweg.plan.nodes.schemas import lifetime_schema, require_known
from thalweg.plan.nodes.window_aggregate import call_columns, refuse_sketches, show_calls
from thalweg.plan.properties import StreamProperties
from thalweg.windows import WindowKind

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
    covers_windows = False
    reach = None
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

    covers_windows = True

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a group: partition, then keys."""
        return (*self.partition, *(key for key in self.keys if key not in self.partition))

    @property
    def window_columns(self) -> tuple[str, ...]:
        """The columns by which windows are apart: those of a group where each row decides about its
        own windows, else those of a partition, whose rows decide together."""
        return self.columns if self.kind.decided_by == "tuple" else self.partition

    @property
    def grouping(self) -> tuple[str, ...]:
        return self.columns

    @property
    def divided_by(self) -> tuple[Keys, ...] | None:
        """By columns that may be seen apart: windows that follow from the time alone need no other
        group, others their partition."""
        together = {"tuple": self.columns, "partition": self.partition, "stream": ()}
        return (by_columns(together[self.kind.decided_by]),)

    @property
    def identity(self) -> frozenset[str]:
        """None: rows of other groups may decide where windows lie."""
        return frozenset()

    @property
    def reach(self) -> int | None:
        return self.kind.reach

    def group_changes(
        self, keys: tuple[str, ...], partitions: list[tuple[str, ...]]
    ) -> dict[str, Any]:
        """The windows of a group are those of a partition."""
        return {"partition": (*keys, *self.partition), "kind": self.kind.of_groups()}

    @property
    def promise(self) -> str:
        return self.kind.promise

    @property
    def windows_remark(self) -> str:
        """How windows are found, for `explain()`."""
        remark = f"; {self.kind.remark}" if self.kind.remark else ""
        return f"window ids: {self.kind.category}{remark}"

    def columns_of_windows(self, *read: frozenset[str]) -> frozenset[str] | None:
        """The columns that windows and groups depend on, and those that are read besides."""
        if self.kind.orders_by_all:
            return None
        numbers = {ROW_NUMBER, ARRIVED_AT} if self.kind.by_number else set()
        return frozenset(self.columns).union(self.kind.reads, numbers, *read)

    def _check_numbers(self) -> None:
        if self.kind.by_number and ROW_NUMBER not in self.input.schema.names:
            raise WindowError(
                f"{self.kind}: the rows have no numbers; write number_rows() on the stream below."
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
        if holistic is not None and not self.kind.is_bounded:
            raise WindowError(
                f"{self.kind}: {holistic} needs every row or value there ever was; use a bounded "
                "aggregate, or a window with a range."
            )
        self._check_numbers()
        self._check_strategy()
        seen = lifetime_schema(self.input.schema)
        fields = [self.input.schema.field(name) for name in self.columns]
        ids = [] if self.wid is None else [pa.field(self.wid, pa.int64())]
        results = [pa.field(name, call.type_in(seen)) for name, call in self.aggregates]
        facts = StreamProperties(
            firm_ends=self.kind.firm_ends,
            constant_duration=self.kind.length,
            group_keys=self.columns,
        )
        self._settle(pa.schema([*fields, *ids, *results]), facts)

    @property
    def strategies(self) -> tuple[str, ...]:
        """In which ways the windows can be evaluated."""
        bounded = self.input.properties.insert_only and all(
            call.bounded for _, call in self.aggregates
        )
        return self.kind.strategies if bounded else self.kind.strategies[:1]

    def _check_strategy(self) -> None:
        if self.strategy is None:
            return
        if len(self.kind.strategies) == 1:
            raise WindowError(f"strategy: {self.kind} is evaluated in one way only.")
        if self.strategy not in self.strategies:
            raise WindowError(
                f"using({self.strategy!r}): cannot evaluate {self.kind}; possible: "
                f"{', '.join(self.strategies)}. Bins need bounded aggregates over a source that is "
                "declared insert_only."
            )

    @property
    def columns_read(self) -> tuple[frozenset[str] | None, ...]:
        return (self.columns_of_windows(call_columns(self.aggregates)),)

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
        yield self.windows_remark
        if len(self.strategies) > 1:
            yield f"evaluation: {self.strategy or 'rows'}; possible: {', '.join(self.strategies)}"
