"""Starting a query, and asking a running one how it is doing."""

from __future__ import annotations

import atexit
import contextlib
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from thalweg.errors import InputWarning, PlanError, StateError
from thalweg.graph.why import Why
from thalweg.io.element_log import ElementLog
from thalweg.io.file_log import passed_files
from thalweg.io.locks import lock_file, unlock_file
from thalweg.model.answers import Answers
from thalweg.model.clocks import time_value
from thalweg.model.printing import printable
from thalweg.model.time import INFINITY, MIN_TIME, Duration, TimeLike, time_us
from thalweg.plan.clock import clock_of
from thalweg.plan.nodes import Node, Source, walk
from thalweg.plan.nodes.arrivals import stamp_periods
from thalweg.plan.update_rules import check_update_rules
from thalweg.shards.asks import ask_all_if_behind, asks_of, write_asks
from thalweg.shards.drawing import fragment_chart
from thalweg.shards.element_output import OutputPart, elements_of_output
from thalweg.shards.fragments import fragments_of
from thalweg.shards.kept_table import KeptTable
from thalweg.shards.newest_answers import WatchNote
from thalweg.shards.reports import combined_why, write_reports
from thalweg.shards.sink_folder import SinkFolder
from thalweg.spark.failures import is_slow_start, plain_failure, with_short_search
from thalweg.spark.feeds import Feed, Frame
from thalweg.spark.figures import Figures, QueryStatus
from thalweg.spark.outputs import require_output, require_sink, trigger_arguments
from thalweg.spark.progress import hear_progress, show_progress
from thalweg.spark.query import Prepared, prepare
from thalweg.spark.receiver_feed import close_links, finish_batches, silent_receivers
from thalweg.spark.session import current_session, needed_settings, refuse_remote
from thalweg.spark.sources import feeds_of, log_of
from thalweg.stream import Stream

__all__ = ["QueryStatus", "RunningQuery", "explain", "frame", "start"]

Each = Callable[[DataFrame, int], None]
_ATTEMPTS = 5
"""How often a query is started when a process of Spark's is too slow to come."""
_RUNNING: dict[str, RunningQuery] = {}
"""By checkpoint: the queries that this process started."""


class RunningQuery:
    """A query on Spark. It goes on until it is stopped, its sources end, or it fails."""

    def __init__(
        self,
        writer: DataStreamWriter,
        ready: Prepared,
        table: KeptTable | None,
        checkpoint: Path,
        *,
        temporary: bool,
        notes: tuple[str, ...] = (),
    ) -> None:
        self._writer = writer
        self._ready = ready
        self._table = table
        self._checkpoint = checkpoint
        self._temporary = temporary
        self._notes = notes
        self._figures = Figures()
        self._warned: set[str] = set()
        self._attempts = 0
        self.query = self._begin()

    def _begin(self) -> StreamingQuery:
        """Start, and try again if a process of Spark's was too slow to come."""
        while True:
            self._attempts += 1
            try:
                query = self._ready.begin(self._writer)
            except Exception as reason:
                if self._attempts >= _ATTEMPTS or not is_slow_start(reason):
                    raise plain_failure(reason, self._checkpoint) from reason
            else:
                figures_of = self._ready.figures_of
                hear_progress(self._ready.spark, query, figures_of, self._note, self._release)
                return query

    def _begin_again(self) -> bool:
        """Whether a query that ended because a process was too slow runs again."""
        reason = None if self.query.isActive else self.query.exception()
        slow = reason is not None and is_slow_start(reason)
        if not slow or self._attempts >= _ATTEMPTS or not self._lock():
            return False
        self.query = self._begin()
        return True

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the query ends; raises what ended it."""
        while True:
            try:
                ended = (
                    self.query.awaitTermination()
                    if timeout is None
                    else self.query.awaitTermination(timeout)  # type: ignore[arg-type]
                )
            except Exception as reason:
                if self._begin_again():
                    continue
                self._release()
                raise plain_failure(reason, self._checkpoint) from reason
            break
        if ended is None or ended:
            self._release()
            self._warn()
            return True
        return False

    def _warn(self) -> None:
        """Say once what of the input was passed over."""
        for note in self._passed()[1]:
            if note not in self._warned:
                self._warned.add(note)
                warnings.warn(note, InputWarning, stacklevel=3)

    def stop(self) -> None:
        """Stop after the micro-batch that is running."""
        self.query.stop()
        self._release()
        if self._temporary:
            shutil.rmtree(self._checkpoint, ignore_errors=True)

    def _lock(self) -> bool:
        return lock_file(_lock_of(self._checkpoint))

    def _release(self) -> None:
        """Let go of the checkpoint and of receivers."""
        close_links(self._ready.receivers.values())
        if _RUNNING.get(str(self._checkpoint)) is self:
            del _RUNNING[str(self._checkpoint)]
            unlock_file(_lock_of(self._checkpoint))

    def table(self) -> Answers:
        """What the answers say now: a sequence of rows (start, end, payload) that is also
        `.to_arrow()`, `.to_pandas()`, `.to_polars()` and `.batches()`; for a query that is kept in
        memory."""
        if self._table is None:
            raise PlanError(
                "this query is written elsewhere; start it with to='memory' to read its table here."
            )
        root = self._ready.plan.root
        return Answers.of_batches([self._table.batch()], root.schema, clock_of(root))

    def status(self) -> QueryStatus:
        """Figures of the query so far."""
        self._begin_again()
        progress = self.query.recentProgress
        for entry in progress:
            figures = self._ready.figures_of(entry)
            if figures is not None:
                self._note(entry.batchId, entry.batchDuration / 1000, figures)
        told = self._figures
        cti = told.newest.get("cti")
        passed, notes = self._passed()
        found = [note for report in told.reports for note in (*report["notes"], *report["stuck"])]
        return QueryStatus(
            batches=told.batches,
            rows=told.totals["read"],
            exchanged=told.totals["taken"],
            changes=told.totals["changes"],
            adjusts=told.totals["adjusts"],
            late=told.totals["late"],
            state_rows=told.newest.get("state_rows") or 0,
            state_bytes=told.newest.get("state_bytes") or 0,
            cti=self._shown(cti),
            seconds=progress[-1].batchDuration / 1000 if progress else 0.0,
            active=self.query.isActive,
            operators=dict(told.operators),
            dead=told.totals["dead"],
            skipped=told.totals["unwanted"],
            passed=passed,
            warnings=tuple(
                dict.fromkeys(
                    [
                        *self._notes,
                        *notes,
                        *found,
                        *silent_receivers(self._ready.receivers.values()),
                    ]
                )
            ),
        )

    def _shown(self, cti: int | None) -> int | datetime | None:
        if cti is None or cti in (MIN_TIME, INFINITY):
            return INFINITY if cti == INFINITY else None
        return time_value(cti, clock_of(self._ready.plan.root))

    def _passed(self) -> tuple[int, list[str]]:
        """How many files are passed over, and which."""
        count, notes = 0, []
        for source in self._ready.sources:
            number, files = passed_files(log_of(self._checkpoint, source))
            count += number
            notes += [
                f"source {source!r}: the file {name} is not read: {why}."
                for name, why in files.items()
            ]
            if number > len(files):
                notes.append(f"source {source!r}: {number - len(files)} more files are not read.")
        return count, notes

    def why(self, start: TimeLike | None = None) -> Why:
        """Why the answer that starts at `start` is not final (without one: the first that is not),
        as of the last micro-batch.

        Says which operator waits for which source's promise, since when, and what would release it.
        """
        self.status()
        told = combined_why(self._figures.reports, None if start is None else time_us(start))
        return replace(told, clock=clock_of(self._ready.plan.root))

    def _note(self, batch: int, _seconds: float, figures: dict[str, Any]) -> None:
        """The figures of one more micro-batch; its reports are left in the checkpoint."""
        if not self._figures.note(batch, figures):
            return
        if self._ready.lags:
            write_asks(self._checkpoint, batch, asks_of(self._figures.reports, self._ready.lags))
        if not self._temporary:
            write_reports(self._checkpoint, batch, self._figures.texts, run=str(self.query.runId))

    def figures(self) -> dict[int, dict[str, Any]]:
        """The figures of the micro-batches that Spark remembers, by number."""
        told = {entry.batchId: self._ready.figures_of(entry) for entry in self.query.recentProgress}
        return {batch: figures for batch, figures in told.items() if figures is not None}

    def explain(self) -> str:
        """The fragments, what is exchanged by which keys, and what runs before each exchange."""
        return self._ready.plan.describe()


def explain(query: Stream | Node, *, format: str = "text") -> str:  # noqa: A002 - the word that others use
    """How a query would run on Spark: its fragments, their exchanges, what runs before each, and
    what they keep; with `format="mermaid"` as a flow chart."""
    plan = fragments_of(query.node if isinstance(query, Stream) else query)
    if format not in ("text", "mermaid"):
        raise PlanError(f"explain: format is 'text' or 'mermaid'; got {format!r}.")
    return fragment_chart(plan) if format == "mermaid" else plan.describe()


def frame(
    query: Stream | Node, *, checkpoint: str, output: str = "changelog", **options: Any
) -> DataFrame:
    """The answers as a streaming DataFrame, for any Spark sink. Give the sink the same checkpoint
    location.

    It belongs to a session of its own beside yours, with the settings that a query needs; only
    where it reads a DataFrame of yours it belongs to that one's session, which must have them.
    """
    require_output(output)
    root = query.node if isinstance(query, Stream) else query
    feeds = {**feeds_of(root), **(options.get("feeds") or {})}
    frames = [feed.df.sparkSession for feed in feeds.values() if isinstance(feed, Frame)]
    session = frames[0] if frames else (options.get("spark") or current_session()).newSession()
    missing = needed_settings(session) if frames else {}
    if missing:
        lines = "; ".join(f"spark.conf.set({key!r}, {value!r})" for key, value in missing.items())
        raise PlanError(
            f"frame: the session of the DataFrame lacks settings. Set them first: {lines}"
        )
    options["spark"] = session
    ready = prepare(query, checkpoint=str(_absolute(checkpoint)), **options)
    if not frames:
        for key, value in ready.settings.items():
            session.conf.set(key, value)
    ready.record.check()
    answers = ready.typed(output, ready.output)
    ready.record.begin()
    return answers


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

    `to`: `"memory"` (see `RunningQuery.table`), `"console"`, `"noop"`, a file format such as `"parquet"` with
    `path`, where each micro-batch becomes a folder `batch=N` that is written again if the batch is,
    `"elements"` with `path`, a log of elements and promises that `from_elements` and merges read,
    or a function of (DataFrame, batch number) called once per micro-batch, which should do nothing
    twice for one number. `late` is such a function for late rows, `dead` one for records that could
    not be read (see `from_files`), `skipped` one for the windows that modules failed on
    (`on_error="skip"`). `trigger`: `"at once"` (one micro-batch after the other), `"available
    now"`, or Spark's own arguments. `progress` prints a line for each micro-batch; by default where
    standard error is a terminal. Without a checkpoint the query cannot be started again.
    """
    require_sink(to, path)
    require_output(output)
    refuse_remote(spark)
    when = trigger_arguments(trigger)
    _refuse_silence(query.node if isinstance(query, Stream) else query, consistency, output)
    place = Path(checkpoint).absolute() if checkpoint is not None else _temporary_folder()
    is_new = checkpoint is None or not place.exists()
    _lock_checkpoint(place)
    try:
        ready = prepare(
            query,
            feeds,
            checkpoint=str(place),
            consistency=consistency,
            hold=hold,
            buckets=buckets,
            idle=idle,
            spark=spark,
            by_batch=to != "elements",
        )
        if not ready.output.isStreaming:
            raise PlanError(
                "the sources of this query are static DataFrames, which nothing can be started on; frame() gives all its answers."
            )
        record = ready.record
        record.check()
        if ready.stage is not None:
            ready.stage.keeper.load(record.identity, record.finished)
        if output != "packed":
            ready.require_form(output)
        log = _element_log(path, ready) if to == "elements" else None
        folder = (
            SinkFolder(str(_absolute(path)), str(to)) if path is not None and log is None else None
        )
        if folder is not None:
            folder.check(record.identity, last=record.last, finished=record.finished)
        table = None
        if to == "memory":
            kept = None if checkpoint is None else place / "thalweg" / "table"
            schema = ready.plan.root.schema
            table = KeptTable(schema, kept, last=record.last, finished=record.finished)
        record.begin()
        ask_all_if_behind(place, record.finished, list(ready.lags))
        if folder is not None:
            folder.claim(record.identity)
        _note_watch(ready, place, to, folder)
        deliver = _sink(to, folder, output, table) if log is None else _log_sink(log, ready)
        beside = late, dead, skipped
        is_typed = _takes_rows(to, output) and ready.stage is None and beside == (None, None, None)
        answers = ready.typed(output, ready.output) if is_typed else ready.output
        writer = (
            answers.writeStream.foreachBatch(
                with_short_search(_each(ready, deliver, *beside, is_typed=is_typed))
            )
            .option("checkpointLocation", str(place))
            .trigger(**when)
        )
        notes = (
            (
                f"{path} can only be reached by Spark, so whether it belongs to this checkpoint was not checked.",
            )
            if folder is not None and not folder.is_checked
            else ()
        )
        running = RunningQuery(
            writer if name is None else writer.queryName(name),
            ready,
            table,
            place,
            temporary=checkpoint is None,
            notes=notes,
        )
    except BaseException:
        unlock_file(_lock_of(place))
        if is_new:  # a start that was refused leaves nothing behind
            shutil.rmtree(place, ignore_errors=True)
        raise
    _RUNNING[str(place)] = running
    if progress or (progress is None and sys.stderr.isatty()):
        show_progress(ready.spark, running.query, ready.figures_of)
    return running


@dataclass(frozen=True)
class _MicroBatch:
    """The answers of a micro-batch. `kept` is what several readers share."""

    ready: Prepared
    rows: DataFrame
    number: int
    kept: DataFrame | None = None
    is_typed: bool = False
    """Whether the streaming query itself has given the answers the form that the sink takes; Spark
    then plans that once, and not anew from here for every micro-batch."""

    @property
    def packed(self) -> DataFrame:
        stage = self.ready.stage
        if self.kept is not None or stage is None:
            return self.rows if self.kept is None else self.kept
        return stage.packed(self.rows, self.number)

    def typed(self, form: str) -> DataFrame:
        if self.is_typed:
            return self.rows
        if self.kept is not None or self.ready.stage is None:
            return self.ready.typed(form, self.packed)
        return self.ready.typed_chunks(form, self.rows, self.number)


Deliver = Callable[[_MicroBatch], None]


def _note_watch(ready: Prepared, place: Path, to: str | Each, folder: SinkFolder | None) -> None:
    """Leave in the checkpoint what `thalweg watch` needs to know."""
    if not ready.receivers:
        return
    updates = check_update_rules(ready.plan.root)
    keys = () if updates is None else updates.keys
    WatchNote(
        {source: feed.folder for source, feed in ready.receivers.items()},
        [str(key) for key in keys],
        to if isinstance(to, str) else "function",
        None if folder is None else folder.path,
    ).write(place)


def _each(
    ready: Prepared,
    deliver: Deliver,
    late: Each | None,
    dead: Each | None,
    skipped: Each | None,
    *,
    is_typed: bool,
) -> Each:
    """What is done with each micro-batch."""

    def each(rows: DataFrame, number: int) -> None:
        ready.record.note(number)
        if ready.stage is not None:
            ready.stage.begin()
        batch = _MicroBatch(ready, rows, number, is_typed=is_typed)
        if late is None and dead is None and skipped is None:
            deliver(batch)
        else:
            share(batch)
        if ready.stage is not None:
            ready.stage.finish(rows, number)
        finish_batches(ready.receivers.values())

    def share(batch: _MicroBatch) -> None:
        packed = batch.packed.persist()  # several readers, one run of the fragments
        try:
            deliver(replace(batch, kept=packed))
            if late is not None:
                for source in ready.sources:
                    late(ready.ledger(source, packed), batch.number)
            if dead is not None:
                dead(ready.dead_letters(packed), batch.number)
            if skipped is not None:
                skipped(ready.skipped(packed), batch.number)
        finally:
            packed.unpersist()

    return each


def _lock_of(checkpoint: Path) -> Path:
    return checkpoint / "thalweg" / "lock"


def _lock_checkpoint(place: Path) -> None:
    """Refuse a checkpoint that another query runs with, in this process or another."""
    known = _RUNNING.get(str(place))
    if known is not None and not known.query.isActive:
        known._release()
        known = None
    if known is not None or not lock_file(_lock_of(place)):
        raise StateError(
            f"{place.name}: another query is running with this checkpoint. Stop it first, or give this one a checkpoint of its own."
        )


@atexit.register
def _stop_all() -> None:
    """Stop what still runs when the process ends: a query would go on calling it in vain."""
    for running in list(_RUNNING.values()):
        with contextlib.suppress(Exception):
            running.stop()


def _refuse_silence(root: Node, consistency: str, output: str) -> None:
    """Answers that wait for promises would never come from a source that makes none."""
    if consistency != "final" and output != "final":
        return
    stamps = stamp_periods(root)
    for node in walk(root):
        times = getattr(node.feed, "times", None) if isinstance(node, Source) else None
        if not isinstance(node, Source) or times is None:
            continue
        entry = node.ingress
        queue = node.conflation
        promises = entry.observes or entry.clocks or entry.low_watermark is not None
        promises = promises or (queue is not None and queue.disorder is not None)
        promises = promises or node.name in stamps
        if promises or times.punctuation is not None or getattr(node.feed, "finish", False):
            continue
        raise PlanError(
            f"start: final answers wait for promises, and the source {node.name!r} makes none. Say how late its "
            "rows may be (disorder='1 min'), that its files are all there are (finish=True), or which of its "
            "rows are promises (punctuation='...')."
        )


def _temporary_folder() -> Path:
    """A folder that is gone when this process ends, stopped or not."""
    folder = tempfile.mkdtemp(prefix="thalweg-checkpoint-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _absolute(path: str | None) -> str | None:
    """A path of this machine as seen from here: Spark's process may have been started in another
    folder."""
    return path if path is None or "://" in path else str(Path(path).absolute())


def _takes_rows(to: str | Each, output: str) -> bool:
    """Whether a sink takes typed rows; the others take them packed."""
    return to not in ("memory", "elements") and output != "packed"


def _sink(
    to: str | Each,
    folder: SinkFolder | None,
    output: str,
    table: KeptTable | None,
) -> Deliver:
    if table is not None:
        kept = table
        return lambda batch: kept.take(batch.number, _changes(batch.packed))
    if callable(to):
        function = to
        if output == "packed":
            return lambda batch: function(batch.packed, batch.number)
        return lambda batch: function(batch.typed(output), batch.number)
    if to == "noop":
        return lambda batch: batch.typed(output).write.format("noop").mode("append").save()
    if folder is None:
        return lambda batch: _print(batch.typed(output), batch.number)
    path = folder.path
    return lambda batch: (
        batch.typed(output).write.format(to).mode("overwrite").save(f"{path}/batch={batch.number}")
    )


def _element_log(path: str | None, ready: Prepared) -> ElementLog:
    """The log that a query writes; refused where the folder and the checkpoint do not go
    together."""
    root, record = ready.plan.root, ready.record
    log = ElementLog(Path(str(_absolute(path))), record.identity, clock_of(root))
    if log.next > record.last + 1 or log.next <= record.finished:
        raise StateError(
            f"{path}: the log ends before batch {log.next}, and the checkpoint has come to "
            f"{record.last}: one of the two is an older copy. Restore the newest of both, or give "
            "a new checkpoint and another path=."
        )
    return log


def _log_sink(log: ElementLog, ready: Prepared) -> Deliver:
    """Each micro-batch becomes the batch of the log that has its number."""
    last = ready.plan.fragments[-1]
    buckets = 1 if last.single else ready.buckets

    def write(batch: _MicroBatch) -> None:
        rows = batch.packed.where("kind in ('changes', 'figures')").select("kind", "cti", "blob")
        parts = [
            OutputPart(row["kind"], row["cti"], None if row["blob"] is None else bytes(row["blob"]))
            for row in rows.collect()
        ]
        log.write(batch.number, elements_of_output(parts, ready.plan.root.schema, buckets))

    return write


def _changes(packed: DataFrame) -> list[bytes]:
    rows = packed.where("kind = 'changes'").select("blob").collect()
    return [bytes(row["blob"]) for row in rows]


def _print(answers: DataFrame, batch: int) -> None:
    """The answers of a micro-batch on standard output."""
    frame: Any = answers.toPandas()
    text = frame.to_string(index=False)
    sys.stdout.write(f"micro-batch {batch}\n{printable(text)}\n")
    sys.stdout.flush()
