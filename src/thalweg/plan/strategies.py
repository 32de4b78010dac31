"""How an overlapping time window is evaluated, and what that costs.

    differential   sums enter and leave: each pane is added once and taken away once.
                   For what adds up exactly (counts, integer sums)
    panes          sub-query: partial results of panes; super-query: those of a window's panes put
                   together. For what is bounded
    wid            a partial result for each window of each tuple, at once. For what is bounded
    rows           rows are kept, and each window is computed from its own. For everything
    adaptive       per group wid or rows, whichever takes less memory now; with panes instead of
                   windows, changing over is cheap

With a the cost of a tuple in the sub-query, b of a result of it, c of a step of the super-query, a'
of a tuple in one window; T tuples and P panes a window, G groups a pane, the cost of one window is
(Eq. 6.1 to 6.4 of Li, Window Queries over Data Streams):

    panes          a T / P + b G + c P G
    differential   a T / P + b G + 2 c' G slide / pane        c': a step that adds or subtracts
    wid            a' T
    rows           2 a' slide T / range          when rows can be taken away one by one; else as wid

The costs are those of this engine, in nanoseconds, measured by `thalweg bench windows`; what
matters is their ratio.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from thalweg.errors import WindowError, did_you_mean
from thalweg.windows import HoppingWindow

__all__ = [
    "STRATEGIES",
    "UNIT_COSTS",
    "Costs",
    "Decision",
    "Evaluation",
    "UnitCosts",
    "Volume",
    "choose",
    "window_costs",
]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What is true of a strategy."""

    keeps: Literal["sums", "partial results", "rows"]
    """What is kept until a window closes."""
    by_pane: bool
    """Whether that is kept for each pane; else for each window."""
    adaptive: bool
    """Whether rows are kept for a group as long as that takes less memory."""

    @property
    def is_differential(self) -> bool:
        """Whether what is kept can be taken away again."""
        return self.keeps == "sums"


STRATEGIES = {
    "differential": Evaluation("sums", by_pane=True, adaptive=False),
    "wid": Evaluation("partial results", by_pane=False, adaptive=False),
    "panes": Evaluation("partial results", by_pane=True, adaptive=False),
    "rows": Evaluation("rows", by_pane=False, adaptive=False),
    "adaptive": Evaluation("partial results", by_pane=False, adaptive=True),
    "adaptive panes": Evaluation("partial results", by_pane=True, adaptive=True),
}


@dataclass(frozen=True, slots=True)
class UnitCosts:
    """Nanoseconds: a tuple into a pane, into a pane's sum, a pane's result, a pane put to a window,
    a pane added to or taken from a sum, a tuple into a window."""

    tuple_in: float = 30.0
    tuple_summed: float = 12.0
    pane_out: float = 45.0
    pane_in: float = 60.0
    pane_change: float = 30.0
    tuple_in_window: float = 16.0


UNIT_COSTS = UnitCosts()

_ROWS_AGAIN = 6.0
"""How many times more a kept row costs in each of its windows than one that goes into a partial
result."""


@dataclass(frozen=True, slots=True)
class Volume:
    """What is expected of a stream: tuples a window, groups a pane."""

    tuples: float
    groups: float

    def __str__(self) -> str:
        return f"{self.tuples:,.0f} tuples a window, {self.groups:,.0f} groups a pane"


@dataclass(frozen=True, slots=True)
class Costs:
    """The cost of one window, by strategy, in nanoseconds."""

    panes: float
    differential: float
    wid: float
    rows: float


def window_costs(window: HoppingWindow, volume: Volume) -> Costs:
    """
    >>> costs = window_costs(HoppingWindow(10, 1), Volume(tuples=1_000, groups=1))
    >>> costs.panes < costs.wid, costs.differential < costs.panes
    (True, True)
    """
    panes = window.size / window.pane
    unit, t, g = UNIT_COSTS, volume.tuples, volume.groups
    below = unit.tuple_in * t / panes + unit.pane_out * g
    return Costs(
        panes=below + unit.pane_in * panes * g,
        differential=unit.tuple_summed * t / panes
        + unit.pane_out * g
        + 2 * unit.pane_change * g * window.hop / window.pane,
        wid=unit.tuple_in_window * t,
        rows=2 * unit.tuple_in_window * window.hop * t / window.size,
    )


@dataclass(frozen=True, slots=True)
class Decision:
    """What was chosen, among what was possible, and why."""

    strategy: str
    possible: tuple[str, ...]
    reason: str
    costs: Costs | None = None
    volume: Volume | None = None

    def remarks(self) -> Iterator[str]:
        """What each evaluation would cost, for `explain()`."""
        costs = self.costs
        if costs is None:
            return
        by_name = {"differential": costs.differential, "panes": costs.panes, "wid": costs.wid}
        shown = ", ".join(f"{name} {ns / 1000:,.1f} us" for name, ns in by_name.items())
        yield (
            f"cost of a window for {self.volume}: {shown}; buffering, one row added and taken at a "
            f"time, {costs.rows / 1000:,.1f} us"
        )


def choose(
    window: HoppingWindow,
    *,
    differential: bool,
    bounded: bool,
    mergeable: bool,
    volume: Volume | None,
    strategy: str | None,
    sketched: str | None = None,
) -> Decision:
    """The strategy for a window.

    `differential`: the aggregates can be taken away exactly. `bounded`: partial results have a
    fixed size. `mergeable`: rows are points and none is taken back, so that partial results may
    replace them at once. `sketched`: an aggregate whose partial results are sketches.
    """
    if sketched is not None and not (bounded and mergeable):
        raise WindowError(
            f"{sketched}: a sketch cannot take a row back, nor stand beside an exact percentile; it"
            " needs points (sliding(...), or points()) of a source that is declared insert_only."
        )
    possible = [] if sketched is not None else ["rows"]
    if bounded and mergeable:
        possible += [name for name, how in STRATEGIES.items() if how.keeps == "partial results"]
    if differential:
        possible.insert(0, "differential")
    if strategy is not None:
        return _decision_for(strategy, tuple(possible), window, volume)
    if volume is None:
        guess = Volume(tuples=window.size / window.pane * 100, groups=1)
        return _cheapest(
            window,
            possible,
            guess,
            "no volume was given, so 100 tuples a pane of one group were assumed",
        )
    return _cheapest(window, possible, volume, "the cheapest for the volume given")


def _decision_for(
    strategy: str, possible: tuple[str, ...], window: HoppingWindow, volume: Volume | None
) -> Decision:
    if strategy not in STRATEGIES:
        raise WindowError(
            f"strategy must be one of {', '.join(STRATEGIES)}{did_you_mean(strategy, STRATEGIES)} "
            f"Got {strategy!r}."
        )
    if strategy not in possible:
        raise WindowError(
            f"using({strategy!r}): cannot evaluate this window; possible: {', '.join(possible)}. "
            "Partial results need bounded aggregates over points (sliding(...), or points()) of a "
            "source that is declared insert_only; differential ones need counts and integer sums."
        )
    return Decision(
        strategy,
        possible,
        "asked for",
        None if volume is None else window_costs(window, volume),
        volume,
    )


def _cheapest(window: HoppingWindow, possible: list[str], volume: Volume, reason: str) -> Decision:
    costs = window_costs(window, volume)
    by_name = {
        "differential": costs.differential,
        "panes": costs.panes,
        "wid": costs.wid,
        "rows": costs.wid * _ROWS_AGAIN,
    }
    offered = [name for name in possible if name in by_name]
    best = min(offered, key=lambda name: by_name[name])
    return Decision(best, tuple(possible), reason, costs, volume)
