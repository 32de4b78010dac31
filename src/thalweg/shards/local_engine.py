"""Fragments without Spark: the same ingest, exchange, buckets and state slices, in this process.

An engine like `thalweg.run.Engine`, so that everything that can be tested about an engine can be
tested about the way a query is divided: which rows meet in which bucket, what progress arrives
where, what state is written and read back.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from functools import reduce

from thalweg.errors import PlanError
from thalweg.graph.graph_operator import OperatorFigures
from thalweg.graph.why import Why
from thalweg.io.feeds import Feed, batches_from
from thalweg.model.batch import Batch
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.model.punctuation import Punctuation
from thalweg.model.time import INFINITY
from thalweg.operators.consistency import Consistency
from thalweg.operators.merging.named_inputs import MergeStep
from thalweg.operators.source.punctuations import cti_of
from thalweg.plan.nodes import Node
from thalweg.plan.nodes.arrivals import stamp_periods
from thalweg.shards.exchange.chunk import Chunk, ExchangeRow
from thalweg.shards.exchange.header import Header
from thalweg.shards.exchange.ingest import Ingest
from thalweg.shards.fragments.before_exchange import require_patterns
from thalweg.shards.fragments.cutting import fragments_of
from thalweg.shards.fragments.fragment import parts_of, sources_of, targets_of
from thalweg.shards.reports.asks import asks_of, lags
from thalweg.shards.reports.bucket_report import BucketReport
from thalweg.shards.reports.combined import combined_figures, combined_why
from thalweg.shards.state.store import DictStore
from thalweg.shards.worker.fragment_bucket import FragmentBucket, FragmentSpec, divided_answer
from thalweg.shards.worker.fragment_runner import FragmentRunner
from thalweg.stream import Stream

__all__ = ["DividedEngine"]

BUCKETS = 3


class DividedEngine:
    """
    >>> import thalweg as tw
    >>> query = tw.source("s", {"k": "string"}).group_by("k").tumbling(10).aggregate(n=tw.count())
    >>> engine = DividedEngine(query)
    >>> rows = [tw.point({"k": k}, time) for time, k in enumerate("abcab")]
    >>> out = tw.elements_of(engine.push("s", rows) + engine.finish())
    >>> sorted((row.payload["k"], row.payload["n"]) for row in out if isinstance(row, tw.Insert))
    [('a', 2), ('b', 2), ('c', 1)]
    """

    def __init__(
        self,
        query: Stream | Node,
        *,
        consistency: str = "speculative",
        buckets: int = BUCKETS,
        clock: Callable[[], float] = time.time,
        stores: dict[str, dict[str, bytes]] | None = None,
    ) -> None:
        self._plan = fragments_of(query.node if isinstance(query, Stream) else query)
        self._clock = clock
        ids = list(range(buckets))
        self._sources = sources_of(self._plan)
        self._stamped = stamp_periods(self._plan.root)
        self._ingests = {
            name: Ingest(targets_of(self._plan, ids, source=name)) for name in self._sources
        }
        self._stores = {} if stores is None else stores
        self._seq = 0
        self._promises: dict[int, Progress] = {}
        self._buckets: dict[tuple[int, int], tuple[FragmentBucket, DictStore]] = {}
        for fragment in self._plan.fragments:
            spec = FragmentSpec(
                "local",
                fragment,
                Consistency(consistency),
                parts_of(self._plan, fragment, ids),
                {},
                ids[0],
                targets_of(self._plan, ids, upstream=fragment.number),
            )
            for bucket in ids[:1] if fragment.single else ids:
                store = DictStore(self._stores.setdefault(f"{fragment.number}/{bucket}", {}))
                work = self._buckets[fragment.number, bucket] = FragmentBucket(spec, bucket), store
                work[0].runner(store)  # what does not fit is refused at once

    def push(self, source_name: str, feed: Feed) -> list[Batch]:
        if source_name not in self._sources:
            raise PlanError(f"the query has no source {source_name!r}.")
        source = self._sources[source_name]
        out = []
        for batch in batches_from(feed, source.columns, source_name):
            begin, end = (self._seq, self._seq + 1) if len(self._sources) == 1 else (None, None)
            header = Header.of_batch(batch, begin=begin, end=end)
            out += self._micro_batch(self._ingests[source_name].rows(batch, header, self._seq))
            self._seq += 1
        return out

    def punctuate(self, source_name: str, pattern: Punctuation) -> list[Batch]:
        """Promise that no row of a source that matches a pattern will come any more; returns the
        answers."""
        source = self._sources[source_name]
        promise = cti_of(pattern, source.declared, source.ingress)
        if promise is not None:
            return self.push(source_name, promise)
        require_patterns(source)
        header = Header(patterns=(pattern,))
        empty = Batch.empty(source.columns)
        return self._micro_batch(self._ingests[source_name].rows(empty, header, self._seq))

    def push_step(self, source_name: str, *steps: tuple[MergeStep, Batch]) -> list[Batch]:
        """One micro-batch of a source that is a merge: its inputs join, leave and send elements."""
        source = self._sources[source_name]
        rows: list[ExchangeRow] = []
        for step, batch in steps:
            header = Header(
                progress=batch.progress,
                partition=step.name,
                change=step.change,
                since=step.since,
                rows=len(batch),
            )
            rows += self._ingests[source.name].rows(batch, header, self._seq)
            self._seq += 1
        return self._micro_batch(rows)

    def tick(self) -> list[Batch]:
        """Send the time to the fragments, for sources whose promises follow a clock; returns the
        answers."""
        out = []
        for name, source in self._sources.items():
            if source.ingress.clocks or name in self._stamped:
                now = int(self._clock() * 1_000_000)
                header = Header(clock=now, asked=self.asks().get(name, INFINITY) <= now or None)
                out += self._micro_batch(
                    self._ingests[name].rows(Batch.empty(source.columns), header, self._seq)
                )
        return out

    def asks(self) -> dict[str, int]:
        """By source: the time of the clock from which on it is asked for a promise."""
        return asks_of(self.reports(), lags(self._sources))

    def why(self) -> Why:
        """Why the first answer that is not final is not, as for a query on Spark."""
        return combined_why(self.reports())

    def reports(self) -> list[BucketReport]:
        """The report of every bucket of every fragment."""
        return [runner.report() for runner in self._runners()]

    def _runners(self) -> Iterator[FragmentRunner]:
        return (bucket.runner(store) for bucket, store in self._buckets.values())

    @property
    def late_rows(self) -> int:
        """How many rows came late, over all buckets; a source that two inputs read counts twice."""
        return sum(runner.late for runner in self._runners())

    def figures(self) -> dict[str, OperatorFigures]:
        """The figures of each operator for the last micro-batch, over all buckets."""
        return combined_figures(self.reports())

    def finish(self) -> list[Batch]:
        out = []
        for name, source in self._sources.items():
            rows = self._ingests[name].rows(
                Batch.empty(source.columns), Header(progress=Progress(INFINITY)), self._seq
            )
            out += self._micro_batch(rows)
        return out

    def _micro_batch(self, rows: Iterable[ExchangeRow]) -> list[Batch]:
        pending: dict[tuple[int, int], list[Chunk]] = {}

        def send(rows: Iterable[ExchangeRow]) -> None:
            for bucket, target, origin, seq, header, blob in rows:
                chunk = Chunk.of(origin, seq, header, blob)
                pending.setdefault((target, bucket), []).append(chunk)

        send(rows)
        answers: list[Batch] = []
        for fragment in self._plan.fragments:
            for key in [key for key in pending if key[0] == fragment.number]:
                bucket, store = self._buckets[key]
                answer = bucket.process(pending.pop(key), self._clock(), store)
                if bucket.targets:
                    send(divided_answer(bucket.targets, key[1], answer.batch))
                else:
                    answers.append(answer.batch)
                    self._promises[key[1]] = answer.batch.progress
        whole = Batch.concat(answers, self._plan.root.schema)
        return [whole.with_progress(self._common())]

    def _common(self) -> Progress:
        """The promise that all buckets of the last fragment make."""
        last = self._plan.fragments[-1].number
        buckets = [key[1] for key in self._buckets if key[0] == last]
        promises = [self._promises.get(bucket, NO_PROGRESS) for bucket in buckets]
        return reduce(Progress.meet, promises)

    def snapshot(self) -> bytes:
        stores = {
            key: {name: blob.hex() for name, blob in entries.items()}
            for key, entries in self._stores.items()
        }
        return json.dumps({"seq": self._seq, "stores": stores}).encode()

    @classmethod
    def restore(
        cls, query: Stream | Node, snapshot: bytes, *, consistency: str = "speculative"
    ) -> DividedEngine:
        held = json.loads(snapshot)
        stores = {
            key: {name: bytes.fromhex(blob) for name, blob in entries.items()}
            for key, entries in held["stores"].items()
        }
        engine = cls(query, consistency=consistency, stores=stores)
        engine._seq = held["seq"]
        return engine
