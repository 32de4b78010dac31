"""The walk over a plan, and rebuilding one: the only code that goes through the fields of nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from thalweg.plan.nodes.base import Node

__all__ = ["find", "rebuild", "replace", "walk"]

Kind = TypeVar("Kind", bound=Node)


def walk(root: Node) -> Iterator[Node]:
    """Every node once, inputs before the nodes that read them; into the inner query of a
    group-and-apply too."""
    seen: set[Node] = set()
    stack: list[tuple[Node, bool]] = [(root, False)]
    while stack:
        node, ready = stack.pop()
        if ready:
            yield node
            continue
        if node in seen:
            continue
        seen.add(node)
        stack.append((node, True))
        stack.extend((child, False) for child in reversed(node.children))


def find(root: Node, kind: type[Kind]) -> Iterator[Kind]:
    """The nodes of one class, inputs first.

    >>> import thalweg as tw
    >>> from thalweg.plan.nodes import Source
    >>> query = tw.source("a", {"v": "int64"}).union(tw.source("b", {"v": "int64"})).where("v > 1")
    >>> [source.name for source in find(query.node, Source)]
    ['a', 'b']
    """
    return (node for node in walk(root) if isinstance(node, kind))


def rebuild(root: Node, change: Callable[[Node], Node]) -> Node:
    """The plan with `change(node)` for each node, called from the sources up over children that
    were changed already. A node that is read twice stays one node."""
    done: dict[Node, Node] = {}
    for node in walk(root):
        done[node] = change(node.with_children(*(done[child] for child in node.children)))
    return done[root]


def replace(root: Node, changes: Mapping[Node, Node]) -> Node:
    """The plan with some nodes in the place of others. A replacement may read nodes of the old
    plan, which are replaced too."""
    done: dict[Node, Node] = {}
    for node in walk(root):
        target = changes.get(node, node)
        for below in (target,) if target is node else walk(target):
            if below not in done:
                done[below] = below.with_children(*(done[child] for child in below.children))
        done[node] = done[target]
    return done[root]
