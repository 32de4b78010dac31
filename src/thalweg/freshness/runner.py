"""A query behind update queues, in-process: rows are offered, and served as the schedule says.

    runner = FreshRunner(query, Engine(query), now=clock)
    runner.offer("quotes", rows)        # never waits: the newest row of each key is kept
    for batch in runner.serve(100): ... # up to a hundred rows go through the query

What a queue hands on is its source's table; from there on the query is like any other, and its
answer does not depend on how rows are served in batches.

**Promises.** Rows leave a queue in another order than they came. A queue that was promised T (by a
CTI, or by the disorder its source declares) promises the smaller of T and the earliest start it
still holds. Both are lower bounds for all rows to come, so no row is late because it had to wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

import pyarrow as pa

from thalweg.errors import InputError, PlanError
from thalweg.freshness.schedules import schedule_for
from thalweg.freshness.update_queue import Admission, QueueStatus, UpdateQueue
from thalweg.io.events import Feed, batches_from
from thalweg.model.batch import Batch
from thalweg.model.elements import cti
from thalweg.model.time import INFINITY, MIN_TIME
from thalweg.plan.nodes import Node, Source, walk
from thalweg.stream import Stream

__all__ = ["FreshRunner", "Pushable"]

START, END = "_start", "_end"


class Pushable(Protocol):
    """An engine that takes rows of a source and gives what follows from them."""

    def push(self, source: str, feed: Feed) -> list[Batch]: ...


class FreshRunner:
    """
    >>> import thalweg as tw
    >>> quotes = tw.source("quotes", {"symbol": "string", "price": "float64"}, insert_only=True)
    >>> query = quotes.update_key("symbol", schedule="in-place").where("price > 10")
    >>> clock = iter(range(100))
    >>> runner = FreshRunner(query, tw.Engine(query), now=lambda: next(clock))
    >>> runner.offer("quotes", [tw.point({"symbol": "IBM", "price": 24.0}, 1),
    ...                         tw.point({"symbol": "IBM", "price": 25.0}, 2), tw.cti(9)])
    Admission(accepted=2, outdated=0, refused=0)
    >>> list(tw.elements_of(runner.serve(10)))
    [Insert(payload={'symbol': 'IBM', 'price': 25.0}, start=2, end=3), Cti(time=9, scope=None)]
    """

    def __init__(self, query: Stream | Node, engine: Pushable, *, now: Callable[[], int]) -> None:
        node = query.node if isinstance(query, Stream) else query
        self._engine = engine
        self._now = now
        self._feeds = {
            each.name: _Conflated(each)
            for each in walk(node)
            if isinstance(each, Source) and each.conflation is not None
        }
        if not self._feeds:
            raise PlanError("no source of this query has an update key; run it as it is.")

    def offer(self, source: str, feed: Feed) -> Admission:
        """Take rows and CTIs of a source in. Inserts only: an update replaces, it does not adjust."""
        conflated = self._conflated(source)
        batches = list(batches_from(feed, conflated.payload, source))
        for batch in batches:
            if batch.is_adjust is not None and bool(batch.is_adjust.any()):
                raise InputError(
                    f"source {source!r}: rows of an update stream are replaced by newer ones; an "
                    "adjust cannot say which of them it means."
                )
        total = Admission(0, 0, 0)
        for batch in batches:
            total = _add(total, conflated.enqueue(batch, self._now()))
        return total

    def serve(self, rows: int, sources: Iterable[str] | None = None) -> list[Batch]:
        """Put up to `rows` rows of each source through the query; what came out."""
        out: list[Batch] = []
        for name in self._feeds if sources is None else sources:
            conflated = self._conflated(name)
            taken = conflated.queue.dequeue(rows, now=self._now())
            if len(taken.rows):
                out += self._engine.push(name, conflated.to_table(taken.rows))
                conflated.queue.deliver(taken, now=self._now())
            promise = conflated.new_promise()
            if promise is not None:
                out += self._engine.push(name, cti(promise))
        return out

    def waiting(self, source: str) -> int:
        """Keys whose newest row has not been served."""
        return self._conflated(source).queue.keys.waiting()

    def status(self, source: str) -> QueueStatus:
        return self._conflated(source).queue.status(now=self._now())

    def _conflated(self, source: str) -> _Conflated:
        if source not in self._feeds:
            raise PlanError(
                f"no source {source!r} with an update key; there are: {', '.join(self._feeds)}."
            )
        return self._feeds[source]


class _Conflated:
    """The queue of one source, and what it was promised."""

    def __init__(self, source: Source) -> None:
        conflation = source.conflation
        assert conflation is not None
        self.payload = source.schema
        schema = pa.schema([*source.schema, (START, pa.int64()), (END, pa.int64())])
        self.queue = UpdateQueue(
            schema,
            conflation.key,
            schedule=schedule_for(conflation.schedule, conflation.freshness),
            time=START,
            capacity=conflation.capacity,
        )
        self._disorder = conflation.disorder
        self._promised_here = MIN_TIME
        self._promised_on = MIN_TIME

    def enqueue(self, batch: Batch, now: int) -> Admission:
        self._promised_here = max(self._promised_here, batch.progress.cti)
        if not len(batch):
            return Admission(0, 0, 0)
        if self._disorder is not None:
            newest = int(batch.start.max()) - self._disorder
            self._promised_here = max(self._promised_here, newest)
        payload = [batch.payload.column(name) for name in self.payload.names]
        arrays = [
            *payload,
            pa.array(batch.start),
            pa.array(batch.end),
        ]
        return self.queue.enqueue(pa.record_batch(arrays, schema=self.queue.schema), now=now)

    def to_table(self, rows: pa.RecordBatch) -> pa.Table:
        """In the form an engine takes: lifetimes, then the payload."""
        return pa.Table.from_batches([rows]).select([START, END, *self.payload.names])

    def new_promise(self) -> int | None:
        """The promise after what was served, if it is later than the last one."""
        held = self.queue.smallest_waiting(START)
        promise = min(self._promised_here, INFINITY if held is None else held)
        if promise <= self._promised_on:
            return None
        self._promised_on = promise
        return promise


def _add(one: Admission, two: Admission) -> Admission:
    return Admission(
        one.accepted + two.accepted, one.outdated + two.outdated, one.refused + two.refused
    )
