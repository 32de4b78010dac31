"""Next-operator selection: after an operator has run, which one is next.

A rule reads one row of the state table and answers with a row and whether to run it: `RUN` executes
that row, `ASK` applies that row's own rule without executing it (this is what backtracking does),
and (None, ASK) returns control to the scheduler. The moves are those of the literature:

    Forward     the successor, if it can use what was produced; else the end of a promise arc, if a
                promise was written there
    Encore      the same operator, if it has more input
    Backtrack   ask the predecessor that feeds an input which is empty

    depth-first    Forward, Encore, Backtrack
    breadth-first  Encore, Forward, Backtrack
    round-robin    Encore, Forward, exit       (only on paths)
    k-batching     Encore while fewer than k elements were taken, Forward, Backtrack

and each has five forms: `NOS` within a path, `Source` where rows come from outside (nothing to
backtrack to), `Sink` where rows leave (nothing to go forward to), `Source-Sink` for both, and
`Fork`, which runs its consumers in turn.

Our operators wait for no order: one that was given a batch can always use it. Where one does wait
(those of the literature, kept as baselines), Forward asks it, and it backtracks to the input that
is empty.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from thalweg.graph.state_table import Row

__all__ = [
    "ASK",
    "FORMS",
    "RULES",
    "RUN",
    "STRATEGIES",
    "Form",
    "Rule",
    "Strategy",
    "StrategyFacts",
]

RUN, ASK = True, False

Next: TypeAlias = "tuple[Row | None, bool]"
Rule: TypeAlias = "Callable[[Row], Next]"
Strategy = Literal["depth-first", "breadth-first", "round-robin", "k-batching"]
Form = Literal["NOS", "Source", "Sink", "Source-Sink", "Fork"]


@dataclass(frozen=True, slots=True)
class StrategyFacts:
    """Facts about a strategy besides its rules."""

    short_name: str
    """In the state table."""
    backtracks_at_once: bool
    """Whether an operator without input does nothing but ask its predecessor."""
    by_count: bool
    """Whether k elements are taken before the next decision, instead of a batch."""
    only_paths: bool
    """Whether it runs only where operators neither meet nor divide: it returns control where others
    backtrack."""


STRATEGIES: dict[Strategy, StrategyFacts] = {
    "depth-first": StrategyFacts("DFS", backtracks_at_once=True, by_count=False, only_paths=False),
    "breadth-first": StrategyFacts(
        "BFS", backtracks_at_once=True, by_count=False, only_paths=False
    ),
    "round-robin": StrategyFacts("RR", backtracks_at_once=False, by_count=False, only_paths=True),
    "k-batching": StrategyFacts("DFS", backtracks_at_once=False, by_count=True, only_paths=False),
}
"""k-batching is depth-first by k elements."""
FORMS: tuple[Form, ...] = ("NOS", "Source", "Sink", "Source-Sink", "Fork")

_EXIT: Next = (None, ASK)


def _backtrack(row: Row) -> Next:
    """Ask the predecessor that feeds an empty input; of several, one that has something to do. A
    predecessor that would only ask its own predecessor is skipped."""
    pred = row.pred
    while len(pred) == 1:
        row = pred[0]
        if not row.hands_back or row.signals or row.more():
            return row, ASK
        pred = row.pred
    if not pred:
        return _EXIT
    empty = [
        pred for pred, arc in zip(row.pred, row.feeds, strict=True) if not arc.size()
    ] or row.pred
    return next((pred for pred in empty if pred.more()), empty[0]), ASK


# depth-first


def _depth_first(row: Row) -> Next:
    behind = row.succ[0]
    if behind.only.size() if behind.only is not None else behind.more():
        return behind, RUN
    if row.signals or row.patient:
        ahead = row.ahead()
        if ahead is not None:
            return ahead, RUN
        if row.stalls():
            return behind, ASK
    if row.only.size() if row.only is not None else row.more():
        return row, RUN
    return _backtrack(row)


def _depth_first_source(row: Row) -> Next:
    ahead = row.ahead()
    if ahead is not None:
        return ahead, RUN
    if row.stalls():
        return row.succ[0], ASK
    return (row, RUN) if row.more() else _EXIT


# breadth-first


def _breadth_first(row: Row) -> Next:
    if row.more():
        return row, RUN
    ahead = row.ahead()
    if ahead is not None:
        return ahead, RUN
    return (row.succ[0], ASK) if row.stalls() else _backtrack(row)


def _breadth_first_source(row: Row) -> Next:
    if row.more():
        return row, RUN
    ahead = row.ahead()
    return _EXIT if ahead is None else (ahead, RUN)


# round-robin returns control where breadth-first backtracks, as a source of that does

_round_robin = _breadth_first_source


# k-batching


def _k_batching(row: Row) -> Next:
    return _after_k(row) or _backtrack(row)


def _k_batching_source(row: Row) -> Next:
    return _after_k(row) or _EXIT


def _after_k(row: Row) -> Next | None:
    """The next move: the rest of k elements, then their answers, then the next k elements; a
    predecessor is not asked for more. None: there is no input left."""
    if row.taken < row.k and row.more():
        return row, RUN
    row.taken = 0
    ahead = row.ahead()
    if ahead is not None:
        return ahead, RUN
    return (row, RUN) if row.more() else None


# A sink ignores Forward; what remains is the same for all strategies that backtrack.


def _sink(row: Row) -> Next:
    row.taken = 0
    return (row, RUN) if row.more() else _backtrack(row)


def _sink_exit(row: Row) -> Next:
    row.taken = 0
    return (row, RUN) if row.more() else _EXIT


# A fork runs the next consumer, in turn, that has input; where the order of two matters to an
# operator behind both, the first that has.


def _next_consumer(row: Row) -> Row | None:
    at = row.waiting_consumer()
    if at is None:
        return None
    row.turn = 0 if row.in_order else (at + 1) % len(row.succ)
    return row.succ[at]


def _fork(row: Row) -> Next:
    consumer = _next_consumer(row)
    if consumer is not None:
        return consumer, RUN
    return _backtrack(row) if row.pred else _EXIT


def _fork_exit(row: Row) -> Next:
    consumer = _next_consumer(row)
    return _EXIT if consumer is None else (consumer, RUN)


RULES: dict[tuple[Strategy, Form], Rule] = {
    ("depth-first", "NOS"): _depth_first,
    ("depth-first", "Source"): _depth_first_source,
    ("breadth-first", "NOS"): _breadth_first,
    ("breadth-first", "Source"): _breadth_first_source,
    ("round-robin", "NOS"): _round_robin,
    ("round-robin", "Source"): _round_robin,
    ("round-robin", "Sink"): _sink_exit,
    ("round-robin", "Fork"): _fork_exit,
    ("k-batching", "NOS"): _k_batching,
    ("k-batching", "Source"): _k_batching_source,
}
for _strategy in STRATEGIES:
    RULES.setdefault((_strategy, "Sink"), _sink)
    RULES.setdefault((_strategy, "Source-Sink"), _sink_exit)
    RULES.setdefault((_strategy, "Fork"), _fork)
