"""Where streams come from: sources with their admission policy, and the rows of one group."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from thalweg.errors import PlanError
from thalweg.io.events import TimeColumns
from thalweg.model.clocks import Clock
from thalweg.plan.nodes.base import Node, require_known
from thalweg.plan.properties import StreamProperties
from thalweg.progress.admission import Ingress

__all__ = ["GroupInput", "Ingress", "Source"]


@dataclass(frozen=True, eq=False)
class Source(Node):
    """A stream from outside. R is what its elements say."""

    name: str
    columns: pa.Schema
    ingress: Ingress = Ingress()
    declared: StreamProperties = StreamProperties()
    feed: Any = field(default=None, repr=False)
    """Where a runner finds its rows, if the source was made from something that can be read; plans
    do not look into it."""
    times: TimeColumns | None = None
    """Which columns of its rows are times, where it says so."""
    clock: Clock = None
    """The type of its times, where they are timestamps; None: whole ticks."""

    def __post_init__(self) -> None:
        if self.ingress.partition is not None:
            require_known(
                (self.ingress.partition,), self.columns, f"source {self.name!r}, partition"
            )
        gate = self.ingress.quarantine
        if gate is not None:
            require_known(
                () if gate.key is None else (gate.key,),
                self.columns,
                f"source {self.name!r}, quarantine",
            )
            if not self.declared.insert_only:
                raise PlanError(
                    f"source {self.name!r}: a row in quarantine could not be adjusted while it waits; quarantine= needs insert_only=True."
                )
        if self.ingress.late not in ("error", "drop", "adjust", "side"):
            raise PlanError(
                f"source {self.name!r}: late must be 'error', 'drop', 'adjust' or 'side'; got {self.ingress.late!r}."
            )
        facts = self.declared
        if self.ingress.late == "adjust":  # a late row keeps its end and starts later
            facts = facts.but(constant_duration=None, firm_ends=facts.insert_only)
        self._settle(self.columns, facts)


@dataclass(frozen=True, eq=False)
class GroupInput(Node):
    """Inside a group-and-apply: the rows of one group."""

    columns: pa.Schema
    facts: StreamProperties
    clock: Clock = None

    def __post_init__(self) -> None:
        self._settle(self.columns, self.facts)


# -------------------------------------------------------------------------------------------------
# span operators
