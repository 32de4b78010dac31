"""From a logical plan to a query graph: rewrite the plan, give every node its kernel, join them by
arcs.

A node that several others read becomes one operator. A query that asks for final answers gets a gate
at its end, unless its last operators never revise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from thalweg.errors import PlanError
from thalweg.graph.graph_operator import GraphOperator
from thalweg.graph.query_graph import QueryGraph
from thalweg.operators.base import Operator
from thalweg.operators.consistency import Consistency
from thalweg.operators.final_gate import FinalGateKernel
from thalweg.operators.hopping.fill import FillKernel
from thalweg.operators.registry import kernel_for
from thalweg.operators.source.ingress import IngressKernel
from thalweg.plan.explain import operator_ids
from thalweg.plan.nodes import Merge, Node, Source, WindowAggregate, find, walk
from thalweg.plan.rules import optimize
from thalweg.plan.usefulness import useful_grids

__all__ = ["build_graph"]


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
    ids = operator_ids(plan)
    operators: list[GraphOperator] = []
    last: dict[Node, GraphOperator] = {}
    sources: dict[str, GraphOperator] = {}

    def add(identity: str, kernel: Operator, before: list[GraphOperator]) -> GraphOperator:
        operator = GraphOperator(identity, kernel, before=before)
        operators.append(operator)
        return operator

    for node in walk(plan):
        before = [last[child] for child in node.inputs]
        if isinstance(node, WindowAggregate) and node.fill is not None:
            plain = add(ids[node], kernel_for(replace(node, fill=None), consistency), before)
            last[node] = add(f"{ids[node]}-fill", FillKernel(node, consistency), [plain])
        elif isinstance(node, Source) and node.name in sources:
            last[node] = sources[node.name]  # the same stream, named twice
        else:
            last[node] = add(ids[node], kernel_for(node, consistency), before)
        last[node].skips = tuple(child.properties.insert_only for child in node.inputs)
        if isinstance(node, Source):
            sources[node.name] = last[node]
        more = None if after is None else after(node)
        if more is not None:
            last[node] = add(f"{ids[node]}-whole", more, [last[node]])
    for name in _read_by_merges(plan):
        kernel = sources[name].kernel
        if isinstance(kernel, IngressKernel):
            kernel.leave_adjusts_to_merge()
    for name, grid in useful_grids(plan).items():
        kernel = sources[name].kernel
        if isinstance(kernel, IngressKernel):
            kernel.use_grid(grid)
    end = last[plan]
    if consistency.is_final and not plan.never_revises:
        end = add(
            "final-gate", FinalGateKernel(plan.schema, firm_ends=plan.properties.firm_ends), [end]
        )
    graph = QueryGraph(operators, sources, end)
    graph.fuse()
    return graph, plan


def _refuse_two_meanings(plan: Node) -> None:
    """A source that a plan reads in several places is one stream."""
    seen: dict[str, Source] = {}
    for node in find(plan, Source):
        other = seen.setdefault(node.name, node)
        if (
            other.columns != node.columns
            or other.ingress != node.ingress
            or other.declared != node.declared
        ):
            raise PlanError(
                f"the source {node.name!r} is declared in two different ways; declare it once and use that stream twice."
            )


def _read_by_merges(plan: Node) -> set[str]:
    """The sources that nothing but merges read."""
    readers: dict[str, set[bool]] = {}
    for node in walk(plan):
        for child in node.inputs:
            if isinstance(child, Source):
                readers.setdefault(child.name, set()).add(isinstance(node, Merge))
    return {name for name, merges in readers.items() if merges == {True}}
