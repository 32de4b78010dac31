"""Streams from Spark: a DataFrame, or files in a folder, as the source of a query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from thalweg.errors import PlanError, TypeMismatchError, UnknownColumnError
from thalweg.expr import ExprLike, as_expr
from thalweg.io.discovery import discover, place_name, require_time
from thalweg.io.records import require_bad
from thalweg.io.text import NULLS
from thalweg.model.clocks import clock_type
from thalweg.model.time import Duration, duration_us
from thalweg.plan.nodes import Source
from thalweg.shards.sources.event_columns import EventColumns
from thalweg.spark.sources.file_feed import Files
from thalweg.spark.sources.frame_feed import Frame
from thalweg.spark.sources.receiver_feed import Received
from thalweg.stream import Stream, source

__all__ = ["from_files", "from_receiver", "from_spark"]


def from_spark(
    df: DataFrame,
    *,
    time: str,
    end: str | None = None,
    duration: Duration = 1,
    punctuation: ExprLike | None = None,
    per: str | Sequence[str] = (),
    ranges: Mapping[str, tuple[str, str]] | None = None,
    name: str | None = None,
    late: str = "error",
    **facts: Any,
) -> Stream:
    """A Spark DataFrame, streaming or static, as a stream of events.

    `time` is the column with the start, `end` the one with the end; without it events last
    `duration`. What is late is judged by `disorder=` as for `thalweg.source`, whose other arguments
    can be given too. Rows for which `punctuation` is true are no events but promises: nothing
    before their time will come any more, with `per` nothing that has the same values as they in
    these columns. With `ranges` they are patterns: nothing will come any more that has the same
    values in `per`, and for each name in `ranges` (a column, or the time) a value from that of the
    first column named there on and below that of the second; null is no limit.
    """
    if not isinstance(df, DataFrame):
        raise PlanError(
            f"from_spark takes a DataFrame of Spark; got {type(df).__module__}."
            f"{type(df).__qualname__}. spark.session().createDataFrame(...) makes one."
        )
    schema = to_arrow_schema(df.schema, timezone="UTC")
    times = _times(schema, time, end, duration, punctuation, per, ranges, "from_spark")
    feed = Frame(df, times, named=name is not None)
    return _bound(name or "events", schema, feed, late, facts)


def from_files(
    folder: str,
    *,
    time: str,
    end: str | None = None,
    duration: Duration = 1,
    punctuation: ExprLike | None = None,
    per: str | Sequence[str] = (),
    ranges: Mapping[str, tuple[str, str]] | None = None,
    format: str | None = None,  # noqa: A002 - the word that Spark's users know
    columns: pa.Schema | None = None,
    files_per_batch: int | None = None,
    tasks: int = 2,
    finish: bool = False,
    bad: str = "fail",
    nulls: Sequence[str] = NULLS,
    settle: Duration = "1 s",
    name: str | None = None,
    late: str = "error",
    **facts: Any,
) -> Stream:
    """Files of events (`parquet`, `arrow`, `csv`, `json`), new ones as they arrive, each read once.

    `folder` is a folder with its folders (`day=1/` makes a column `day`), one file or a glob, here
    or in a store that Arrow reaches (`s3://...`). The format follows from the suffixes unless
    `format` is given; text may be compressed. `columns` is the schema of the files; by default that
    of a file that is already there. `finish` says that the stream ends with the files that are
    there when a query with the trigger `"available now"` starts. `bad="skip"` passes over records
    of CSV and JSON lines that cannot be read, and rows without a time; they are counted, and go to
    `start(dead=...)`. `nulls` are the texts of CSV that stand for null. A file of text is read when
    it has not changed for `settle`; what is passed over is in `status().warnings`. At most `tasks`
    tasks read a micro-batch, fewer where there is little to read.
    """
    require_bad(bad, "from_files")
    found = discover(folder, format=format, columns=columns, times=(time, end), nulls=nulls)
    schema = found.schema
    times = _times(schema, time, end, duration, punctuation, per, ranges, "from_files")
    feed = Files(
        folder if "://" in folder else str(Path(folder).absolute()),
        found.form.format,
        times,
        files_per_batch,
        tasks,
        finish,
        found.form.columns,
        bad,
        duration_us(settle, what="settle"),
        found.form.nulls,
        found.form.partitions,
        named=name is not None,
    )
    return _bound(name or place_name(folder), schema, feed, late, facts)


def from_receiver(
    folder: str,
    columns: pa.Schema | Mapping[str, str | pa.DataType],
    *,
    time: str,
    end: str | None = None,
    duration: Duration = 1,
    name: str | None = None,
    late: str = "drop",
    **facts: Any,
) -> Stream:
    """Rows that are sent to a receiver, which keeps the newest row of each key on disk until Spark
    has worked on it: say by `update_key` what the key is.

    The receiver is a process of its own that holds `folder`. A query that starts and finds none
    there starts one; it goes on when Spark ends (`thalweg receive FOLDER --stop` ends it). Rows
    have these `columns`; the other arguments are those of `from_spark`.
    """
    schema = source("rows", columns).schema
    times = _times(schema, time, end, duration, None, (), None, "from_receiver")
    feed = Received(str(Path(folder).absolute()), schema, times, named=name is not None)
    return _bound(name or place_name(folder), schema, feed, late, facts)


def _times(
    schema: pa.Schema,
    time: str,
    end: str | None,
    duration: Duration,
    punctuation: ExprLike | None,
    per: str | Sequence[str],
    ranges: Mapping[str, tuple[str, str]] | None,
    what: str,
) -> EventColumns:
    for name in (time, end):
        require_time(schema, name, what)
    groups = (per,) if isinstance(per, str) else tuple(per)
    payload = [name for name in schema.names if name not in (time, end)]
    for name in groups:
        if name not in payload:
            raise UnknownColumnError(name, payload, "per")
    for name, bounds in (ranges or {}).items():
        for column in (name, *bounds):
            if column not in schema.names:
                raise UnknownColumnError(column, schema.names, "ranges")
    if (groups or ranges) and punctuation is None:
        raise PlanError(
            f"{'per' if groups else 'ranges'}= says which rows a row of punctuation= speaks of; "
            "give punctuation= too."
        )
    condition = None if punctuation is None else as_expr(punctuation)
    if condition is not None and not pa.types.is_boolean(condition.type_in(schema)):
        raise TypeMismatchError(
            f"punctuation must be a condition; {condition} is {condition.type_in(schema)}."
        )
    spans = tuple((name, *bounds) for name, bounds in (ranges or {}).items())
    return EventColumns(time, end, duration_us(duration), condition, groups, spans)


def _bound(
    name: str,
    schema: pa.Schema,
    feed: Files | Frame | Received,
    late: str,
    facts: dict[str, Any],
) -> Stream:
    times = feed.times
    assert times is not None
    payload = pa.schema([entry for entry in schema if entry.name not in (times.start, times.end)])
    if times.end is None and (
        late != "adjust" or times.duration == 1
    ):  # an event that is moved keeps its end
        facts = {"constant_duration": times.duration, **facts}
    if times.ranges:
        facts = {"patterns": True, **facts}
    if times.per:
        facts = {"group_ctis": times.per, **facts}
    node = source(name, payload, late=late, insert_only=True, **facts).node
    assert isinstance(node, Source)
    clock = clock_type(schema.field(times.start).type)
    return Stream(Source(node.name, node.columns, node.ingress, node.declared, feed, clock=clock))
