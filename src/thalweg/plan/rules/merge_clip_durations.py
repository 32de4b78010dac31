"""Of two limits on a duration the smaller one counts.

    clip_duration(m, clip_duration(n, R)) = clip_duration(min(m, n), R)

because min(min(e, s + n), s + m) = min(e, s + min(m, n)).
"""

from __future__ import annotations

from thalweg.plan.nodes import ClipDuration, Node
from thalweg.plan.rules.scope import Scope

name = "merge_clip_durations"
scope = Scope.SOLE_READER


def apply(node: Node) -> Node | None:
    if isinstance(node, ClipDuration) and isinstance(node.input, ClipDuration):
        return ClipDuration(node.input.input, min(node.limit, node.input.limit))
    return None
