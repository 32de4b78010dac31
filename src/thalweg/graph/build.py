"""From a logical plan to a query graph: rewrite the plan, give every node its kernel, join them by
arcs.

A node that several others read becomes one operator. A query that asks for final answers gets a
gate at its end, unless its last operators never revise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from thalweg.errors import PlanError
from thalweg.graph.graph_operator import GraphOperator
from thalweg.graph.query_graph import QueryGraph
from thalweg.operators.base import Operator
from thalweg.operators.consistency import Consistency
from thalweg.operators.final_gate import FinalGateKernel
from thalweg.operators.registry import kernel_for
from thalweg.operators.source.ingress import IngressKernel
from thalweg.operators.window.grid.fill import FillKernel
from thalweg.plan.explain import operator_ids
from thalweg.plan.nodes import Merge, Node, Source, WindowAggregate, find, walk
from thalweg.plan.rules import optimize
from thalweg.plan.usefulness import useful_grids

__all__ = ["build_graph", "declared_alike", "final_gate"]


def build_graph(
    root: Node,
    consistency: Consistency,
    *,
    rewrite: bool = True,
    after: Callable[[Node], Operator | None] | None = None,
) -> tuple[QueryGraph, Node]:
    """The graph that runs a query, and the plan it runs. Without `rewrite` the plan is run as it
    is; `after` may put one more operator behind that of a node."""
    plan = optimize(root)[0] if rewrite else root
    _refuse_two_meanings(plan)
    builder = _Builder(consistency, operator_ids(plan))
    for node in walk(plan):
        builder.add_node(node)
        whole = None if after is None else after(node)
        if whole is not None:
            builder.append(node, "whole", whole)
    _set_up_sources(plan, builder.sources)
    end = builder.last[plan]
    gate = final_gate(plan, consistency)
    if gate is not None:
        end = builder.add("final-gate", gate, [end])
    graph = QueryGraph(builder.operators, builder.sources, end)
    graph.fuse()
    return graph, plan


def final_gate(plan: Node, consistency: Consistency) -> FinalGateKernel | None:
    """The gate at the end of a query; None where it asks for early answers, or never revises."""
    if not consistency.is_final or plan.never_revises:
        return None
    return FinalGateKernel(plan.schema, firm_ends=plan.properties.firm_ends)


def declared_alike(left: Source, right: Source) -> bool:
    """Whether two sources of one name are one stream."""
    return (left.columns, left.ingress, left.declared) == (
        right.columns,
        right.ingress,
        right.declared,
    )


@dataclass
class _Builder:
    """The operators of a graph that is being built, inputs before their readers."""

    consistency: Consistency
    ids: Mapping[Node, str]
    operators: list[GraphOperator] = field(default_factory=list)
    last: dict[Node, GraphOperator] = field(default_factory=dict)
    """By node: the operator that gives its output."""
    sources: dict[str, GraphOperator] = field(default_factory=dict)

    def add(self, identity: str, kernel: Operator, before: list[GraphOperator]) -> GraphOperator:
        operator = GraphOperator(identity, kernel, before=before)
        self.operators.append(operator)
        return operator

    def append(self, node: Node, suffix: str, kernel: Operator) -> None:
        """Put one more operator behind those of a node."""
        self.last[node] = self.add(f"{self.ids[node]}-{suffix}", kernel, [self.last[node]])

    def add_node(self, node: Node) -> None:
        """Add the operators of a node."""
        if isinstance(node, Source) and node.name in self.sources:
            self.last[node] = self.sources[node.name]  # the plan reads the stream twice
        elif isinstance(node, WindowAggregate) and node.fill is not None:
            self._add_kernel(node, kernel_for(replace(node, fill=None), self.consistency))
            self.append(node, "fill", FillKernel(node, self.consistency))
        else:
            self._add_kernel(node, kernel_for(node, self.consistency))
        if isinstance(node, Source):
            self.sources[node.name] = self.last[node]

    def _add_kernel(self, node: Node, kernel: Operator) -> None:
        before = [self.last[child] for child in node.inputs]
        operator = self.last[node] = self.add(self.ids[node], kernel, before)
        operator.skips = tuple(child.properties.insert_only for child in node.inputs)


def _set_up_sources(plan: Node, sources: Mapping[str, GraphOperator]) -> None:
    """Configure each source for the operators that read it."""
    for name in _read_by_merges(plan):
        kernel = sources[name].kernel
        if isinstance(kernel, IngressKernel):
            kernel.leave_adjusts_to_merge()
    for name, grid in useful_grids(plan).items():
        kernel = sources[name].kernel
        if isinstance(kernel, IngressKernel):
            kernel.use_grid(grid)


def _refuse_two_meanings(plan: Node) -> None:
    """Refuse a plan that declares a source in two different ways."""
    seen: dict[str, Source] = {}
    for node in find(plan, Source):
        other = seen.setdefault(node.name, node)
        if not declared_alike(other, node):
            raise PlanError(
                f"the source {node.name!r} is declared in two different ways; declare it once and "
                "use that stream twice."
            )


def _read_by_merges(plan: Node) -> set[str]:
    """The sources that nothing but merges read."""
    readers: dict[str, set[bool]] = {}
    for node in walk(plan):
        for child in node.inputs:
            if isinstance(child, Source):
                readers.setdefault(child.name, set()).add(isinstance(node, Merge))
    return {name for name, merges in readers.items() if merges == {True}}
