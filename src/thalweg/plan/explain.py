"""`explain()`: a plan as text. The query as it was written, the properties of every stream in it,
and what the rules made of it.

    logical plan
      window_aggregate-1  tumbling(10) by src: n = count()
        : src string, n int64
        : unique_start, payload_start_key, ...
        where-1  (len > 40)
          ...

An operator's id is its name and its number among the operators of that name, counted from the
sources up: the same plan always has the same ids. A stream that is read twice is drawn once and
mentioned by its id afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from html import escape

from thalweg.errors import require_choice
from thalweg.model.clocks import shown_by
from thalweg.model.type_names import shown_columns
from thalweg.plan.clock import clock_of
from thalweg.plan.nodes import Node, walk
from thalweg.plan.rules import Applied, optimize

__all__ = ["Explanation", "explain", "operator_ids", "plan_text"]


class Explanation(str):
    """A text about a plan; a notebook shows it line by line."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self)}</pre>"


def operator_ids(root: Node) -> dict[Node, str]:
    """A name for every operator of a plan, the same whenever the plan is built the same way."""
    numbers: Counter[str] = Counter()
    ids: dict[Node, str] = {}
    for node in walk(root):
        numbers[node.label] += 1
        ids[node] = f"{node.label}-{numbers[node.label]}"
    return ids


_ANSWERS = {
    "speculative": (
        "a window answers once the watermark has passed its end, and is revised while late events "
        "may still come"
    ),
    "eager": (
        "open windows answer too, once a batch; the volume of the output grows with the number of "
        "open windows"
    ),
    "final": "an answer is held until the CTI covers it, and never revised",
}


def explain(root: Node, *, consistency: str | None = None) -> Explanation:
    """The logical plan, the rewrites, and the rewritten plan; with a consistency, when answers come
    and what that costs. Durations are shown by the clock of the plan."""
    with shown_by(clock_of(root)):
        return Explanation(_explained(root, consistency))


def _explained(root: Node, consistency: str | None) -> str:
    rewritten, applied = optimize(root)
    parts = (
        [] if consistency is None else [f"answers: {consistency}", f"  {_answers(consistency)}", ""]
    )
    parts += ["logical plan", *_indent(_tree(root, facts=True))]
    if not applied:
        return "\n".join([*parts, "", "no rule applies"])
    parts += ["", "rewrites"]
    for number, step in enumerate(applied, start=1):
        parts += [f"  {number}. {step.rule}", *_indent(_step(step), "     ")]
    return "\n".join([*parts, "", "rewritten plan", *_indent(_tree(rewritten, facts=True))])


def _answers(consistency: str) -> str:
    require_choice(consistency, _ANSWERS, "explain: consistency")
    return _ANSWERS[consistency]


def plan_text(root: Node) -> str:
    """The plan alone, one operator a line, inputs below and to the right of what reads them.

    >>> import pyarrow as pa
    >>> from thalweg.expr import parse
    >>> from thalweg.plan import nodes
    >>> packets = nodes.Source("packets", pa.schema([("len", pa.int64())]))
    >>> print(plan_text(nodes.Where(packets, parse("len > 40"))))
    where-1  len > 40
      source-1  packets
    """
    return "\n".join(_tree(root, facts=False))


def _tree(root: Node, *, facts: bool) -> Iterator[str]:
    ids = operator_ids(root)
    drawn: set[Node] = set()
    stack: list[tuple[Node, int]] = [(root, 0)]
    while stack:
        node, depth = stack.pop()
        margin = "  " * depth
        if node in drawn:
            yield f"{margin}{ids[node]}  (above)"
            continue
        drawn.add(node)
        yield f"{margin}{ids[node]}  {node.details}".rstrip()
        if facts:
            yield f"{margin}  : {shown_columns(node.schema)}"
            yield f"{margin}  : {node.properties}"
            for line in node.remarks():
                yield f"{margin}  : {line}"
        stack.extend((child, depth + 1) for child in reversed(node.children))


def _indent(lines: Iterator[str], by: str = "  ") -> Iterator[str]:
    return (by + line for line in lines)


def _step(step: Applied) -> Iterator[str]:
    yield f"before: {_inline(step.before, 2)}"
    yield f"after:  {_inline(step.after, 2)}"


def _inline(node: Node, levels: int) -> str:
    text = f"{node.label}[{node.details}]".removesuffix("[]")
    if not node.inputs:
        return text
    below = ", ".join(_inline(child, levels - 1) for child in node.inputs) if levels else "..."
    return f"{text} <- {below}" if len(node.inputs) == 1 else f"{text} <- ({below})"
