"""Fragments: the plans between two exchanges, with their inputs and readers.

How a plan is cut into fragments is in `cutting`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from thalweg.model.clocks import shown_by
from thalweg.plan.clock import clock_of
from thalweg.plan.explain import Explanation, operator_ids
from thalweg.plan.expressions import Keys
from thalweg.plan.nodes import Node, Panes, Source, walk

__all__ = [
    "Exchange",
    "Fragment",
    "FragmentPlan",
    "Target",
    "parts_of",
    "sources_of",
    "targets_of",
]


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
    """... the operators on its rows before the exchange, over `source`."""
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
        """Whether the whole fragment runs in one bucket."""
        return any(not entry.keys for entry in self.inputs)


@dataclass(frozen=True, eq=False)
class FragmentPlan:
    """All fragments; each comes after those it reads, and the last one gives the answer."""

    root: Node
    fragments: tuple[Fragment, ...]

    def describe(self) -> Explanation:
        """The fragments as text, for `explain()`."""
        with shown_by(clock_of(self.root)):
            return Explanation("\n".join(self._lines()))

    def _lines(self) -> list[str]:
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
                f"  {ids[node]} keeps {node.state}"
                for node in walk(fragment.plan)
                if node.state is not None and not isinstance(node, Source)
            ]
        return lines


def _chain(node: Node | None) -> list[str]:
    chain: list[str] = []
    while node is not None and not isinstance(node, Source):
        chain.append(f"{node.label} {node.details}".strip())
        node = node.inputs[0]
    return chain[::-1]


class Target(NamedTuple):
    """An input that reads a source or a fragment: the number of its fragment (in a host its stage),
    and the buckets."""

    fragment: int
    entry: Exchange
    buckets: list[int]


def targets_of(
    plan: FragmentPlan, ids: list[int], *, source: str | None = None, upstream: int | None = None
) -> list[Target]:
    """The inputs that read a source, or a fragment, with their buckets."""

    def reads(entry: Exchange) -> bool:
        return entry.upstream == upstream if entry.source is None else entry.source.name == source

    entries = [
        (fragment, entry)
        for fragment in plan.fragments
        for entry in fragment.inputs
        if reads(entry)
    ]
    return [
        Target(fragment.number, entry, ids[:1] if fragment.single else ids)
        for fragment, entry in entries
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
