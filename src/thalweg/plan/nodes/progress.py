"""Nodes that leave the table alone: they change promises, or the order of elements."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from thalweg.errors import PlanError
from thalweg.model.clocks import lasting
from thalweg.plan.expressions import Keys
from thalweg.plan.nodes.base import Grid, Node
from thalweg.plan.nodes.families import ManyRowsOperator, RowOperator
from thalweg.plan.nodes.schemas import require_known

__all__ = ["Describe", "InOrder"]


@dataclass(frozen=True, eq=False)
class InOrder(ManyRowsOperator):
    """R' = R, as inserts in the order of their starts (Cleanse in the LMerge document): each row
    leaves when nothing can change it and no earlier one can come. Rows of one start leave together,
    in an order that is the same for every copy of the stream."""

    input: Node

    never_revises = True
    covers_windows = False
    reach = None
    progressing = frozenset()
    identity = frozenset()
    whole_runs = True
    state = "the rows that are not final, and those that start after one of them"
    promise = "the start of the earliest row that is not final, at most t"
    details = ""

    def __post_init__(self) -> None:
        before = self.input.properties
        self._settle(
            self.input.schema,
            before.but(ordered=True, insert_only=True, firm_ends=True, group_ctis=False),
        )

    @cached_property
    def endless_by(self) -> Node | None:
        return self.input.endless_by

    @property
    def divided_by(self) -> tuple[Keys, ...] | None:
        return ((),)

    def result_keys(self, *keys: Keys) -> Keys | None:
        return keys[0]

    def group_changes(
        self, keys: tuple[str, ...], partitions: list[tuple[str, ...]]
    ) -> dict[str, Any]:
        raise PlanError("group_apply: put the grouped stream in order, not the one inside a group.")


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

    def useful_promises(self, output_grid: Grid | None) -> Grid | None:
        return None

    @property
    def details(self) -> str:
        offset = f" from {lasting(self.offset)}" if self.offset else ""
        grid = "" if self.period is None else f"every {lasting(self.period)}{offset}"
        return " ".join(
            [grid, *([] if self.groups is None else [f"for {', '.join(self.groups)}"])]
        ).strip()
