"""Windows of different ranges and slides over one stream share their panes.

    W_i(R) = combine_i(panes(R))        for all windows i over R that have the same keys

Law. Let g divide the range, the slide and the distance of the origins of all the windows. No window
has an edge inside a pane of length g, so that rows of one group that lie in the same panes lie in
the same windows, of every kind. What adds up may then be summed by pane once, for all of them, and
each window sums the sums (`Panes`, `CombinePanes`). Rows that are taken back are negative sums.
Other partial results of a few plain values, such as the largest, are shared where rows are points
that are never taken back, so that windows are made of panes anyway. It is not done where a window
would have too many panes for that to pay.
"""

from __future__ import annotations

import math
from collections.abc import Hashable

import pyarrow as pa

from thalweg.plan.aggregates import AggregateCall
from thalweg.plan.nodes import (
    CombinePanes,
    Node,
    Panes,
    WindowAggregate,
    find,
    lifetime_schema,
    replace,
    walk,
)
from thalweg.plan.rules.scope import Scope
from thalweg.windows import HoppingWindow

__all__ = ["apply", "name", "scope"]

name = "share_panes"
scope = Scope.PLAN

_MOST_PANES = 100_000
"""In the largest of the windows."""


def apply(root: Node) -> Node | None:
    """The plan with shared panes; None when no two windows can share them."""
    alike: dict[tuple[int, tuple[str, ...], bool], list[WindowAggregate]] = {}
    shapes = _shapes(root)
    for node in find(root, WindowAggregate):
        if _can_share(node):
            adds_up = node.evaluated.is_differential
            alike.setdefault((shapes[node.input], node.keys, adds_up), []).append(node)
    new: dict[Node, Node] = {}
    for group in alike.values():
        new |= _shared(group)
    return replace(root, new) if new else None


def _shapes(root: Node) -> dict[Node, int]:
    """A number for each node, the same for nodes that give the same rows: `sliding` and SQL write
    the steps below a window anew for each window."""
    numbers: dict[Hashable, int] = {}
    shapes: dict[Node, int] = {}
    for node in walk(root):
        below = tuple(shapes[child] for child in node.children)
        shape = (node.signature, *below) if below else node
        shapes[node] = numbers.setdefault(shape, len(numbers))
    return shapes


def _can_share(node: WindowAggregate) -> bool:
    if node.window.grid is None or node.fill is not None or node.strategy is not None:
        return False
    return node.evaluated.is_differential or (
        node.evaluated.keeps == "partial results"
        and not node.evaluated.adaptive
        and all(_is_plain(call, node) for _, call in node.aggregates)
    )


def _is_plain(call: AggregateCall, node: WindowAggregate) -> bool:
    """Whether partial results are a few plain values, the same however rows were divided."""
    fields = call.aggregate.fields(*call.types_in(lifetime_schema(node.input.schema)))
    nested = any(pa.types.is_nested(field.type) for field in fields)
    return call.aggregate.repeatable and not call.aggregate.grows and not nested


def _shared(group: list[WindowAggregate]) -> dict[Node, Node]:
    grids = [(node, node.window.grid) for node in group if node.window.grid is not None]
    windows = [grid for _, grid in grids]
    if len(set(windows)) < 2:
        return {}
    origin = windows[0].offset
    length = math.gcd(*(part for w in windows for part in (w.size, w.hop, w.offset - origin)))
    if max(w.size for w in windows) > _MOST_PANES * length:
        return {}
    calls: dict[str, AggregateCall] = {}
    for node in group:
        calls |= {str(call): call for _, call in node.aggregates}
    first, order = group[0], list(calls)
    pane = HoppingWindow(length, length, origin % length)
    panes = Panes(
        first.input,
        pane,
        tuple((f"call{i}", calls[text]) for i, text in enumerate(order)),
        first.keys,
    )
    found: dict[Node, Node] = {}
    for node, grid in grids:
        which = tuple(order.index(str(call)) for _, call in node.aggregates)
        found[node] = CombinePanes(
            panes, grid, node.aggregates, node.keys, node.input.schema, which
        )
    return found
