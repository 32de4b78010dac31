"""A query behind update queues, in-process: rows are offered, and served as the schedule says.

    runner = FreshRunner(query, Engine(query), now=clock)
    runner.offer("quotes", rows)        # never waits: the newest row of each key is kept
    for batch in runner.serve(100): ... # up to a hundred rows go through the query

The rows that a queue hands on are its source's table; from there on the query is like any other,
and its answer does not depend on how rows are served in batches.

**Promises.** Rows leave a queue in another order than they arrived. A queue whose input has
promised T (by a CTI, or by the disorder that its source declares) promises the smaller of T and the
earliest start of a waiting row. Both are lower bounds for all rows to come, so no row is late
because it had to wait.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from thalweg.errors import InputError, PlanError
from thalweg.freshness._arrays import NEVER
from thalweg.freshness.adaptive_queue import make_queue
from thalweg.freshness.newest_windows import NewestWindows, ServedWindows
from thalweg.freshness.queue_promise import QueuePromise
from thalweg.freshness.queue_status import Admission, QueueStatus
from thalweg.freshness.schedules import schedule_for
from thalweg.freshness.update_queue import UpdateQueue
from thalweg.freshness.window_marks import UpdateWindow
from thalweg.io.feeds import Feed, batches_from
from thalweg.model.batch import Batch
from thalweg.model.elements import cti
from thalweg.model.progress import Progress
from thalweg.model.time import MIN_TIME
from thalweg.plan.nodes import Node, Source, walk
from thalweg.progress.conflation import Conflation, NewestWindow
from thalweg.stream import Stream

__all__ = ["START", "FreshRunner", "Pushable", "feed_of", "timed_rows", "timed_schema"]

START, END = "_start", "_end"
"""The columns of a queue after those of the payload."""

Push: TypeAlias = Callable[[Feed], list[Batch]]


class Pushable(Protocol):
    """An engine that takes rows of a source and returns the query's answers."""

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
        self._queues = {
            each.name: _queue_of(each)
            for each in walk(node)
            if isinstance(each, Source) and each.conflation is not None
        }
        if not self._queues:
            raise PlanError("no source of this query has an update key; run it as it is.")

    def offer(
        self,
        source: str,
        feed: Feed,
        *,
        input: str | None = None,  # noqa: A002 - what it is
    ) -> Admission:
        """Take rows and CTIs of a source in, of one of its inputs if it is a union. Inserts only:
        an update replaces, it does not adjust."""
        queue = self._queue(source)
        trusted = queue.trusts(source, input)
        batches = list(batches_from(feed, queue.payload, source))
        for batch in batches:
            if batch.is_adjust is not None and bool(batch.is_adjust.any()):
                raise InputError(
                    f"source {source!r}: rows of an update stream are replaced by newer ones; an "
                    "adjust cannot say which of them it means."
                )
        total = Admission()
        for batch in batches:
            queue.promise.note(batch)
            if len(batch):
                total += queue.enqueue(batch, self._now(), trusted=trusted)
        return total

    def serve(self, rows: int, sources: Iterable[str] | None = None) -> list[Batch]:
        """Put up to `rows` rows of each source through the query; returns the answers."""
        out: list[Batch] = []
        for name in self._queues if sources is None else sources:
            queue = self._queue(name)
            out += queue.serve(rows, partial(self._engine.push, name), self._now)
            promise = queue.new_promise()
            if promise is not None:
                out += self._engine.push(name, cti(promise))
        return out

    def waiting(self, source: str) -> int:
        """Keys whose newest row, or window, has not been served."""
        return self._queue(source).waiting

    def status(self, source: str) -> QueueStatus:
        """The status of a source's queue; counts are of windows where those are the unit."""
        return self._queue(source).status(self._now())

    def _queue(self, source: str) -> _SourceQueue:
        if source not in self._queues:
            raise PlanError(
                f"no source {source!r} with an update key; there are: {', '.join(self._queues)}."
            )
        return self._queues[source]


class _SourceQueue(ABC):
    """The queue of one source, which puts rows through the query."""

    _queue: UpdateQueue | NewestWindows

    def __init__(self, payload: pa.Schema, conflation: Conflation) -> None:
        self.payload = payload
        self.promise = QueuePromise(conflation.disorder)

    @property
    def waiting(self) -> int:
        """Keys whose newest row, or window, has not been served."""
        return self._queue.waiting

    def status(self, now: int) -> QueueStatus:
        return self._queue.status(now=now)

    @abstractmethod
    def trusts(self, source: str, name: str | None) -> bool | None:
        """Whether an input of a union is its truth; None for a source that is no union."""

    @abstractmethod
    def enqueue(self, batch: Batch, now: int, *, trusted: bool | None) -> Admission:
        """Take the rows of a batch in."""

    @abstractmethod
    def serve(self, rows: int, push: Push, now: Callable[[], int]) -> list[Batch]:
        """Put up to `rows` rows through the query; returns the answers."""

    @abstractmethod
    def new_promise(self) -> int | None:
        """The promise after the rows that were served, if it is later than the last one."""


class _RowQueue(_SourceQueue):
    """A queue whose unit is the row: the newest of each key."""

    _queue: UpdateQueue

    def __init__(self, payload: pa.Schema, conflation: Conflation) -> None:
        super().__init__(payload, conflation)
        self._queue = make_queue(
            timed_schema(payload),
            conflation.key,
            schedule=schedule_for(conflation.schedule, conflation.freshness),
            time=START,
            capacity=conflation.capacity,
            target=conflation.freshness if conflation.adaptive else None,
        )
        self._queue.set_targets(conflation.targets)
        self._inputs = conflation.inputs
        self._truth = conflation.truth

    def trusts(self, source: str, name: str | None) -> bool | None:
        if (name is None) != (not self._inputs) or (name is not None and name not in self._inputs):
            raise PlanError(
                f"source {source!r}: input={name!r}; its inputs are: "
                f"{', '.join(self._inputs) or 'none, so leave input= out'}."
            )
        return None if name is None else name == self._truth

    def enqueue(self, batch: Batch, now: int, *, trusted: bool | None) -> Admission:
        rows = timed_rows(batch, self._queue.schema)
        return self._queue.enqueue(rows, now=now, trusted=trusted)

    def serve(self, rows: int, push: Push, now: Callable[[], int]) -> list[Batch]:
        taken = self._queue.dequeue(rows, now=now())
        if not len(taken.rows):
            return []
        out = push(feed_of(taken.rows))
        self._queue.deliver(taken, now=now())
        return out

    def new_promise(self) -> int | None:
        return self.promise.advance(self._queue.smallest_waiting(START))


class _WindowsQueue(_SourceQueue):
    """A queue whose unit is the window: rows are handed out at the start of their window."""

    _queue: NewestWindows

    def __init__(self, payload: pa.Schema, conflation: Conflation, window: NewestWindow) -> None:
        super().__init__(payload, conflation)
        self._queue = NewestWindows(
            payload,
            conflation.key,
            UpdateWindow(window.size, window.hop),
            window.rule,
            schedule_for(conflation.schedule, conflation.freshness),
            capacity=conflation.capacity,
        )

    def trusts(self, source: str, name: str | None) -> bool | None:
        if name is not None:
            raise PlanError(f"source {source!r}: windows have no inputs; leave input= out.")
        return None

    def enqueue(self, batch: Batch, now: int, *, trusted: bool | None) -> Admission:
        columns = [batch.payload.column(name) for name in self.payload.names]
        rows = pa.record_batch(columns, schema=self.payload)
        return self._queue.enqueue(rows, batch.start, now=now)

    def serve(self, rows: int, push: Push, now: Callable[[], int]) -> list[Batch]:
        served = self._queue.serve(rows, now=now())
        out = push(self._batch(served)) if len(served.rows) else []
        self._queue.deliver(served, now=now())
        return out

    def _batch(self, served: ServedWindows) -> Batch:
        """Rows of whole windows, and for each key the promise that later windows start later, so
        that its answers are final at once."""
        starts = served.starts
        first = np.flatnonzero(np.diff(starts, prepend=NEVER) | np.diff(served.owners, prepend=-1))
        after = (starts[first] + self._queue.window.slide).tolist()
        keys = self._queue.key
        if not keys:
            return Batch(served.rows, starts, starts + 1, progress=Progress(max(after)))
        named = [served.rows.column(name).take(pa.array(first)).to_pylist() for name in keys]
        scoped: dict[tuple[object, ...], int] = {}
        for scope, time in zip(zip(*named, strict=True), after, strict=True):
            scoped[scope] = max(time, scoped.get(scope, MIN_TIME))
        return Batch(served.rows, starts, starts + 1, progress=Progress(MIN_TIME, keys, scoped))

    def new_promise(self) -> int | None:
        return self.promise.advance(self._queue.earliest_held(), self._queue.window.size)


def _queue_of(source: Source) -> _SourceQueue:
    conflation = source.conflation
    assert conflation is not None
    if conflation.window is None:
        return _RowQueue(source.schema, conflation)
    return _WindowsQueue(source.schema, conflation, conflation.window)


def timed_schema(payload: pa.Schema) -> pa.Schema:
    """The columns of an update queue: those of the payload, then start and end."""
    return pa.schema([*payload, (START, pa.int64()), (END, pa.int64())])


def timed_rows(batch: Batch, schema: pa.Schema) -> pa.RecordBatch:
    """The rows of a batch, with the columns of a queue."""
    payload = [batch.payload.column(name) for name in schema.names[:-2]]
    return pa.record_batch([*payload, pa.array(batch.start), pa.array(batch.end)], schema=schema)


def feed_of(rows: pa.RecordBatch) -> pa.Table:
    """Rows that left a queue, as input of their source."""
    return pa.Table.from_batches([rows]).select([START, END, *rows.schema.names[:-2]])
