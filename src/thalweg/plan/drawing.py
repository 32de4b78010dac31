"""A plan as a drawing: a flow chart in the text of Mermaid, which notebooks, GitHub and many editors
show as a picture."""

from __future__ import annotations

from html import escape

from thalweg.plan import nodes
from thalweg.plan.explain import operator_ids
from thalweg.plan.nodes import Node, walk

__all__ = ["mermaid"]


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
    lines = ["flowchart TD"]
    for node in walk(root):
        told = escape(node.details, quote=True)
        text = f"{ids[node]}<br>{told}" if told else ids[node]
        box = f'[("{text}")]' if isinstance(node, nodes.Source) else f'["{text}"]'
        lines.append(f"  {ids[node]}{box}")
        lines += [f"  {ids[below]} --> {ids[node]}" for below in node.inputs]
    return "\n".join(lines)
