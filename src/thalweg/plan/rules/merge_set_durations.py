"""A new duration makes an older one, or a limit on it, irrelevant.

    set_duration(m, set_duration(n, R)) = set_duration(m, clip_duration(n, R)) = set_duration(m, R)

Both inner operators keep every row and its start, and starts are all that the outer one reads.
"""

from __future__ import annotations

from thalweg.plan.nodes import ClipDuration, Node, SetDuration

name = "merge_set_durations"
sole_reader = True


def apply(node: Node) -> Node | None:
    if isinstance(node, SetDuration) and isinstance(node.input, SetDuration | ClipDuration):
        return SetDuration(node.input.input, node.ticks)
    return None
