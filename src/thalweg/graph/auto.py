"""The policy `auto`: picks a strategy for each path of a graph from measurements, with a reason.

    nothing measured yet           depth-first, consecutive row operators fused
    at most one batch waits        depth-first: all orders hold the same, this one answers first
    several small batches wait     k-batching: waiting batches are taken together, a call for each
                                   costs more than its rows
    several large batches wait,    break points by steepness (see `chain`): they hold the fewest
    bytes fall early on the path   bytes
    else                           depth-first

The final table is the same for all; what differs is when answers come and what is held meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass

from thalweg.graph.chain import measured, paths, place_breaks, steepest
from thalweg.graph.query_graph import QueryGraph
from thalweg.graph.rules import Strategy

__all__ = ["Choice", "average_burst", "choose", "tune"]

_BURST = 1.5
"""Batches that wait, on average, from which on the order of work matters."""
_SMALL = 256
"""Elements a batch below which a kernel's cost is mostly that of the call."""
_TOGETHER = 4_096


@dataclass(frozen=True, slots=True)
class Choice:
    """A strategy for the operators of one path, and why."""

    operators: tuple[str, ...]
    strategy: Strategy
    k: int | None
    reason: str
    breaks: bool = False
    """Whether break points by steepness are placed on the path."""


def choose(graph: QueryGraph, burst: float) -> list[Choice]:
    """One choice for each path; `burst` is how many batches wait when work begins, on average."""
    works = measured(graph)
    found = []
    for path in paths(graph):
        names = tuple(operator.id for operator in path)
        batches = sum(operator.batches for operator in path)
        size = sum(operator.elements_in for operator in path) / batches if batches else 0.0
        if not batches:
            choice = Choice(names, "depth-first", None, "auto: nothing measured yet")
        elif burst <= _BURST:
            choice = Choice(
                names, "depth-first", None, f"auto: {burst:.1f} batches wait, first answers first"
            )
        elif size < _SMALL:
            choice = Choice(
                names,
                "k-batching",
                _TOGETHER,
                f"auto: {burst:.1f} batches of {size:.0f} wait, taken together",
            )
        else:
            falls = steepest([works[name] for name in names])
            text = (
                f"auto: {burst:.1f} batches wait, bytes fall to {works[names[0]].keeps:.2f} first"
                if len(falls) > 1
                else f"auto: {burst:.1f} batches wait, bytes do not fall early"
            )
            choice = Choice(names, "depth-first", None, text, breaks=len(falls) > 1)
        found.append(choice)
    return found


def tune(graph: QueryGraph, burst: float) -> list[Choice]:
    """Make the choices effective, between two steps."""
    choices = choose(graph, burst)
    for pair in graph.breaks:
        graph.remove_break(*pair)
    graph.prefer({})
    graph.use("depth-first")
    for choice in choices:
        graph.use(choice.strategy, k=choice.k, among=choice.operators, reason=choice.reason)
    if any(choice.breaks for choice in choices):
        place_breaks(graph, measured(graph))
    else:
        graph.fuse()
    return choices


def average_burst(graph: QueryGraph) -> float:
    """How many batches a source was given at a time, on average."""
    runs, batches = graph.bursts
    return batches / runs if runs else 0.0
