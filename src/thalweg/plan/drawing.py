"""A plan as a drawing: a flow chart in the text of Mermaid, which notebooks, GitHub and many
editors show as a picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape

from thalweg.model.clocks import shown_by
from thalweg.plan import nodes
from thalweg.plan.clock import clock_of
from thalweg.plan.explain import operator_ids
from thalweg.plan.nodes import Node, walk

__all__ = ["boxes", "mermaid"]


def mermaid(root: Node) -> str:
    """The operators of a plan, sources above, arrows along the flow.

    >>> import pyarrow as pa
    >>> print(mermaid(nodes.SetDuration(nodes.Source("s", pa.schema([("a", pa.int64())])), 1)))
    flowchart TD
      source-1[("source-1<br>s")]
      set_duration-1["set_duration-1<br>1"]
      source-1 --> set_duration-1
    """
    ids = operator_ids(root)
    with shown_by(clock_of(root)):
        return "\n".join(["flowchart TD", *boxes(root, ids)])


def boxes(root: Node, ids: Mapping[Node, str]) -> Iterator[str]:
    """A box for each operator, and the arrows into it."""
    for node in walk(root):
        details = escape(node.details, quote=True)
        shown = ids[node].rpartition(".")[2]
        text = f"{shown}<br>{details}" if details else shown
        box = f'[("{text}")]' if isinstance(node, nodes.Source) else f'["{text}"]'
        yield f"  {ids[node]}{box}"
        for below in node.inputs:
            yield f"  {ids[below]} --> {ids[node]}"
