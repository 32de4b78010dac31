"""Where the rows of a plan are: not divided yet, or in buckets by keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from thalweg.plan.expressions import Keys
from thalweg.plan.nodes import Node
from thalweg.shards.fragments.fragment import Exchange

__all__ = ["Placed", "agreed_keys", "same_keys", "within"]


@dataclass(frozen=True, eq=False)
class Placed:
    """A plan whose rows lie in buckets by `keys` over its columns.

    `free`: not placed yet, the plan reads the sources themselves. `keys` is None if rows are placed
    by something that is not in the plan's columns.
    """

    plan: Node
    free: bool
    keys: Keys | None = ()
    inputs: Mapping[str, Exchange] = field(default_factory=dict)

    @property
    def single(self) -> bool:
        return not self.free and self.keys == ()


def within(keys: Keys | None, required_keys: Keys) -> bool:
    """Whether rows that agree on the required columns are in one bucket already."""
    columns = {name for expr in required_keys for name in expr.columns()}
    return bool(keys) and all(expr.columns() and expr.columns() <= columns for expr in keys or ())


def same_keys(left: Keys | None, right: Keys) -> bool:
    return (
        left is not None
        and len(left) == len(right)
        and all(a.same(b) for a, b in zip(left, right, strict=True))
    )


def agreed_keys(below: Sequence[Placed], sides: tuple[Keys, ...]) -> list[int]:
    """The positions of the join keys that choose the bucket: the keys of an input that is placed
    already, else all."""
    for side, keys in zip(below, sides, strict=True):
        if side.free or side.keys is None:
            continue
        found = [
            next((i for i, key in enumerate(keys) if key.same(expr)), None) for expr in side.keys
        ]
        if all(i is not None for i in found):
            return [i for i in found if i is not None]
    return list(range(len(sides[0])))
