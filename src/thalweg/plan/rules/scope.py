"""What a rewrite rule looks at, and so when it is asked."""

from __future__ import annotations

from enum import Enum, auto

__all__ = ["Scope"]


class Scope(Enum):
    """What is given to the `apply` of a rule."""

    PLAN = auto()
    """The root of the whole plan, once, before all other rules."""
    NODE = auto()
    """Any node."""
    SOLE_READER = auto()
    """A node whose inputs nobody else reads: the rule moves work below them, and what is shared
    stays shared."""
