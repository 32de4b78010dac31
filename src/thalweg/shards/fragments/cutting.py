"""From a plan to fragments: where rows are exchanged, and by which keys.

An operator that looks at several rows at once (windows, joins, distinct, ...) needs the rows that
belong together in one bucket. From the sources up, each operator either finds its rows in buckets
by columns that it groups by too, or asks for an exchange by its own keys; an operator without keys
asks for one bucket. The plan between two exchanges is a fragment, whose sources are the inputs of
the exchange.

The operators that look at one row and keep its lifetime run before the exchange, since lateness is
judged after it; so does the first step of a hopping aggregate (`Panes`), which leaves little to
exchange.
"""

from __future__ import annotations

from dataclasses import replace

from thalweg.expr import col
from thalweg.plan.expressions import Keys
from thalweg.plan.nodes import Ingress, MergedSource, Node, Panes, Source
from thalweg.plan.nodes.panes import in_panes
from thalweg.plan.rules import optimize
from thalweg.shards.fragments.before_exchange import (
    can_pre_aggregate,
    needs_order,
    only_rows,
    source_of,
)
from thalweg.shards.fragments.fragment import Exchange, Fragment, FragmentPlan
from thalweg.shards.fragments.placement import Placed, agreed_keys, same_keys, within

__all__ = ["fragments_of"]


def fragments_of(root: Node) -> FragmentPlan:
    """Rewrite a plan by the rules and cut it into fragments."""
    plan, _ = optimize(root)
    cutter = _Cutter()
    placed = cutter.place(plan)
    # no operator needs rows together; equal rows must meet, so that an adjust finds its insert
    if placed.free:
        placed = cutter.cut_free(placed, tuple(col(name) for name in plan.schema.names))
    cutter.finish(placed)
    return FragmentPlan(plan, tuple(cutter.fragments))


class _Cutter:
    def __init__(self) -> None:
        self.fragments: list[Fragment] = []
        self._placed: dict[Node, Placed] = {}
        self._exchanged: dict[tuple[Node, tuple[object, ...]], Exchange] = {}

    def place(self, root: Node) -> Placed:
        """Place a plan from its sources up, without recursion: a plan may be a long chain."""
        stack = [root]
        while stack:
            node = stack[-1]
            below = [child for child in node.inputs if child not in self._placed]
            if below:
                stack += reversed(below)
                continue
            stack.pop()
            if node not in self._placed:
                self._placed[node] = self._place(node)
        return self._placed[root]

    def finish(self, placed: Placed) -> Fragment:
        fragment = Fragment(len(self.fragments), placed.plan, tuple(placed.inputs.values()))
        self.fragments.append(fragment)
        return fragment

    def _place(self, node: Node) -> Placed:
        if isinstance(node, MergedSource):
            return Placed(
                node, False, node.keys, {node.name: Exchange(node, node.keys, node, node)}
            )
        if isinstance(node, Source):
            return self._exact(node) if needs_order(node) else Placed(node, free=True)
        below = [self.place(child) for child in node.inputs]
        if isinstance(node, Panes):
            return self._panes(node, below[0])
        required_keys = node.divided_by
        if required_keys is None:
            return (
                self._over(node, below[0]) if len(below) == 1 else self._side_by_side(node, below)
            )
        if len(below) > 1:
            return self._matched(node, below, required_keys)
        if below[0].free:
            return self._aggregate_free(node, below[0], required_keys[0])
        if not below[0].single and not within(below[0].keys, required_keys[0]):
            below[0] = self.exchange(below[0], required_keys[0])
        return self._over(node, below[0])

    def _exact(self, source: Source) -> Placed:
        """A source whose promises follow from the order of its rows: one bucket sees them all."""
        leaf = Source(
            source.name, source.columns, source.ingress, source.declared, clock=source.clock
        )
        return Placed(leaf, False, (), {leaf.name: Exchange(leaf, (), source, source)})

    def _over(self, node: Node, below: Placed) -> Placed:
        plan = node.with_children(below.plan)
        keys = None if below.keys is None else plan.result_keys(below.keys)
        return replace(below, plan=plan, keys=() if below.free or below.keys == () else keys)

    def _panes(self, node: Panes, below: Placed) -> Placed:
        """Place partial sums that the query itself asks for: before the exchange where that is
        possible, batch by batch."""
        if below.free and can_pre_aggregate(below.plan):
            return Placed(replace(node, input=below.plan, table=None), free=True)
        keys = tuple(map(col, node.keys))
        if below.free or (not below.single and not within(below.keys, keys)):
            below = self.exchange(below, keys)
        return self._over(node, below)

    # --------------------------------------------------------------------------------------------
    # several inputs

    def _side_by_side(self, node: Node, below: list[Placed]) -> Placed:
        """Place inputs whose rows need not meet, all by the same keys: those of an input that is
        placed already, else all columns."""
        if all(side.free for side in below):
            return Placed(node.with_children(*(side.plan for side in below)), free=True)
        columns = tuple(col(name) for name in node.schema.names)
        placed = (side.keys for side in below if not side.free and side.keys is not None)
        keys = next(placed, columns)
        return self._combined(node, [self._by(side, keys) for side in below], keys)

    def _matched(self, node: Node, below: list[Placed], required_keys: tuple[Keys, ...]) -> Placed:
        """Place inputs whose rows meet where their keys are equal."""
        which = agreed_keys(below, required_keys)
        keys = [tuple(side[i] for i in which) for side in required_keys]
        placed = [self._by(side, by) for side, by in zip(below, keys, strict=True)]
        return self._combined(node, placed, node.result_keys(*keys))

    def _by(self, side: Placed, keys: Keys) -> Placed:
        there = not side.free and same_keys(side.keys, keys)
        return side if there else self.exchange(side, keys)

    def _combined(self, node: Node, below: list[Placed], keys: Keys | None) -> Placed:
        inputs = {name: entry for side in below for name, entry in side.inputs.items()}
        return Placed(node.with_children(*(side.plan for side in below)), False, keys, inputs)

    # --------------------------------------------------------------------------------------------
    # exchange

    def exchange(self, placed: Placed, keys: Keys) -> Placed:
        """The same rows, in buckets by these keys."""
        if placed.free:
            return self.cut_free(placed, keys)
        fragment = self.finish(placed)
        # Revisions arrive as adjusts, and the promise of each bucket beside them: nothing is left
        # to be checked.
        facts = placed.plan.properties.but(
            progressing=tuple(sorted(placed.plan.progressing)),
            insert_only=placed.plan.never_revises and placed.plan.properties.insert_only,
        )
        leaf = Source(
            f"fragment-{fragment.number}", placed.plan.schema, Ingress(trusted=True), facts
        )
        return Placed(
            leaf, False, keys, {leaf.name: Exchange(leaf, keys, upstream=fragment.number)}
        )

    def cut_free(self, placed: Placed, keys: Keys) -> Placed:
        plan, inputs = self._cut(placed.plan, keys)
        if plan is None:  # a key cannot be computed before the exchange
            plan, inputs = self._cut(placed.plan, ())
            keys = ()
        assert plan is not None
        return Placed(plan, False, keys, inputs)

    def _cut(self, node: Node, keys: Keys) -> tuple[Node | None, dict[str, Exchange]]:
        """Put an exchange below the lowest operator that changes lifetimes; keys are written in
        terms of what is below."""
        chain: list[Node] = []
        while len(node.inputs) == 1 and not only_rows(node):
            lowered = node.lower_keys(keys)
            if lowered is None:
                return None, {}
            chain.append(node)
            node, keys = node.inputs[0], lowered
        plan, inputs = self._cut_below(node, keys)
        if plan is None:
            return None, {}
        for above in reversed(chain):
            plan = above.with_children(plan)
        return plan, inputs

    def _cut_below(self, node: Node, keys: Keys) -> tuple[Node | None, dict[str, Exchange]]:
        if only_rows(node):
            if any(expr.columns() - set(node.schema.names) for expr in keys):
                return None, {}
            entry = self._enter(node, keys)
            return entry.leaf, {entry.leaf.name: entry}
        inputs: dict[str, Exchange] = {}
        plans = []
        lowered = node.lower_keys(keys)
        if lowered is None:
            return None, {}
        for child in node.inputs:
            plan, more = self._cut(child, lowered)
            if plan is None:
                return None, {}
            plans.append(plan)
            inputs |= more
        return node.with_children(*plans), inputs

    def _enter(self, ingest: Node, keys: Keys) -> Exchange:
        """The exchange of the rows of a source; inputs that read it alike share one."""
        identity = (ingest, tuple(expr.key() for expr in keys))
        if identity not in self._exchanged:
            source = source_of(ingest)
            same = sum(
                1
                for entry in self._exchanged.values()
                if entry.source is not None and entry.source.name == source.name
            )
            name = source.name if not same else f"{source.name}#{same + 1}"
            panes = isinstance(ingest, Panes)
            policy = (
                Ingress(trusted=True)
                if panes
                else replace(source.ingress, disorder=None, period=None, progress=())
            )
            facts = ingest.properties.but(ordered=False)
            leaf = Source(name, ingest.schema, policy, facts, clock=source.clock)
            self._exchanged[identity] = Exchange(leaf, keys, source, ingest)
        return self._exchanged[identity]

    def _aggregate_free(self, node: Node, below: Placed, keys: Keys) -> Placed:
        """Place a keyed operator over the sources, with partial sums before the exchange where the
        aggregate has them."""
        over = node.with_children(below.plan)
        over_panes = in_panes(over) if can_pre_aggregate(below.plan) else None
        if over_panes is not None:
            cut = self.cut_free(Placed(over_panes.input, free=True), keys)
            return replace(cut, plan=over_panes.with_children(cut.plan))
        return self._over(node, self.cut_free(below, keys))
