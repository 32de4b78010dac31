"""Starting a query on Spark, as a query that runs or as a DataFrame."""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from thalweg.errors import PlanError
from thalweg.model.time import Duration
from thalweg.plan.nodes import Node, Source, walk
from thalweg.plan.nodes.arrivals import stamp_periods
from thalweg.plan.update_streams import check_update_rules
from thalweg.shards.checkpoint.ownership import lock_checkpoint, unlock_checkpoint
from thalweg.shards.fragments.cutting import fragments_of
from thalweg.shards.fragments.drawing import fragment_chart
from thalweg.shards.output.destinations import require_output, require_sink
from thalweg.shards.output.newest_answers import WatchNote
from thalweg.shards.output.sink_folder import SinkFolder
from thalweg.shards.output.typed_rows import PACKED, Form
from thalweg.shards.reports.asks import ask_all_if_behind
from thalweg.spark.failures import with_short_search
from thalweg.spark.listeners import print_progress
from thalweg.spark.prepared import Prepared
from thalweg.spark.preparing import prepare
from thalweg.spark.running import RunningQuery
from thalweg.spark.session import current_session, refuse_remote
from thalweg.spark.settings import needed_settings
from thalweg.spark.sinks.sink import Each, Sink, each_batch, open_sink, takes_rows
from thalweg.spark.sources.feed import Feed, feeds_of
from thalweg.spark.sources.frame_feed import Frame
from thalweg.spark.trigger import trigger_arguments
from thalweg.stream import Stream

__all__ = ["explain", "frame", "start"]


def explain(query: Stream | Node, *, format: str = "text") -> str:  # noqa: A002
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

    `to`: `"memory"` (see `RunningQuery.table`), `"console"`, `"noop"`, a file format such as
    `"parquet"` with `path`, where each micro-batch becomes a folder `batch=N` that is written again
    if the batch is, `"elements"` with `path`, a log of elements and promises that `from_elements`
    and merges read, or a function of (DataFrame, batch number) called once per micro-batch, which
    should do nothing twice for one number. `late` is such a function for late rows, `dead` one for
    records that could not be read (see `from_files`), `skipped` one for the windows that modules
    failed on (`on_error="skip"`). `trigger`: `"at once"` (one micro-batch after the other),
    `"available now"`, or Spark's own arguments. `progress` prints a line for each micro-batch; by
    default where standard error is a terminal. Without a checkpoint the query cannot be started
    again.
    """
    require_sink(to, path)
    require_output(output)
    refuse_remote(spark)
    when = trigger_arguments(trigger)
    root = query.node if isinstance(query, Stream) else query
    feeds_of(root)  # a frame of this process is refused before all else
    _refuse_silence(root, consistency, output)
    place = Path(checkpoint).absolute() if checkpoint is not None else _temporary_folder()
    is_new = checkpoint is None or not place.exists()
    lock_checkpoint(place)
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
        _check(ready, output)
        sink = open_sink(to, _absolute(path), ready, kept=None if checkpoint is None else place)
        _begin(ready, sink, place, to)
        writer = _writer(ready, sink, to, output, (late, dead, skipped))
        writer = writer.option("checkpointLocation", str(place)).trigger(**when)
        running = RunningQuery(
            writer if name is None else writer.queryName(name),
            ready,
            sink.table,
            place,
            temporary=checkpoint is None,
            notes=sink.notes,
        )
    except BaseException:
        unlock_checkpoint(place)
        if is_new:  # a start that was refused leaves nothing behind
            shutil.rmtree(place, ignore_errors=True)
        raise
    if progress or (progress is None and sys.stderr.isatty()):
        print_progress(ready.spark, running.query, ready.figures_of)
    return running


def _check(ready: Prepared, output: str) -> None:
    """Refuse what cannot be started, and a checkpoint that is damaged or of another query."""
    if not ready.output.isStreaming:
        raise PlanError(
            "the sources of this query are static DataFrames, which nothing can be started on; "
            "frame() gives all its answers."
        )
    ready.record.check()
    if ready.stage is not None:
        ready.stage.keeper.load(ready.record.identity, ready.record.finished)
    if output != PACKED:
        ready.require_form(output)


def _begin(ready: Prepared, sink: Sink, place: Path, to: str | Each) -> None:
    """Write to the checkpoint and the sink's folder that this query runs there."""
    ready.record.begin()
    ask_all_if_behind(place, ready.record.finished, list(ready.lags))
    if sink.folder is not None:
        sink.folder.claim(ready.record.identity)
    _note_watch(ready, place, to, sink.folder)


def _writer(
    ready: Prepared,
    sink: Sink,
    to: str | Each,
    output: str,
    functions: tuple[Each | None, Each | None, Each | None],
) -> DataStreamWriter:
    """The writer of answers to the sink; `functions` are those for late rows, unreadable records
    and windows that modules failed on. Without any, Spark gets typed rows where the sink takes
    them."""
    typed = takes_rows(to, output) and ready.stage is None and functions == (None, None, None)
    answers = ready.typed(output, ready.output) if typed else ready.output
    each = each_batch(ready, sink.deliver(to, output), *functions, is_typed=typed)
    return answers.writeStream.foreachBatch(with_short_search(each))


def _note_watch(ready: Prepared, place: Path, to: str | Each, folder: SinkFolder | None) -> None:
    """Write to the checkpoint what `thalweg watch` reads."""
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


def _refuse_silence(root: Node, consistency: str, output: str) -> None:
    """Answers that wait for promises would never come from a source that makes none."""
    if consistency != "final" and output != Form.FINAL:
        return
    stamps = stamp_periods(root)
    for node in walk(root):
        if not isinstance(node, Source) or node.feed is None:
            continue
        feed: Feed = node.feed
        if feed.times is None or feed.ends:
            continue
        entry = node.ingress
        queue = node.conflation
        promises = entry.observes or entry.clocks or entry.low_watermark is not None
        promises = promises or (queue is not None and queue.disorder is not None)
        promises = promises or node.name in stamps
        if promises or feed.times.punctuation is not None:
            continue
        raise PlanError(
            f"start: final answers wait for promises, and the source {node.name!r} makes none. Say "
            "how late its rows may be (disorder='1 min'), that its files are all there are "
            "(finish=True), or which of its rows are promises (punctuation='...')."
        )


def _temporary_folder() -> Path:
    """A folder that is removed when this process ends."""
    folder = tempfile.mkdtemp(prefix="thalweg-checkpoint-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _absolute(path: str | None) -> str | None:
    """A path of this machine, absolute because Spark's process may have another working folder."""
    return path if path is None or "://" in path else str(Path(path).absolute())
