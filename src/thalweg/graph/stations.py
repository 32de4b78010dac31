"""Stations: operators with their arcs, the nodes of the query graph.

A station that several others read puts each batch on every arc that leaves it; batches are immutable, so nothing is
copied. `more` says that it has input, `yields` that a station after it has some of its output to work on.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from thalweg.graph.arcs import Arc
from thalweg.operators.base import Operator

__all__ = ["Station"]


@dataclass(eq=False, slots=True)
class Station:
    """One row of the state table: an operator, the stations before and after it, and the name of its selection rule."""

    id: str
    operator: Operator
    rule: str = "breadth-first"
    inputs: list[Arc] = field(default_factory=list)
    outputs: list[Arc] = field(default_factory=list)
    before: list[Station] = field(default_factory=list)
    batches: int = 0
    elements_in: int = 0
    elements_out: int = 0

    @property
    def more(self) -> bool:
        """There is input. No operator waits for order, so input on any port will do."""
        return any(arc.buffer for arc in self.inputs)

    @property
    def yields(self) -> Station | None:
        """A station after this one that has input, if there is one."""
        for arc in self.outputs:
            if arc.head is not None and arc.buffer:
                return arc.head
        return None

    def execute(self) -> None:
        """Take one batch in, put the answer out."""
        for arc in self.inputs:
            if arc.buffer:
                batch = arc.buffer.popleft()
                answer = self.operator.process(arc.port, batch)
                self.batches += 1
                self.elements_in += len(batch)
                self.elements_out += len(answer)
                for out in self.outputs:
                    out.buffer.append(answer)
                return
