"""The executor as it was before the state table: one rule, looked up by name at each step, that
backtracks over the arcs of all operators before the current one.

Kept to be measured beside the present one, over the same kernels. It may leave batches behind where
a plan divides and meets again.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from thalweg.graph import QueryGraph
from thalweg.model.batch import Batch
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.operators.base import Operator

__all__ = ["ScanningExecutor"]


@dataclass(eq=False, slots=True)
class _Arc:
    head: _Node | None
    port: int
    buffer: deque[Batch] = field(default_factory=deque)


@dataclass(eq=False, slots=True)
class _Node:
    operator: Operator
    rule: str = "breadth-first"
    inputs: list[_Arc] = field(default_factory=list)
    outputs: list[_Arc] = field(default_factory=list)
    before: list[_Node] = field(default_factory=list)
    batches: int = 0
    elements_in: int = 0
    elements_out: int = 0
    retractions: int = 0
    seconds: float = 0.0
    received: dict[int, Progress] = field(default_factory=dict)
    passed: Progress = NO_PROGRESS

    @property
    def more(self) -> bool:
        return any(arc.buffer for arc in self.inputs)

    @property
    def yields(self) -> _Node | None:
        for arc in self.outputs:
            if arc.head is not None and arc.buffer:
                return arc.head
        return None

    def execute(self) -> None:
        for arc in self.inputs:
            if arc.buffer:
                batch = arc.buffer.popleft()
                begin = time.perf_counter()
                answer = self.operator.process(arc.port, batch)
                self.seconds += time.perf_counter() - begin
                self.batches += 1
                self.elements_in += len(batch)
                known = self.received.get(arc.port, NO_PROGRESS)
                self.received[arc.port] = known.merge(batch.progress)
                self.pass_on(answer)
                return

    def pass_on(self, answer: Batch) -> None:
        self.elements_out += len(answer)
        self.retractions += 0 if answer.is_adjust is None else int(answer.is_adjust.sum())
        advanced = self.passed.merge(answer.progress)
        if not len(answer) and advanced == self.passed:
            return
        self.passed = advanced
        for out in self.outputs:
            out.buffer.append(answer)


def _breadth_first(node: _Node) -> _Node | None:
    visited: set[_Node] = set()
    waiting = [node]
    while waiting:
        current = waiting.pop()
        if current in visited:
            continue
        visited.add(current)
        if current.more:
            return current
        forward = current.yields
        if forward is not None:
            return forward
        waiting.extend(current.before)
    return None


_RULES: dict[str, Callable[[_Node], _Node | None]] = {"breadth-first": _breadth_first}


class ScanningExecutor:
    """Runs the kernels of a graph."""

    def __init__(self, graph: QueryGraph) -> None:
        nodes: dict[object, _Node] = {}
        for operator in graph.operators:
            node = _Node(operator.kernel, before=[nodes[above] for above in operator.before])
            for port, above in enumerate(node.before):
                arc = _Arc(node, port)
                above.outputs.append(arc)
                node.inputs.append(arc)
            nodes[operator] = node
        self._outlet = _Arc(None, 0)
        nodes[graph.end].outputs.append(self._outlet)
        self._inlets = {}
        for name, operator in graph.sources.items():
            arc = _Arc(nodes[operator], 0)
            nodes[operator].inputs.append(arc)
            self._inlets[name] = arc

    def offer(self, source: str, batch: Batch) -> None:
        self._inlets[source].buffer.append(batch)

    def run(self) -> list[Batch]:
        for arc in self._inlets.values():
            current = arc.head if arc.buffer else None
            while current is not None:
                current.execute()
                current = _RULES[current.rule](current)
        out = list(self._outlet.buffer)
        self._outlet.buffer.clear()
        return out
