"""Which columns of a stream progress: those over which its operators make promises of their own
(see `boxes`).

A column that is the start of rows whose ends do not move progresses with the CTI; a window join
carries the times of both its sides on, with promises for each. Only such a column, or the start
itself, can be the time of a join or a window.
"""

from __future__ import annotations

from thalweg.expr import Column, Expr, is_monotone_in, is_monotone_in_start
from thalweg.plan import nodes
from thalweg.plan.nodes import Named, Node

__all__ = ["progresses", "progressing_columns"]

_ROW_BY_ROW = (
    nodes.Where,
    nodes.SetDuration,
    nodes.AlterLifetime,
    nodes.Retime,
    nodes.Shift,
    nodes.Extend,
    nodes.ClipDuration,
    nodes.PointAtEnd,
)


def progresses(expr: Expr, node: Node) -> bool:
    """Whether rows that start at this expression would have promises."""
    return bool(expr.columns()) and is_monotone_in(expr, {"_start", *progressing_columns(node)})


def progressing_columns(node: Node) -> frozenset[str]:
    """
    >>> import thalweg as tw
    >>> a = tw.source("a", {"k": "int64"})
    >>> sorted(progressing_columns(a.window_join(a, "k", window=tw.band(before=1, after=1)).node))
    ['left_time', 'right_time']
    """
    if isinstance(node, nodes.Select):
        return _selected(node)
    if isinstance(node, _ROW_BY_ROW):
        return progressing_columns(node.inputs[0])
    if isinstance(node, nodes.Union):
        return progressing_columns(node.left) & progressing_columns(node.right)
    if isinstance(node, nodes.Join):
        return _joined(node)
    if isinstance(node, nodes.Distinct):
        return progressing_columns(node.input)
    return frozenset()


def _selected(node: nodes.Select) -> frozenset[str]:
    below = progressing_columns(node.input)
    kept = {name for name, expr in node.columns if isinstance(expr, Column) and expr.name in below}
    if node.input.properties.firm_ends:
        kept |= {
            name
            for name, expr in node.columns
            if "_start" in expr.columns() and is_monotone_in_start(expr)
        }
    return frozenset(kept)


def _joined(node: nodes.Join) -> frozenset[str]:
    left, right = progressing_columns(node.left), progressing_columns(node.right)
    if node.how in ("semi", "anti"):
        return left if node.whole else frozenset()
    sides = {"inner": ("l", "r"), "left": ("l",), "right": ("r",), "full": ()}[node.how]
    kept = _carried(node.result, "l.", left) if "l" in sides else frozenset()
    return kept | (_carried(node.result, "r.", right) if "r" in sides else frozenset())


def _carried(result: Named, prefix: str, columns: frozenset[str]) -> frozenset[str]:
    return frozenset(
        name
        for name, expr in result
        if isinstance(expr, Column) and expr.name in {prefix + c for c in columns}
    )
