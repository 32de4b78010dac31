"""Two streams as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from thalweg.errors import PlanError, TypeMismatchError
from thalweg.model.type_names import shown_columns
from thalweg.plan.expressions import Keys
from thalweg.plan.nodes.base import Grid, Node
from thalweg.plan.properties import StreamProperties
from thalweg.plan.update_streams import UpdateStream

__all__ = ["Union", "union_of"]


@dataclass(frozen=True, eq=False)
class Union(Node):
    """R' = R1 + R2 as bags. Neither side waits for the other; the CTI is the smaller of the two."""

    left: Node
    right: Node

    row_by_row = True
    before_exchange = False
    reads_start = False
    covers_windows = False
    reach = 0
    promise = "the smallest t of its inputs"
    divided_by = None
    identity = frozenset()
    state = None
    details = ""

    def __post_init__(self) -> None:
        if (
            self.left.schema.names != self.right.schema.names
            or self.left.schema.types != self.right.schema.types
        ):
            raise TypeMismatchError(
                f"union: the columns differ: ({shown_columns(self.left.schema)}) and "
                f"({shown_columns(self.right.schema)})."
            )
        left, right = self.left.properties, self.right.properties
        same = left.constant_duration == right.constant_duration
        self._settle(
            self.left.schema,
            StreamProperties(
                insert_only=left.insert_only and right.insert_only,
                constant_duration=left.constant_duration if same else None,
                firm_ends=left.firm_ends and right.firm_ends,
                group_ctis=left.group_ctis and right.group_ctis,
            ),
        )

    @cached_property
    def endless_by(self) -> Node | None:
        found = (side.endless_by for side in self.inputs)
        return next((node for node in found if node is not None), None)

    @cached_property
    def never_revises(self) -> bool:
        return all(side.never_revises for side in self.inputs)

    @cached_property
    def progressing(self) -> frozenset[str]:
        return frozenset.intersection(*(side.progressing for side in self.inputs))

    def useful_promises(self, output_grid: Grid | None) -> Grid | None:
        return output_grid

    def result_keys(self, *keys: Keys) -> Keys | None:
        return keys[0]

    def lower_keys(self, keys: Keys) -> Keys | None:
        return keys

    @property
    def columns_read(self) -> tuple[frozenset[str] | None, ...]:
        return (None,) * len(self.inputs)

    def carrying(self, columns: tuple[str, ...], below: Callable[[Node], Node]) -> Node | None:
        return self.with_children(*map(below, self.inputs))

    def group_changes(
        self, keys: tuple[str, ...], partitions: list[tuple[str, ...]]
    ) -> dict[str, Any]:
        if len(set(partitions)) > 1:
            raise PlanError(
                "group_apply: a union inside a group needs both sides to come from the group."
            )
        return {}

    def update_stream(self, inputs: tuple[UpdateStream | None, ...]) -> UpdateStream | None:
        found = next(each for each in inputs if each is not None)
        raise found.refusal(
            self.label,
            "a union would give rows that a younger one of the other input has replaced. Feed both "
            "inputs to one source, update_key(inputs=(...), truth=...): its queue keeps the "
            "youngest row of each key",
        )


def union_of(streams: Sequence[Node]) -> Node:
    """Streams as one, in a tree of unions: a row passes few of them, however many streams there
    are."""
    level = list(streams)
    while len(level) > 1:
        pairs: list[Node] = [Union(*level[at : at + 2]) for at in range(0, len(level) - 1, 2)]
        level = [*pairs, *level[2 * len(pairs) :]]
    return level[0]
