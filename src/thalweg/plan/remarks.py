"""What `explain()` adds about windows: what a module's properties bought; the category of a kind,
the panes, the evaluation that was chosen and what each would cost.
"""

from __future__ import annotations

from collections.abc import Iterator

from thalweg.plan.nodes import Node, WidAggregate, WindowAggregate, WindowApply
from thalweg.plan.strategies import Decision
from thalweg.windows import Category, HoppingWindow, SlidingRows

__all__ = ["remarks"]


def remarks(node: Node) -> Iterator[str]:
    """Lines about one operator."""
    if isinstance(node, WindowApply):
        yield from node.gains()
    if isinstance(node, WidAggregate):
        yield f"window ids: {node.kind.category}{_needs(node)}"
        if len(node.strategies) > 1:
            yield f"evaluation: {node.strategy or 'rows'}; possible: {', '.join(node.strategies)}"
    if isinstance(node, WindowAggregate) and isinstance(node.window, HoppingWindow):
        window, decision = node.window, node.decide()
        panes = window.size // window.pane
        yield f"window ids: {Category.CF}; window w is [{window.offset} + {window.hop} w, + {window.size})"
        yield f"panes: {panes:,} a window, {window.pane:,} ticks each; possible: {', '.join(decision.possible)}"
        yield f"evaluation: {decision.strategy}, {decision.reason}"
        yield from _costs(decision)


def _needs(node: WidAggregate) -> str:
    if isinstance(node.kind, SlidingRows) and node.kind.partitioned and not node.kind.ranked:
        return "; the number of rows so far is kept for each partition"
    if node.kind.category is Category.FCA:
        return "; which windows a row belongs to is known when rows after it have come"
    return ""


def _costs(decision: Decision) -> Iterator[str]:
    costs = decision.costs
    if costs is None:
        return
    shown = {"differential": costs.differential, "panes": costs.panes, "wid": costs.wid}
    numbers = ", ".join(
        f"{name} {nanoseconds / 1000:,.1f} us" for name, nanoseconds in shown.items()
    )
    yield f"cost of a window for {decision.volume}: {numbers}; buffering, one row added and taken at a time, {costs.rows / 1000:,.1f} us"
