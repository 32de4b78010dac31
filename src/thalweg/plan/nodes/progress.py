"""Nodes that leave the table alone and speak of progress only."""

from __future__ import annotations

from dataclasses import dataclass

from thalweg.errors import PlanError
from thalweg.model.clocks import lasting
from thalweg.plan.nodes.base import Grid, Node, require_known
from thalweg.plan.nodes.families import RowOperator

__all__ = ["Describe"]


@dataclass(frozen=True, eq=False)
class Describe(RowOperator):
    """R' = R. Of the promises only those pass that the operators above can use.

    A promise t becomes the last time `offset + k * period` at or before t (`period` None: t
    itself). A promise for a group passes when its columns are among `groups` (None: always). A
    promise that says nothing new does not pass.
    """

    input: Node
    period: int | None = None
    offset: int = 0
    groups: tuple[str, ...] | None = None

    promise = "t, on its grid"
    before_exchange = False

    def __post_init__(self) -> None:
        if self.period is not None and self.period < 1:
            raise PlanError(f"describe: the period must be positive; got {self.period}.")
        require_known(self.groups or (), self.input.schema, "describe")
        before = self.input.properties
        kept = self.groups is None or set(before.group_keys) <= set(self.groups)
        self._settle(self.input.schema, before.but(group_ctis=before.group_ctis and kept))

    def useful_promises(self, asked: Grid | None) -> Grid | None:
        return None

    @property
    def details(self) -> str:
        offset = f" from {lasting(self.offset)}" if self.offset else ""
        grid = "" if self.period is None else f"every {lasting(self.period)}{offset}"
        return " ".join(
            [grid, *([] if self.groups is None else [f"for {', '.join(self.groups)}"])]
        ).strip()
