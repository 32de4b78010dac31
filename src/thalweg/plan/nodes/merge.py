"""LMerge in a plan: streams that mean the same become one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from thalweg.errors import PlanError, TypeMismatchError
from thalweg.model.type_names import shown_columns
from thalweg.plan.expressions import Keys
from thalweg.plan.merging import (
    Broken,
    InputFacts,
    Level,
    LevelChoice,
    MergePolicy,
    check_merge,
    choose_level,
)
from thalweg.plan.nodes.base import Grid, Node
from thalweg.plan.nodes.families import ManyRowsOperator, by_columns
from thalweg.plan.properties import StreamProperties

__all__ = ["Merge"]


@dataclass(frozen=True, eq=False)
class Merge(ManyRowsOperator):
    """R' = R1 = ... = Rn: the inputs are physical forms of one table, and so is the result."""

    streams: tuple[Node, ...]
    policy: MergePolicy = MergePolicy()
    level: Level | None = None
    """None: the cheapest that fits."""
    groups: tuple[str, ...] = ()
    """Columns that, with the start, identify an answer; without any, what follows from the
    plan."""
    tolerance: float = 0.0
    broken: Broken = "cut"

    progressing = frozenset()
    identity = frozenset()
    covers_windows = False
    reach = None
    state = "rows that no CTI has passed, once for all inputs; at R0 to R2 only the last start"

    def __post_init__(self) -> None:
        if not self.streams:
            raise PlanError("merge: there must be at least one stream.")
        first = self.streams[0].schema
        for number, other in enumerate(self.streams[1:], 2):
            if other.schema.names != first.names or other.schema.types != first.types:
                raise TypeMismatchError(
                    f"merge: stream {number} has other columns than the first one: "
                    f"{shown_columns(other.schema)}; and {shown_columns(first)}. Streams that are "
                    "merged mean the same."
                )
        check_merge(first, self.level, self.groups, self.tolerance, self.broken)
        properties = [stream.properties for stream in self.streams]
        keys = {each.group_keys for each in properties}
        self._settle(
            first,
            StreamProperties(
                insert_only=all(each.insert_only for each in properties) and self._follows_ctis,
                unique_start=all(each.unique_start for each in properties) and len(keys) == 1,
                payload_start_key=all(each.payload_start_key for each in properties),
                group_keys=properties[0].group_keys if len(keys) == 1 else (),
                group_ctis=any(each.group_ctis for each in properties) and len(keys) == 1,
            ),
        )

    def choose(self, *, final: bool) -> LevelChoice:
        """The level at which it runs, for a query that asks for final answers or not."""
        found = choose_level([_facts(stream, final=final) for stream in self.streams])
        if self.level is None:
            if self.groups and found.level in ("R3", "R4"):
                return LevelChoice("R3", self.groups, reason="groups= says so")
            return found
        groups = self.groups or (found.groups if self.level == "R3" else ())
        return LevelChoice(self.level, groups, found.sort, "level= says so")

    @cached_property
    def endless_by(self) -> Node | None:
        return self.streams[0].endless_by

    @cached_property
    def never_revises(self) -> bool:
        return self._follows_ctis and all(stream.never_revises for stream in self.streams)

    @property
    def _follows_ctis(self) -> bool:
        """Whether a row that is shown changes only where a CTI makes it necessary: inputs that
        agree and never revise then give an answer that does not either."""
        return self.policy.revise == "lazy" or self.level in ("R0", "R1", "R2")

    def useful_promises(self, output_grid: Grid | None) -> Grid | None:
        return output_grid if self.policy.lag == 0 else None

    @property
    def promise(self) -> str:
        return (
            "the smallest t of its inputs"
            if self.policy.missing == "keep"
            else "the largest t of its inputs"
        )

    @property
    def divided_by(self) -> tuple[Keys, ...] | None:
        groups = self.choose(final=False).groups
        return (by_columns(groups or tuple(self.schema.names)),) * len(self.streams)

    def result_keys(self, *keys: Keys) -> Keys | None:
        return keys[0]

    def group_changes(
        self, keys: tuple[str, ...], partitions: list[tuple[str, ...]]
    ) -> dict[str, Any]:
        raise PlanError("group_apply: merge the grouped streams, not the streams inside a group.")

    @property
    def details(self) -> str:
        return f"{len(self.streams)} streams, {self.choose(final=False)}"

    def remarks(self) -> Iterator[str]:
        yield f"with final answers {self.choose(final=True)}"


def _facts(stream: Node, *, final: bool) -> InputFacts:
    """What holds for the elements of a stream, not only for its table."""
    properties = stream.properties
    return InputFacts(
        properties,
        insert_only=properties.insert_only or (final and stream.never_revises),
        ordered=properties.ordered,
        whole_runs=stream.whole_runs_when_final if final else stream.whole_runs,
    )
