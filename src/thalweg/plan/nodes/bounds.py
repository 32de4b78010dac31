"""Whether a stream's rows come to an end: a join keeps each row until it has.

Of a stream from outside nothing is known before it comes. Rows that an operator of the query makes
endless never leave a join that reads them: that is refused, unless the query says that the side
stops growing (a table of reference).
"""

from __future__ import annotations

from collections.abc import Mapping

from thalweg.errors import PlanError
from thalweg.model.time import INFINITY
from thalweg.plan.nodes.base import Node
from thalweg.plan.nodes.lifetimes import AlterLifetime, Extend, SetDuration, Shift
from thalweg.plan.nodes.rows import Select, SelectMany, Where
from thalweg.plan.nodes.sources import Source

__all__ = ["made_endless_by", "refuse_endless"]

_KEEPS_ENDS = (Where, Select, SelectMany, Shift, Extend)


def made_endless_by(node: Node) -> Node | None:
    """The operator that gives the rows of a stream no end, if there is one.

    >>> import thalweg as tw
    >>> made_endless_by(tw.source("s", {"v": "int64"}).set_duration(None).where("v > 1").node).label
    'set_duration'
    """
    if isinstance(node, (SetDuration, AlterLifetime)):
        return node if node.ticks == INFINITY else None
    if isinstance(node, _KEEPS_ENDS) or type(node).__name__ == "Union":
        return next(
            (found for child in node.inputs if (found := made_endless_by(child)) is not None), None
        )
    return None


def refuse_endless(sides: Mapping[str, Node], allowed: tuple[str, ...]) -> None:
    """Raise when a join would keep rows of one side for ever."""
    for name in allowed:
        if name not in sides:
            raise PlanError(
                f"join: endless must name sides of the join, {' or '.join(sides)}; got {name!r}."
            )
    for name, side in sides.items():
        reason = made_endless_by(side)
        if reason is not None and name not in allowed:
            raise PlanError(
                f"join: the {name} input ({_origin(side)}) would be kept for ever: {reason.label} gives its rows no end, and no window "
                f"limits which rows may meet. Give them an end (set_duration, clip_by, edges) or join within a window (window_join); "
                f"if that side stops growing, say endless={name!r}."
            )


def _origin(node: Node) -> str:
    names: list[str] = []
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Source):
            names.append(one.name)
        waiting += one.inputs
    return "from " + ", ".join(sorted(set(names))) if names else "of a group"
