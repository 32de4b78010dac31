"""The in-process engine: a query graph driven by pushing batches, or pulled through `run`.

It is the reference for every other runner and useful by itself in notebooks and tests. One engine runs one query; it is
not shared between threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from thalweg.errors import InputError, PlanError, StateError
from thalweg.graph.build import build_graph
from thalweg.model.batch import Batch, elements_of
from thalweg.model.cht import Row, rows_of_table, table_of_batches
from thalweg.model.elements import Element
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.model.time import INFINITY, Duration, duration_us
from thalweg.operators.base import StateSize
from thalweg.operators.consistency import Consistency
from thalweg.operators.ingress import IngressKernel
from thalweg.plan.nodes import Node
from thalweg.run.inputs import Feed, batches_from
from thalweg.run.snapshots import fingerprint, pack, progress_of_rows, progress_rows, unpack
from thalweg.stream import Stream

__all__ = ["Engine", "Status", "changes", "run", "table"]

Query = Stream | Node

_ITSELF = "(engine)"
"""Where a snapshot holds what the engine itself remembers."""


@dataclass(frozen=True, slots=True)
class Status:
    """How an engine is doing."""

    batches: int
    elements_in: int
    elements_out: int
    adjusts_out: int
    late: int
    progress: Progress
    state: StateSize
    busy_seconds: float


class Engine:
    """A running query.

    >>> import thalweg as tw
    >>> query = tw.source("s", {"v": "int64"}).tumbling(10).aggregate(n=tw.count())
    >>> engine = Engine(query)
    >>> [list(tw.elements_of([b])) for b in engine.push("s", tw.point({"v": 1}, 3))]
    []
    >>> list(tw.elements_of(engine.push("s", tw.cti(10))))
    [Insert(payload={'n': 1}, start=0, end=10), Cti(time=10, scope=None)]
    """

    def __init__(
        self,
        query: Query,
        *,
        consistency: str = "speculative",
        hold: Duration | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.query = query.node if isinstance(query, Stream) else query
        self._consistency = Consistency(consistency, 0 if hold is None else duration_us(hold, what="hold"))
        self._graph, self._plan = build_graph(self.query, self._consistency)
        self._clock = clock
        self._busy = 0.0
        self._counts = [0, 0, 0, 0]
        self._progress = NO_PROGRESS
        self._broken: BaseException | None = None

    @property
    def schema(self) -> pa.Schema:
        return self.query.schema

    @property
    def sources(self) -> dict[str, pa.Schema]:
        """The payload schema of each source by name."""
        return {name: station.operator.schema for name, station in self._graph.sources.items()}

    def push(self, source: str, feed: Feed) -> list[Batch]:
        """Take input of one source; what came out. Input that is wrong is refused whole, and the query goes on.

        All of the feed is read and checked before any of it is worked on; a long stream is pushed in parts (or pulled by `run`).
        """
        self._refuse_if_broken()
        return self._push(source, list(batches_from(feed, self._schema_of(source), source)))

    def _schema_of(self, source: str) -> pa.Schema:
        station = self._graph.sources.get(source)
        if station is None:
            self._graph.offer(source, Batch.empty(self.schema))  # raises with a did-you-mean
            raise PlanError(f"no source {source!r}")
        return station.operator.schema

    def _refuse_if_broken(self) -> None:
        if self._broken is not None:
            raise StateError("the query failed earlier and its state is not whole; go on from its last snapshot.") from self._broken

    def _push(self, source: str, batches: list[Batch]) -> list[Batch]:
        begin = self._clock()
        kept: list[Batch] = []
        try:
            for batch, admitted in zip(batches, self._graph.admit(source, batches), strict=True):
                out = self._graph.send(source, admitted)
                self._counts[0] += 1
                self._counts[1] += len(batch)
                kept += self._news(out)
        except InputError:
            raise  # the ingress refused the input before anything was applied
        except BaseException as reason:
            self._broken = reason
            raise
        self._busy += self._clock() - begin
        return kept

    def _news(self, out: list[Batch]) -> list[Batch]:
        """The answers that say something: elements, or a promise that was not made before."""
        kept = []
        for answer in out:
            advanced = self._progress.merge(answer.progress)
            if len(answer) or advanced != self._progress:
                kept.append(answer)
            self._progress = advanced
            self._counts[2] += len(answer)
            self._counts[3] += 0 if answer.is_adjust is None else int(answer.is_adjust.sum())
        return kept

    def finish(self) -> list[Batch]:
        """The end of every source: nothing will change any more."""
        self._refuse_if_broken()
        out: list[Batch] = []
        for name, schema in self.sources.items():
            out += self._push(name, [Batch.empty(schema, Progress(INFINITY))])
        return out

    def late(self, source: str) -> pa.Table:
        """The ledger of a source: its late elements since the last call, the promise each broke, and what became of it."""
        return self._ingress(source).ledger.take(self._schema_of(source))

    def late_count(self, source: str) -> int:
        """How many elements of a source came late so far."""
        return self._ingress(source).ledger.count

    def _ingress(self, source: str) -> IngressKernel:
        self._schema_of(source)
        kernel = self._graph.sources[source].operator
        assert isinstance(kernel, IngressKernel)
        return kernel

    def state_size(self) -> dict[str, StateSize]:
        """Rows and bytes of state by operator."""
        return self._graph.state_size()

    def status(self) -> Status:
        total = sum(self.state_size().values(), StateSize())
        late = sum(self.late_count(name) for name in self.sources)
        return Status(self._counts[0], self._counts[1], self._counts[2], self._counts[3], late, self._progress, total, self._busy)

    def snapshot(self) -> bytes:
        """All state, between two pushes; entries of the ledgers that were not taken yet are part of it."""
        self._refuse_if_broken()
        return pack({**self._graph.snapshot(), _ITSELF: {"progress": progress_rows(self._progress)}}, self._mark())

    @classmethod
    def restore(
        cls,
        query: Query,
        snapshot: bytes,
        *,
        consistency: str = "speculative",
        hold: Duration | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> Engine:
        """An engine that goes on where the snapshot was taken."""
        engine = cls(query, consistency=consistency, hold=hold, clock=clock)
        state = unpack(snapshot, engine._mark())
        engine._progress = progress_of_rows(state.pop(_ITSELF)["progress"])
        engine._graph.restore(state)
        return engine

    def _mark(self) -> str:
        return fingerprint(self._plan, repr(self._consistency))


def run(
    query: Query,
    inputs: Mapping[str, Feed],
    *,
    consistency: str = "speculative",
    hold: Duration | None = None,
    batch_size: int | None = None,
    finish: bool = True,
) -> Iterator[Batch]:
    """Pull a query: its output batches as they come. Sources take turns, one batch each; at the end they all finish."""
    engine = Engine(query, consistency=consistency, hold=hold)
    missing = set(engine.sources) - set(inputs)
    if missing:
        raise PlanError(f"no input for the source {min(missing)!r}.")
    feeds = {name: batches_from(feed, engine._schema_of(name), name, size=batch_size) for name, feed in inputs.items()}
    while feeds:
        for name in list(feeds):
            batch = next(feeds[name], None)
            if batch is None:
                del feeds[name]
            else:
                yield from engine.push(name, batch)
    if finish:
        yield from engine.finish()


def changes(query: Query, inputs: Mapping[str, Feed], *, consistency: str = "speculative", hold: Duration | None = None) -> list[Element]:
    """All output elements, the final CTI left out when the inputs end: for small examples and tests."""
    return [e for e in elements_of(run(query, inputs, consistency=consistency, hold=hold)) if getattr(e, "time", 0) != INFINITY]


def table(query: Query, inputs: Mapping[str, Feed], *, consistency: str = "speculative", hold: Duration | None = None) -> list[Row]:
    """The final table as rows (start, end, payload): for small examples and tests."""
    batches = list(run(query, inputs, consistency=consistency, hold=hold))
    node = query.node if isinstance(query, Stream) else query
    return rows_of_table(table_of_batches(batches, node.schema))
