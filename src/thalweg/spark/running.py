"""Starting a query, and asking a running one how it is doing."""

from __future__ import annotations

import atexit
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from thalweg import errors
from thalweg.errors import PlanError, StateError, ThalwegError
from thalweg.graph.stations import OperatorFigures
from thalweg.graph.why import Why
from thalweg.model.answers import Answers
from thalweg.model.delta import Delta
from thalweg.model.progress import NO_PROGRESS
from thalweg.model.time import MIN_TIME, Duration, TimeLike, time_us
from thalweg.plan.clock import clock_of
from thalweg.plan.nodes import Node
from thalweg.shards.exchange import batch_of_blob
from thalweg.shards.fragments import fragments_of
from thalweg.shards.reports import combined_figures, combined_why, write_reports
from thalweg.spark.feeds import Feed
from thalweg.spark.progress import keep_reports, show_progress
from thalweg.spark.query import FIGURES, Prepared, prepare
from thalweg.spark.session import UNWEIGHED
from thalweg.stream import Stream

__all__ = ["QueryStatus", "RunningQuery", "explain", "frame", "start"]

Each = Callable[[DataFrame, int], None]


@dataclass(frozen=True, slots=True)
class QueryStatus:
    """How a query on Spark is doing, as of its last micro-batch."""

    batches: int
    rows: int
    """Rows that were read."""
    exchanged: int
    """Rows that were left of them for the exchange, after filters and partial sums."""
    changes: int
    adjusts: int
    late: int
    state_rows: int
    state_bytes: int
    cti: int | None
    seconds: float
    """How long the last micro-batch took."""
    active: bool
    operators: Mapping[str, OperatorFigures] = field(default_factory=dict)
    """By fragment and operator: rows in and out, retractions and time so far, state now."""
    dead: int = 0
    """Records that could not be read and were passed over."""
    warnings: tuple[str, ...] = ()


class RunningQuery:
    """A query on Spark. It goes on until it is stopped, its sources end, or it fails."""

    def __init__(
        self,
        query: StreamingQuery,
        ready: Prepared,
        table: _Table | None,
        temporary: str | None,
        checkpoint: Path | None = None,
    ) -> None:
        self.query = query
        self._checkpoint = checkpoint
        self._ready = ready
        self._table = table
        self._temporary = temporary
        self._totals: dict[int, dict[str, Any]] = {}
        self._operators: dict[str, OperatorFigures] = {}
        self._reports: list[dict[str, Any]] = []

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the query ends; raises what ended it."""
        try:
            ended = (
                self.query.awaitTermination()
                if timeout is None
                else self.query.awaitTermination(timeout)  # type: ignore[arg-type]
            )
        except Exception as reason:
            raise _plain(reason) from reason
        return True if ended is None else bool(ended)

    def stop(self) -> None:
        """Stop after the micro-batch that is running."""
        self.query.stop()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def table(self) -> Answers:
        """What the answers say now: a sequence of rows (start, end, payload) that is also
        `.to_arrow()`, `.to_pandas()`, `.to_polars()` and `.batches()`; for a query that is kept in
        memory."""
        if self._table is None:
            raise PlanError(
                "this query is written elsewhere; start it with to='memory' to read its table here."
            )
        return self._table.rows()

    def status(self) -> QueryStatus:
        """Figures of the query so far."""
        progress = self.query.recentProgress
        for entry in progress:
            figures = entry.observedMetrics.get(FIGURES)
            if figures is not None and entry.batchId not in self._totals:
                self._note(entry.batchId, figures.asDict())
        last = progress[-1] if progress else None
        newest = self._totals.get(max(self._totals), {}) if self._totals else {}
        cti = newest.get("cti")

        def total(name: str) -> int:
            return sum(figures[name] or 0 for figures in self._totals.values())

        return QueryStatus(
            batches=len(self._totals),
            rows=total("read"),
            exchanged=total("taken"),
            changes=total("changes"),
            adjusts=total("adjusts"),
            late=total("late"),
            state_rows=newest.get("state_rows") or 0,
            state_bytes=newest.get("state_bytes") or 0,
            cti=None if cti in (None, MIN_TIME) else cti,
            seconds=0.0 if last is None else last.batchDuration / 1000,
            active=self.query.isActive,
            operators=dict(self._operators),
            dead=total("dead"),
            warnings=tuple(
                dict.fromkeys(
                    note
                    for report in self._reports
                    for note in (*report["notes"], *report["stuck"])
                )
            ),
        )

    def why(self, start: TimeLike | None = None) -> Why:
        """Why the answer that starts at `start` is not final (without one: the first that is not),
        as of the last micro-batch.

        Says which operator waits for which source's promise, since when, and what would release it.
        """
        self.status()
        told = combined_why(self._reports, None if start is None else time_us(start))
        return replace(told, clock=clock_of(self._ready.plan.root))

    def _note(self, batch: int, figures: dict[str, Any]) -> None:
        """The figures of one more micro-batch; of the reports only the newest are kept, and what
        adds up."""
        texts = figures.pop("reports", None) or []
        told = [json.loads(text) for text in texts]
        self._totals[batch] = figures
        for name, done in combined_figures(told).items():
            before = replace(
                self._operators.get(name, OperatorFigures()), state_rows=0, state_bytes=0
            )
            self._operators[name] = before + done
        if batch == max(self._totals):
            self._reports = told
            if self._checkpoint is not None:
                write_reports(self._checkpoint, batch, texts, run=str(self.query.runId))

    def explain(self) -> str:
        """The fragments, what is exchanged by which keys, and what runs before each exchange."""
        return self._ready.plan.describe()


class _Table:
    """The answers kept in this process: only what is there now."""

    def __init__(self, ready: Prepared) -> None:
        self._schema = ready.plan.root.schema
        self._clock = clock_of(ready.plan.root)
        self._rows = Delta.empty(self._schema)
        self._batch = -1

    def take(self, packed: DataFrame, batch: int) -> None:
        if batch <= self._batch:
            return  # the same micro-batch once more, after a failure
        blobs = [row["blob"] for row in packed.where("kind = 'changes'").select("blob").collect()]
        changes = [Delta.of_batch(batch_of_blob(bytes(blob))) for blob in blobs]
        self._rows = Delta.concat([self._rows, *changes], self._schema).consolidate()
        self._batch = batch

    def rows(self) -> Answers:
        kept = [self._rows.to_batch(NO_PROGRESS)]
        return Answers.of_batches(kept, self._schema, self._clock)


def explain(query: Stream | Node) -> str:
    """How a query would run on Spark: its fragments, their exchanges, what runs before each, and
    what they keep."""
    return fragments_of(query.node if isinstance(query, Stream) else query).describe()


def frame(
    query: Stream | Node, *, checkpoint: str, output: str = "changelog", **options: Any
) -> DataFrame:
    """The answers as a streaming DataFrame, for any Spark sink. Give the sink the same checkpoint
    location."""
    ready = prepare(query, checkpoint=str(_absolute(checkpoint)), **options)
    ready.record.check()
    for key in (
        ready.settings.keys() - UNWEIGHED.keys()
    ):  # Spark reads it when it makes an answer, whenever that is
        ready.output.sparkSession.conf.set(key, ready.settings[key])
    return ready.typed(output)


def start(
    query: Stream | Node,
    *,
    to: str | Each = "memory",
    path: str | None = None,
    output: str = "changelog",
    checkpoint: str | None = None,
    consistency: str = "speculative",
    hold: Duration | None = None,
    trigger: str | Mapping[str, Any] = "at once",
    late: Each | None = None,
    dead: Each | None = None,
    skipped: Each | None = None,
    feeds: Mapping[str, Feed] | None = None,
    idle: Mapping[str, float] | None = None,
    buckets: int | None = None,
    name: str | None = None,
    progress: bool | None = None,
    spark: SparkSession | None = None,
) -> RunningQuery:
    """Start a query.

    `to`: `"memory"` (see `RunningQuery.table`), `"noop"`, a file format such as `"parquet"` with
    `path`, where each micro-batch becomes a folder `batch=N` that is written again if the batch is,
    or a function of (DataFrame, batch number) called once per micro-batch, which should do nothing
    twice for one number. `late` is such a function for late rows, `dead` one for records that could
    not be read (see `from_files`), `skipped` one for the windows that modules failed on
    (`on_error="skip"`). `trigger`: `"at once"` (one micro-batch after the other), `"available
    now"`, or Spark's own arguments. `progress` prints a line for each micro-batch; by default where
    standard error is a terminal. Without a checkpoint the query cannot be started again.
    """
    temporary = None if checkpoint is not None else _temporary_folder()
    place = _absolute(checkpoint or temporary)
    assert place is not None
    ready = prepare(
        query,
        feeds,
        checkpoint=place,
        consistency=consistency,
        hold=hold,
        buckets=buckets,
        idle=idle,
        spark=spark,
    )
    if not ready.output.isStreaming:
        raise PlanError(
            "the sources of this query are static DataFrames, which nothing can be started on; frame() gives all its answers."
        )
    ready.record.check()
    table = _Table(ready) if to == "memory" else None
    if output != "packed":
        ready.typed(
            output
        )  # a form that does not fit the query is refused now, not in the first micro-batch
    deliver = _sink(to, _absolute(path), output, ready, table)

    def each(packed: DataFrame, batch: int) -> None:
        ready.record.note(batch)
        if late is None and dead is None and skipped is None:
            deliver(packed, batch)
            return
        packed = packed.persist()  # two readers, one run of the fragments
        try:
            deliver(packed, batch)
            if late is not None:
                for source in _leaves(ready):
                    late(ready.ledger(source, packed), batch)
            if dead is not None:
                dead(ready.dead_letters(packed), batch)
            if skipped is not None:
                skipped(ready.skipped(packed), batch)
        finally:
            packed.unpersist()

    writer = (
        ready.output.writeStream.foreachBatch(each)
        .option("checkpointLocation", place)
        .trigger(**_trigger(trigger))
    )
    try:
        running = ready.begin(writer if name is None else writer.queryName(name))
    except Exception as reason:
        raise _plain(reason) from reason
    if progress or (progress is None and sys.stderr.isatty()):
        show_progress(ready.spark, running)
    if checkpoint is not None:
        keep_reports(ready.spark, running, Path(place))
    return RunningQuery(
        running, ready, table, temporary, None if checkpoint is None else Path(place)
    )


def _temporary_folder() -> str:
    """A folder that is gone when this process ends, stopped or not."""
    folder = tempfile.mkdtemp(prefix="thalweg-checkpoint-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _absolute(path: str | None) -> str | None:
    """A path of this machine as seen from here: Spark's process may have been started in another
    folder."""
    return path if path is None or "://" in path else str(Path(path).absolute())


def _leaves(ready: Prepared) -> list[str]:
    names = (
        entry.leaf.name
        for fragment in ready.plan.fragments
        for entry in fragment.inputs
        if entry.source is not None
    )
    return list(dict.fromkeys(names))


def _sink(
    to: str | Each, path: str | None, output: str, ready: Prepared, table: _Table | None
) -> Each:
    if table is not None:
        return table.take
    if callable(to) and output == "packed":
        return to
    if callable(to):
        function = to
        return lambda packed, batch: function(ready.typed(output, packed), batch)
    if to == "noop":
        return lambda packed, _: (
            ready.typed(output, packed).write.format("noop").mode("append").save()
        )
    if path is None:
        raise PlanError(f"to={to!r} needs a path.")
    return lambda packed, batch: (
        ready.typed(output, packed).write.format(to).mode("overwrite").save(f"{path}/batch={batch}")
    )


def _trigger(trigger: str | Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(trigger, str):
        return dict(trigger)
    if trigger == "available now":
        return {"availableNow": True}
    if trigger == "at once":
        return {"processingTime": "0 seconds"}
    return {"processingTime": trigger}


def _plain(reason: Exception) -> ThalwegError:
    """What went wrong, without the way through the JVM."""
    text = str(reason).partition("=== Streaming Query ===")[0]
    lines = [line.strip() for line in text.splitlines()]
    own = [
        line.removeprefix("thalweg.errors.").partition(": ")
        for line in lines
        if line.startswith("thalweg.errors.")
    ]
    if own:
        name, _, message = own[-1]
        kind = getattr(errors, name, ThalwegError)
        error: ThalwegError = kind.__new__(
            kind
        )  # the message is whole already; some kinds would add to it
        error.args = (message,)
        if isinstance(error, PlanError):
            error.file = error.line = None
        return error
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    failures = [line.removeprefix(": ") for line in lines if _FAILURE.match(line)]
    found = list(dict.fromkeys([*failures[-1:], *causes[-1:]])) or [
        _STREAM.sub("", line) for line in lines[:1]
    ]
    message = f"the query ended: {' | '.join(found) or type(reason).__name__}"
    return (
        StateError(f"{message} | Restore the checkpoint.")
        if "STATE_STORE" in message
        else ThalwegError(message)
    )


_FAILURE = re.compile(
    r"(: )?[A-Za-z_][\w.$]*(Error|Exception|Invalid|Interrupt|Exit|NotImplemented)\b(?!.* while calling )(: |$)"
)
"""The line of a traceback, of Python or of the JVM, that says what was raised."""
_STREAM = re.compile(r"^\[STREAM_FAILED\] Query \[.*?\] terminated with exception: ")
