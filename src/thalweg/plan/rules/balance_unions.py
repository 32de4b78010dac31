"""A long chain of unions is a tree of few levels.

    ((A + B) + C) + D = (A + B) + (C + D)

Union is associative as a sum of bags, and so is the smaller of two promises. A row then passes as
many unions as the tree has levels: in a chain of n unions of one stream each batch would pass half
of them, n times. A union that has other readers stays as it is, and so do short chains.
"""

from __future__ import annotations

from collections import Counter

from thalweg.plan.nodes import Node, Union, replace, walk
from thalweg.plan.nodes.union import union_of
from thalweg.plan.rules.scope import Scope

__all__ = ["apply", "name", "scope"]

name = "balance_unions"
scope = Scope.PLAN

_LEVELS = 8
"""A chain of so many levels is left as it was written."""


def apply(root: Node) -> Node | None:
    """The plan with trees for chains; None where there are no long ones."""
    order = list(walk(root))
    readers = Counter(child for node in order for child in node.children)
    joined: set[Node] = {
        side
        for node in order
        if isinstance(node, Union)
        for side in node.inputs
        if isinstance(side, Union) and readers[side] == 1
    }
    new: dict[Node, Node] = {}
    for node in order:
        if isinstance(node, Union) and node not in joined:
            parts, levels = _parts(node, joined)
            if levels > max(_LEVELS, len(parts).bit_length()):
                new[node] = union_of(parts)
    return replace(root, new) if new else None


def _parts(top: Union, joined: set[Node]) -> tuple[list[Node], int]:
    """What the unions below and at `top` put together, in order, and how deep they are nested."""
    parts: list[Node] = []
    deepest = 0
    stack: list[tuple[Node, int]] = [(top, 0)]
    while stack:
        node, level = stack.pop()
        deepest = max(deepest, level)
        if node is top or node in joined:
            stack += [(side, level + 1) for side in reversed(node.inputs)]
        else:
            parts.append(node)
    return parts, deepest
