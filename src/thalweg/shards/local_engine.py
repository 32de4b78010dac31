"""Fragments without Spark: the same ingest, exchange, buckets and state slices, in this process.

An engine like `thalweg.run.Engine`, so that everything that can be tested about an engine can be
tested about the way a query is divided: which rows meet in which bucket, what progress arrives
where, what state is written and read back.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any

from thalweg.errors import PlanError
from thalweg.graph.graph_operator import OperatorFigures
from thalweg.graph.why import Why
from thalweg.io.events import Feed, batches_from
from thalweg.model.batch import Batch
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.model.punctuation import Punctuation
from thalweg.model.time import INFINITY
from thalweg.operators.consistency import Consistency
from thalweg.operators.merging.named_inputs import MergeStep
from thalweg.operators.source.punctuations import cti_of
from thalweg.plan.nodes import Node
from thalweg.plan.nodes.arrivals import stamp_periods
from thalweg.shards.asks import asks_of, lags
from thalweg.shards.exchange import Chunk, ExchangeRow, Header, blob_of_batch
from thalweg.shards.fragments import parts_of, sources_of, targets_of
from thalweg.shards.ingest import Ingest, divide
from thalweg.shards.plan_cutting import fragments_of, require_patterns
from thalweg.shards.reports import combined_figures, combined_why
from thalweg.shards.state import Memory, SliceStore
from thalweg.shards.worker import FragmentRunner
from thalweg.stream import Stream

__all__ = ["DictStore", "DividedEngine"]

BUCKETS = 3


class DictStore:
    """A state store in a dictionary."""

    def __init__(self, entries: dict[str, bytes]) -> None:
        self.entries = entries

    def getValue(self, key: tuple[str]) -> Any:
        return (self.entries[key[0]],) if key[0] in self.entries else None

    def updateValue(self, key: tuple[str], value: tuple[bytes]) -> None:
        self.entries[key[0]] = value[0]

    def removeKey(self, key: tuple[str]) -> None:
        self.entries.pop(key[0], None)


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
        self._targets = {
            fragment.number: targets_of(self._plan, ids, upstream=fragment.number)
            for fragment in self._plan.fragments
        }
        self._stores = {} if stores is None else stores
        self._seq = 0
        self._promises: dict[int, Progress] = {}
        self._workers: dict[tuple[int, int], tuple[FragmentRunner, SliceStore]] = {}
        answers = Consistency(consistency)
        for fragment in self._plan.fragments:
            for bucket in ids[:1] if fragment.single else ids:
                runner = FragmentRunner(
                    fragment, answers, parts=parts_of(self._plan, fragment, ids)
                )
                entries = self._stores.setdefault(f"{fragment.number}/{bucket}", {})
                store = SliceStore(
                    DictStore(entries), Memory(), f"fragment {fragment.number}, bucket {bucket}"
                )
                slices = store.load(runner.signatures)
                if slices is not None:
                    runner.restore(slices)
                self._workers[fragment.number, bucket] = runner, store

    def push(self, source_name: str, feed: Feed) -> list[Batch]:
        if source_name not in self._sources:
            raise PlanError(f"the query has no source {source_name!r}.")
        source = self._sources[source_name]
        out = []
        for batch in batches_from(feed, source.columns, source_name):
            newest = int(batch.sync.max()) if len(batch) else None
            header = Header.of_progress(
                batch.progress, newest=newest, begin=self._seq, end=self._seq + 1, rows=len(batch)
            )
            header = (
                header
                if len(self._sources) == 1
                else Header.of_progress(batch.progress, newest=newest, rows=len(batch))
            )
            out += self._micro_batch(self._ingests[source_name].rows(batch, header, self._seq))
            self._seq += 1
        return out

    def punctuate(self, source_name: str, pattern: Punctuation) -> list[Batch]:
        """No row of a source that matches a pattern will come any more; what came out."""
        source = self._sources[source_name]
        promise = cti_of(pattern, source.declared, source.ingress)
        if promise is not None:
            return self.push(source_name, promise)
        require_patterns(source)
        header = Header(patterns=[pattern.to_text()])
        empty = Batch.empty(source.columns)
        return self._micro_batch(self._ingests[source_name].rows(empty, header, self._seq))

    def push_step(self, source_name: str, *steps: tuple[MergeStep, Batch]) -> list[Batch]:
        """One micro-batch of a source that is a merge: its inputs join, leave and send elements."""
        source = self._sources[source_name]
        rows: list[ExchangeRow] = []
        for step, batch in steps:
            change = "" if step.change is None else str(step.change)
            header = Header.of_progress(
                batch.progress,
                partition=step.name,
                change=change,
                since=step.since,
                rows=len(batch),
            )
            rows += self._ingests[source.name].rows(batch, header, self._seq)
            self._seq += 1
        return self._micro_batch(rows)

    def tick(self) -> list[Batch]:
        """Send the time to the fragments, for sources whose promises follow a clock; what came
        out."""
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
        """Why the answer that is not final first is not, as a query on Spark says it."""
        return combined_why(self.reports())

    def reports(self) -> list[Mapping[str, Any]]:
        """What every bucket of every fragment reports."""
        return [runner.report() for runner, _ in self._workers.values()]

    @property
    def late_rows(self) -> int:
        """How many rows came late, over all buckets; a source that two inputs read counts twice."""
        return sum(runner.late for runner, _ in self._workers.values())

    def figures(self) -> dict[str, OperatorFigures]:
        """What each operator did in the last micro-batch, over all buckets."""
        return combined_figures(self.reports())

    def finish(self) -> list[Batch]:
        out = []
        for name, source in self._sources.items():
            rows = self._ingests[name].rows(
                Batch.empty(source.columns), Header(cti=INFINITY), self._seq
            )
            out += self._micro_batch(rows)
        return out

    def _micro_batch(self, rows: Iterable[ExchangeRow]) -> list[Batch]:
        pending: dict[tuple[int, int], list[Chunk]] = {}
        for bucket, target, origin, seq, text, content in rows:
            pending.setdefault((target, bucket), []).append(
                Chunk(origin, seq, Header.from_json(text), content)
            )
        answers: list[Batch] = []
        for fragment in self._plan.fragments:
            for key in [key for key in pending if key[0] == fragment.number]:
                runner, store = self._workers[key]
                answer = runner.process(pending.pop(key), self._clock())
                store.save(runner.slices(), runner.signatures)
                if not self._targets[fragment.number]:
                    answers.append(answer.batch)
                    self._promises[key[1]] = answer.batch.progress
                for number, entry, ids in self._targets[fragment.number]:
                    header = Header.of_progress(
                        answer.batch.progress.without_groups(), partition=str(key[1])
                    )
                    for bucket, part in divide(answer.batch, entry.keys, ids):
                        blob = blob_of_batch(part) if len(part) else None
                        pending.setdefault((number, bucket), []).append(
                            Chunk(entry.leaf.name, 0, header, blob)
                        )
        whole = Batch.concat(answers, self._plan.root.schema)
        return [whole.with_progress(self._common())]

    def _common(self) -> Progress:
        """What all buckets of the last fragment promise."""
        last = self._plan.fragments[-1].number
        buckets = [key[1] for key in self._workers if key[0] == last]
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
