"""Two constant shifts are one by the sum; a shift by nothing is none.

    shift(m, shift(n, R)) = shift(m + n, R)          shift(0, R) = R

Two shifts whose sum is no legal duration stay apart: then times that leave the range of the clock
are found where that happens. A shift that depends on the row stays: its expression may read the
`_start` that the other one moves.
"""

from __future__ import annotations

from thalweg.model.time import MAX_TIME, MIN_TIME
from thalweg.plan.nodes import Node, Shift
from thalweg.plan.rules.scope import Scope

name = "merge_shifts"
scope = Scope.SOLE_READER


def apply(node: Node) -> Node | None:
    if not (isinstance(node, Shift) and isinstance(node.by, int)):
        return None
    if node.by == 0:
        return node.input
    if isinstance(node.input, Shift) and isinstance(node.input.by, int):
        total = node.by + node.input.by
        return Shift(node.input.input, total) if MIN_TIME < total < MAX_TIME else None
    return None
