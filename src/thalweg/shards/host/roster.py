"""The queries of a host at one version, divided into stages and joined by exchanges.

A host has a fixed number of stages, each a number of buckets. A fragment of a query runs in the
stage of its depth: the number of exchanges before it. Buckets are numbers, so any query with no
more exchanges than that fits, whatever its keys are.

Inputs of fragments that read a source alike (the same operators before the exchange, the same keys,
the same buckets) share one *channel*: its rows are computed and exchanged once for all of them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from thalweg.errors import PlanError
from thalweg.expr.user_calls import UserFunction
from thalweg.graph.build import declared_alike
from thalweg.operators.consistency import Consistency
from thalweg.plan.nodes import Node, Source
from thalweg.plan.written import Given, read_plan, write_plan
from thalweg.shards.fragments.cutting import fragments_of
from thalweg.shards.fragments.fragment import (
    Exchange,
    Fragment,
    FragmentPlan,
    Target,
    parts_of,
    targets_of,
)
from thalweg.shards.host.query_registry import Change, HostedQuery, queries_at
from thalweg.udm.module import Module

__all__ = ["Channel", "HostSpec", "LiveQuery", "Roster", "stages_of"]


def stages_of(plan: FragmentPlan) -> dict[int, int]:
    """By fragment: the stage that it runs in."""
    stages: dict[int, int] = {}
    for fragment in plan.fragments:
        before = [stages[entry.upstream] for entry in fragment.inputs if entry.upstream is not None]
        stages[fragment.number] = 1 + max(before, default=-1)
    return stages


@dataclass(frozen=True)
class Channel:
    """The rows of a source for one stage, for all inputs that read the source alike."""

    name: str
    target: Target
    """The stage and its buckets."""

    @property
    def entry(self) -> Exchange:
        return self.target.entry


class LiveQuery:
    """A query of the registry as it runs."""

    def __init__(self, entry: HostedQuery, root: Node, ids: list[int]) -> None:
        self.entry = entry
        self.ids = ids
        self.plan = fragments_of(root)
        self.stages = stages_of(self.plan)
        self.consistency = Consistency(entry.consistency, entry.hold)

    def fragments(self, stage: int) -> list[Fragment]:
        return [part for part in self.plan.fragments if self.stages[part.number] == stage]

    def buckets(self, fragment: Fragment) -> list[int]:
        return self.ids[:1] if fragment.single else self.ids

    def parts(self, fragment: Fragment) -> dict[str, int]:
        return parts_of(self.plan, fragment, self.ids)

    def readers(self, fragment: Fragment) -> list[tuple[str, Target]]:
        """The readers of a fragment: for each the name under which rows are sent to it, and its
        stage and buckets."""
        return [
            (
                self.origin(target.fragment, target.entry),
                target._replace(fragment=self.stages[target.fragment]),
            )
            for target in targets_of(self.plan, self.ids, upstream=fragment.number)
        ]

    def origin(self, fragment: int, entry: Exchange) -> str:
        """The name under which the rows of an input are sent."""
        if entry.source is None:
            return f"{self.entry.id}/{entry.upstream}/{fragment}"
        return self._channels[fragment, entry.leaf.name].name

    @property
    def channels(self) -> Iterable[Channel]:
        return self._channels.values()

    @cached_property
    def _channels(self) -> dict[tuple[int, str], Channel]:
        found = {}
        for fragment in self.plan.fragments:
            for entry in fragment.inputs:
                if entry.source is not None:
                    stage, buckets = self.stages[fragment.number], self.buckets(fragment)
                    name = _channel_name(entry, stage, buckets)
                    target = Target(stage, entry, buckets)
                    found[fragment.number, entry.leaf.name] = Channel(name, target)
        return found


@lru_cache(maxsize=1_000)
def _divided(
    plan: str,
    facts: tuple[tuple[str, Any], ...],
    ids: tuple[int, ...],
    given: tuple[Module | UserFunction, ...],
) -> LiveQuery:
    """A query as it runs, shared by all buckets of this process."""
    entry = HostedQuery(plan=json.loads(plan), **dict(facts))
    return LiveQuery(entry, read_plan(entry.plan, given), list(ids))


def _channel_name(entry: Exchange, stage: int, buckets: list[int]) -> str:
    """Equal for inputs that read a source alike."""
    assert entry.source is not None and entry.ingest is not None
    identity = [
        write_plan(entry.ingest),
        [repr(key.key()) for key in entry.keys],
        stage,
        buckets,
    ]
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]
    return f"{entry.source.name} {digest}"


class Roster:
    """The queries that run at a version."""

    def __init__(
        self, ids: list[int], sources: Mapping[str, Source], stages: int, given: Given = ()
    ) -> None:
        self.ids = ids
        self.stages = stages
        self.version = 0
        self.queries: dict[str, LiveQuery] = {}
        self._sources = sources
        self._given = tuple(given)

    def apply(self, change: Change) -> None:
        self.use(
            queries_at([change], (query.entry for query in self.queries.values())), change.version
        )

    def use(self, entries: Mapping[str, HostedQuery], version: int) -> None:
        """Run these queries from now on; queries that have not changed are kept as they are."""
        before = self.queries
        self.queries = {}
        for id_, entry in entries.items():
            running = before.get(id_)
            unchanged = running is not None and running.entry == entry
            self.queries[id_] = running if running and unchanged else self.live(entry)
        self.version = version

    def live(self, entry: HostedQuery) -> LiveQuery:
        """A query as it would run here; refused where it does not fit."""
        facts = entry.to_json()
        text = json.dumps(facts.pop("plan"))
        return self._fitted(_divided(text, tuple(facts.items()), tuple(self.ids), self._given))

    def fitted(self, entry: HostedQuery, root: Node) -> LiveQuery:
        return self._fitted(LiveQuery(entry, root, self.ids))

    def _fitted(self, live: LiveQuery) -> LiveQuery:
        entry = live.entry
        needed = 1 + max(live.stages.values())
        if needed > self.stages:
            raise PlanError(
                f"the query {entry.name!r} needs {needed} stages (it exchanges its rows {needed} "
                f"times), the host has {self.stages}. Start a host with stages={needed}, or start "
                "the query by itself."
            )
        for channel in live.channels:
            self._require_source(channel.entry.source)
        return live

    def _require_source(self, source: Source | None) -> None:
        assert source is not None
        declared = self._sources.get(source.name)
        if declared is None:
            raise PlanError(
                f"the host has no source {source.name!r}; its sources are "
                f"{', '.join(self._sources)}."
            )
        if not declared_alike(declared, source):
            raise PlanError(
                f"the host declares the source {source.name!r} in another way; use the stream that "
                "the host was given."
            )

    def channels(self, source: str) -> dict[str, Channel]:
        """By name: the channels of a source."""
        return {
            channel.name: channel
            for query in self.queries.values()
            for channel in query.channels
            if channel.entry.source is not None and channel.entry.source.name == source
        }

    def shared(self) -> dict[str, list[str]]:
        """By channel: the queries that read it."""
        users: dict[str, list[str]] = {}
        for query in self.queries.values():
            for channel in query.channels:
                names = users.setdefault(channel.name, [])
                if query.entry.name not in names:
                    names.append(query.entry.name)
        return users


@dataclass(frozen=True)
class HostSpec:
    """The arguments with which every worker of a host is started."""

    run: str
    """Differs for every start, so that workers do not mix up runs."""
    ids: list[int]
    stages: int
    sources: dict[str, Source]
    given: Given = ()

    def roster(self) -> Roster:
        return Roster(self.ids, self.sources, self.stages, self.given)
