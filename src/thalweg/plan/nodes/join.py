"""Joins of two streams: rows meet where their lifetimes do."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import pyarrow as pa

from thalweg.errors import PlanError, TypeMismatchError
from thalweg.expr import Column, Expr
from thalweg.plan.expressions import Keys, show_columns, unchanged
from thalweg.plan.join_kinds import JOIN_KINDS, JoinKind, join_kind
from thalweg.plan.nodes.base import Named, Node
from thalweg.plan.nodes.families import columns_of
from thalweg.plan.nodes.pairs import (
    KeyedPair,
    grouping_of_pairs,
    keys_of_pairs,
    pair_schema,
    refuse_endless,
)
from thalweg.plan.nodes.schemas import columns_schema, lifetime_schema, require_condition
from thalweg.plan.properties import StreamProperties
from thalweg.plan.update_streams import UpdateStream

__all__ = ["Join"]


@dataclass(frozen=True, eq=False)
class Join(KeyedPair):
    """Rows of both sides with equal keys, a true predicate and overlapping lifetimes.

    inner:  {([s1, e1) ∩ [s2, e2), result(p1, p2))}
    semi:   each left row, restricted to the union of the lifetimes of its matches (maximal pieces)
    anti:   each left row, minus that union
    left:   inner, and the anti pieces as left_only(p1)
    right:  inner, and the anti pieces of the right side as right_only(p2)
    full:   left, and the anti pieces of the right side as right_only(p2)

    `whole`: a row counts as one thing. It is matched when it has a match at all, and then is
    nowhere alone:

    semi:   {(s1, e1, p1) | it has a match}
    anti:   {(s1, e1, p1) | it has none}; left, right and full are made of these as above
    """

    predicate: Expr | None = None
    how: str = "inner"
    result: Named = ()
    left_only: Named = ()
    right_only: Named = ()
    same: tuple[str, ...] = ()
    """Columns of both sides that must be identical too, null being identical to null: the keys of a
    group."""
    whole: bool = False
    endless: tuple[str, ...] = ()
    """The sides whose rows may stay for ever: `left`, `right`. Without that, a side known to be
    endless is refused."""

    not_state: ClassVar[frozenset[str]] = frozenset({"endless"})

    state = "the rows of both sides that the CTI of the other has not passed"

    def __post_init__(self) -> None:
        kind = join_kind(self.how, "join")
        refuse_endless({"left": self.left, "right": self.right}, self.endless)
        if self.whole and not (self.left.properties.firm_ends and self.right.properties.firm_ends):
            raise PlanError(
                "join: rows count whole only where their ends do not move; give both sides "
                "lifetimes of their own first."
            )
        self._require_comparable_keys()
        both = self.pair_schema()
        if self.predicate is not None:
            require_condition(self.predicate, both, "join predicate")
        if kind.only_left_rows:
            schema = self.left.schema
        else:
            schema = columns_schema(self.result, both)
            if kind.left_alone:
                schema = _same(
                    schema,
                    columns_schema(self.left_only, lifetime_schema(self.left.schema)),
                    "left_only",
                )
            if kind.right_alone:
                schema = _same(
                    schema,
                    columns_schema(self.right_only, lifetime_schema(self.right.schema)),
                    "right_only",
                )
        left, right = self.left.properties, self.right.properties
        inserts = left.insert_only and right.insert_only and kind.only_pairs
        firm = left.firm_ends and right.firm_ends and (kind.only_pairs or self.whole)
        self._settle(schema, StreamProperties(insert_only=inserts, firm_ends=firm))

    @property
    def same_columns(self) -> tuple[str, ...]:
        return self.same

    @property
    def kind(self) -> JoinKind:
        """Which rows the answer has."""
        return JOIN_KINDS[self.how]

    @cached_property
    def endless_by(self) -> Node | None:
        """A pair lives while both its rows do; a row that stands alone, as long as that side."""
        left, right = self.left.endless_by, self.right.endless_by
        if self.kind.left_alone and left is not None:
            return left
        if self.kind.right_alone and right is not None:
            return right
        meet = self.kind.pairs or self.kind.left_matched
        return left if meet and right is not None else None

    @cached_property
    def never_revises(self) -> bool:
        return self.kind.only_pairs and self.left.never_revises and self.right.never_revises

    @cached_property
    def progressing(self) -> frozenset[str]:
        """Columns of a side that every result row has, with their own values."""
        left, right = self.left.progressing, self.right.progressing
        if self.kind.only_left_rows:
            return left if self.whole else frozenset()
        kept = {f"l.{name}" for name in left} if self.kind.left_in_all else set()
        kept |= {f"r.{name}" for name in right} if self.kind.right_in_all else set()
        return frozenset(
            n for n, expr in self.result if isinstance(expr, Column) and expr.name in kept
        )

    @property
    def reach(self) -> int | None:
        """A pair ends when the first of its rows does; a row without a partner depends on all
        rows of the other side."""
        return 0 if self.kind.only_pairs and not self.whole else None

    @property
    def promise(self) -> str:
        if self.kind.only_pairs:
            return "the smaller t of both sides"
        return "the smaller t of both sides, or the earliest row that may still find a match"

    def result_keys(self, *keys: Keys) -> Keys | None:
        """By columns that have the key in every row, alone or paired."""
        if self.kind.only_left_rows:
            return keys[0]
        return keys_of_pairs(keys, self.result, self.left_only, self.right_only)

    @property
    def columns_read(self) -> tuple[frozenset[str] | None, ...]:
        pair = columns_of(self.predicate, *(expr for _, expr in self.result))
        right = frozenset(self.same).union(
            columns_of(*self.right_keys, *(expr for _, expr in self.right_only)),
            _side(pair, "r.", self.right, self.left),
        )
        if self.kind.only_left_rows:
            return None, right
        left = frozenset(self.same).union(
            columns_of(*self.left_keys, *(expr for _, expr in self.left_only)),
            _side(pair, "l.", self.left, self.right),
        )
        return left, right

    def group_changes(
        self, keys: tuple[str, ...], partitions: list[tuple[str, ...]]
    ) -> dict[str, Any]:
        kind = self.kind
        changes = self._same_in_groups(keys, partitions, left_stays=kind.only_left_rows)
        if kind.only_left_rows:
            return changes
        changes["result"] = (*self.result, *grouping_of_pairs(keys, partitions[0]))
        preserved = zip(partitions, kind.preserved, strict=True)
        if not all(set(side) >= set(keys) for side, is_preserved in preserved if is_preserved):
            raise PlanError(
                f"group_apply: a {self.how} join inside a group needs its preserved sides to come "
                "from the group."
            )
        carried = unchanged(keys)
        if kind.left_alone:
            changes["left_only"] = (*self.left_only, *carried)
        if kind.right_alone:
            changes["right_only"] = (*self.right_only, *carried)
        return changes

    def update_stream(self, inputs: tuple[UpdateStream | None, ...]) -> UpdateStream | None:
        found = next(each for each in inputs if each is not None)
        left, right = inputs
        if left is None or right is None:
            raise found.refusal(
                self.label, "both sides of a join must be update streams, or none of them"
            )
        if not (left.newest and right.newest):
            raise found.refusal(
                self.label,
                "only the newest match counts: let each row last until the next of its key first, "
                f"by edges({found.shown_keys!r}) on both sides",
            )
        if not self._are_equal_in_pairs(left.keys, right.keys):
            raise found.refusal(
                self.label,
                f"the keys ({left.shown_keys}) and ({right.shown_keys}) must be equal in it",
            )
        keys = self.result_keys(left.keys, right.keys)
        if keys is None:
            raise found.refusal(self.label, "the update key must be among its result columns")
        return UpdateStream(keys, found.source, newest=True)

    def _are_equal_in_pairs(self, left: Keys, right: Keys) -> bool:
        """Whether rows meet only where these keys of both sides are equal."""
        compared = {
            (str(left_key), str(right_key))
            for left_key, right_key in zip(self.left_keys, self.right_keys, strict=True)
        }
        needed = zip(map(str, left), map(str, right), strict=False)
        return len(left) == len(right) and compared.issuperset(needed)

    @property
    def details(self) -> str:
        text = f"{self.how}{' of whole rows' if self.whole else ''} {self._shown_keys()}"
        if self.predicate is not None:
            text += f" where {self.predicate}"
        return f"{text}: {show_columns(self.result)}" if self.result else text

    def pair_schema(self) -> pa.Schema:
        """What the predicate and the result expressions see of a pair."""
        return pair_schema(self.left.schema, self.right.schema)


def _side(pair: frozenset[str], prefix: str, side: Node, other: Node) -> set[str]:
    """The columns of one side among those that are read of a pair: `l.x`, or `x` where only this
    side has it."""
    return {
        name
        for name in side.schema.names
        if f"{prefix}{name}" in pair or (name in pair and name not in other.schema.names)
    }


def _same(schema: pa.Schema, other: pa.Schema, what: str) -> pa.Schema:
    """The common schema of rows that come from both sides; a null column takes the other's type."""
    if schema.names != other.names:
        raise TypeMismatchError(
            f"join: {what} gives the columns {other.names}; the joined rows have {schema.names}."
        )
    merged = []
    for field, other_field in zip(schema, other, strict=True):
        if field.type == other_field.type or pa.types.is_null(other_field.type):
            merged.append(field)
        elif pa.types.is_null(field.type):
            merged.append(other_field)
        elif pa.types.is_integer(field.type) and pa.types.is_integer(other_field.type):
            merged.append(pa.field(field.name, pa.int64()))
        elif (pa.types.is_integer(field.type) or pa.types.is_floating(field.type)) and (
            pa.types.is_integer(other_field.type) or pa.types.is_floating(other_field.type)
        ):
            merged.append(pa.field(field.name, pa.float64()))
        else:
            raise TypeMismatchError(
                f"join: {what} makes {field.name!r} {other_field.type}; the joined rows have "
                f"{field.type}."
            )
    return pa.schema(merged)
