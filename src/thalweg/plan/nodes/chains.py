"""Nodes whose rows form chains: sessions as lifetimes, rows of equal payload that touch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from thalweg.errors import WindowError
from thalweg.model.clocks import lasting
from thalweg.plan.nodes.base import Node
from thalweg.plan.nodes.families import GroupedOperator, show_keys
from thalweg.plan.nodes.schemas import require_known
from thalweg.plan.properties import StreamProperties

__all__ = ["Distinct", "SessionLifetime", "Stitch"]


@dataclass(frozen=True, eq=False)
class SessionLifetime(GroupedOperator):
    """Trill's session: (s, e, p) -> (s, session end, p). The running form: every row lives until
    its session closes.

    The starts of a group, in order, form chains: the next start belongs to the chain while it is
    less than `timeout` after the previous one. A row ends `timeout` after the last start of its
    chain. With `max_duration` m the chain is also cut on a fixed grid: at L, L + m, L + 2m, ...
    where L is the first multiple of m after the chain's first start if that start is itself a
    multiple, and the second if it is not; a row ends at the first cut after its start if that comes
    before the end of the chain.
    """

    input: Node
    timeout: int
    max_duration: int | None = None
    keys: tuple[str, ...] = ()

    never_revises = False
    covers_windows = True
    reach = None
    state = "the rows of sessions that are not closed"
    promise = "t"

    def __post_init__(self) -> None:
        if self.timeout <= 0 or (self.max_duration is not None and self.max_duration <= 0):
            raise WindowError("session_lifetime: timeout and max_duration must be positive.")
        require_known(self.keys, self.input.schema, "session_lifetime")
        self._settle(self.input.schema, self.input.properties.with_new_lifetimes())

    @property
    def grouping(self) -> tuple[str, ...]:
        return self.keys

    @property
    def details(self) -> str:
        longest = f", at most {lasting(self.max_duration)}" if self.max_duration else ""
        return f"timeout {lasting(self.timeout)}{longest}{show_keys(self.keys)}"


@dataclass(frozen=True, eq=False)
class EqualRows(GroupedOperator):
    """What `Stitch` and `Distinct` share: rows of equal payload form a group."""

    never_revises = False
    covers_windows = False
    reach = None
    promise = "t, or the earliest start of a row that may still grow"
    details = ""

    @property
    def grouping(self) -> tuple[str, ...]:
        return tuple(self.schema.names)

    def group_changes(
        self, keys: tuple[str, ...], partitions: list[tuple[str, ...]]
    ) -> dict[str, Any]:
        """The grouping columns are part of the payload."""
        return {}

    @cached_property
    def endless_by(self) -> Node | None:
        return self.inputs[0].endless_by


@dataclass(frozen=True, eq=False)
class Stitch(EqualRows):
    """Rows of equal payload where one ends exactly when another starts become one row, as often as
    possible.

    With duplicates: at each time t the rows that end at t, ordered by (start, end), are joined one
    to one with the rows that start at t, ordered by end, as many as there are of the fewer. A chain
    of joined rows becomes [start of its first row, end of its last row).
    """

    input: Node

    state = "the rows that may still be touched"

    def __post_init__(self) -> None:
        self._settle(self.input.schema, self.input.properties.with_new_lifetimes())


@dataclass(frozen=True, eq=False)
class Distinct(EqualRows):
    """At every instant each payload once: the snapshots of the rows of equal payload."""

    input: Node

    state = "the rows that the CTI has not passed"

    def __post_init__(self) -> None:
        before = self.input.properties
        self._settle(
            self.input.schema,
            StreamProperties(
                payload_start_key=True, group_ctis=before.group_ctis, group_keys=before.group_keys
            ),
        )

    @cached_property
    def progressing(self) -> frozenset[str]:
        return self.input.progressing
