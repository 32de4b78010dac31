"""Adds, removes and replaces the queries of a host; each change is checked, then written as a
version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from thalweg.errors import PlanError, StateError, did_you_mean
from thalweg.plan.nodes import Node
from thalweg.plan.written import write_plan
from thalweg.shards.fragments.fragment import FragmentPlan
from thalweg.shards.host.query_registry import Change, HostedQuery, QueryRegistry, queries_at
from thalweg.shards.host.roster import HostSpec, LiveQuery
from thalweg.shards.state.signatures import carried_over_whole
from thalweg.shards.worker.fragment_runner import FragmentRunner
from thalweg.stream import Stream

__all__ = ["HostQueries"]


class HostQueries:
    """The queries of a host, for its owner."""

    def __init__(self, registry: QueryRegistry, spec: HostSpec) -> None:
        self._registry = registry
        self._roster = spec.roster()
        self._roster.use(queries_at(registry.changes()), registry.version)

    @property
    def live(self) -> dict[str, HostedQuery]:
        """By name: the queries that run."""
        return {query.entry.name: query.entry for query in self._roster.queries.values()}

    def root(self, name: str) -> Node:
        """The plan that a query runs."""
        return self._query(name).plan.root

    def plan(self, name: str) -> FragmentPlan:
        return self._query(name).plan

    def schema(self, name: str) -> pa.Schema:
        return self.root(name).schema

    def shared(self) -> dict[str, list[str]]:
        return self._roster.shared()

    def add(self, queries: Mapping[str, Stream | Node], **options: Any) -> Change:
        """Let queries run from now on, all from the same point."""
        version = self._registry.version + 1
        added = []
        for name, query in queries.items():
            if name in self.live:
                raise PlanError(f"the host has a query {name!r} already; remove or replace it.")
            root = query.node if isinstance(query, Stream) else query
            entry = HostedQuery(name, f"{name}@{version}", version, write_plan(root), **options)
            self._roster.fitted(entry, root)
            self._roster.live(entry)  # the plan as it is read back must fit as well
            added.append(entry)
        return self._write([], added)

    def remove(self, *names: str) -> Change:
        """End queries and drop their state."""
        return self._write([self._query(name).entry.id for name in names], [])

    def replace(self, name: str, query: Stream | Node, *, partial: bool = False) -> Change:
        """Let another query run under a name. It takes over the state if all operators with state
        are the same and answers are never revised; otherwise it begins anew."""
        running = self._query(name)
        old, version = running.entry, self._registry.version + 1
        root = query.node if isinstance(query, Stream) else query
        entry = replace(old, plan=write_plan(root), revision=version)
        live = self._roster.fitted(entry, root)
        if _takes_over(running, live):
            return self._write([], [entry])
        if old.path is not None:
            raise PlanError(
                f"the query {name!r} would begin anew, and its files be mixed with those of the old"
                " one. Remove it, and add the new one with a path of its own."
            )
        entry = replace(entry, id=f"{name}@{version}", version=version, partial=partial, revision=0)
        return self._write([old.id], [entry])

    def _query(self, name: str) -> LiveQuery:
        found = [query for query in self._roster.queries.values() if query.entry.name == name]
        if not found:
            names = list(self.live)
            raise PlanError(
                f"the host has no query {name!r}{did_you_mean(name, names)} Queries: "
                f"{', '.join(names) or 'none'}."
            )
        return found[0]

    def _write(self, removed: list[str], added: list[HostedQuery]) -> Change:
        change = self._registry.append(removed, added)
        self._roster.apply(change)
        return change


def _takes_over(old: LiveQuery, new: LiveQuery) -> bool:
    """Whether a query may go on with the state of another."""
    if not old.consistency.is_final or old.plan.root.schema != new.plan.root.schema:
        return False
    if _inputs(old) != _inputs(new):
        return False
    try:
        for before, now in zip(old.plan.fragments, new.plan.fragments, strict=True):
            old_signatures, new_signatures = (
                FragmentRunner(
                    part, query.consistency, parts={}, added_later=not query.entry.partial
                ).signatures
                for part, query in ((before, old), (now, new))
            )
            if carried_over_whole(old_signatures, new_signatures):
                return False
    except StateError:
        return False
    return True


def _inputs(query: LiveQuery) -> list[list[str]]:
    return [
        [query.origin(fragment.number, entry) for entry in fragment.inputs]
        for fragment in query.plan.fragments
    ]
