"""Which promises are of use: for each source, the grid of times at which some operator above it can
do something with one.

Each operator says what it can use (`Node.useful_promises`): a hopping window only promises at the
ends of its windows, an operator that works row by row what its reader can use, others any promise.
Where two readers ask, the answer is the coarsest grid that has the times of both.
"""

from __future__ import annotations

from math import gcd

from thalweg.plan.nodes import Grid, Node, Source, walk

__all__ = ["coarsest_common", "useful_grids"]


def useful_grids(root: Node) -> dict[str, Grid]:
    """By name of a source: the grid of its promises that are of use. A source of which every
    promise is of use is left out.

    >>> import thalweg as tw
    >>> packets = tw.source("packets", {"len": "int64"})
    >>> useful_grids(packets.where("len > 40").hopping(10, 4).aggregate(n=tw.count()).node)
    {'packets': (4, 2)}
    >>> useful_grids(packets.node)
    {}
    """
    grids: dict[Node, list[Grid | None]] = {root: [None]}
    found: dict[str, Grid | None] = {}
    for node in reversed(list(walk(root))):
        output_grid = _all_of(grids.get(node, [None]))
        if isinstance(node, Source):
            found[node.name] = (
                output_grid if node.name not in found else _all_of([found[node.name], output_grid])
            )
            continue
        for child in (*node.inputs, *node.contained):
            grids.setdefault(child, []).append(
                node.useful_promises(output_grid) if child in node.inputs else None
            )
    return {name: grid for name, grid in found.items() if grid is not None}


def _all_of(grids: list[Grid | None]) -> Grid | None:
    common = grids[0]
    for grid in grids[1:]:
        common = None if common is None or grid is None else coarsest_common(common, grid)
    return common


def coarsest_common(left: Grid, right: Grid) -> Grid:
    """The coarsest grid that contains all times of both grids.

    >>> coarsest_common((4, 2), (6, 0))
    (2, 0)
    """
    period = gcd(left[0], right[0], left[1] - right[1])
    return period, left[1] % period
