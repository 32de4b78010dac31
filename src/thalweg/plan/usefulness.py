"""Which promises are of use: for each source, the grid of times at which some operator above it can
do something with one.

A hopping or tumbling window closes at its end, so below it only promises at `offset + size + k *
hop` matter. Operators that work row by row pass the question on, a shift moves the grid, and where
two readers ask, the answer is the coarsest grid that has the times of both. Everything else (joins,
snapshots, sessions, the end of the query) can use any promise.
"""

from __future__ import annotations

from math import gcd

from thalweg.plan import nodes
from thalweg.plan.nodes import CombinePanes, Node, Source, TopK, WindowAggregate, WindowApply, walk
from thalweg.windows import HoppingWindow

__all__ = ["Grid", "coarsest_common", "useful_grids"]

Grid = tuple[int, int]
"""Times `offset + k * period`: (period, offset)."""

_AS_IT_IS = (
    nodes.Where,
    nodes.Select,
    nodes.SelectMany,
    nodes.SetDuration,
    nodes.ClipDuration,
    nodes.Union,
)
"""Promises pass as they are."""


def useful_grids(root: Node) -> dict[str, Grid]:
    """By name of a source: the grid of the promises that are of use. Sources where any promise is
    are left out.

    >>> import thalweg as tw
    >>> packets = tw.source("packets", {"len": "int64"})
    >>> useful_grids(packets.where("len > 40").hopping(10, 4).aggregate(n=tw.count()).node)
    {'packets': (4, 2)}
    >>> useful_grids(packets.node)
    {}
    """
    wanted: dict[Node, list[Grid | None]] = {root: [None]}
    found: dict[str, Grid | None] = {}
    for node in reversed(list(walk(root))):
        asked = _all_of(wanted.get(node, [None]))
        if isinstance(node, Source):
            found[node.name] = (
                asked if node.name not in found else _all_of([found[node.name], asked])
            )
            continue
        for child in (*node.inputs, *node.contained):
            wanted.setdefault(child, []).append(
                _below(node, asked) if child in node.inputs else None
            )
    return {name: grid for name, grid in found.items() if grid is not None}


def _below(node: Node, asked: Grid | None) -> Grid | None:
    """The grid that a node can use, when its own promises are of use on the grid `asked`."""
    whole = not isinstance(node, WindowApply) or not (node.ends_matter or node.passes_cti)
    if (
        isinstance(node, (WindowAggregate, WindowApply, CombinePanes, TopK))
        and isinstance(node.window, HoppingWindow)
        and whole
    ):
        window = node.window
        return window.hop, (window.offset + window.size) % window.hop
    if asked is None:
        return None
    if isinstance(node, _AS_IT_IS):
        return asked
    if isinstance(node, nodes.Shift) and isinstance(node.by, int):
        return asked[0], (asked[1] - node.by) % asked[0]
    return None


def _all_of(grids: list[Grid | None]) -> Grid | None:
    common = grids[0]
    for grid in grids[1:]:
        common = None if common is None or grid is None else coarsest_common(common, grid)
    return common


def coarsest_common(one: Grid, two: Grid) -> Grid:
    """The coarsest grid that has all times of both.

    >>> coarsest_common((4, 2), (6, 0))
    (2, 0)
    """
    period = gcd(one[0], two[0], one[1] - two[1])
    return period, one[1] % period
