"""Progress of a running query: one line for each micro-batch, from a streaming listener."""

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

__all__ = ["hear_progress", "show_progress"]

Hear = Callable[[int, float, BatchFigures], None]
"""Gets the number, duration in seconds and figures of a micro-batch."""
FiguresOf = Callable[[Any], BatchFigures | None]
"""The figures of the micro-batch that a report of Spark's is about."""


def show_progress(
    spark: SparkSession,
    query: StreamingQuery,
    figures_of: FiguresOf,
    write: Callable[[str], object] | None = None,
) -> None:
    """Print a line for each micro-batch of a query until it ends."""
    spark.streams.addListener(_Printer(spark, query.id, figures_of, write or _to_stderr))


def _to_stderr(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def hear_progress(
    spark: SparkSession,
    query: StreamingQuery,
    figures_of: FiguresOf,
    hear: Hear,
    ended: Callable[[], None],
) -> None:
    """Call `hear` with the number, duration and figures of each micro-batch, and `ended` once."""
    spark.streams.addListener(_Hearer(spark, query.id, figures_of, hear, ended))


class _ByText(JStreamingQueryListener):
    """Takes a report of Spark's as one text. Taken field by field it is a hundred calls of the JVM
    for every micro-batch."""

    def onQueryProgress(self, jevent: Any) -> None:
        report = StreamingQueryProgress.fromJson(json.loads(jevent.progress().json()))
        self.pylistener.onQueryProgress(QueryProgressEvent(report))


class _Listener(StreamingQueryListener):
    """Hears one query until it ends."""

    def __init__(self, spark: SparkSession, query: str, figures_of: FiguresOf) -> None:
        self._spark = spark
        self._query = query
        self._figures_of = figures_of

    @property
    def _jlistener(self) -> Any:
        if not hasattr(self, "_jlistenerobj"):
            jvm: Any = SparkContext._jvm
            self._jlistenerobj = jvm.PythonStreamingQueryListenerWrapper(_ByText(self))
        return self._jlistenerobj

    def hear(self, batch: int, seconds: float, figures: BatchFigures) -> None:
        """The figures of a micro-batch."""

    def onQueryStarted(self, event: Any) -> None:
        pass

    def onQueryProgress(self, event: Any) -> None:
        progress = event.progress
        figures = self._figures_of(progress) if str(progress.id) == str(self._query) else None
        if figures is not None:
            self.hear(progress.batchId, progress.batchDuration / 1000, figures)

    def onQueryIdle(self, event: Any) -> None:
        pass

    def onQueryTerminated(self, event: Any) -> None:
        if str(event.id) == str(self._query):
            self._spark.streams.removeListener(self)


class _Hearer(_Listener):
    def __init__(
        self,
        spark: SparkSession,
        query: str,
        figures_of: FiguresOf,
        hear: Hear,
        ended: Callable[[], None],
    ) -> None:
        super().__init__(spark, query, figures_of)
        self._hear = hear
        self._ended = ended

    def hear(self, batch: int, seconds: float, figures: BatchFigures) -> None:
        self._hear(batch, seconds, figures)

    def onQueryTerminated(self, event: Any) -> None:
        super().onQueryTerminated(event)
        if str(event.id) == str(self._query):
            self._ended()


class _Printer(_Listener):
    def __init__(
        self,
        spark: SparkSession,
        query: str,
        figures_of: FiguresOf,
        write: Callable[[str], object],
    ) -> None:
        super().__init__(spark, query, figures_of)
        self._write = write

    def hear(self, batch: int, seconds: float, figures: BatchFigures) -> None:
        self._write(figures.line(batch, seconds))
        reports = map(BucketReport.from_json, figures.reports)
        for warning in dict.fromkeys(text for report in reports for text in report.stuck):
            self._write(f"batch {batch}  WARNING  {warning}")
