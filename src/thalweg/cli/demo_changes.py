"""The kinds of changes of an answer that the demo shows. Imports nothing large, as the screen."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["ChangeKind"]


class ChangeKind(StrEnum):
    EARLY = "early"
    """The first value of an answer."""
    REVISED = "revised"
    """Another value in its place."""
    FINAL = "final"
