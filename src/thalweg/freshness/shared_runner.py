"""Several queries over one update queue, in-process.

Each query has a schedule and a staleness of its own. A row stays until all queries have taken it,
or a newer row of its key replaces it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from thalweg.errors import PlanError
from thalweg.freshness.queue_promise import QueuePromise
from thalweg.freshness.queue_status import Admission, QueueStatus
from thalweg.freshness.runner import START, Pushable, feed_of, timed_rows, timed_schema
from thalweg.freshness.schedules import schedule_for
from thalweg.freshness.update_queue import UpdateQueue
from thalweg.io.feeds import Feed, batches_from
from thalweg.model.batch import Batch
from thalweg.model.elements import cti
from thalweg.plan.nodes import Source, walk
from thalweg.stream import Stream

__all__ = ["SharedRunner"]


class SharedRunner:
    """
    >>> import thalweg as tw
    >>> quotes = tw.source("quotes", {"symbol": "string", "price": "int64"}, insert_only=True)
    >>> queries = {"all": quotes.update_key("symbol", schedule="in-place"),
    ...            "dear": quotes.update_key("symbol", schedule="gain").where("price > 30")}
    >>> clock = iter(range(100))
    >>> runner = SharedRunner({name: (query, tw.Engine(query)) for name, query in queries.items()},
    ...                       now=lambda: next(clock))
    >>> prices = [{"symbol": "IBM", "price": 24}, {"symbol": "GM", "price": 40}]
    >>> runner.offer([tw.point(price, time) for time, price in enumerate(prices, 1)])
    Admission(accepted=2, outdated=0, refused=0)
    >>> [row.payload["price"] for row in tw.elements_of(runner.serve("dear", 10))]
    [40]
    >>> runner.status("dear").waiting, runner.status("all").waiting
    (0, 2)
    """

    def __init__(
        self, queries: Mapping[str, tuple[Stream, Pushable]], *, now: Callable[[], int]
    ) -> None:
        sources = {name: _only_source(name, query) for name, (query, _) in queries.items()}
        first = next(iter(sources.values()), None)
        if first is None:
            raise PlanError("SharedRunner: give at least one query.")
        for name, source in sources.items():
            if (source.name, source.schema, _key(source)) != (
                first.name,
                first.schema,
                _key(first),
            ):
                raise PlanError(
                    f"query {name!r} reads {source.name!r} by ({', '.join(_key(source))}); queries "
                    f"that share a queue read one source, here {first.name!r} by "
                    f"({', '.join(_key(first))})."
                )
        self._now = now
        self._source = first
        self._engines = {name: engine for name, (_, engine) in queries.items()}
        schedules = {}
        for name, source in sources.items():
            queue = source.conflation
            assert queue is not None
            schedules[name] = schedule_for(queue.schedule, queue.freshness)
        conflation = first.conflation
        assert conflation is not None
        self._queue = UpdateQueue(
            timed_schema(first.schema),
            conflation.key,
            readers=schedules,
            time=START,
            capacity=conflation.capacity,
        )
        self._promises = {name: QueuePromise(conflation.disorder) for name in queries}

    def offer(self, feed: Feed) -> Admission:
        """Take rows and CTIs of the source in, for all queries."""
        total = Admission()
        for batch in batches_from(feed, self._source.schema, self._source.name):
            for promise in self._promises.values():
                promise.note(batch)
            if len(batch):
                rows = timed_rows(batch, self._queue.schema)
                total += self._queue.enqueue(rows, now=self._now())
        return total

    def serve(self, query: str, rows: int) -> list[Batch]:
        """Put up to `rows` rows through one query; returns the answers."""
        engine = self._engine(query)
        taken = self._queue.dequeue(rows, now=self._now(), reader=query)
        out: list[Batch] = []
        if len(taken.rows):
            out += engine.push(self._source.name, feed_of(taken.rows))
            self._queue.deliver(taken, now=self._now(), reader=query)
        promise = self._promises[query].advance(self._queue.smallest_waiting(START))
        if promise is not None:
            out += engine.push(self._source.name, cti(promise))
        return out

    def status(self, query: str) -> QueueStatus:
        """The status of the queue for one query."""
        self._engine(query)
        return self._queue.status(now=self._now(), reader=query)

    def _engine(self, query: str) -> Pushable:
        if query not in self._engines:
            raise PlanError(f"no query {query!r}; there are: {', '.join(self._engines)}.")
        return self._engines[query]


def _only_source(name: str, query: Stream) -> Source:
    found = [
        node
        for node in walk(query.node)
        if isinstance(node, Source) and node.conflation is not None
    ]
    conflation = found[0].conflation if len(found) == 1 else None
    if conflation is None or conflation.window is not None or conflation.adaptive:
        raise PlanError(
            f"query {name!r}: queries that share a queue have one source with an update key, rows "
            "as its unit, and no adaptive=True."
        )
    return found[0]


def _key(source: Source) -> tuple[str, ...]:
    assert source.conflation is not None
    return source.conflation.key
