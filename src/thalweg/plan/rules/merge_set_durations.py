"""A new duration makes an older one, or a limit on it, irrelevant.

    set_duration(m, set_duration(n, R)) = set_duration(m, clip_duration(n, R)) = set_duration(m, R)

Both inner operators keep every row and its start, and starts are all that the outer one reads. A
projection and a constant shift let ends pass: where an older duration lies below them, the new one
takes its place there.

    set_duration(m, select(c, set_duration(n, R))) = select(c, set_duration(m, R))
    set_duration(m, shift(t, set_duration(n, R))) = shift(t, set_duration(m, R))
"""

from __future__ import annotations

from thalweg.plan.nodes import ClipDuration, Node, Select, SetDuration, Shift
from thalweg.plan.rules.scope import Scope

name = "merge_set_durations"
scope = Scope.SOLE_READER


def apply(node: Node) -> Node | None:
    if not isinstance(node, SetDuration):
        return None
    below = node.input
    if isinstance(below, SetDuration | ClipDuration):
        return SetDuration(below.input, node.ticks)
    if _leaves_durations(below) and _sets_duration(below.inputs[0]):
        return below.with_children(SetDuration(below.inputs[0], node.ticks))
    return None


def _leaves_durations(node: Node) -> bool:
    return isinstance(node, Select) or (isinstance(node, Shift) and isinstance(node.by, int))


def _sets_duration(node: Node) -> bool:
    """Whether there is an older duration, here or below operators that leave durations alone."""
    while _leaves_durations(node):
        node = node.inputs[0]
    return isinstance(node, SetDuration)
