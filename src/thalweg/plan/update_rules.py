"""What may stand behind a conflating source: the rules of update streams, checked when a query is
built.

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

from weakref import WeakKeyDictionary

from thalweg.plan.nodes import Node
from thalweg.plan.update_streams import UpdateStream

__all__ = ["check_update_rules"]

_CHECKED: WeakKeyDictionary[Node, UpdateStream | None] = WeakKeyDictionary()


def check_update_rules(node: Node) -> UpdateStream | None:
    """What kind of update stream a node gives, None for a stream of all rows; raises where a rule
    is broken."""
    if node not in _CHECKED:
        inputs = tuple(check_update_rules(each) for each in node.inputs)
        plain = bool(inputs) and all(each is None for each in inputs)
        _CHECKED[node] = None if plain else node.update_stream(inputs)
    return _CHECKED[node]
