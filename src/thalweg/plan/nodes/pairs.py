"""What operators over pairs of rows share: two inputs whose rows meet when their keys are equal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from thalweg.errors import PlanError, TypeMismatchError
from thalweg.expr import Column, Expr, col
from thalweg.plan.expressions import Keys
from thalweg.plan.nodes.base import Named, Node
from thalweg.plan.nodes.families import ManyRowsOperator, by_columns
from thalweg.plan.nodes.schemas import lifetime_schema
from thalweg.plan.nodes.sources import Source
from thalweg.plan.nodes.traversal import find

__all__ = ["KeyedPair", "grouping_of_pairs", "keys_of_pairs", "pair_schema", "refuse_endless"]


@dataclass(frozen=True, eq=False)
class KeyedPair(ManyRowsOperator):
    """What `Join` and `ClipBy` share: two inputs whose rows meet when their keys are equal."""

    left: Node
    right: Node
    left_keys: Keys
    right_keys: Keys

    identity = frozenset()
    covers_windows = False

    @property
    def same_columns(self) -> tuple[str, ...]:
        """Columns of both sides that must be identical too."""
        return ()

    @property
    def divided_by(self) -> tuple[Keys, ...] | None:
        same = by_columns(self.same_columns)
        return (*self.left_keys, *same), (*self.right_keys, *same)

    def _same_in_groups(
        self, keys: tuple[str, ...], partitions: list[tuple[str, ...]], *, left_stays: bool
    ) -> dict[str, Any]:
        """The field that keeps groups apart inside a group-and-apply: key columns that both sides
        have must be identical. `left_stays`: the result has the columns of the left side alone."""
        left, right = (set(partition) for partition in partitions)
        if left_stays and not left >= set(keys):
            raise PlanError(
                f"group_apply: the left side of a {self.label} inside a group must come from the "
                "group."
            )
        both = (key for key in keys if key in left and key in right)
        return {"same": (*self.same_columns, *both)}

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


def _comparable(left: pa.DataType, right: pa.DataType) -> bool:
    return bool(
        left == right
        or (pa.types.is_integer(left) and pa.types.is_integer(right))
        or pa.types.is_null(left)
        or pa.types.is_null(right)
    )


def refuse_endless(sides: Mapping[str, Node], allowed: tuple[str, ...]) -> None:
    """Raise when a join would keep rows of one side for ever: rows that an operator of the query
    makes endless (`Node.endless_by`) never leave it. `allowed` are sides that stop growing, such as
    tables of reference."""
    for name in allowed:
        if name not in sides:
            raise PlanError(
                f"join: endless must name sides of the join, {' or '.join(sides)}; got {name!r}."
            )
    for name, side in sides.items():
        reason = side.endless_by
        if reason is not None and name not in allowed:
            raise PlanError(
                f"join: the {name} input ({_origin(side)}) would be kept for ever: {reason.label} "
                "gives its rows no end, and no window limits which rows may meet. Give them an "
                "end (set_duration, clip_by, edges) or join within a window (window_join); if "
                f"that side stops growing, say endless={name!r}."
            )


def _origin(node: Node) -> str:
    names = sorted({source.name for source in find(node, Source)})
    return "from " + ", ".join(names) if names else "of a group"


def pair_schema(left: pa.Schema, right: pa.Schema) -> pa.Schema:
    """The columns of a pair: `l.x`, `r.x`, and each name alone where only one side has it."""
    fields = [pa.field(f"l.{f.name}", f.type) for f in left]
    fields += [pa.field(f"r.{f.name}", f.type) for f in right]
    fields += [f for f in left if f.name not in right.names]
    fields += [f for f in right if f.name not in left.names]
    fields += [pa.field("l._start", pa.int64()), pa.field("r._start", pa.int64())]
    return pa.schema(fields)


def grouping_of_pairs(keys: tuple[str, ...], left: tuple[str, ...]) -> Named:
    """Grouping columns as columns of a pair, from the left side where it has them."""
    return tuple((key, col(f"l.{key}" if key in left else f"r.{key}")) for key in keys)


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


def _is_column(expr: Expr | None, name: str) -> bool:
    return isinstance(expr, Column) and expr.name == name
