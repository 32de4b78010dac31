"""From a plan to fragments: where rows are exchanged, and by which keys.

An operator that looks at several rows at once (windows, joins, distinct, ...) needs the rows that
belong together in one bucket. From the sources up, each operator either finds its rows already
placed so, by columns it groups by too, or asks for an exchange by its own keys; an operator without
keys asks for one bucket. Between exchanges lies a fragment: a plan like any other, whose sources
are the inputs of the exchange.

Before an exchange run the operators that look at one row and leave its lifetime alone, since
lateness is judged after it; and the first step of a hopping aggregate (`Panes`), which leaves
little to exchange.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from thalweg.errors import PlanError
from thalweg.expr import col
from thalweg.plan.expressions import Keys
from thalweg.plan.nodes import Ingress, MergedSource, Node, Panes, Source
from thalweg.plan.nodes.panes import in_panes
from thalweg.plan.rules import optimize
from thalweg.shards.fragments.fragment import Exchange, Fragment, FragmentPlan

__all__ = ["fragments_of", "require_patterns"]


@dataclass(frozen=True, eq=False)
class _Placed:
    """A plan whose rows lie in buckets by `keys` over its columns.

    `free`: not yet placed, the plan reads the sources themselves. `keys` None: placed, but by
    nothing its columns show.
    """

    plan: Node
    free: bool
    keys: Keys | None = ()
    inputs: Mapping[str, Exchange] = field(default_factory=dict)

    @property
    def single(self) -> bool:
        return not self.free and self.keys == ()


def fragments_of(root: Node) -> FragmentPlan:
    """Rewrite a plan by the rules and cut it into fragments."""
    plan, _ = optimize(root)
    cutter = _Cutter()
    placed = cutter.place(plan)
    # nothing needs rows together: equal rows go to one bucket, so that an adjust finds its insert
    if placed.free:
        placed = cutter.cut_free(placed, tuple(col(name) for name in plan.schema.names))
    cutter.finish(placed)
    return FragmentPlan(plan, tuple(cutter.fragments))


class _Cutter:
    def __init__(self) -> None:
        self.fragments: list[Fragment] = []
        self._placed: dict[Node, _Placed] = {}
        self._exchanged: dict[tuple[Node, tuple[object, ...]], Exchange] = {}

    def place(self, root: Node) -> _Placed:
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

    def finish(self, placed: _Placed) -> Fragment:
        fragment = Fragment(len(self.fragments), placed.plan, tuple(placed.inputs.values()))
        self.fragments.append(fragment)
        return fragment

    def _place(self, node: Node) -> _Placed:
        if isinstance(node, MergedSource):
            return _Placed(
                node, False, node.keys, {node.name: Exchange(node, node.keys, node, node)}
            )
        if isinstance(node, Source):
            return self._exact(node) if _needs_order(node) else _Placed(node, free=True)
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
        if not below[0].single and not _within(below[0].keys, required_keys[0]):
            below[0] = self.exchange(below[0], required_keys[0])
        return self._over(node, below[0])

    def _exact(self, source: Source) -> _Placed:
        """A source whose promises follow from the order of its rows: one bucket sees them all."""
        leaf = Source(
            source.name, source.columns, source.ingress, source.declared, clock=source.clock
        )
        return _Placed(leaf, False, (), {leaf.name: Exchange(leaf, (), source, source)})

    def _over(self, node: Node, below: _Placed) -> _Placed:
        plan = node.with_children(below.plan)
        keys = None if below.keys is None else plan.result_keys(below.keys)
        return replace(below, plan=plan, keys=() if below.free or below.keys == () else keys)

    def _panes(self, node: Panes, below: _Placed) -> _Placed:
        """Partial sums that the query itself asks for: before the exchange where nothing forbids
        it, by the batch alone."""
        if below.free and _can_pre_aggregate(below.plan):
            return _Placed(replace(node, input=below.plan, table=None), free=True)
        keys = tuple(map(col, node.keys))
        if below.free or (not below.single and not _within(below.keys, keys)):
            below = self.exchange(below, keys)
        return self._over(node, below)

    # --------------------------------------------------------------------------------------------
    # several inputs

    def _side_by_side(self, node: Node, below: list[_Placed]) -> _Placed:
        """No two rows need to meet, but what is above must know where they are: all inputs go by
        the keys of one that is placed already, else by all columns."""
        if all(side.free for side in below):
            return _Placed(node.with_children(*(side.plan for side in below)), free=True)
        columns = tuple(col(name) for name in node.schema.names)
        placed = (side.keys for side in below if not side.free and side.keys is not None)
        keys = next(placed, columns)
        return self._combined(node, [self._by(side, keys) for side in below], keys)

    def _matched(
        self, node: Node, below: list[_Placed], required_keys: tuple[Keys, ...]
    ) -> _Placed:
        """Rows of all inputs meet where their keys are equal."""
        which = _agreed(below, required_keys)
        keys = [tuple(side[i] for i in which) for side in required_keys]
        placed = [self._by(side, by) for side, by in zip(below, keys, strict=True)]
        return self._combined(node, placed, node.result_keys(*keys))

    def _by(self, side: _Placed, keys: Keys) -> _Placed:
        there = not side.free and _same_keys(side.keys, keys)
        return side if there else self.exchange(side, keys)

    def _combined(self, node: Node, below: list[_Placed], keys: Keys | None) -> _Placed:
        inputs = {name: entry for side in below for name, entry in side.inputs.items()}
        return _Placed(node.with_children(*(side.plan for side in below)), False, keys, inputs)

    # --------------------------------------------------------------------------------------------
    # exchange

    def exchange(self, placed: _Placed, keys: Keys) -> _Placed:
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
        return _Placed(
            leaf, False, keys, {leaf.name: Exchange(leaf, keys, upstream=fragment.number)}
        )

    def cut_free(self, placed: _Placed, keys: Keys) -> _Placed:
        plan, inputs = self._cut(placed.plan, keys)
        if plan is None:  # a key cannot be computed before the exchange
            plan, inputs = self._cut(placed.plan, ())
            keys = ()
        assert plan is not None
        return _Placed(plan, False, keys, inputs)

    def _cut(self, node: Node, keys: Keys) -> tuple[Node | None, dict[str, Exchange]]:
        """Put an exchange below the lowest operator that changes lifetimes; keys are written in
        terms of what is below."""
        chain: list[Node] = []
        while len(node.inputs) == 1 and not _only_rows(node):
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
        if _only_rows(node):
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
            source = _source_of(ingest)
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
            leaf = Source(name, ingest.schema, policy, ingest.properties.but(ordered=False))
            self._exchanged[identity] = Exchange(leaf, keys, source, ingest)
        return self._exchanged[identity]

    def _aggregate_free(self, node: Node, below: _Placed, keys: Keys) -> _Placed:
        """A keyed operator over the sources: partial sums first where the aggregate has them."""
        over = node.with_children(below.plan)
        over_panes = in_panes(over) if _can_pre_aggregate(below.plan) else None
        if over_panes is not None:
            cut = self.cut_free(_Placed(over_panes.input, free=True), keys)
            return replace(cut, plan=over_panes.with_children(cut.plan))
        return self._over(node, self.cut_free(below, keys))


# ------------------------------------------------------------------------------------------------
# keys


def _within(keys: Keys | None, required_keys: Keys) -> bool:
    """Whether rows that agree on the required columns are in one bucket already."""
    columns = {name for expr in required_keys for name in expr.columns()}
    return bool(keys) and all(expr.columns() and expr.columns() <= columns for expr in keys or ())


def _same_keys(left: Keys | None, right: Keys) -> bool:
    return (
        left is not None
        and len(left) == len(right)
        and all(a.same(b) for a, b in zip(left, right, strict=True))
    )


def _agreed(below: list[_Placed], sides: tuple[Keys, ...]) -> list[int]:
    """Which of the pairs of join keys choose the bucket: those of a side that is placed already,
    else all."""
    for side, keys in zip(below, sides, strict=True):
        if side.free or side.keys is None:
            continue
        found = [
            next((i for i, key in enumerate(keys) if key.same(expr)), None) for expr in side.keys
        ]
        if all(i is not None for i in found):
            return [i for i in found if i is not None]
    return list(range(len(sides[0])))


# ------------------------------------------------------------------------------------------------
# plans


def _only_rows(node: Node) -> bool:
    """Whether everything below looks at single rows, leaves lifetimes alone, and sees starts as
    they will be admitted."""
    reads_start = False
    while node.before_exchange:
        reads_start |= node.reads_start
        node = node.inputs[0]
    return isinstance(node, Source) and not (reads_start and node.ingress.late_policy.moves)


def _source_of(node: Node) -> Source:
    while not isinstance(node, Source):
        node = node.inputs[0]
    return node


def _needs_order(source: Source) -> bool:
    """Whether one bucket must see all rows in one order: for quarantine, and for promises per
    partition, about columns, as general patterns, or from times of rows that may be adjusted."""
    policy = source.ingress
    return (
        policy.partition is not None
        or policy.quarantine is not None
        or policy.patterns
        or bool(source.declared.progressing)
        or (policy.observes and not source.declared.insert_only)
    )


def _can_pre_aggregate(plan: Node) -> bool:
    """Whether partial sums may be made before the exchange. They cannot be moved or set aside one
    by one, no adjust can be checked against them, and no promise for one group covers them."""
    if not _only_rows(plan):
        return False
    source = _source_of(plan)
    whole = (
        not source.ingress.late_policy.alone
        and source.ingress.partition is None
        and not source.declared.group_ctis
    )
    return source.declared.insert_only and whole


def require_patterns(source: Source) -> None:
    """Refuse general punctuation of a source that has not declared it: the columns it is about may
    not exist behind an exchange."""
    if not source.ingress.patterns:
        raise PlanError(
            f"source {source.name!r}: punctuation with ranges is known only where the source says "
            "that it may come, patterns=True."
        )
