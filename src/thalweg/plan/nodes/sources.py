"""Where streams come from: sources with their admission policy, and the rows of one group."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from thalweg.errors import PlanError
from thalweg.plan.nodes.base import Node, require_known
from thalweg.plan.policies import Estimated, LateByRows, OnDemand, Policy, Quarantine, Timer
from thalweg.plan.properties import StreamProperties

__all__ = ["GroupInput", "Ingress", "Source"]


@dataclass(frozen=True, slots=True)
class Ingress:
    """How a source's events are admitted: what is late, what becomes of it, which promises are made.

    An event is late when its sync time lies before the source's current promise: the latest CTI, or, with
    `disorder` d, the largest sync time seen so far minus d (per partition when `partition` names a column).
    """

    late: str = "error"
    """`error`, `drop`, `adjust` (moved to the promise; dropped when nothing is left of it) or `side` (to the ledger only)."""
    disorder: int | None = None
    """How much earlier than the newest event an event may be; None: only CTIs in the data make promises."""
    period: int | None = None
    """Promises made from `disorder` are rounded down to a multiple of this."""
    partition: str | None = None
    """The column whose values have timelines of their own."""
    low_watermark: tuple[int, int] | None = None
    """With `partition`: (period, lag); a common promise at multiples of period, lag behind the newest event of any partition."""
    trusted: bool = False
    """The elements come from another part of this system: they are taken as they are, and not tracked."""
    progress: tuple[Policy, ...] = ()
    """More ways to come to a promise, beside `disorder`; the source promises the latest of what they say."""
    quarantine: Quarantine | None = None
    """Which clocks are impossible; rows that show such a one are kept away from the others."""

    @property
    def observed(self) -> tuple[LateByRows | Estimated, ...]:
        """The policies, beside `disorder`, that follow the rows themselves."""
        return tuple(one for one in self.progress if isinstance(one, (LateByRows, Estimated)))

    @property
    def observes(self) -> bool:
        """Whether promises follow from the times of rows that were seen."""
        return self.disorder is not None or bool(self.observed)

    @property
    def clocks(self) -> tuple[Timer | OnDemand, ...]:
        """The policies that follow a clock."""
        return tuple(one for one in self.progress if isinstance(one, (Timer, OnDemand)))

    @property
    def timer(self) -> Timer | None:
        return next((one for one in self.progress if isinstance(one, Timer)), None)

    @property
    def on_demand(self) -> OnDemand | None:
        return next((one for one in self.progress if isinstance(one, OnDemand)), None)


@dataclass(frozen=True, eq=False)
class Source(Node):
    """A stream from outside. R is what its elements say."""

    name: str
    columns: pa.Schema
    ingress: Ingress = Ingress()
    declared: StreamProperties = StreamProperties()
    feed: Any = field(default=None, repr=False)
    """Where a runner finds its rows, if the source was made from something that can be read; plans do not look into it."""

    def __post_init__(self) -> None:
        if self.ingress.partition is not None:
            require_known((self.ingress.partition,), self.columns, f"source {self.name!r}, partition")
        gate = self.ingress.quarantine
        if gate is not None:
            require_known(() if gate.key is None else (gate.key,), self.columns, f"source {self.name!r}, quarantine")
            if not self.declared.insert_only:
                raise PlanError(
                    f"source {self.name!r}: a row in quarantine could not be adjusted while it waits; quarantine= needs insert_only=True."
                )
        if self.ingress.late not in ("error", "drop", "adjust", "side"):
            raise PlanError(f"source {self.name!r}: late must be 'error', 'drop', 'adjust' or 'side'; got {self.ingress.late!r}.")
        self._settle(self.columns, self.declared)


@dataclass(frozen=True, eq=False)
class GroupInput(Node):
    """Inside a group-and-apply: the rows of one group."""

    columns: pa.Schema
    facts: StreamProperties

    def __post_init__(self) -> None:
        self._settle(self.columns, self.facts)


# ------------------------------------------------------------------------------------------------- span operators
