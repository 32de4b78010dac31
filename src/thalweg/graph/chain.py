"""Break points by the steepest fall of bytes per time, as the Chain scheduler places them.

A row that enters a path has size 1; after operators 1..i it has size s_i and has cost t_i. From
each point the path goes on to the later point that is reached by the steepest descent,

    slope(i, j) = (s_i - s_j) / (t_j - t_i)

so that the parts between break points have falling slopes, and the scheduler runs the part with the
steepest slope that has input: at any time, no other order has freed more bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from thalweg.graph.graph_operator import GraphOperator, linear_runs
from thalweg.graph.query_graph import QueryGraph

__all__ = ["Segment", "Work", "measured", "paths", "place_breaks", "row_bytes", "steepest"]

_TEXT_BYTES = 16
"""The assumed size of a text value."""


@dataclass(frozen=True, slots=True)
class Work:
    """The work of an operator on one row: its duration, and the share of the row's bytes that is
    left."""

    cost: float
    keeps: float


@dataclass(frozen=True, slots=True)
class Segment:
    """Operators [begin, end) of a path, and how fast bytes fall there."""

    begin: int
    end: int
    slope: float


def steepest(path: Sequence[Work]) -> list[Segment]:
    """The lower envelope of sizes over costs, from the first operator to the last.

    >>> [(part.begin, part.end, part.slope) for part in steepest([Work(1, 0.2), Work(1, 0)])]
    [(0, 1, 0.8), (1, 2, 0.2)]
    >>> [(part.begin, part.end) for part in steepest([Work(3, 0.9), Work(1, 0)])]
    [(0, 2)]
    """
    times, sizes = [0.0], [1.0]
    for work in path:
        times.append(times[-1] + max(work.cost, 1e-12))
        sizes.append(sizes[-1] * work.keeps)
    found, at = [], 0
    while at < len(path):
        slopes = {
            end: (sizes[at] - sizes[end]) / (times[end] - times[at])
            for end in range(at + 1, len(times))
        }
        best = max(slopes.values())
        end = max(end for end, slope in slopes.items() if slope == best)
        found.append(Segment(at, end, best))
        at = end
    return found


def paths(graph: QueryGraph) -> list[list[GraphOperator]]:
    """The operators behind the sources as paths: each is the only reader of the one before it, and
    reads it alone."""
    readers = {operator: len(behind) for operator, behind in graph.readers().items()}
    sources = set(graph.sources.values())
    return linear_runs((o for o in graph.operators if o not in sources), readers)


def place_breaks(graph: QueryGraph, works: Mapping[str, Work]) -> list[tuple[str, str]]:
    """Replace all break points by the steepest ones and let the scheduler go by steepness; returns
    the arcs chosen. What leaves the graph has size 0."""
    for pair in graph.breaks:
        graph.remove_break(*pair)
    graph.split()
    slopes: dict[str, float] = {}
    chosen = []
    for path in paths(graph):
        row = [works[operator.id] for operator in path]
        if path[-1] is graph.end:
            row[-1] = Work(row[-1].cost, 0.0)
        segments = steepest(row)
        for segment in segments:
            for operator in path[segment.begin : segment.end]:
                slopes[operator.id] = segment.slope
        for segment in segments[1:]:
            pair = (path[segment.begin - 1].id, path[segment.begin].id)
            graph.set_break(*pair)
            chosen.append(pair)
    for source in graph.sources.values():
        slopes[source.id] = max(slopes.values(), default=0.0) + 1.0
    graph.prefer(slopes)
    return chosen


def measured(graph: QueryGraph) -> dict[str, Work]:
    """Cost and share of bytes kept per row of each operator; an operator without input keeps
    all."""
    found = {}
    for operator in graph.operators:
        seen = operator.elements_in
        below = operator.before[0].kernel.schema if operator.before else operator.kernel.schema
        narrower = row_bytes(operator.kernel.schema) / row_bytes(below)
        found[operator.id] = (
            Work(operator.seconds / seen, operator.elements_out / seen * narrower)
            if seen
            else Work(1e-6, 1.0)
        )
    return found


def row_bytes(schema: pa.Schema) -> int:
    """About how many bytes a row has, its lifetime among them."""
    return 16 + sum(_width(field.type) for field in schema)


def _width(kind: pa.DataType) -> int:
    try:
        return max(1, int(kind.bit_width) // 8)
    except ValueError:  # no fixed width
        return _TEXT_BYTES
