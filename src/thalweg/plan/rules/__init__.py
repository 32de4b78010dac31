"""Rewrite rules: laws of the algebra, read from left to right.

Each rule is one module: its docstring states the law that makes it sound for every table, with
retractions, nulls and promises; `apply` looks at one node and returns what to put in its place, or
None. Its `scope` says what it looks at: some rules see the whole plan, once, before the others.

`optimize` goes through the plan from the sources up, again and again until nothing applies. Every
rule either takes an operator out of the plan for good (groups), moves a filter towards
the sources, removes a node or narrows a row, so that this ends. Two filters are never made one: the
second must not be evaluated on a row that the first rejects.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Protocol

from thalweg.plan.nodes import Node, WindowAggregate, rebuild, walk
from thalweg.plan.rules import (
    balance_unions,
    merge_clip_durations,
    merge_selects,
    merge_set_durations,
    merge_shifts,
    prune_columns,
    select_from_pairs,
    share_panes,
    ungroup,
    where_below_groups,
    where_below_join,
    where_below_module,
    where_below_select,
    where_below_union,
)
from thalweg.plan.rules.scope import Scope

__all__ = ["RULES", "Applied", "Rule", "decide", "lower", "optimize"]


class Rule(Protocol):
    """A module with the law in its docstring."""

    name: str
    scope: Scope

    def apply(self, node: Node, /) -> Node | None: ...


RULES: tuple[Rule, ...] = (
    ungroup,
    balance_unions,
    share_panes,
    where_below_union,
    where_below_select,
    where_below_groups,
    where_below_module,
    where_below_join,
    merge_selects,
    select_from_pairs,
    merge_clip_durations,
    merge_set_durations,
    merge_shifts,
    prune_columns,
)
"""In the order in which they are tried."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What one rule did in one place."""

    rule: str
    before: Node
    after: Node


def lower(root: Node) -> Node:
    """The plan in operators that have kernels, and nothing else changed: what queries that run
    together are compared by."""
    return optimize(root, (ungroup,))[0]


def optimize(root: Node, rules: tuple[Rule, ...] = RULES) -> tuple[Node, list[Applied]]:
    """The plan after all rules, and what they did. A node that was read twice is still one node."""
    applied: list[Applied] = []
    for whole in (rule for rule in rules if rule.scope is Scope.PLAN):
        changed = whole.apply(root)
        if changed is not None and changed is not root:
            applied.append(Applied(whole.name, root, changed))
            root = changed
    root = decide(root)
    local = tuple(rule for rule in rules if rule.scope is not Scope.PLAN)
    while True:
        rewritten = _pass(root, local, applied)
        if rewritten is root:
            return root, applied
        root = rewritten


def _pass(root: Node, rules: tuple[Rule, ...], applied: list[Applied]) -> Node:
    order = list(walk(root))
    readers = Counter(child for node in order for child in node.inputs)
    done: dict[Node, Node] = {}
    for node in order:
        rebuilt = node.with_children(*(done[child] for child in node.children))
        alone = all(readers[child] == 1 for child in node.inputs)
        done[node] = rebuilt
        for rule in rules:
            if rule.scope is Scope.SOLE_READER and not alone:
                continue
            better = rule.apply(rebuilt)
            if better is not None:
                applied.append(Applied(rule.name, rebuilt, better))
                done[node] = better
                break
    return done[root]


def decide(root: Node) -> Node:
    """The plan with the strategy that evaluates each hopping aggregate as a field of it: the one
    that was asked for, or the cheapest for the expected volume (`plan.strategies`). Kernels, shared
    panes and the signature of saved state read the field.

    >>> import thalweg as tw
    >>> query = tw.source("s", {"v": "int64"}).tumbling(10).aggregate(n=tw.count())
    >>> query.node.evaluation, decide(query.node).evaluation
    (None, 'differential')
    """
    return rebuild(root, _decided)


def _decided(node: Node) -> Node:
    if not isinstance(node, WindowAggregate) or node.window.grid is None:
        return node
    return node if node.evaluation is not None else replace(node, evaluation=node.chosen)
