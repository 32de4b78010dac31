"""How far the rows of each source reach into the answers of a plan.

A row that ends at e has no part in answers that end later than e + reach (`Node.reach`, summed
along the way; of several ways the furthest). So when answers that end before t are not needed, rows
that end before t - reach are not either. Where an operator on the way has no reach, nothing is
known.
"""

from __future__ import annotations

from thalweg.plan.nodes.base import Node
from thalweg.plan.nodes.sources import Source

__all__ = ["reach_of_sources"]


def reach_of_sources(plan: Node) -> dict[Source, int]:
    """The reach of every source that has a bounded one.

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
