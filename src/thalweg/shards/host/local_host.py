"""A host without Spark: the same registry, ingest, stages, buckets and state, in this process.

It tests, without Spark, how queries are added and removed: from which chunk on a query reads a
source, which chunks are exchanged, which state is written, and that a stop at any time changes
nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from thalweg.errors import PlanError
from thalweg.io.feeds import Feed, batches_from
from thalweg.model.batch import Batch
from thalweg.model.progress import Progress
from thalweg.model.time import INFINITY
from thalweg.plan.nodes import Node, Source
from thalweg.plan.written import Given
from thalweg.shards.exchange.chunk import Chunk, ExchangeRow
from thalweg.shards.exchange.header import Header, Message
from thalweg.shards.host.host_ingest import HostIngest
from thalweg.shards.host.host_queries import HostQueries
from thalweg.shards.host.query_registry import QueryRegistry, queries_at
from thalweg.shards.host.roster import HostSpec
from thalweg.shards.host.stage_runner import StageRunner
from thalweg.shards.state.store import DictStore
from thalweg.stream import Stream

__all__ = ["DividedHost"]

Stores: TypeAlias = dict[str, dict[str, bytes]]


class DividedHost:
    """`registry` keeps the queries. Each push is a micro-batch of one source, at the newest version
    of the queries; a source comes to a version with its next push."""

    def __init__(
        self,
        sources: Sequence[Stream],
        registry: QueryRegistry,
        *,
        stages: int = 1,
        buckets: int = 3,
        stores: Stores | None = None,
        offsets: dict[str, tuple[int, int]] | None = None,
        given: Given = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        nodes = [stream.node for stream in sources]
        named = {node.name: node for node in nodes if isinstance(node, Source)}
        self._spec = HostSpec("local", list(range(buckets)), stages, named, tuple(given))
        self._registry = registry
        self.queries = HostQueries(registry, self._spec)
        self.stores: Stores = {} if stores is None else stores
        self.offsets = dict(offsets or {})
        """By source: how many chunks it has given, and the version of the last."""
        self._clock = clock
        self._ingests = {
            name: HostIngest(node, self._spec.roster()) for name, node in named.items()
        }
        self._runners: dict[tuple[int, int], StageRunner] = {}

    def add(self, name: str, query: Stream | Node, **options: object) -> None:
        self.queries.add({name: query}, **options)

    def remove(self, name: str) -> None:
        self.queries.remove(name)

    def replace(self, name: str, query: Stream | Node) -> None:
        self.queries.replace(name, query)

    def push(self, source: str, feed: Feed) -> dict[str, list[Batch]]:
        """A micro-batch of one source; returns the answers by query."""
        if source not in self._ingests:
            raise PlanError(f"the host has no source {source!r}.")
        columns = self._spec.sources[source].columns
        out: dict[str, list[Batch]] = {}
        for batch in batches_from(feed, columns, source):
            seq, before = self.offsets.get(source, (0, 0))
            header = Header.of_batch(batch, begin=seq, end=seq + 1)
            version = self._registry.version
            ingest = self._ingests[source]
            live = queries_at(self._registry.between(0, version))
            ingest.use(version, live, self._registry.between(before, version))
            self.offsets[source] = (seq + 1, version)
            for name, answers in self._micro_batch(ingest.rows(batch, header, seq)):
                out.setdefault(name, []).append(answers)
        return out

    def finish(self) -> dict[str, list[Batch]]:
        out: dict[str, list[Batch]] = {}
        for name, source in self._spec.sources.items():
            end = Batch.empty(source.columns, Progress(INFINITY))
            for query, batches in self.push(name, end).items():
                out.setdefault(query, []).extend(batches)
        return out

    def _micro_batch(self, rows: Iterable[ExchangeRow]) -> Iterator[tuple[str, Batch]]:
        spec = self._spec
        waiting = list(rows)
        for stage in range(spec.stages):
            here: dict[int, list[Chunk]] = {}
            later: list[ExchangeRow] = []
            for row in waiting:
                if row.fragment > stage:
                    later.append(row)
                    continue
                chunk = Chunk.of(row.origin, row.seq, row.header, row.blob)
                here.setdefault(row.bucket, []).append(chunk)
            for bucket, chunks in here.items():
                store = DictStore(self.stores.setdefault(f"{stage}/{bucket}", {}))
                runner = self._runner(stage, bucket, store)
                later += runner.process(chunks, self._clock(), store)
            waiting = later
        names = {query.id: query.name for query in self.queries.live.values()}
        for row in waiting:
            header = Header.from_json(row.header)
            if header.kind is Message.ANSWER and row.origin in names:
                assert row.blob is not None
                chunk = Chunk(row.origin, row.seq, header, row.blob)
                schema = self.queries.schema(names[row.origin])
                yield names[row.origin], chunk.batch(schema)

    def _runner(self, stage: int, bucket: int, store: DictStore) -> StageRunner:
        runner = self._runners.get((stage, bucket))
        if runner is None or not runner.is_current(store):
            runner = StageRunner(self._spec, stage, bucket)
            runner.load(store)
            self._runners[stage, bucket] = runner
        return runner
