"""From a plan to fragments: what runs between two exchanges.

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
from typing import TypeAlias

from thalweg.errors import PlanError
from thalweg.expr import Column, Expr, col
from thalweg.graph.build import never_revises
from thalweg.plan import nodes
from thalweg.plan.explain import describe, operator_ids
from thalweg.plan.nodes import (
    ClipBy,
    CombinePanes,
    Ingress,
    Join,
    Named,
    Node,
    Panes,
    Source,
    WindowAggregate,
)
from thalweg.plan.nodes.panes import in_panes
from thalweg.plan.rules import optimize
from thalweg.plan.rules.substitution import START, passed_on, substitute

__all__ = [
    "Exchange",
    "Fragment",
    "FragmentPlan",
    "fragments_of",
    "parts_of",
    "sources_of",
    "targets_of",
]

Keys: TypeAlias = tuple[Expr, ...]

_ROW_OPERATORS = (nodes.Where, nodes.Select, nodes.SelectMany)
_KEYLESS = (
    *_ROW_OPERATORS,
    nodes.SetDuration,
    nodes.AlterLifetime,
    nodes.Retime,
    nodes.Shift,
    nodes.Extend,
    nodes.ClipDuration,
    nodes.PointAtEnd,
    nodes.Chop,
    nodes.HoppingLifetime,
    nodes.Quantize,
    nodes.Describe,
)


@dataclass(frozen=True, eq=False)
class Exchange:
    """One input of a fragment: `leaf` is how the fragment's plan reads it."""

    leaf: Source
    keys: Keys
    """Expressions over the leaf's columns whose values choose the bucket; none: everything goes to
    one bucket."""
    source: Source | None = None
    """The stream from outside that it comes from, and ..."""
    ingest: Node | None = None
    """... what is done to its rows before the exchange, over `source`."""
    upstream: int | None = None
    """Or the number of the fragment it comes from."""

    @property
    def panes(self) -> Panes | None:
        return self.ingest if isinstance(self.ingest, Panes) else None


@dataclass(frozen=True, eq=False)
class Fragment:
    number: int
    plan: Node
    inputs: tuple[Exchange, ...]

    @property
    def single(self) -> bool:
        """Whether all of it runs in one bucket."""
        return any(not entry.keys for entry in self.inputs)


@dataclass(frozen=True, eq=False)
class FragmentPlan:
    """All fragments; each comes after those it reads, and the last one gives the answer."""

    root: Node
    fragments: tuple[Fragment, ...]

    def describe(self) -> str:
        """The fragments as text, for `explain()`."""
        lines = []
        for fragment in self.fragments:
            where = (
                "one bucket: the query has no key to divide it by"
                if fragment.single
                else "every bucket"
            )
            lines.append(f"fragment {fragment.number}, in {where}")
            for entry in fragment.inputs:
                origin = (
                    f"fragment {entry.upstream}"
                    if entry.source is None
                    else f"source {entry.source.name}"
                )
                by = ", ".join(map(str, entry.keys)) or "nothing"
                lines.append(f"  reads {origin}, exchanged by {by}")
                lines += [f"    before the exchange: {text}" for text in _chain(entry.ingest)]
            ids = operator_ids(fragment.plan)
            lines += [
                f"  {ids[node]} keeps {_STATE[type(node)]}"
                for node in nodes.walk(fragment.plan)
                if type(node) in _STATE
            ]
        return "\n".join(lines)


_STATE: dict[type[Node], str] = {
    nodes.WindowAggregate: "what windows that are not closed need: sums by key and pane, or their rows",
    nodes.CombinePanes: "sums by key and pane, for the length of a window and the disorder",
    nodes.WindowApply: "windows that are not closed, their rows, and what they have answered",
    nodes.TopK: "the rows of windows that are not closed",
    nodes.SessionLifetime: "the rows of sessions that are not closed",
    nodes.Distinct: "the rows that the CTI has not passed",
    nodes.Stitch: "the rows that may still be touched",
    nodes.Join: "the rows of both sides that the CTI of the other has not passed",
    nodes.ClipBy: "the rows of both sides that the CTI has not passed",
    nodes.Chop: "the rows without an end",
    nodes.WidAggregate: "the rows that windows which are not settled need, or one partial result a group",
    nodes.NumberRows: "the last number of each partition, and the numbers of rows that may still be adjusted",
}


def _chain(node: Node | None) -> list[str]:
    chain: list[str] = []
    while node is not None and not isinstance(node, Source):
        chain.append(f"{node.label} {describe(node)}".strip())
        node = node.inputs[0]
    return chain[::-1]


# ------------------------------------------------------------------------------------------------------------
# placing


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

    def place(self, node: Node) -> _Placed:
        if node not in self._placed:
            self._placed[node] = self._place(node)
        return self._placed[node]

    def finish(self, placed: _Placed) -> Fragment:
        fragment = Fragment(len(self.fragments), placed.plan, tuple(placed.inputs.values()))
        self.fragments.append(fragment)
        return fragment

    def _place(self, node: Node) -> _Placed:
        if isinstance(node, Source):
            return self._exact(node) if _needs_order(node) else _Placed(node, free=True)
        below = [self.place(child) for child in node.inputs]
        if isinstance(node, Panes):
            return self._panes(node, below[0])
        if isinstance(node, _KEYLESS):
            return self._over(node, below[0], _through(node, below[0].keys))
        if isinstance(node, nodes.Union):
            return self._union(node, below)
        if isinstance(node, (Join, ClipBy)):
            return self._pair(node, below)
        keys = _own_keys(node)
        if below[0].free:
            return self._aggregate_free(node, below[0], keys)
        if not below[0].single and not _within(below[0].keys, keys):
            below[0] = self.exchange(below[0], tuple(map(col, keys)))
        return self._over(node, below[0], below[0].keys)

    def _exact(self, source: Source) -> _Placed:
        """A source whose promises follow from the order of its rows: one bucket sees them all."""
        kept = replace(
            source.ingress, progress=source.ingress.observed
        )  # clocks are read where the chunks come in
        leaf = Source(source.name, source.columns, kept, source.declared, clock=source.clock)
        return _Placed(leaf, False, (), {leaf.name: Exchange(leaf, (), source, source)})

    def _over(self, node: Node, below: _Placed, keys: Keys | None) -> _Placed:
        return replace(below, plan=_rebuilt(node, [below]), keys=keys if not below.free else ())

    def _panes(self, node: Panes, below: _Placed) -> _Placed:
        """Partial sums that the query itself asks for: before the exchange where nothing forbids
        it, by the batch alone."""
        if below.free and _can_pre_aggregate(below.plan):
            return _Placed(replace(node, input=below.plan, table=None), free=True)
        if below.free or (not below.single and not _within(below.keys, node.keys)):
            below = self.exchange(below, tuple(map(col, node.keys)))
        return self._over(node, below, below.keys)

    # --------------------------------------------------------------------------------------------------
    # two inputs

    def _union(self, node: nodes.Union, below: list[_Placed]) -> _Placed:
        if all(side.free for side in below):
            return _Placed(_rebuilt(node, below), free=True)
        columns = tuple(col(name) for name in node.schema.names)
        one, two = below
        keys = next(
            (side.keys for side in below if not side.free and side.keys is not None), columns
        )
        one, two = (
            side if not side.free and _same_keys(side.keys, keys) else self.exchange(side, keys)
            for side in (one, two)
        )
        return _Placed(_rebuilt(node, [one, two]), False, keys, {**one.inputs, **two.inputs})

    def _pair(self, node: Join | ClipBy, below: list[_Placed]) -> _Placed:
        same = tuple(map(col, node.same))
        sides = (*node.left_keys, *same), (*node.right_keys, *same)
        which = _agreed(below, sides)
        wanted = [tuple(keys[i] for i in which) for keys in sides]
        placed = [
            side if not side.free and _same_keys(side.keys, keys) else self.exchange(side, keys)
            for side, keys in zip(below, wanted, strict=True)
        ]
        keys = _pair_keys(node, wanted[0], wanted[1])
        return _Placed(
            _rebuilt(node, placed), False, keys, {**placed[0].inputs, **placed[1].inputs}
        )

    # ----------------------------------------------------------------------------------------------------
    # exchange

    def exchange(self, placed: _Placed, keys: Keys) -> _Placed:
        """The same rows, in buckets by these keys."""
        if placed.free:
            return self.cut_free(placed, keys)
        fragment = self.finish(placed)
        # Revisions arrive as adjusts, and the promise of each bucket beside them: nothing is left
        # to be checked.
        facts = placed.plan.properties.but(
            insert_only=never_revises(placed.plan) and placed.plan.properties.insert_only
        )
        leaf = Source(
            f"fragment-{fragment.number}", placed.plan.schema, Ingress(trusted=True), facts
        )
        return _Placed(
            leaf, False, keys, {leaf.name: Exchange(leaf, keys, upstream=fragment.number)}
        )

    def cut_free(self, placed: _Placed, keys: Keys) -> _Placed:
        plan, inputs = self._cut(placed.plan, keys)
        if plan is None:  # a key that cannot be told before the exchange
            plan, inputs = self._cut(placed.plan, ())
            keys = ()
        assert plan is not None
        return _Placed(plan, False, keys, inputs)

    def _cut(self, node: Node, keys: Keys) -> tuple[Node | None, dict[str, Exchange]]:
        """Put an exchange below the lowest operator that changes lifetimes; keys are written in
        terms of what is below."""
        if _only_rows(node):
            if any(expr.columns() - set(node.schema.names) for expr in keys):
                return None, {}
            entry = self._enter(node, keys)
            return entry.leaf, {entry.leaf.name: entry}
        inputs: dict[str, Exchange] = {}
        plans = []
        for child in node.inputs:
            lowered = _lower(node, keys)
            if lowered is None:
                return None, {}
            plan, more = self._cut(child, lowered)
            if plan is None:
                return None, {}
            plans.append(_Placed(plan, False))
            inputs |= more
        return _rebuilt(node, plans), inputs

    def _enter(self, ingest: Node, keys: Keys) -> Exchange:
        mark = (ingest, tuple(expr.key() for expr in keys))
        if mark not in self._exchanged:
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
            self._exchanged[mark] = Exchange(leaf, keys, source, ingest)
        return self._exchanged[mark]

    def _aggregate_free(self, node: Node, below: _Placed, keys: tuple[str, ...]) -> _Placed:
        """A keyed operator over the sources: partial sums first where the aggregate has them."""
        halves = in_panes(_rebuilt(node, [below])) if _can_pre_aggregate(below.plan) else None
        if halves is not None:
            cut = self.cut_free(_Placed(halves.input, free=True), tuple(map(col, keys)))
            return replace(cut, plan=replace(halves, input=cut.plan))
        cut = self.cut_free(below, tuple(map(col, keys)))
        return self._over(node, cut, cut.keys)


# ---------------------------------------------------------------------------------------------------------------
# keys


def _own_keys(node: Node) -> tuple[str, ...]:
    if isinstance(node, (nodes.Distinct, nodes.Stitch)):
        return tuple(node.schema.names)
    if isinstance(node, nodes.WidAggregate):
        return node.divided_by
    if isinstance(node, nodes.NumberRows):
        return node.partition
    if isinstance(
        node, (WindowAggregate, nodes.WindowApply, CombinePanes, nodes.TopK, nodes.SessionLifetime)
    ):
        # Filling needs to see all groups at once: a silence of one is known from the others.
        return () if isinstance(node, WindowAggregate) and node.fill is not None else node.keys
    raise PlanError(f"{node.label} cannot run on Spark yet.")


def _within(keys: Keys | None, columns: tuple[str, ...]) -> bool:
    """Whether rows that agree on the columns are in one bucket already."""
    return bool(keys) and all(
        expr.columns() and expr.columns() <= set(columns) for expr in keys or ()
    )


def _same_keys(one: Keys | None, two: Keys) -> bool:
    return (
        one is not None
        and len(one) == len(two)
        and all(a.same(b) for a, b in zip(one, two, strict=True))
    )


def _through(node: Node, keys: Keys | None) -> Keys | None:
    """Keys in terms of the columns above a row operator."""
    if keys is None or not isinstance(node, (nodes.Select, nodes.SelectMany)):
        return keys
    above = {old: new for new, old in passed_on(node.columns).items() if old != _unnested(node)}
    if not all(expr.columns() <= set(above) for expr in keys):
        return None
    return tuple(expr.rename(above) for expr in keys)


def _lower(node: Node, keys: Keys) -> Keys | None:
    """Keys in terms of the columns below an operator that was not placed yet."""
    if not isinstance(node, (nodes.Select, nodes.SelectMany)):
        return keys
    known = dict(node.columns)
    lowered = tuple(substitute(expr, known) for expr in keys)
    below = set(node.inputs[0].schema.names) - {
        _unnested(node)
    }  # `_start` has another value before the lifetimes change
    return lowered if all(expr.columns() <= below for expr in lowered) else None


def _unnested(node: Node) -> str | None:
    """The column that holds a list below and one of its items above."""
    return node.unnest if isinstance(node, nodes.SelectMany) else None


def _agreed(below: list[_Placed], sides: tuple[Keys, Keys]) -> list[int]:
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


def _pair_keys(node: Join | ClipBy, left: Keys, right: Keys) -> Keys | None:
    """The keys in terms of the columns of the result: of columns that have the key in every row,
    alone or paired."""
    if isinstance(node, ClipBy) or node.how in ("semi", "anti"):
        return left
    above: list[dict[str, str]] = []
    for prefix, alone, other in (
        ("l.", node.left_only, node.right_only),
        ("r.", node.right_only, node.left_only),
    ):
        pairs = {
            name: expr.name.removeprefix(prefix)
            for name, expr in _passed(node.result)
            if expr.name.startswith(prefix)
        }
        lone = [dict(_passed(columns)) for columns in (alone, other) if columns]
        above.append(
            {
                old: new
                for new, old in pairs.items()
                if all(new in columns and columns[new].name == old for columns in lone)
            }
        )
    found: list[Expr] = []
    for pair in zip(left, right, strict=True):
        known = next(
            (
                (expr, names)
                for expr, names in zip(pair, above, strict=True)
                if expr.columns() <= names.keys()
            ),
            None,
        )
        if known is None:
            return None
        found.append(known[0].rename(known[1]))
    return tuple(found)


def _passed(columns: Named) -> list[tuple[str, Column]]:
    return [(name, expr) for name, expr in columns if isinstance(expr, Column)]


# --------------------------------------------------------------------------------------------------------------
# plans


def _rebuilt(node: Node, below: list[_Placed]) -> Node:
    names = [entry for entry in ("input", "left", "right") if hasattr(node, entry)]
    changes = {name: placed.plan for name, placed in zip(names, below, strict=True)}
    same = all(getattr(node, name) is plan for name, plan in changes.items())
    return node if same else replace(node, **changes)  # type: ignore[arg-type]


def _only_rows(node: Node) -> bool:
    """Whether everything below looks at single rows, leaves lifetimes alone, and sees starts as
    they will be admitted."""
    reads_start = False
    while isinstance(node, (*_ROW_OPERATORS, Panes)):
        reads_start |= any(START in expr.columns() for expr in _expressions(node))
        node = node.inputs[0]
    return isinstance(node, Source) and not (reads_start and node.ingress.late == "adjust")


def _expressions(node: Node) -> list[Expr]:
    if isinstance(node, nodes.Where):
        return [node.predicate]
    if isinstance(node, (nodes.Select, nodes.SelectMany)):
        repeat = node.repeat if isinstance(node, nodes.SelectMany) else None
        return [*(expr for _, expr in node.columns), *([] if repeat is None else [repeat])]
    return []


def _source_of(node: Node) -> Source:
    while not isinstance(node, Source):
        node = node.inputs[0]
    return node


def _needs_order(source: Source) -> bool:
    """Promises per partition, or from observed times of rows that may be adjusted, and quarantine
    need the rows in one order."""
    policy = source.ingress
    return (
        policy.partition is not None
        or policy.quarantine is not None
        or (policy.observes and not source.declared.insert_only)
    )


def _can_pre_aggregate(plan: Node) -> bool:
    """Partial sums cannot be moved or set aside one by one, no adjust is checked against them, and
    they know no promise for one group."""
    if not _only_rows(plan):
        return False
    source = _source_of(plan)
    whole = (
        source.ingress.late in ("drop", "error")
        and source.ingress.partition is None
        and not source.declared.group_ctis
    )
    return source.declared.insert_only and whole


# --------------------------------------------------------------------------------------------------------
# who reads whom


def targets_of(
    plan: FragmentPlan, ids: list[int], *, source: str | None = None, upstream: int | None = None
) -> list[tuple[int, Exchange, list[int]]]:
    """Who reads a source, or a fragment, and in which buckets."""

    def reads(entry: Exchange) -> bool:
        return entry.upstream == upstream if entry.source is None else entry.source.name == source

    entries = [
        (fragment, entry)
        for fragment in plan.fragments
        for entry in fragment.inputs
        if reads(entry)
    ]
    return [
        (fragment.number, entry, ids[:1] if fragment.single else ids) for fragment, entry in entries
    ]


def parts_of(plan: FragmentPlan, fragment: Fragment, ids: list[int]) -> dict[str, int]:
    """How many buckets send progress to each input that reads a fragment."""
    by_number = {other.number: other for other in plan.fragments}
    reads = {
        entry.leaf.name: by_number[entry.upstream]
        for entry in fragment.inputs
        if entry.upstream is not None
    }
    return {name: 1 if other.single else len(ids) for name, other in reads.items()}


def sources_of(plan: FragmentPlan) -> dict[str, Source]:
    return {
        entry.source.name: entry.source
        for fragment in plan.fragments
        for entry in fragment.inputs
        if entry.source is not None
    }
