"""Nodes with two inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import pyarrow as pa

from thalweg.errors import PlanError, TypeMismatchError
from thalweg.expr import Column, Expr, col
from thalweg.plan.expressions import Keys
from thalweg.plan.nodes.base import (
    Grid,
    Named,
    Node,
    columns_schema,
    lifetime_schema,
    require_condition,
)
from thalweg.plan.nodes.bounds import refuse_endless
from thalweg.plan.nodes.families import by_columns, columns_of
from thalweg.plan.nodes.rows import show_columns
from thalweg.plan.properties import StreamProperties

__all__ = [
    "JOIN_KINDS",
    "ClipBy",
    "Join",
    "KeyedPair",
    "Union",
    "keys_of_pairs",
    "pair_schema",
    "same_groups",
]


JOIN_KINDS = ("inner", "left", "right", "full", "semi", "anti")


@dataclass(frozen=True, eq=False)
class Union(Node):
    """R' = R1 + R2 as bags. Nobody waits for anybody; the CTI is the smaller of the two."""

    left: Node
    right: Node

    row_by_row = True
    before_exchange = False
    reads_start = False
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
                f"union: the columns differ: {_show(self.left.schema)} and "
                f"{_show(self.right.schema)}."
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

    def group_changes(
        self, keys: tuple[str, ...], partitions: list[tuple[str, ...]]
    ) -> dict[str, Any]:
        if len(set(partitions)) > 1:
            raise PlanError(
                "group_apply: a union inside a group needs both sides to come from the group."
            )
        return {}


def _show(schema: pa.Schema) -> str:
    return "(" + ", ".join(f"{f.name} {f.type}" for f in schema) + ")"


@dataclass(frozen=True, eq=False)
class KeyedPair(Node):
    """What `Join` and `ClipBy` share: two inputs whose rows meet when their keys are equal."""

    left: Node
    right: Node
    left_keys: Keys
    right_keys: Keys

    row_by_row = False
    before_exchange = False
    reads_start = True
    identity = frozenset()

    @property
    def same_columns(self) -> tuple[str, ...]:
        """Columns of both sides that must be identical too."""
        return ()

    def useful_promises(self, output_grid: Grid | None) -> Grid | None:
        return None

    @property
    def divided_by(self) -> tuple[Keys, ...] | None:
        same = by_columns(self.same_columns)
        return (*self.left_keys, *same), (*self.right_keys, *same)

    def lower_keys(self, keys: Keys) -> Keys | None:
        return None

    def _require_comparable_keys(self) -> None:
        for left, right in zip(self.left_keys, self.right_keys, strict=True):
            kinds = (
                left.type_in(lifetime_schema(self.left.schema)),
                right.type_in(lifetime_schema(self.right.schema)),
            )
            if not _comparable(*kinds):
                raise TypeMismatchError(
                    f"{self.label}: {left} is {kinds[0]} and {right} is {kinds[1]}; keys must be of"
                    " one type."
                )

    def _shown_keys(self) -> str:
        pairs = [
            str(left) if str(left) == str(right) else f"{left} = {right}"
            for left, right in zip(self.left_keys, self.right_keys, strict=True)
        ]
        return f"on {', '.join(pairs)}" if pairs else "on any"


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

    semi:   {(s1, e1, p1) | it has a match};  anti: {(s1, e1, p1) | it has none}; left, right and full as above
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
        if self.how not in JOIN_KINDS:
            raise PlanError(f"join: how must be one of {', '.join(JOIN_KINDS)}; got {self.how!r}.")
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
        if self.how in ("semi", "anti"):
            schema = self.left.schema
        else:
            schema = columns_schema(self.result, both)
            if self.how in ("left", "full"):
                schema = _same(
                    schema,
                    columns_schema(self.left_only, lifetime_schema(self.left.schema)),
                    "left_only",
                )
            if self.how in ("right", "full"):
                schema = _same(
                    schema,
                    columns_schema(self.right_only, lifetime_schema(self.right.schema)),
                    "right_only",
                )
        one_, two_ = self.left.properties, self.right.properties
        inserts = one_.insert_only and two_.insert_only and self.how == "inner"
        firm = one_.firm_ends and two_.firm_ends and (self.how == "inner" or self.whole)
        self._settle(schema, StreamProperties(insert_only=inserts, firm_ends=firm))

    @property
    def same_columns(self) -> tuple[str, ...]:
        return self.same

    @property
    def left_rows_stay(self) -> bool:
        """Whether the result rows are left rows, whole or in pieces."""
        return self.how in ("semi", "anti")

    @cached_property
    def endless_by(self) -> Node | None:
        """A pair lives while both its rows do; a row that stands alone, as long as that side."""
        left, right = self.left.endless_by, self.right.endless_by
        if self.how in ("inner", "semi"):
            return None if left is None or right is None else left
        alone = {"left": (left,), "anti": (left,), "right": (right,), "full": (left, right)}
        return next((node for node in alone[self.how] if node is not None), None)

    @cached_property
    def never_revises(self) -> bool:
        return self.how == "inner" and self.left.never_revises and self.right.never_revises

    @cached_property
    def progressing(self) -> frozenset[str]:
        """Columns of a side that every result row has, with their own values."""
        left, right = self.left.progressing, self.right.progressing
        if self.left_rows_stay:
            return left if self.whole else frozenset()
        kept = {f"l.{name}" for name in left} if self.how in ("inner", "left") else set()
        kept |= {f"r.{name}" for name in right} if self.how in ("inner", "right") else set()
        return frozenset(
            n for n, expr in self.result if isinstance(expr, Column) and expr.name in kept
        )

    @property
    def reach(self) -> int | None:
        """A pair ends with the first of the two; what has no partner depends on all there is."""
        return 0 if self.how == "inner" and not self.whole else None

    @property
    def promise(self) -> str:
        if self.how == "inner":
            return "the smaller t of both sides"
        return "the smaller t of both sides, or the earliest row that may still find a match"

    def result_keys(self, *keys: Keys) -> Keys | None:
        """By columns that have the key in every row, alone or paired."""
        if self.left_rows_stay:
            return keys[0]
        return keys_of_pairs(keys, self.result, self.left_only, self.right_only)

    @property
    def columns_read(self) -> tuple[frozenset[str] | None, ...]:
        pair = columns_of(self.predicate, *(expr for _, expr in self.result))
        right = frozenset(self.same).union(
            columns_of(*self.right_keys, *(expr for _, expr in self.right_only)),
            _side(pair, "r.", self.right, self.left),
        )
        if self.left_rows_stay:
            return None, right
        left = frozenset(self.same).union(
            columns_of(*self.left_keys, *(expr for _, expr in self.left_only)),
            _side(pair, "l.", self.left, self.right),
        )
        return left, right

    def group_changes(
        self, keys: tuple[str, ...], partitions: list[tuple[str, ...]]
    ) -> dict[str, Any]:
        changes = same_groups(self, self.same, keys, partitions, left_stays=self.left_rows_stay)
        if self.left_rows_stay:
            return changes
        left, right = (set(partition) for partition in partitions)
        sides: dict[str, Expr] = {
            key: col(f"l.{key}" if key in left else f"r.{key}") for key in keys
        }
        changes["result"] = (*self.result, *sides.items())
        preserved = {"left": [left], "right": [right], "full": [left, right]}.get(self.how, [])
        if not all(side >= set(keys) for side in preserved):
            raise PlanError(
                f"group_apply: a {self.how} join inside a group needs its preserved sides to come "
                "from the group."
            )
        carried = tuple((key, col(key)) for key in keys)
        if self.how in ("left", "full"):
            changes["left_only"] = (*self.left_only, *carried)
        if self.how in ("right", "full"):
            changes["right_only"] = (*self.right_only, *carried)
        return changes

    @property
    def details(self) -> str:
        text = f"{self.how}{' of whole rows' if self.whole else ''} {self._shown_keys()}"
        if self.predicate is not None:
            text += f" where {self.predicate}"
        return f"{text}: {show_columns(self.result)}" if self.result else text

    def pair_schema(self) -> pa.Schema:
        """What the predicate and the result expressions see of a pair."""
        return pair_schema(self.left.schema, self.right.schema)


def _is_column(expr: Expr | None, name: str) -> bool:
    return isinstance(expr, Column) and expr.name == name


def _side(pair: frozenset[str], prefix: str, side: Node, other: Node) -> set[str]:
    """The columns of one side among those that are read of a pair: `l.x`, or `x` where only this
    side has it."""
    return {
        name
        for name in side.schema.names
        if f"{prefix}{name}" in pair or (name in pair and name not in other.schema.names)
    }


def pair_schema(left: pa.Schema, right: pa.Schema) -> pa.Schema:
    """The columns of a pair: `l.x`, `r.x`, and each name alone where only one side has it."""
    fields = [pa.field(f"l.{f.name}", f.type) for f in left]
    fields += [pa.field(f"r.{f.name}", f.type) for f in right]
    fields += [f for f in left if f.name not in right.names]
    fields += [f for f in right if f.name not in left.names]
    fields += [pa.field("l._start", pa.int64()), pa.field("r._start", pa.int64())]
    return pa.schema(fields)


def same_groups(
    node: KeyedPair,
    same: tuple[str, ...],
    keys: tuple[str, ...],
    partitions: list[tuple[str, ...]],
    *,
    left_stays: bool,
) -> dict[str, Any]:
    left, right = (set(partition) for partition in partitions)
    if left_stays and not left >= set(keys):
        raise PlanError(
            f"group_apply: the left side of a {node.label} inside a group must come from the group."
        )
    return {"same": (*same, *(key for key in keys if key in left and key in right))}


def keys_of_pairs(
    keys: tuple[Keys, ...], result: Named, left_only: Named = (), right_only: Named = ()
) -> Keys | None:
    """Keys of both sides by columns of the result that have them in every row, alone or paired."""
    names = (
        _carried(result, "l.", left_only, right_only),
        _carried(result, "r.", right_only, left_only),
    )
    found: list[Expr] = []
    for pair in zip(*keys, strict=True):
        fitting = (
            expr.rename(above)
            for expr, above in zip(pair, names, strict=True)
            if expr.columns() <= above.keys()
        )
        key = next(fitting, None)
        if key is None:
            return None
        found.append(key)
    return tuple(found)


def _carried(result: Named, prefix: str, alone: Named, other: Named) -> Mapping[str, str]:
    """Columns of a side, to the result columns that have their values in every row."""
    lone = [dict(columns) for columns in (alone, other) if columns]
    return {
        expr.name.removeprefix(prefix): name
        for name, expr in result
        if isinstance(expr, Column)
        and expr.name.startswith(prefix)
        and all(_is_column(columns.get(name), expr.name.removeprefix(prefix)) for columns in lone)
    }


def _comparable(left: pa.DataType, right: pa.DataType) -> bool:
    return bool(
        left == right
        or (pa.types.is_integer(left) and pa.types.is_integer(right))
        or pa.types.is_null(left)
        or pa.types.is_null(right)
    )


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


@dataclass(frozen=True, eq=False)
class ClipBy(KeyedPair):
    """Each left row is cut at the first start, strictly after its own, of a right row with equal
    keys.

    A stream that is cut by its own starts is one input, which is read once."""

    same: tuple[str, ...] = ()
    """Columns of both sides that must be identical too, null being identical to null: the keys of a
    group."""

    never_revises = False
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

    @property
    def details(self) -> str:
        return self._shown_keys()
