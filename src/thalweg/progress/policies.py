"""Progress policies: how a source comes to its promises. Each is a small fact about a source;
several make a stronger one together.

    policy            what is true of the source                       its promise
    ordered()         rows come in order                               the newest time
    late_by(d)        no row comes more than d behind the newest       the newest time - d
    late_by_rows(n)   no row is overtaken by more than n others        the newest before the last n
    estimated(p)      lateness is measured; a share p is on time       the newest time - that slack
    timer(s)          while a source is silent its clock is read       now - s
    on_demand(s)      the same, only when an operator waits for it     now - s
    (none)             promises come in the data

A source promises the latest of what its policies say. `quarantine` is not a promise: it keeps rows
with an impossible clock away from all of them. A policy at work on rows is a tracker.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

from thalweg.errors import PlanError
from thalweg.model.time import Duration, Times, duration_us
from thalweg.progress.estimate import EstimateTracker, sample_of
from thalweg.progress.overtaken import RowsTracker, steps_of
from thalweg.progress.summary import Sighting
from thalweg.progress.trackers import Tracker

__all__ = [
    "ClockPolicy",
    "Estimated",
    "LateBy",
    "LateByRows",
    "OnDemand",
    "Policy",
    "Quarantine",
    "RowPolicy",
    "Timer",
    "estimated",
    "late_by",
    "late_by_rows",
    "on_demand",
    "ordered",
    "quarantine",
    "timer",
]


class Policy(ABC):
    """A fact about a source from which promises follow."""

    __slots__ = ()

    @abstractmethod
    def __str__(self) -> str:
        """What `explain()` shows."""


class RowPolicy(Policy):
    """A fact about rows: promises follow from those that were seen, by a tracker."""

    __slots__ = ()

    @abstractmethod
    def tracker(self) -> Tracker:
        """A new tracker of this policy, for one timeline."""

    @abstractmethod
    def summarize(self, sync: Times, sighting: Sighting) -> Sighting:
        """The summary of a chunk, with what the tracker needs of its rows."""


class ClockPolicy(Policy):
    """A fact about time: promises follow from a clock."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class LateBy(Policy):
    """At most `ticks` late."""

    ticks: int

    def __str__(self) -> str:
        return f"at most {self.ticks} late" if self.ticks else "in order"


@dataclass(frozen=True, slots=True)
class LateByRows(RowPolicy):
    """Overtaken by at most `rows` rows."""

    rows: int

    def __str__(self) -> str:
        return f"at most {self.rows} rows late"

    def tracker(self) -> Tracker:
        return RowsTracker(self.rows)

    def summarize(self, sync: Times, sighting: Sighting) -> Sighting:
        return replace(sighting, steps=steps_of(sync, self.rows))


@dataclass(frozen=True, slots=True)
class Estimated(RowPolicy):
    """As late as the share `percentile` of the rows seen so far; no promise before `warmup`
    rows."""

    percentile: float
    warmup: int

    def __str__(self) -> str:
        return f"late as {self.percentile:.6g} of the rows so far"

    def tracker(self) -> Tracker:
        return EstimateTracker(self.percentile, self.warmup)

    def summarize(self, sync: Times, sighting: Sighting) -> Sighting:
        return replace(sighting, sample=sample_of(sync))


@dataclass(frozen=True, slots=True)
class Timer(ClockPolicy):
    """After a silence of `lull`, and then each `every`: the clock minus `behind`."""

    behind: int
    every: int
    lull: int

    def __str__(self) -> str:
        return f"the clock minus {self.behind} after a silence of {self.lull}"


@dataclass(frozen=True, slots=True)
class OnDemand(ClockPolicy):
    """Whenever an operator waits for this source alone: the clock minus `behind`."""

    behind: int

    def __str__(self) -> str:
        return f"the clock minus {self.behind} when an operator waits"


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Rows more than `ahead` after the reference wait until it comes near; rows more than `behind`
    before it are set aside.

    With `key` the reference is the time that `quorum` different keys have reached: so many clocks
    are not wrong together. Without, it is the clock of this machine.
    """

    ahead: int
    behind: int | None = None
    key: str | None = None
    quorum: int = 2
    hold: int = 100_000

    def __str__(self) -> str:
        reference = "the clock" if self.key is None else f"{self.quorum} of {self.key}"
        return f"clocks within {self.ahead} of {reference}"


def ordered() -> LateBy:
    """Rows come in the order of their times."""
    return LateBy(0)


def late_by(time: Duration) -> LateBy:
    """No row comes more than this behind the newest one."""
    return LateBy(_ticks(time, "late_by"))


def late_by_rows(rows: int) -> LateByRows:
    """No row is overtaken by more than this many others."""
    return LateByRows(_at_least(0, rows, "late_by_rows"))


def estimated(percentile: float = 0.999, *, warmup: int = 1_000) -> Estimated:
    """The lateness of rows is measured as they come; this share of them is to be on time.

    The slack is made of the past alone, so a change for the worse makes rows late. More of them
    than the share allows is reported by a warning (`EstimateWarning`) and in the status of the
    query.
    """
    if not 0 < percentile <= 1:
        raise PlanError(
            f"estimated: the percentile is a share of all rows, such as 0.999; got {percentile!r}."
        )
    return Estimated(float(percentile), _at_least(1, warmup, "estimated, warmup"))


def timer(
    behind: Duration, *, every: Duration | None = None, lull: Duration | None = None
) -> Timer:
    """While a source is silent, it has come as far as the clock says, minus `behind`.

    `behind` is what its clock, its way here and its own buffers may lag in all. `every` is how
    often the timer goes off (by default a quarter of `behind`), `lull` the silence after which it
    does (`behind`). Needs times that are microseconds since the epoch, as the clock has them.
    """
    ticks = _ticks(behind, "timer")
    period = max(1, ticks // 4) if every is None else _ticks(every, "timer, every", least=1)
    return Timer(ticks, period, ticks if lull is None else _ticks(lull, "timer, lull"))


def on_demand(behind: Duration) -> OnDemand:
    """When the answer waits for this source alone, it is asked, and says what the clock says, minus
    `behind`."""
    return OnDemand(_ticks(behind, "on_demand"))


def quarantine(
    ahead: Duration,
    *,
    behind: Duration | None = None,
    key: str | None = None,
    quorum: int = 2,
    hold: int = 100_000,
) -> Quarantine:
    """Keep rows with an impossible clock away from the promises of their source.

    A row more than `ahead` after the reference waits (up to `hold` rows do) until the reference has
    come near, and is then let in as if it had just come. A row more than `behind` before it is set
    aside. Both are reported. The reference is the time that `quorum` values of the column `key`
    have reached; without a key, the clock.
    """
    if key is None and quorum != 2:
        raise PlanError("quarantine: quorum= counts keys; give key= too.")
    return Quarantine(
        _ticks(ahead, "quarantine, ahead"),
        None if behind is None else _ticks(behind, "quarantine, behind"),
        key,
        _at_least(2, quorum, "quarantine, quorum"),
        _at_least(0, hold, "quarantine, hold"),
    )


def _at_least(least: int, value: object, what: str) -> int:
    if not isinstance(value, int) or value < least:
        raise PlanError(f"{what} must be {least} or more; got {value!r}.")
    return value


def _ticks(value: Duration, what: str, *, least: int = 0) -> int:
    return _at_least(least, duration_us(value, what=what), what)


def policies_of(progress: Policy | Sequence[Policy] | None, where: str) -> tuple[Policy, ...]:
    """The policies of a source as a tuple: none, one or several, at most one of a kind."""
    if progress is None:
        return ()
    candidates: tuple[object, ...] = (
        tuple(progress) if isinstance(progress, Sequence) else (progress,)
    )
    policies: list[Policy] = []
    for policy in candidates:
        if not isinstance(policy, Policy):
            raise PlanError(
                f"{where}: progress= takes ordered(), late_by(), late_by_rows(), estimated(), "
                f"timer(), on_demand(); got {policy!r}."
            )
        if any(type(other) is type(policy) for other in policies):
            raise PlanError(
                f"{where}: progress= has {type(policy).__name__} twice; give one of a kind."
            )
        policies.append(policy)
    return tuple(policies)
