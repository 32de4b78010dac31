"""What a running query does, micro-batch by micro-batch, from a streaming listener of Spark's."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    JStreamingQueryListener,
    QueryProgressEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)
from pyspark.sql.streaming.query import StreamingQuery

from thalweg.shards.reports.bucket_report import BucketReport
from thalweg.shards.reports.query_figures import BatchFigures

__all__ = ["print_progress", "watch_query"]

OnBatch = Callable[[int, float, BatchFigures], None]
"""Gets the number, duration in seconds and figures of a micro-batch."""
FiguresOf = Callable[[Any], BatchFigures | None]
"""The figures of the micro-batch that a report of Spark's is about."""


def watch_query(
    spark: SparkSession,
    query: StreamingQuery,
    figures_of: FiguresOf,
    on_batch: OnBatch,
    on_end: Callable[[], None] | None = None,
) -> None:
    """Call `on_batch` for each micro-batch of a query, and `on_end` once when it has ended."""
    spark.streams.addListener(_Listener(spark, query.id, figures_of, on_batch, on_end))


def print_progress(spark: SparkSession, query: StreamingQuery, figures_of: FiguresOf) -> None:
    """Print a line for each micro-batch of a query until it ends."""

    def on_batch(batch: int, seconds: float, figures: BatchFigures) -> None:
        _to_stderr(figures.line(batch, seconds))
        reports = map(BucketReport.from_json, figures.reports)
        for warning in dict.fromkeys(text for report in reports for text in report.stuck):
            _to_stderr(f"batch {batch}  WARNING  {warning}")

    watch_query(spark, query, figures_of, on_batch)


def _to_stderr(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


class _ByText(JStreamingQueryListener):
    """Takes a report of Spark's as one text. Taken field by field it is a hundred calls of the JVM
    for every micro-batch."""

    def onQueryProgress(self, jevent: Any) -> None:
        report = StreamingQueryProgress.fromJson(json.loads(jevent.progress().json()))
        self.pylistener.onQueryProgress(QueryProgressEvent(report))


class _Listener(StreamingQueryListener):
    """Listens to one query until it ends."""

    def __init__(
        self,
        spark: SparkSession,
        query: str,
        figures_of: FiguresOf,
        on_batch: OnBatch,
        on_end: Callable[[], None] | None,
    ) -> None:
        self._spark = spark
        self._query = query
        self._figures_of = figures_of
        self._on_batch = on_batch
        self._on_end = on_end

    @property
    def _jlistener(self) -> Any:
        if not hasattr(self, "_jlistenerobj"):
            jvm: Any = SparkContext._jvm
            self._jlistenerobj = jvm.PythonStreamingQueryListenerWrapper(_ByText(self))
        return self._jlistenerobj

    def onQueryStarted(self, event: Any) -> None:
        pass

    def onQueryProgress(self, event: Any) -> None:
        progress = event.progress
        figures = self._figures_of(progress) if str(progress.id) == str(self._query) else None
        if figures is not None:
            self._on_batch(progress.batchId, progress.batchDuration / 1000, figures)

    def onQueryIdle(self, event: Any) -> None:
        pass

    def onQueryTerminated(self, event: Any) -> None:
        if str(event.id) == str(self._query):
            self._spark.streams.removeListener(self)
            if self._on_end is not None:
                self._on_end()
