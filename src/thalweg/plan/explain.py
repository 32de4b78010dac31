"""`explain()`: a plan as text. What was asked, what is known about every stream in it, and what the
rules made of it.

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

import pyarrow as pa

from thalweg.errors import PlanError, did_you_mean
from thalweg.model.time import INFINITY
from thalweg.plan import nodes
from thalweg.plan.nodes import Named, Node, walk
from thalweg.plan.remarks import remarks
from thalweg.plan.rules import Applied, optimize

__all__ = ["describe", "explain", "operator_ids", "plan_text"]


def operator_ids(root: Node) -> dict[Node, str]:
    """A name for every operator of a plan, the same whenever the plan is built the same way."""
    numbers: Counter[str] = Counter()
    ids: dict[Node, str] = {}
    for node in walk(root):
        numbers[node.label] += 1
        ids[node] = f"{node.label}-{numbers[node.label]}"
    return ids


_ANSWERS = {
    "speculative": "a window answers once the watermark has passed its end, and is revised while late events may still come",
    "eager": "open windows answer too, once a batch; the volume of the output grows with the number of open windows",
    "final": "an answer is held until the CTI covers it, and never revised",
}


def explain(root: Node, *, consistency: str | None = None) -> str:
    """The logical plan, the rewrites, and the rewritten plan; with a consistency, when answers come
    and what that costs."""
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
    if consistency not in _ANSWERS:
        raise PlanError(
            f"explain: consistency must be one of {', '.join(_ANSWERS)}{did_you_mean(consistency, _ANSWERS)}"
        )
    return _ANSWERS[consistency]


def plan_text(root: Node) -> str:
    """The plan alone, one operator a line, inputs below and to the right of what reads them.

    >>> import pyarrow as pa
    >>> from thalweg.expr import parse
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
        yield f"{margin}{ids[node]}  {describe(node)}".rstrip()
        if facts:
            yield f"{margin}  : {_schema(node.schema)}"
            yield f"{margin}  : {node.properties}"
            for line in remarks(node):
                yield f"{margin}  : {line}"
        below = (*node.inputs, node.inner) if isinstance(node, nodes.GroupApply) else node.inputs
        stack.extend((child, depth + 1) for child in reversed(below))


def _indent(lines: Iterator[str], by: str = "  ") -> Iterator[str]:
    return (by + line for line in lines)


def _step(step: Applied) -> Iterator[str]:
    yield f"before: {_inline(step.before, 2)}"
    yield f"after:  {_inline(step.after, 2)}"


def _inline(node: Node, levels: int) -> str:
    text = f"{node.label}[{describe(node)}]".removesuffix("[]")
    if not node.inputs:
        return text
    below = ", ".join(_inline(child, levels - 1) for child in node.inputs) if levels else "..."
    return f"{text} <- {below}" if len(node.inputs) == 1 else f"{text} <- ({below})"


def _schema(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _ticks(ticks: int) -> str:
    return "forever" if ticks == INFINITY else str(ticks)


def _columns(columns: Named) -> str:
    return ", ".join(name if str(expr) == name else f"{name} = {expr}" for name, expr in columns)


def _by(keys: tuple[str, ...]) -> str:
    return f" by {', '.join(keys)}" if keys else ""


def _offset(offset: int) -> str:
    return f" from {offset}" if offset else ""


def describe(node: Node) -> str:
    """What an operator does, on one line."""
    match node:
        case nodes.Source():
            return _source(node)
        case nodes.Where(predicate=predicate):
            return str(predicate)
        case nodes.Select(columns=columns):
            return _columns(columns)
        case nodes.SelectMany(columns=columns, repeat=repeat, unnest=unnest):
            return f"{_columns(columns)} ({f'repeat {repeat}' if repeat is not None else f'unnest {unnest}'})"
        case nodes.Join():
            return _join(node)
        case nodes.ClipBy(left_keys=left, right_keys=right):
            return _equal(left, right)
        case nodes.TopK(k=k, by=value, descending=descending, rank=rank, keys=keys, window=window):
            order = "largest" if descending else "smallest"
            return f"{k} {order} {value}, {window}{_by(keys)}{f', rank as {rank}' if rank else ''}"
        case nodes.WindowAggregate(window=window, aggregates=aggregates, keys=keys, fill=fill):
            calls = ", ".join(f"{name} = {call}" for name, call in aggregates)
            return f"{window}{_by(keys)}: {calls}{f', {len(fill)} groups filled' if fill is not None else ''}"
        case nodes.WindowApply():
            return _apply(node)
        case nodes.WidAggregate():
            return _wid(node)
        case nodes.NumberRows(partition=partition):
            return _by(partition).strip()
        case nodes.Panes(window=window, keys=keys, table=table):
            return f"{window}{_by(keys)}{'' if table is None else f', {table}'}"
        case nodes.CombinePanes(window=window, keys=keys, aggregates=aggregates):
            return (
                f"{window}{_by(keys)}: {', '.join(f'{name} = {call}' for name, call in aggregates)}"
            )
        case nodes.GroupApply(keys=columns, result=result):
            return f"by {_columns(columns)}{f': {_columns(result)}' if result is not None else ''}"
    return _lifetime(node)


def _wid(node: nodes.WidAggregate) -> str:
    calls = ", ".join(f"{name} = {call}" for name, call in node.aggregates)
    parts = f", partitions {', '.join(node.partition)}" if node.partition else ""
    named = f", id as {node.wid}" if node.wid is not None else ""
    return f"{node.kind}{parts}{_by(node.keys)}: {calls}{named}; {node.kind.category}"


def _lifetime(node: Node) -> str:
    match node:
        case nodes.SetDuration(ticks=ticks):
            return _ticks(ticks)
        case nodes.AlterLifetime(start=start, ticks=ticks):
            return f"start {start}, duration {_ticks(ticks)}"
        case nodes.Retime(start=start, end=end):
            return f"from {start} to {end}"
        case nodes.Shift(by=by) | nodes.Extend(by=by):
            return f"by {by}"
        case nodes.ClipDuration(limit=limit):
            return f"to {limit}"
        case nodes.Describe(period=every, offset=offset, groups=groups):
            grid = "" if every is None else f"every {every}{_offset(offset)}"
            return " ".join(
                [grid, *([] if groups is None else [f"for {', '.join(groups)}"])]
            ).strip()
        case nodes.Chop(period=period, offset=offset):
            return f"every {period}{_offset(offset)}"
        case nodes.HoppingLifetime(size=size, hop=hop, offset=offset):
            return f"{size} by {hop}{_offset(offset)}"
        case nodes.Quantize(size=size, hop=hop, progress=progress, offset=offset):
            return f"{size} by {hop}{f', progress {progress}' if progress else ''}{_offset(offset)}"
        case nodes.SessionLifetime(timeout=timeout, max_duration=longest, keys=keys):
            return f"timeout {timeout}{f', at most {longest}' if longest else ''}{_by(keys)}"
    return ""


def _source(node: nodes.Source) -> str:
    facts = [node.name]
    entry = node.ingress
    if entry.disorder is not None:
        facts.append(f"disorder {entry.disorder}")
    if entry.period is not None:
        facts.append(f"period {entry.period}")
    if entry.partition is not None:
        facts.append(f"partitions {entry.partition}")
    if entry.low_watermark is not None:
        facts.append(
            f"low watermark every {entry.low_watermark[0]} lagging {entry.low_watermark[1]}"
        )
    facts += map(str, entry.progress)
    if entry.quarantine is not None:
        facts.append(f"quarantine: {entry.quarantine}")
    if entry.late != "error":
        facts.append(f"late events: {entry.late}")
    return ", ".join(facts)


def _apply(node: nodes.WindowApply) -> str:
    """Everything that decides what state means: a snapshot fits only the same module with the same
    choices."""
    args = ", ".join(
        str(expr) if str(expr) == name else f"{name} = {expr}" for name, expr in node.arguments
    )
    params = "".join(f"; {name} = {value!r}" for name, value in node.params)
    text = f"{node.window}{_by(node.keys)}: {node.module.label}({args}{params})"
    text += f", clip {node.clip}" if node.clip != "none" else ""
    text += f", stamp {node.stamp}" if node.stamp != "align" else ""
    return text + (f", errors {node.on_error}" if node.on_error != "fail" else "")


def _equal(left: tuple[object, ...], right: tuple[object, ...]) -> str:
    pairs = [
        str(one) if str(one) == str(two) else f"{one} = {two}"
        for one, two in zip(left, right, strict=True)
    ]
    return f"on {', '.join(pairs)}" if pairs else "on any"


def _join(node: nodes.Join) -> str:
    text = f"{node.how}{' of whole rows' if node.whole else ''} {_equal(node.left_keys, node.right_keys)}"
    if node.predicate is not None:
        text += f" where {node.predicate}"
    return f"{text}: {_columns(node.result)}" if node.result else text
