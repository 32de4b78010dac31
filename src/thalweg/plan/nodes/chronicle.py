"""Pairs in chronicle context: both rows of a pair are used once, first come, first served."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from thalweg.errors import PlanError
from thalweg.expr import Expr, col
from thalweg.plan.expressions import Keys, show_columns
from thalweg.plan.nodes.base import Named
from thalweg.plan.nodes.pairs import KeyedPair, keys_of_pairs, pair_schema, same_groups
from thalweg.plan.nodes.schemas import columns_schema
from thalweg.plan.properties import StreamProperties

__all__ = ["Chronicle"]


@dataclass(frozen=True, eq=False)
class Chronicle(KeyedPair):
    """R' = {(s2, s2 + 1, result(p1, p2)) | (p2, s2) takes (p1, s1, e1)}.

    Right rows, in the order of their starts, take one left row each: the earliest of equal keys
    that is alive at s2 and that no right row before it took. Ties on the left are broken by end and
    then by all columns, on the right by all columns; null keys match nothing; ends on the right do
    not matter.

    Within a key, left rows that start later must not end earlier. The lifetimes that
    `plan.sequences` gives them are of that kind.
    """

    result: Named
    longest: int
    """No left row lives longer than this."""
    same: tuple[str, ...] = ()
    """Columns of both sides that must be identical too, null being identical to null: the keys of a
    group."""

    endless_by = None
    never_revises = False
    reach = None
    progressing = frozenset()
    promise = "the smaller t of both sides"
    state = "left rows that wait, right rows from the CTI on"

    def __post_init__(self) -> None:
        if self.longest <= 0:
            raise PlanError(f"chronicle: the longest wait must be positive; got {self.longest}.")
        self._require_comparable_keys()
        schema = columns_schema(self.result, self.pair_schema())
        self._settle(schema, StreamProperties(constant_duration=1, firm_ends=True))

    def pair_schema(self) -> pa.Schema:
        """What the result expressions see of a pair."""
        return pair_schema(self.left.schema, self.right.schema)

    @property
    def same_columns(self) -> tuple[str, ...]:
        return self.same

    def result_keys(self, *keys: Keys) -> Keys | None:
        return keys_of_pairs(keys, self.result)

    @property
    def columns_read(self) -> tuple[frozenset[str] | None, ...]:
        """All columns break ties."""
        return None, None

    def group_changes(
        self, keys: tuple[str, ...], partitions: list[tuple[str, ...]]
    ) -> dict[str, Any]:
        changes = same_groups(self, self.same, keys, partitions, left_stays=False)
        left = set(partitions[0])
        sides: dict[str, Expr] = {
            key: col(f"l.{key}" if key in left else f"r.{key}") for key in keys
        }
        return {**changes, "result": (*self.result, *sides.items())}

    @property
    def details(self) -> str:
        return f"{self._shown_keys()}: {show_columns(self.result)}"
