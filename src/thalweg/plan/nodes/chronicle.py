"""Pairs in chronicle context: both rows of a pair are used once, first come, first served."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from thalweg.errors import PlanError, TypeMismatchError
from thalweg.expr import Expr
from thalweg.plan.nodes.base import Named, Node, columns_schema, lifetime_schema
from thalweg.plan.nodes.pairs import comparable, pair_schema
from thalweg.plan.properties import StreamProperties

__all__ = ["Chronicle"]


@dataclass(frozen=True, eq=False)
class Chronicle(Node):
    """R' = {(s2, s2 + 1, result(p1, p2)) | (p2, s2) takes (p1, s1, e1)}.

    Right rows, in the order of their starts, take one left row each: the earliest of equal keys
    that is alive at s2 and that no right row before it took. Ties on the left are broken by end and
    then by all columns, on the right by all columns; null keys match nothing; ends on the right do
    not matter.

    Within a key, left rows that start later must not end earlier. The lifetimes that
    `plan.sequences` gives them are of that kind.
    """

    left: Node
    right: Node
    left_keys: tuple[Expr, ...]
    right_keys: tuple[Expr, ...]
    result: Named
    longest: int
    """No left row lives longer than this."""
    same: tuple[str, ...] = ()
    """Columns of both sides that must be identical too, null being identical to null: the keys of a
    group."""

    def __post_init__(self) -> None:
        if self.longest <= 0:
            raise PlanError(f"chronicle: the longest wait must be positive; got {self.longest}.")
        for one, two in zip(self.left_keys, self.right_keys, strict=True):
            kinds = (
                one.type_in(lifetime_schema(self.left.schema)),
                two.type_in(lifetime_schema(self.right.schema)),
            )
            if not comparable(*kinds):
                raise TypeMismatchError(
                    f"chronicle: {one} is {kinds[0]} and {two} is {kinds[1]}; keys must be of one "
                    "type."
                )
        schema = columns_schema(self.result, self.pair_schema())
        self._settle(schema, StreamProperties(constant_duration=1, firm_ends=True))

    def pair_schema(self) -> pa.Schema:
        """What the result expressions see of a pair."""
        return pair_schema(self.left.schema, self.right.schema)
