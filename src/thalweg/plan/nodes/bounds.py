"""Whether a stream's rows come to an end (`Node.endless_by`): a join keeps each row until it has.

Of a stream from outside nothing is known before it comes. Rows that an operator of the query makes
endless never leave a join that reads them: that is refused, unless the query says that the side
stops growing (a table of reference).
"""

from __future__ import annotations

from collections.abc import Mapping

from thalweg.errors import PlanError
from thalweg.plan.nodes.base import Node
from thalweg.plan.nodes.sources import Source
from thalweg.plan.nodes.traversal import find

__all__ = ["refuse_endless"]


def refuse_endless(sides: Mapping[str, Node], allowed: tuple[str, ...]) -> None:
    """Raise when a join would keep rows of one side for ever."""
    for name in allowed:
        if name not in sides:
            raise PlanError(
                f"join: endless must name sides of the join, {' or '.join(sides)}; got {name!r}."
            )
    for name, side in sides.items():
        reason = side.endless_by
        if reason is not None and name not in allowed:
            raise PlanError(
                f"join: the {name} input ({_origin(side)}) would be kept for ever: {reason.label} "
                "gives its rows no end, and no window limits which rows may meet. Give them an "
                "end (set_duration, clip_by, edges) or join within a window (window_join); if "
                f"that side stops growing, say endless={name!r}."
            )


def _origin(node: Node) -> str:
    names = sorted({source.name for source in find(node, Source)})
    return "from " + ", ".join(names) if names else "of a group"
