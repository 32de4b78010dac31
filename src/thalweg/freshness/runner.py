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
from functools import partial
from typing import Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from thalweg.errors import InputError, PlanError
from thalweg.freshness._arrays import NEVER
from thalweg.freshness.adaptive_queue import make_queue
from thalweg.freshness.newest_windows import NewestWindows, ServedWindows
from thalweg.freshness.queue_status import QueueStatus
from thalweg.freshness.schedules import schedule_for
from thalweg.freshness.update_queue import Admission, add_admissions
from thalweg.freshness.window_marks import UpdateWindow
from thalweg.io.feeds import Feed, batches_from
from thalweg.model.batch import Batch
from thalweg.model.elements import cti
from thalweg.model.progress import Progress
from thalweg.model.time import INFINITY, MIN_TIME
from thalweg.plan.nodes import Node, Source, walk
from thalweg.stream import Stream

__all__ = ["END", "START", "FreshRunner", "Promised", "Pushable", "payload_arrays"]

START, END = "_start", "_end"
Push: TypeAlias = Callable[[Feed], list[Batch]]


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
        self._feeds: dict[str, _Conflated | _Windowed] = {
            each.name: _Conflated(each) if each.conflation.window is None else _Windowed(each)
            for each in walk(node)
            if isinstance(each, Source) and each.conflation is not None
        }
        if not self._feeds:
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
        conflated = self._conflated(source)
        trusted = conflated.trusts(source, input)
        batches = list(batches_from(feed, conflated.payload, source))
        for batch in batches:
            if batch.is_adjust is not None and bool(batch.is_adjust.any()):
                raise InputError(
                    f"source {source!r}: rows of an update stream are replaced by newer ones; an "
                    "adjust cannot say which of them it means."
                )
        total = Admission(0, 0, 0)
        for batch in batches:
            total = add_admissions(total, conflated.enqueue(batch, self._now(), trusted=trusted))
        return total

    def serve(self, rows: int, sources: Iterable[str] | None = None) -> list[Batch]:
        """Put up to `rows` rows of each source through the query; what came out."""
        out: list[Batch] = []
        for name in self._feeds if sources is None else sources:
            conflated = self._conflated(name)
            out += conflated.serve(rows, partial(self._engine.push, name), self._now)
            promise = conflated.new_promise()
            if promise is not None:
                out += self._engine.push(name, cti(promise))
        return out

    def waiting(self, source: str) -> int:
        """Keys whose newest row, or window, has not been served."""
        return self._conflated(source).waiting

    def status(self, source: str) -> QueueStatus:
        """Of a source whose unit is the window, counts are of windows."""
        return self._conflated(source).status(self._now())

    def _conflated(self, source: str) -> _Conflated | _Windowed:
        if source not in self._feeds:
            raise PlanError(
                f"no source {source!r} with an update key; there are: {', '.join(self._feeds)}."
            )
        return self._feeds[source]


class Promised:
    """What a queue was promised, and what it promises."""

    def __init__(self, disorder: int | None) -> None:
        self._disorder = disorder
        self._promised_here = MIN_TIME
        self._promised_on = MIN_TIME

    def note(self, batch: Batch) -> None:
        self._promised_here = max(self._promised_here, batch.progress.cti)
        if len(batch) and self._disorder is not None:
            newest = int(batch.start.max()) - self._disorder
            self._promised_here = max(self._promised_here, newest)

    def advance(self, held: int | None, size: int = 0) -> int | None:
        """The promise, if it is later than the last one: windows of `size` that start up to that
        much before what is to come may still leave."""
        earliest = min(self._promised_here, INFINITY if held is None else held)
        promise = earliest if earliest == INFINITY or not size else earliest - size + 1
        if promise <= self._promised_on:
            return None
        self._promised_on = promise
        return promise


class _Conflated:
    """The queue of one source."""

    def __init__(self, source: Source) -> None:
        conflation = source.conflation
        assert conflation is not None
        self.payload = source.schema
        schema = pa.schema([*source.schema, (START, pa.int64()), (END, pa.int64())])
        self.queue = make_queue(
            schema,
            conflation.key,
            schedule=schedule_for(conflation.schedule, conflation.freshness),
            time=START,
            capacity=conflation.capacity,
            target=conflation.freshness if conflation.adaptive else None,
        )
        self.queue.set_targets(conflation.targets)
        self._inputs = conflation.inputs
        self._truth = conflation.truth
        self._promised = Promised(conflation.disorder)

    @property
    def waiting(self) -> int:
        return self.queue.waiting

    def status(self, now: int) -> QueueStatus:
        return self.queue.status(now=now)

    def trusts(self, source: str, name: str | None) -> bool | None:
        """Whether rows of an input are the truth; None for a source that is no union."""
        if (name is None) != (not self._inputs) or (name is not None and name not in self._inputs):
            raise PlanError(
                f"source {source!r}: input={name!r}; its inputs are: "
                f"{', '.join(self._inputs) or 'none, so leave input= out'}."
            )
        return None if name is None else name == self._truth

    def enqueue(self, batch: Batch, now: int, *, trusted: bool | None) -> Admission:
        self._promised.note(batch)
        if not len(batch):
            return Admission(0, 0, 0)
        arrays = [*payload_arrays(batch, self.payload), pa.array(batch.start), pa.array(batch.end)]
        rows = pa.record_batch(arrays, schema=self.queue.schema)
        return self.queue.enqueue(rows, now=now, trusted=trusted)

    def serve(self, rows: int, push: Push, now: Callable[[], int]) -> list[Batch]:
        taken = self.queue.dequeue(rows, now=now())
        if not len(taken.rows):
            return []
        table = pa.Table.from_batches([taken.rows])
        out = push(table.select([START, END, *self.payload.names]))
        self.queue.deliver(taken, now=now())
        return out

    def new_promise(self) -> int | None:
        """The promise after what was served, if it is later than the last one."""
        return self._promised.advance(self.queue.smallest_waiting(START))


class _Windowed:
    """The queue of one source whose unit is the window: rows leave at the start of theirs."""

    def __init__(self, source: Source) -> None:
        conflation = source.conflation
        assert conflation is not None and conflation.window is not None
        self.payload = source.schema
        window = conflation.window
        self.queue = NewestWindows(
            source.schema,
            conflation.key,
            UpdateWindow(window.size, window.hop),
            window.rule,
            schedule_for(conflation.schedule, conflation.freshness),
            capacity=conflation.capacity,
        )
        self._promised = Promised(conflation.disorder)

    @property
    def waiting(self) -> int:
        return self.queue.waiting

    def status(self, now: int) -> QueueStatus:
        return self.queue.status(now=now)

    def trusts(self, source: str, name: str | None) -> bool | None:
        if name is not None:
            raise PlanError(f"source {source!r}: windows have no inputs; leave input= out.")
        return None

    def enqueue(self, batch: Batch, now: int, *, trusted: bool | None) -> Admission:
        self._promised.note(batch)
        if not len(batch):
            return Admission(0, 0, 0)
        rows = pa.record_batch(payload_arrays(batch, self.payload), schema=self.payload)
        return self.queue.enqueue(rows, batch.start, now=now)

    def serve(self, rows: int, push: Push, now: Callable[[], int]) -> list[Batch]:
        served = self.queue.serve(rows, now=now())
        out = push(self._batch(served)) if len(served.rows) else []
        self.queue.deliver(served, now=now())
        return out

    def _batch(self, served: ServedWindows) -> Batch:
        """Rows of whole windows, and for each key the promise that windows to come start later: its
        answers are final at once."""
        starts = served.starts
        first = np.flatnonzero(np.diff(starts, prepend=NEVER) | np.diff(served.owners, prepend=-1))
        after = (starts[first] + self.queue.window.slide).tolist()
        keys = self.queue.key
        if not keys:
            return Batch(served.rows, starts, starts + 1, progress=Progress(max(after)))
        named = [served.rows.column(name).take(pa.array(first)).to_pylist() for name in keys]
        scoped: dict[tuple[object, ...], int] = {}
        for scope, time in zip(zip(*named, strict=True), after, strict=True):
            scoped[scope] = max(time, scoped.get(scope, MIN_TIME))
        return Batch(served.rows, starts, starts + 1, progress=Progress(MIN_TIME, keys, scoped))

    def new_promise(self) -> int | None:
        return self._promised.advance(self.queue.earliest_held(), self.queue.window.size)


def payload_arrays(batch: Batch, schema: pa.Schema) -> list[pa.Array]:
    return [batch.payload.column(name) for name in schema.names]
