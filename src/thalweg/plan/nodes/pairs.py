"""Nodes with two inputs."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from thalweg.errors import PlanError, TypeMismatchError
from thalweg.expr import Expr
from thalweg.plan.nodes.base import Named, Node, columns_schema, lifetime_schema, require_condition
from thalweg.plan.nodes.bounds import refuse_endless
from thalweg.plan.properties import StreamProperties

__all__ = ["JOIN_KINDS", "ClipBy", "Join", "Union", "comparable", "pair_schema"]


JOIN_KINDS = ("inner", "left", "right", "full", "semi", "anti")


@dataclass(frozen=True, eq=False)
class Union(Node):
    """R' = R1 + R2 as bags. Nobody waits for anybody; the CTI is the smaller of the two."""

    left: Node
    right: Node

    def __post_init__(self) -> None:
        if (
            self.left.schema.names != self.right.schema.names
            or self.left.schema.types != self.right.schema.types
        ):
            raise TypeMismatchError(
                f"union: the columns differ: {_show(self.left.schema)} and {_show(self.right.schema)}."
            )
        one, two = self.left.properties, self.right.properties
        same = one.constant_duration == two.constant_duration
        self._settle(
            self.left.schema,
            StreamProperties(
                insert_only=one.insert_only and two.insert_only,
                constant_duration=one.constant_duration if same else None,
                firm_ends=one.firm_ends and two.firm_ends,
                group_ctis=one.group_ctis and two.group_ctis,
            ),
        )


def _show(schema: pa.Schema) -> str:
    return "(" + ", ".join(f"{f.name} {f.type}" for f in schema) + ")"


@dataclass(frozen=True, eq=False)
class Join(Node):
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

    left: Node
    right: Node
    left_keys: tuple[Expr, ...]
    right_keys: tuple[Expr, ...]
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

    def __post_init__(self) -> None:
        if self.how not in JOIN_KINDS:
            raise PlanError(f"join: how must be one of {', '.join(JOIN_KINDS)}; got {self.how!r}.")
        refuse_endless({"left": self.left, "right": self.right}, self.endless)
        if self.whole and not (self.left.properties.firm_ends and self.right.properties.firm_ends):
            raise PlanError(
                "join: rows count whole only where their ends do not move; give both sides lifetimes of their own first."
            )
        for one, two in zip(self.left_keys, self.right_keys, strict=True):
            kinds = (
                one.type_in(lifetime_schema(self.left.schema)),
                two.type_in(lifetime_schema(self.right.schema)),
            )
            if not comparable(*kinds):
                raise TypeMismatchError(
                    f"join: {one} is {kinds[0]} and {two} is {kinds[1]}; keys must be of one type."
                )
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

    def pair_schema(self) -> pa.Schema:
        """What the predicate and the result expressions see of a pair."""
        return pair_schema(self.left.schema, self.right.schema)


def pair_schema(left: pa.Schema, right: pa.Schema) -> pa.Schema:
    """The columns of a pair: `l.x`, `r.x`, and each name alone where only one side has it."""
    fields = [pa.field(f"l.{f.name}", f.type) for f in left]
    fields += [pa.field(f"r.{f.name}", f.type) for f in right]
    fields += [f for f in left if f.name not in right.names]
    fields += [f for f in right if f.name not in left.names]
    fields += [pa.field("l._start", pa.int64()), pa.field("r._start", pa.int64())]
    return pa.schema(fields)


def comparable(one: pa.DataType, two: pa.DataType) -> bool:
    return bool(
        one == two
        or (pa.types.is_integer(one) and pa.types.is_integer(two))
        or pa.types.is_null(one)
        or pa.types.is_null(two)
    )


def _same(schema: pa.Schema, other: pa.Schema, what: str) -> pa.Schema:
    """The common schema of rows that come from both sides; a null column takes the other's type."""
    if schema.names != other.names:
        raise TypeMismatchError(
            f"join: {what} gives the columns {other.names}; the joined rows have {schema.names}."
        )
    merged = []
    for one, two in zip(schema, other, strict=True):
        if one.type == two.type or pa.types.is_null(two.type):
            merged.append(one)
        elif pa.types.is_null(one.type):
            merged.append(two)
        elif pa.types.is_integer(one.type) and pa.types.is_integer(two.type):
            merged.append(pa.field(one.name, pa.int64()))
        elif (pa.types.is_integer(one.type) or pa.types.is_floating(one.type)) and (
            pa.types.is_integer(two.type) or pa.types.is_floating(two.type)
        ):
            merged.append(pa.field(one.name, pa.float64()))
        else:
            raise TypeMismatchError(
                f"join: {what} makes {one.name!r} {two.type}; the joined rows have {one.type}."
            )
    return pa.schema(merged)


@dataclass(frozen=True, eq=False)
class ClipBy(Node):
    """Each left row is cut at the first start, strictly after its own, of a right row with equal
    keys."""

    left: Node
    right: Node
    left_keys: tuple[Expr, ...]
    right_keys: tuple[Expr, ...]
    same: tuple[str, ...] = ()
    """Columns of both sides that must be identical too, null being identical to null: the keys of a
    group."""

    def __post_init__(self) -> None:
        for one, two in zip(self.left_keys, self.right_keys, strict=True):
            kinds = (
                one.type_in(lifetime_schema(self.left.schema)),
                two.type_in(lifetime_schema(self.right.schema)),
            )
            if not comparable(*kinds):
                raise TypeMismatchError(
                    f"clip_by: {one} is {kinds[0]} and {two} is {kinds[1]}; keys must be of one type."
                )
        before = self.left.properties
        self._settle(
            self.left.schema,
            before.but(
                ordered=False,
                insert_only=False,
                constant_duration=None,
                firm_ends=False,
                group_ctis=False,
            ),
        )
