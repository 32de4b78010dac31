"""A hopping aggregate in two steps, so that the first can run before an exchange.

    WindowAggregate(R) = CombinePanes(Panes(R))

Rows that fall into the same windows are alike to the aggregate. `Panes` puts the rows of one batch
that have the same keys and the same windows into one row with their partial sums; a row that is
taken back gives negative ones. `CombinePanes` adds partial sums instead of rows. Where windows
share panes of points that are never taken back, partial results may be others than sums: the
largest value. The table of `Panes` depends on how its input was cut into batches, the table of
`CombinePanes` does not: no other node may read panes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias, get_args

import pyarrow as pa

from thalweg.errors import WindowError, require_choice
from thalweg.plan.aggregates import AggregateCall, partial_schema
from thalweg.plan.nodes.base import Grid, Node
from thalweg.plan.nodes.families import GroupedOperator, show_keys
from thalweg.plan.nodes.schemas import lifetime_schema
from thalweg.plan.nodes.window_aggregate import WindowAggregate, show_calls
from thalweg.plan.properties import StreamProperties
from thalweg.windows import HoppingWindow

__all__ = ["CombinePanes", "Flush", "Panes", "Table", "in_panes"]

Calls = tuple[tuple[str, AggregateCall], ...]

Flush: TypeAlias = Literal["at end", "slow", "lazy"]
"""How sums of windows that are over leave a table."""


@dataclass(frozen=True, slots=True)
class Table:
    """The fixed-size table of a pre-aggregation that sums across batches: a partial sum leaves when
    another needs its place.

    `flush` says how sums of windows that are over leave: `at end`, all at once; `slow`, one for
    every `every` rows; `lazy`, when their place is needed. No sum stays longer than `late` windows.
    """

    slots: int
    flush: Flush = "lazy"
    every: int = 160
    late: int = 2

    def __post_init__(self) -> None:
        require_choice(self.flush, get_args(Flush), "two_level: flush", WindowError)
        for name in ("slots", "every", "late"):
            if getattr(self, name) < (0 if name == "late" else 1):
                raise WindowError(f"two_level: {name} must be positive; got {getattr(self, name)}.")

    def __str__(self) -> str:
        pace = f", one in {self.every} rows" if self.flush == "slow" else ""
        return (
            f"table of {self.slots}, flushed {self.flush}{pace}, at most {self.late} windows late"
        )


@dataclass(frozen=True, eq=False)
class Panes(GroupedOperator):
    """Of each batch, or of a table: (grid floor of s, grid ceiling of e, keys + partial sums);
    starts move back to the grid, not beyond."""

    input: Node
    window: HoppingWindow
    aggregates: Calls
    keys: tuple[str, ...] = ()
    table: Table | None = None
    internal_columns: ClassVar[bool] = True

    reads_start = False
    never_revises = False
    covers_windows = False
    promise = "the grid point at or before t"

    def __post_init__(self) -> None:
        if self.window.size % self.window.hop:
            raise WindowError("panes: the size of the window must be a multiple of its hop.")
        fields = [self.input.schema.field(name) for name in self.keys]
        calls = [call for _, call in self.aggregates]
        partials = partial_schema(calls, lifetime_schema(self.input.schema))
        self._settle(
            pa.schema([*fields, *partials]),
            StreamProperties(insert_only=True, group_keys=self.keys),
        )

    @property
    def adds_up(self) -> bool:
        """Whether partial results are sums; others are put together, and never taken away."""
        return _add_up(self.aggregates, self.input.schema)

    @property
    def grouping(self) -> tuple[str, ...]:
        return self.keys

    @property
    def before_exchange(self) -> bool:
        """Sums of rows of one batch; `fragments` asks whether all of a batch may go together."""
        return True

    @property
    def identity(self) -> frozenset[str]:
        """None: a table keeps all groups together."""
        return frozenset()

    @property
    def reach(self) -> int | None:
        """A pane ends at the first point of the grid after its rows. When a table sends a sum
        depends on all rows."""
        return self.window.hop if self.table is None else None

    @property
    def state(self) -> str | None:
        return None if self.table is None else "one table of sums of fixed size"

    @property
    def details(self) -> str:
        table = "" if self.table is None else f", {self.table}"
        return f"{self.window}{show_keys(self.keys)}{table}"


@dataclass(frozen=True, eq=False)
class CombinePanes(GroupedOperator):
    """The answers of the aggregate whose rows became the panes; `rows` is the schema that the
    aggregate read."""

    input: Node
    window: HoppingWindow
    aggregates: Calls
    keys: tuple[str, ...]
    rows: pa.Schema
    calls: tuple[int, ...] | None = None
    """Which of the calls that the panes sum each aggregate is; None: the same ones."""

    never_revises = True
    covers_windows = True
    state = "sums by key and pane, for the length of a window and the disorder"

    def __post_init__(self) -> None:
        seen = lifetime_schema(self.rows)
        fields = [self.input.schema.field(name) for name in self.keys]
        results = [pa.field(name, call.type_in(seen)) for name, call in self.aggregates]
        facts = StreamProperties(
            unique_start=True,
            payload_start_key=True,
            constant_duration=self.window.size,
            firm_ends=True,
            group_keys=self.keys,
        )
        self._settle(pa.schema([*fields, *results]), facts)

    @property
    def adds_up(self) -> bool:
        """Whether the panes hold sums."""
        return _add_up(self.aggregates, self.rows)

    @property
    def grouping(self) -> tuple[str, ...]:
        return self.keys

    @property
    def identity(self) -> frozenset[str]:
        """None: other windows may read the same panes."""
        return frozenset()

    def useful_promises(self, output_grid: Grid | None) -> Grid | None:
        return self.window.closing_grid

    @property
    def reach(self) -> int | None:
        return self.window.reach

    @property
    def promise(self) -> str:
        return self.window.promise

    @property
    def details(self) -> str:
        return f"{self.window}{show_keys(self.keys)}: {show_calls(self.aggregates)}"


def _add_up(calls: Calls, schema: pa.Schema) -> bool:
    seen = lifetime_schema(schema)
    return all(call.adds_up(seen) for _, call in calls)


def in_panes(node: Node, table: Table | None = None) -> CombinePanes | None:
    """A hopping aggregate as its two steps, the first perhaps with a table; None where sums are not
    exact or windows end off the grid."""
    window = node.window.grid if isinstance(node, WindowAggregate) else None
    if not isinstance(node, WindowAggregate) or window is None or node.fill is not None:
        return None
    if window.size % window.hop or not node.evaluated.is_differential:
        return None
    panes = Panes(node.input, window, node.aggregates, node.keys, table)
    return CombinePanes(panes, window, node.aggregates, node.keys, node.input.schema)
