"""Figures of micro-batches through Spark's observed metrics."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.functions import col, collect_list, struct, when

from thalweg.shards.output.rows import FIGURE_COLUMNS, OutputKind
from thalweg.shards.reports.query_figures import BatchFigures

__all__ = ["observed_figures", "with_observed_figures"]

_FIGURES = "thalweg"
"""The name under which Spark reports what was observed in a micro-batch ..."""
_ROWS = "buckets"
"""... and that of its only column: rows of the output that have figures."""


def with_observed_figures(output: DataFrame) -> DataFrame:
    """The output, whose rows that have figures are observed as they are. The driver adds them up:
    Spark plans and generates code for every sum anew in each micro-batch, in the driver and in each
    task."""
    figures = when(col("kind") != OutputKind.CHANGES.value, struct(*FIGURE_COLUMNS))
    return output.observe(_FIGURES, collect_list(figures).alias(_ROWS))


def observed_figures(progress: Any) -> BatchFigures | None:
    """The figures of the micro-batch that Spark reports of; None: it has none."""
    observed = progress.observedMetrics.get(_FIGURES)
    if observed is None:
        return None
    rows = observed[_ROWS] or []  # as dicts in what was text, as rows of Spark otherwise
    return BatchFigures.of_rows(row if isinstance(row, dict) else row.asDict() for row in rows)
