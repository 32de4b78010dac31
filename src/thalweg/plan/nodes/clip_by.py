"""Rows that last until the next one of their key."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

from thalweg.plan.expressions import Keys
from thalweg.plan.nodes.base import Node
from thalweg.plan.nodes.families import columns_of
from thalweg.plan.nodes.pairs import KeyedPair, same_groups
from thalweg.plan.update_streams import UpdateStream

__all__ = ["ClipBy"]


@dataclass(frozen=True, eq=False)
class ClipBy(KeyedPair):
    """Each left row is cut at the first start, strictly after its own, of a right row with equal
    keys.

    A stream that is cut by its own starts is one input, which is read once."""

    same: tuple[str, ...] = ()
    """Columns of both sides that must be identical too, null being identical to null: the keys of a
    group."""

    never_revises = False
    reach = None
    progressing = frozenset()
    promise = "the smaller t of both sides, or the earliest row that may still be cut"
    state = "the rows of both sides that the CTI has not passed"

    def __post_init__(self) -> None:
        self._require_comparable_keys()
        self._settle(self.left.schema, self.left.properties.with_new_lifetimes())

    @cached_property
    def of_itself(self) -> bool:
        """Whether both sides are one stream with the same keys."""
        return self.left is self.right and all(
            left.same(right) for left, right in zip(self.left_keys, self.right_keys, strict=True)
        )

    @cached_property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left,) if self.of_itself else (self.left, self.right)

    def with_children(self, *children: Node, **settings: Any) -> Self:
        if not self.of_itself or len(children) != 1:
            return super().with_children(*children, **settings)
        if children[0] is self.left and not settings:
            return self
        return replace(self, left=children[0], right=children[0], **settings)

    @property
    def same_columns(self) -> tuple[str, ...]:
        return self.same

    @property
    def divided_by(self) -> tuple[Keys, ...] | None:
        sides = super().divided_by
        return None if sides is None else sides[: len(self.inputs)]

    @cached_property
    def endless_by(self) -> Node | None:
        """Of each key only the last row has no end."""
        return None

    def result_keys(self, *keys: Keys) -> Keys | None:
        return keys[0]

    @property
    def columns_read(self) -> tuple[frozenset[str] | None, ...]:
        if self.of_itself:
            return (None,)
        return None, frozenset(self.same) | columns_of(*self.right_keys)

    def group_changes(
        self, keys: tuple[str, ...], partitions: list[tuple[str, ...]]
    ) -> dict[str, Any]:
        sides = [partitions[0], partitions[-1]]
        return same_groups(self, self.same, keys, sides, left_stays=True)

    def update_stream(self, inputs: tuple[UpdateStream | None, ...]) -> UpdateStream | None:
        found = next(each for each in inputs if each is not None)
        own_key = {str(key) for key in self.left_keys} == {str(key) for key in found.keys}
        if not self.of_itself or not own_key:
            raise found.refusal(
                self.label,
                f"rows may only be cut by the next row of their key ({found.shown_keys})",
            )
        return UpdateStream(found.keys, found.source, newest=True)

    @property
    def details(self) -> str:
        return self._shown_keys()
