"""Update streams: what comes from a source that keeps only the newest row of each key.

A row replaces the row before it of its key, and rows may have been left out. Each node class says
what it makes of such a stream, or refuses it (`Node.update_stream`).
"""

from __future__ import annotations

from dataclasses import dataclass

from thalweg.errors import PlanError
from thalweg.plan.expressions import Keys, show_expressions
from thalweg.progress.conflation import NewestWindow

__all__ = ["UpdateStream"]


@dataclass(frozen=True, slots=True)
class UpdateStream:
    """What is true of a node's output, where a source below keeps only the newest rows."""

    keys: Keys
    """The update key, in terms of the output."""
    source: str
    newest: bool = False
    """At every time there is one row of each key: the newest."""
    window: NewestWindow | None = None
    """Its rows are those of whole windows, and all start where their window does: the mark."""

    @property
    def shown_keys(self) -> str:
        """The update key as messages show it."""
        return show_expressions(self.keys) or "none"

    def refusal(self, label: str, reason: str) -> PlanError:
        """The error for an operator that cannot stand behind this stream."""
        return PlanError(
            f"{label} over {self.source!r}, which keeps only the newest row of each key: {reason}."
        )
