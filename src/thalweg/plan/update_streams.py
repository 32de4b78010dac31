"""Update streams: what comes from a source that keeps only the newest row of each key.

A row of an update stream replaces the row before it of its key, and rows may have been left out. So
an operator must keep the key visible in its output, and must not mistake the rows that are there
for all rows that were:

| operator | allowed |
| --- | --- |
| filter | always |
| map, lifetimes | if the key's columns are passed on unchanged (they may be renamed) |
| newest row per key (`edges`) | on the key: each row lasts until the next of its key |
| join | of two streams of newest rows, on both keys: then it joins the newest with the newest |
| aggregate of `newest_window` | by key and mark, the start of rows: whole windows are served |
| other windows and aggregates | refused: a window would be answered from the rows that are left |
| union | as named inputs of one source, whose queue drops what is older; else refused |
| everything else | refused |

Each rule stands on the class of its operator (`Node.update_stream`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from thalweg.errors import PlanError
from thalweg.plan.expressions import Keys, show_expressions
from thalweg.progress.conflation import NewestWindow

if TYPE_CHECKING:
    from thalweg.plan.nodes import Node

__all__ = ["UpdateStream", "check_update_rules"]


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


_CHECKED: WeakKeyDictionary[Node, UpdateStream | None] = WeakKeyDictionary()


def check_update_rules(node: Node) -> UpdateStream | None:
    """What kind of update stream a node gives, None for a stream of all rows; raises where a rule
    is broken."""
    if node not in _CHECKED:
        inputs = tuple(check_update_rules(each) for each in node.inputs)
        plain = bool(inputs) and all(each is None for each in inputs)
        _CHECKED[node] = None if plain else node.update_stream(inputs)
    return _CHECKED[node]
