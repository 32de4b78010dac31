"""A source that is itself a merge: streams from outside that mean the same, and come and go."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from thalweg.errors import PlanError
from thalweg.plan.expressions import Keys
from thalweg.plan.merging import Broken, Level, MergePolicy
from thalweg.plan.nodes.families import by_columns
from thalweg.plan.nodes.schemas import require_known
from thalweg.plan.nodes.sources import Source

__all__ = ["MergedSource"]


@dataclass(frozen=True, eq=False)
class MergedSource(Source):
    """R is the table that each of its inputs has. Which inputs there are is no part of the plan:
    they join and leave while the query runs."""

    level: Level = "R3"
    policy: MergePolicy = MergePolicy()
    groups: tuple[str, ...] = ()
    """Columns that, with the start, identify a row; without any, all of them do."""
    tolerance: float = 0.0
    broken: Broken = "cut"

    state = "rows that no CTI has passed, once for all inputs; at R0 to R2 only the last start"
    promise = "the largest t of its inputs; with missing='keep' the smallest"

    def __post_init__(self) -> None:
        require_known(self.groups, self.columns, f"merge {self.name!r}, groups")
        if self.groups and self.level == "R4":
            raise PlanError("merge: at R4 an answer may occur several times; leave groups= out.")
        super().__post_init__()

    @property
    def keys(self) -> Keys:
        """What the bucket of a row is chosen by: what identifies it. Values that only need to be
        about equal (`tolerance`) are left out."""
        exact = [
            entry.name
            for entry in self.columns
            if not (self.tolerance and pa.types.is_floating(entry.type))
        ]
        return by_columns(self.groups or tuple(exact))

    @property
    def details(self) -> str:
        by = f" by group ({', '.join(self.groups)})" if self.groups else ""
        return f"{self.name}, inputs that join and leave, {self.level}{by}"
