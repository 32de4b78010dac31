"""What of each source is of use to the operators above it: its promises at certain times (a grid),
and its rows for a certain time after their end (their reach).

Each operator says which promises it can use (`Node.useful_promises`): a hopping window only
promises at the ends of its windows, an operator that works row by row what its reader can use,
others any promise. Where two readers ask, the answer is the coarsest grid that has the times of
both.
"""

from __future__ import annotations

from math import gcd

from thalweg.plan.nodes import Grid, Node, Source, walk

__all__ = ["coarsest_common", "reach_of_sources", "useful_grids"]


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


def reach_of_sources(plan: Node) -> dict[Source, int]:
    """The reach of every source that has a bounded one.

    A row that ends at e has no part in answers that end later than e + reach (`Node.reach`, summed
    along the way; of several ways the furthest). So when answers that end before t are not needed,
    rows that end before t - reach are not either. Where an operator on the way has no reach,
    nothing is known.

    >>> import thalweg as tw
    >>> events = tw.source("s", {"k": "string"})
    >>> counts = events.where("k = 'a'").tumbling(10).aggregate(n=tw.count())
    >>> [(source.name, reach) for source, reach in reach_of_sources(counts.node).items()]
    [('s', 20)]
    """
    furthest: dict[Source, int | None] = {}
    pending: list[tuple[Node, int | None]] = [(plan, 0)]
    while pending:
        node, reach = pending.pop()
        if isinstance(node, Source):
            reach_so_far = furthest.get(node, 0)
            furthest[node] = (
                None if reach is None or reach_so_far is None else max(reach_so_far, reach)
            )
            continue
        own = node.reach
        beyond = None if reach is None or own is None else reach + own
        pending += [(child, beyond) for child in node.children]
    return {source: reach for source, reach in furthest.items() if reach is not None}
