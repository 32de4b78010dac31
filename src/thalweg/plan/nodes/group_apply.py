"""A query of its own for each group."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from thalweg.errors import PlanError
from thalweg.plan.expressions import Keys, show_columns
from thalweg.plan.nodes.base import Named, Node
from thalweg.plan.nodes.families import ManyRowsOperator
from thalweg.plan.nodes.schemas import columns_schema, lifetime_schema
from thalweg.plan.nodes.sources import GroupInput
from thalweg.plan.nodes.traversal import find, replace, walk
from thalweg.plan.nodes.window_aggregate import WindowAggregate

__all__ = ["GroupApply"]


@dataclass(frozen=True, eq=False)
class GroupApply(ManyRowsOperator):
    """For each distinct value of the keys, the inner query over the rows of that group; then the
    keys are put in front.

    `group` is the leaf that stands for the group's rows inside `inner`.
    """

    input: Node
    keys: Named
    group: GroupInput
    inner: Node
    result: Named | None = None

    never_revises = False
    progressing = frozenset()
    identity = frozenset()
    covers_windows = False
    reach = None
    state = "what its inner query keeps"
    promise = "what its inner query promises"

    def __post_init__(self) -> None:
        seen = lifetime_schema(self.input.schema)
        keys = columns_schema(self.keys, seen)
        if self.group not in set(walk(self.inner)):
            raise PlanError("group_apply: the inner query does not use the group it was given.")
        if any(node.fill is not None for node in find(self.inner, WindowAggregate)):
            # A group could be filled only when its next row comes: no promise could ever be made.
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

    # Rules replace this node before anything but its text is needed.

    @cached_property
    def endless_by(self) -> Node | None:
        """A group's rows have no end where those of the input have none: the inner query is then
        looked at with the input in the place of the group. A join in it that would keep such rows
        for ever is refused."""
        if self.input.endless_by is None:
            return self.inner.endless_by
        return replace(self.inner, {self.group: self.input}).endless_by

    @property
    def divided_by(self) -> tuple[Keys, ...] | None:
        return (tuple(expr for _, expr in self.keys),)

    def result_keys(self, *keys: Keys) -> Keys | None:
        return None

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
