"""How a source admits its events: its policies together, as one frozen fact of the plan."""

from __future__ import annotations

from dataclasses import dataclass

from thalweg.progress.policies import ClockPolicy, OnDemand, Policy, Quarantine, RowPolicy, Timer

__all__ = ["LATE", "Ingress", "LatePolicy"]


@dataclass(frozen=True, slots=True)
class LatePolicy:
    """What becomes of late events."""

    stops: bool
    """The query stops with an error."""
    moves: bool
    """They start at the promise instead, so that rows may be shorter than they came."""
    alone: bool
    """Each is written down by itself, so that it must not have become part of a sum before."""


LATE = {
    "error": LatePolicy(stops=True, moves=False, alone=False),
    "drop": LatePolicy(stops=False, moves=False, alone=False),
    "adjust": LatePolicy(stops=False, moves=True, alone=True),
    "side": LatePolicy(stops=False, moves=False, alone=True),
}


@dataclass(frozen=True, slots=True)
class Ingress:
    """How a source's events are admitted: what is late, what becomes of it, which promises are
    made.

    An event is late when its sync time lies before the source's current promise: the latest CTI,
    or, with `disorder` d, the largest sync time seen so far minus d (per partition when `partition`
    names a column).
    """

    late: str = "error"
    """`error`, `drop`, `adjust` (moved to the promise; dropped when nothing is left of it) or
    `side` (to the ledger only)."""
    disorder: int | None = None
    """How much earlier than the newest event an event may be; None: only CTIs in the data make
    promises."""
    period: int | None = None
    """Promises made from `disorder` are rounded down to a multiple of this."""
    partition: str | None = None
    """The column whose values have timelines of their own."""
    low_watermark: tuple[int, int] | None = None
    """With `partition`: (period, lag); a common promise at multiples of period, lag behind the
    newest event of any partition."""
    trusted: bool = False
    """The elements come from another part of this system: they are taken as they are, and not
    tracked."""
    progress: tuple[Policy, ...] = ()
    """More ways to come to a promise, beside `disorder`; the source promises the latest of
    theirs."""
    quarantine: Quarantine | None = None
    """Limits beyond which the clock of a row must be wrong; such rows are held apart."""

    patterns: bool = False
    """Whether general punctuation may come, which may be about any columns: all rows are then
    judged in one bucket, in their order."""
    columns: tuple[tuple[str, int], ...] = ()
    """Columns that progress as the start does, each with its disorder: no row comes whose value is
    that much smaller than the largest before it."""

    @property
    def late_policy(self) -> LatePolicy:
        """What becomes of late events."""
        return LATE[self.late]

    @property
    def observed(self) -> tuple[RowPolicy, ...]:
        """The policies, beside `disorder`, that follow the rows themselves."""
        return tuple(policy for policy in self.progress if isinstance(policy, RowPolicy))

    @property
    def observes(self) -> bool:
        """Whether promises follow from the times of rows that were seen."""
        return self.disorder is not None or bool(self.observed)

    @property
    def clocks(self) -> tuple[ClockPolicy, ...]:
        """The policies that follow a clock."""
        return tuple(policy for policy in self.progress if isinstance(policy, ClockPolicy))

    @property
    def timer(self) -> Timer | None:
        return next((policy for policy in self.progress if isinstance(policy, Timer)), None)

    @property
    def on_demand(self) -> OnDemand | None:
        return next((policy for policy in self.progress if isinstance(policy, OnDemand)), None)
