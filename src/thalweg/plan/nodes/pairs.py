"""What operators over pairs of rows share: two inputs whose rows meet when their keys are equal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from thalweg.errors import PlanError, TypeMismatchError
from thalweg.expr import Column, Expr
from thalweg.plan.expressions import Keys
from thalweg.plan.nodes.base import Grid, Named, Node
from thalweg.plan.nodes.families import by_columns
from thalweg.plan.nodes.schemas import lifetime_schema

__all__ = ["KeyedPair", "keys_of_pairs", "pair_schema", "same_groups"]


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
    covers_windows = False

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


def _comparable(left: pa.DataType, right: pa.DataType) -> bool:
    return bool(
        left == right
        or (pa.types.is_integer(left) and pa.types.is_integer(right))
        or pa.types.is_null(left)
        or pa.types.is_null(right)
    )


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


def _is_column(expr: Expr | None, name: str) -> bool:
    return isinstance(expr, Column) and expr.name == name
