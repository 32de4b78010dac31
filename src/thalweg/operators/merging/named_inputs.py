"""A merge at the source of a query: its inputs join and leave while the query runs.

The kernel processes a sequence of steps, each about one input by name: the input joins, leaves or
sends a batch. The sequence is logged where it is made, so that every bucket takes the same steps in
the same order, and repeats them after a restart.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from thalweg.errors import StateError
from thalweg.model.batch import Batch
from thalweg.model.time import INFINITY, MIN_TIME
from thalweg.operators.merging.kernel import MergeKernel
from thalweg.operators.merging.level import show_end
from thalweg.plan.nodes import MergedSource

__all__ = ["InputChange", "MergeStep", "NamedInputsKernel", "merged_source_kernel"]


class InputChange(StrEnum):
    """Whether an input joins a merge or leaves it."""

    JOINS = "joins"
    LEAVES = "leaves"


@dataclass(frozen=True, slots=True)
class MergeStep:
    """Which input the next batch is about, and whether that input joins or leaves before it."""

    name: str
    change: InputChange | None = None
    since: int | None = None
    """Of an input that joins: it is right about every row that ends at this time or later."""


class NamedInputsKernel(MergeKernel):
    """`step` is set before each batch."""

    step = MergeStep("")

    def process(self, port: int, batch: Batch) -> Batch:
        step = self.step
        is_input = step.name in self.inputs
        if step.change is InputChange.LEAVES:
            return self.detach(step.name) if is_input else self._progress([])
        if step.change is InputChange.JOINS:
            self.attach(step.name, MIN_TIME if step.since is None else step.since)
            return self.push(step.name, batch)
        if not is_input:
            if step.name not in self.cut:
                raise StateError(f"merge: a batch of the input {step.name!r}, which never joined.")
            return self._progress([])
        return self.push(step.name, batch)

    def waits_for(self) -> tuple[str, ...]:
        """Descriptions of the promises that would advance the merge's own."""
        if not self.inputs:
            return ("an input of the merge: none has joined",)
        promises = (f"{name} has promised {show_end(m.cti)}" for name, m in self.inputs.items())
        return (f"a later promise of an input: {', '.join(promises)}",)

    def standing(self) -> dict[str, Any]:
        """The leader, the inputs and the alarms, as a JSON object."""
        return {
            "cti": self.settled,
            "leader": None if self.leader is None else self.leader.name,
            "inputs": {name: asdict(member) for name, member in self.inputs.items()},
            "alarms": [str(alarm) for alarm in self.figures.alarms],
        }

    def needs(self, time: int) -> tuple[int, ...]:
        """The one port carries the promises of all inputs."""
        ahead = time if time in (MIN_TIME, INFINITY) else time + self.policy.lag
        return (ahead,)


def merged_source_kernel(node: MergedSource) -> NamedInputsKernel:
    kernel = NamedInputsKernel(
        node.schema,
        level=node.level,
        policy=node.policy,
        groups=node.groups,
        tolerance=node.tolerance,
        broken=node.broken,
    )
    kernel.ports = 1
    return kernel
