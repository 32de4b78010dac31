"""The best rows of each window."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from thalweg.errors import WindowError
from thalweg.expr import Expr
from thalweg.plan.aggregates import require_order
from thalweg.plan.nodes.base import Grid, Node
from thalweg.plan.nodes.families import GroupedOperator, show_keys
from thalweg.plan.nodes.schemas import lifetime_schema, require_known
from thalweg.plan.properties import StreamProperties
from thalweg.windows import SnapshotWindow, Window

__all__ = ["TopK"]


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
    covers_windows = True
    state = "the rows of windows that are not closed"

    def __post_init__(self) -> None:
        if self.k <= 0:
            raise WindowError(f"top_k: k must be positive; got {self.k}.")
        if self.window.no_top_k is not None:
            raise WindowError(f"top_k: {self.window.no_top_k}")
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
        return self.window.closing_grid

    @property
    def whole_runs_when_final(self) -> bool:
        """Windows on a grid close together, unless groups have promises of their own."""
        return self.window.grid is not None and not self.properties.group_ctis

    @property
    def reach(self) -> int | None:
        return self.window.reach

    @property
    def promise(self) -> str:
        return self.window.promise

    @property
    def details(self) -> str:
        order = "largest" if self.descending else "smallest"
        rank = f", rank as {self.rank}" if self.rank else ""
        return f"{self.k} {order} {self.by}, {self.window}{show_keys(self.keys)}{rank}"
