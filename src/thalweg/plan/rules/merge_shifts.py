"""Two constant shifts are one by the sum; a shift by nothing is none.

    shift(m, shift(n, R)) = shift(m + n, R)          shift(0, R) = R

A shift that depends on the row stays: its expression may read the `_start` that the other one
moves.
"""

from __future__ import annotations

from thalweg.plan.nodes import Node, Shift

name = "merge_shifts"
sole_reader = True


def apply(node: Node) -> Node | None:
    if not (isinstance(node, Shift) and isinstance(node.by, int)):
        return None
    if node.by == 0:
        return node.input
    if isinstance(node.input, Shift) and isinstance(node.input.by, int):
        return Shift(node.input.input, node.by + node.input.by)
    return None
