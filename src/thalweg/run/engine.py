"""The in-process engine: a query graph driven by pushing batches; `pulling` reads its inputs for
it.

It is the reference for every other runner and useful by itself in notebooks and tests. One engine
runs one query; it is not shared between threads.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from thalweg.errors import InputError, PlanError, StateError
from thalweg.graph.auto import average_burst, tune
from thalweg.graph.build import build_graph
from thalweg.graph.demand import Demand
from thalweg.graph.enhanced import enhance
from thalweg.graph.stuck import StuckInputs
from thalweg.graph.why import Why, explain_wait
from thalweg.io.feeds import Feed, batches_from
from thalweg.io.frames import is_frame
from thalweg.io.records import LETTERS, Records
from thalweg.model.batch import Batch
from thalweg.model.clocks import Clock, clock_type, common_clock
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.model.punctuation import Punctuation
from thalweg.model.time import INFINITY, Duration, TimeLike, duration_us, time_us
from thalweg.operators.base import StateSize
from thalweg.operators.consistency import Consistency
from thalweg.operators.source.stamp_arrivals import clock_promise
from thalweg.operators.text_slices import slice_of_text, text_of_slice
from thalweg.plan.explain import explain
from thalweg.plan.nodes import MergedSource, Node, Source, walk
from thalweg.plan.nodes.arrivals import stamp_periods
from thalweg.progress.quarantine import Case
from thalweg.progress.source_clock import wall_clock
from thalweg.run.snapshots import fingerprint, pack, progress_of_rows, progress_rows, unpack
from thalweg.run.status import Status
from thalweg.stream import Stream, node_of

__all__ = ["LEDGER_LIMIT", "Engine", "Query"]

Query = Stream | Node

LEDGER_LIMIT = 10_000
"""Entries of a late ledger that wait for `Engine.late`; what came before them is only counted."""

_ITSELF = "(engine)"
"""Where a snapshot holds what the engine itself remembers."""
_FIRST_TUNED = 64
"""After so many batches strategies are chosen by what was measured, and again after twice as
many."""


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
        strategy: str = "auto",
        k: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], int] = wall_clock,
        on_late: Callable[[str, pa.Table], None] | None = None,
    ) -> None:
        """`strategy` is the order of work (`docs/graph.md`); it changes no answer. `on_late` is
        called after a push with the source and the entries of its late ledger; without it the
        newest `LEDGER_LIMIT` entries of each source wait for `late`."""
        self.query = node_of(query, "the query")
        self._consistency = Consistency(
            consistency, 0 if hold is None else duration_us(hold, what="hold")
        )
        self._graph, self._plan = build_graph(self.query, self._consistency)
        self._tunes_after = _FIRST_TUNED if strategy == "auto" else 0
        if strategy == "auto":
            tune(self._graph, 0.0)
        else:
            self._graph.use(strategy, k=k)
        self._stuck = StuckInputs(self._graph)
        self._clock = clock
        self._now = now
        self._busy = 0.0
        self._batches = self._elements_in = self._elements_out = self._adjusts_out = 0
        self._progress = NO_PROGRESS
        self._nodes = {node.name: node for node in walk(self._plan) if isinstance(node, Source)}
        for node in self._nodes.values():
            if isinstance(node, MergedSource):
                raise PlanError(
                    f"the source {node.name!r} merges logs, which a query on Spark reads. "
                    "In-process, merge them with thalweg.merging.LoggedMerge and push what comes "
                    "out."
                )
        policies = [node.ingress for node in self._nodes.values()]
        self._records: dict[str, list[Records]] = {}
        self._timed = [n for n, node in self._nodes.items() if node.ingress.timer is not None]
        self._stamped = stamp_periods(self._plan)
        self._has_clocks = bool(self._stamped) or any(policy.clocks for policy in policies)
        on_demand = any(policy.on_demand is not None for policy in policies)
        self._demand = Demand(self._graph) if on_demand else None
        enhance(self._graph)
        self._broken: BaseException | None = None
        self._clocks_seen: dict[str, Clock] = {}
        self._on_late = on_late
        for name in self.sources:
            ingress = self._graph.ingress(name)
            ingress.ledger.limit = ingress.quarantined.limit = LEDGER_LIMIT

    @property
    def clock(self) -> Clock:
        """What times are to the reader of this query: a timestamp type, or None for whole ticks. A
        source that says nothing has the clock of the first frame that was pushed."""
        declared = {node.name: node.clock for node in walk(self._plan) if isinstance(node, Source)}
        return common_clock(
            [
                clock if clock is not None else self._clocks_seen.get(name)
                for name, clock in declared.items()
            ]
        )

    @property
    def schema(self) -> pa.Schema:
        return self.query.schema

    @property
    def sources(self) -> dict[str, pa.Schema]:
        """The payload schema of each source by name."""
        return {name: operator.kernel.schema for name, operator in self._graph.sources.items()}

    def push(self, source: str, feed: Feed) -> list[Batch]:
        """Take input of one source; what came out. Input that is wrong is refused whole, and the
        query goes on.

        All of the feed is read and checked before any of it is worked on; a long stream is pushed
        in parts (or pulled by `run`).
        """
        self._refuse_if_broken()
        if isinstance(feed, Records) and feed not in self._records.setdefault(source, []):
            self._records[source].append(feed)
        out = self._push(source, list(self.batches(source, feed)))
        return out + self._clocks(source) if self._has_clocks else out

    def batches(
        self,
        source: str,
        feed: Feed,
        size: int | None = None,
        due: Callable[[], bool] | None = None,
    ) -> Iterator[Batch]:
        """A feed of a source as batches."""
        schema = self._graph.source(source).kernel.schema
        node = self._nodes[source]
        self._clocks_seen.setdefault(source, _clock_of_feed(feed))
        return batches_from(feed, schema, source, times=node.times, size=size, due=due)

    def tick(self) -> list[Batch]:
        """Let the timers of the sources go off that are due; what came out. `push` does this too:
        only a lull needs it."""
        self._refuse_if_broken()
        return self._clocks()

    def _clocks(self, pushed: str | None = None) -> list[Batch]:
        """What the clock releases; the clock of a source that was pushed just now is set."""
        now = self._now()
        out: list[Batch] = []
        for name in self._stamped:
            if name != pushed:
                out += self._push(name, [])
        for name in self._timed:
            promise = self._graph.ingress(name).fire_timer(now)
            if promise is not None:
                out += self._push(name, [promise])
        return out + self._demands(now)

    @property
    def has_clocks(self) -> bool:
        """Whether time alone can bring an answer."""
        return self._has_clocks

    def is_due(self) -> bool:
        """Whether a timer would go off now."""
        now = self._now()
        return any(self._graph.ingress(name).timer_fires(now) for name in self._timed)

    def _demands(self, now: int) -> list[Batch]:
        """Ask the sources that an operator waits for, as long as that brings something new."""
        out: list[Batch] = []
        if self._demand is None:
            return out
        for round_out in self._demand.rounds(now):
            released = self._news(round_out)
            if not released:
                break
            out += released
        return out

    def _refuse_if_broken(self) -> None:
        if self._broken is not None:
            raise StateError(
                "the query failed earlier and its state is not whole; go on from its last snapshot."
            ) from self._broken

    def _push(self, source: str, batches: list[Batch]) -> list[Batch]:
        begin = self._clock()
        ingress = self._graph.ingress(source)
        ingress.now = now = self._now()
        clock = [Batch.empty(ingress.schema, clock_promise(now))] if source in self._stamped else []
        try:
            admitted = self._graph.admit(source, [*clock, *batches])
            kept = self._news(self._graph.send(source, *admitted))
        except InputError:
            raise  # the ingress refused the input before anything was applied
        except BaseException as reason:
            self._broken = reason
            raise
        self._batches += len(batches)
        self._elements_in += sum(map(len, batches))
        if self._tunes_after and self._batches >= self._tunes_after:
            self._tunes_after *= 2
            tune(self._graph, average_burst(self._graph))
        self._stuck.observe()
        self._busy += self._clock() - begin
        if self._on_late is not None and ingress.ledger.tables:
            self._on_late(source, self.late(source))
        return kept

    def _news(self, out: list[Batch]) -> list[Batch]:
        """The answers that have elements, or a promise that was not made before."""
        kept = []
        for answer in out:
            advanced = self._progress.advance(answer.progress)
            if len(answer) or advanced != self._progress:
                kept.append(answer)
            self._progress = advanced
            self._elements_out += len(answer)
            self._adjusts_out += 0 if answer.is_adjust is None else int(answer.is_adjust.sum())
        return kept

    def skip_before(self, time: TimeLike) -> None:
        """Answers that end before a time are not wanted any more: the query may skip what only they
        need. Answers that end then or later, and all promises, are as before. What sources and
        operators skip is counted in `skipped`, and is not late."""
        self._refuse_if_broken()
        self._graph.skip_before(time_us(time))

    def unwanted_before(self, source: str) -> int:
        """Rows of a source that end before this are skipped, and need not be read."""
        return self._graph.unwanted_before(source)

    @property
    def skipped(self) -> int:
        """How many rows were skipped because no answer that is wanted needs them."""
        return self._graph.skipped

    def finish(self) -> list[Batch]:
        """The end of every source: nothing will change any more."""
        self._refuse_if_broken()
        out: list[Batch] = []
        for name, schema in self.sources.items():
            out += self._push(name, [Batch.empty(schema, Progress(INFINITY))])
        return out

    def late_before(self, source: str) -> int:
        """The time before which a row of a source would be late now."""
        return self._graph.ingress(source).promised

    def why(self, start: TimeLike | None = None, **group: Any) -> Why:
        """Why the answer that starts at `start` is not final (without one: the first that is not),
        for all rows or for one group.

        Says which operator waits for which source's promise, since when, and what would release it;
        print it, or look into it.
        """
        why = explain_wait(
            self._graph, self._progress, None if start is None else time_us(start), group or None
        )
        return replace(why, clock=self.clock)

    def table(self) -> str:
        """The state table: each operator with its predecessor, its successor and the rule that
        chooses the next one; for `auto`, with the reason."""
        return self._graph.table()

    def explain(self) -> str:
        """The plan and its rewrites, when answers come, and the state table as it is now."""
        table = "\n".join(f"  {line}" for line in self.table().splitlines())
        return f"{explain(self.query, consistency=self._consistency.mode)}\n\nexecution\n{table}"

    def quarantine(self, source: str) -> list[Case]:
        """The keys of a source whose clock is impossible at the moment: why, since when, how many
        rows."""
        return self._graph.ingress(source).cases

    def quarantined(self, source: str) -> pa.Table:
        """The rows of a source, since the last call, that were set aside because of their clock,
        and the time they were held against."""
        ingress = self._graph.ingress(source)
        return ingress.quarantined.take(ingress.schema)

    def punctuate(self, source: str, pattern: Punctuation) -> list[Batch]:
        """No row of a source that matches a pattern will come any more; what came out.

        A linear or group-wise linear pattern is a CTI, upper bounds on columns are a promise over
        those columns, a time with values or ranges of the columns that name groups closes those
        groups. Any other is kept at the input: a row that matches it is late; it becomes such a
        promise when the source has promised all that lies before its ranges.
        """
        ingress = self._graph.ingress(source)
        promise = ingress.cti_of(pattern)
        if promise is not None:
            return self.push(source, promise)
        self._refuse_if_broken()
        column_promises = pattern.to_column_promises()
        if column_promises:
            promised = Progress(column_promises=column_promises)
            return self.push(source, Batch.empty(ingress.schema, promised))
        ingress.punctuate(pattern)
        return self.push(source, Batch.empty(ingress.schema))

    def dead(self, source: str) -> pa.Table:
        """The records of a source, since the last call, that could not be read, each with its line
        and the reason (see `records`)."""
        self._graph.source(source)  # refuses a name that is none
        letters = [feed.letters.take() for feed in self._records.get(source, ())]
        return pa.concat_tables([LETTERS.empty_table(), *letters])

    def late(self, source: str) -> pa.Table:
        """The ledger of a source: its late elements since the last call, the promise each broke,
        and what became of it."""
        ingress = self._graph.ingress(source)
        return ingress.ledger.take(ingress.schema)

    def late_count(self, source: str) -> int:
        """How many elements of a source came late so far."""
        return self._graph.ingress(source).ledger.count

    def late_unlisted(self, source: str) -> int:
        """How many of them the ledger no longer lists, because its entries were not taken in
        time."""
        return self._graph.ingress(source).ledger.unlisted

    def dead_letters(self) -> pa.Table:
        """The windows, since the last call, that modules failed on and the query went on without
        (`on_error="skip"`)."""
        return self._graph.dead_letters()

    def state_size(self) -> dict[str, StateSize]:
        """Rows and bytes of state by operator."""
        return self._graph.state_size()

    def status(self) -> Status:
        kernels = [self._graph.ingress(name) for name in self._graph.sources]
        warnings = [text for kernel in kernels for text in kernel.warnings]
        return Status(
            batches=self._batches,
            elements_in=self._elements_in,
            elements_out=self._elements_out,
            adjusts_out=self._adjusts_out,
            late=sum(kernel.ledger.count for kernel in kernels),
            progress=self._progress,
            state=sum(self.state_size().values(), StateSize()),
            busy_seconds=self._busy,
            operators=self._graph.figures(),
            quarantined=sum(kernel.quarantined.count for kernel in kernels),
            warnings=(*warnings, *self._stuck.warnings()),
            dead=sum(feed.dead for feeds in self._records.values() for feed in feeds),
            clock=self.clock,
        )

    def snapshot(self) -> bytes:
        """All state, between two pushes; entries of the ledgers that were not taken yet are part of
        it."""
        self._refuse_if_broken()
        itself = {
            "progress": progress_rows(self._progress),
            "arcs": slice_of_text(json.dumps(self._graph.arcs())),
        }
        return pack({**self._graph.snapshot(), _ITSELF: itself}, self._mark())

    @classmethod
    def restore(
        cls,
        query: Query,
        snapshot: bytes,
        *,
        consistency: str = "speculative",
        hold: Duration | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], int] = wall_clock,
        on_late: Callable[[str, pa.Table], None] | None = None,
    ) -> Engine:
        """An engine that goes on where the snapshot was taken."""
        engine = cls(
            query, consistency=consistency, hold=hold, clock=clock, now=now, on_late=on_late
        )
        state = unpack(snapshot, engine._mark())
        itself = state.pop(_ITSELF)
        engine._progress = progress_of_rows(itself["progress"])
        engine._graph.restore_arcs(json.loads(text_of_slice(itself["arcs"])))
        engine._graph.restore(state)
        return engine

    def _mark(self) -> str:
        return fingerprint(self._plan, repr(self._consistency))


def _clock_of_feed(feed: Feed) -> Clock:
    """The clock of a frame of events: the type of its starts."""
    first = feed[0] if isinstance(feed, (list, tuple)) and feed else feed
    schema = getattr(first, "schema", None) if is_frame(first) else None
    at = schema.get_field_index("_start") if isinstance(schema, pa.Schema) else -1
    return clock_type(schema.field(at).type) if schema is not None and at >= 0 else None
