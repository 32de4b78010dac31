"""A query that is ready to start on Spark: its packed output, and how that becomes typed rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from thalweg.errors import PlanError, did_you_mean
from thalweg.operators.consistency import Consistency
from thalweg.operators.window.modules.dead_letters import DEAD_LETTERS
from thalweg.plan.clock import clock_of
from thalweg.plan.explain import Explanation
from thalweg.shards.checkpoint.record import ProgressRecord
from thalweg.shards.fragments.fragment import FragmentPlan
from thalweg.shards.output.typed_rows import (
    DEAD_RECORDS,
    Form,
    converter,
    ledger_schema,
    unpack_dead,
    unpack_ledger,
    unpack_skipped,
    unpacker,
)
from thalweg.shards.reports.query_figures import BatchFigures
from thalweg.spark.observed import observed_figures
from thalweg.spark.settings import applied
from thalweg.spark.sources.receiver_feed import Received
from thalweg.spark.stages.stateless import StatelessStage

__all__ = ["Prepared"]


@dataclass(frozen=True)
class Prepared:
    """A query as Spark will run it. `output` is packed; `typed` unpacks it."""

    spark: SparkSession
    plan: FragmentPlan
    output: DataFrame
    buckets: int
    record: ProgressRecord
    consistency: Consistency
    settings: Mapping[str, str]
    """The settings that the session must have when the query starts."""
    sources: tuple[str, ...] = ()
    """The names of the sources in the plan."""
    summing: tuple[str, ...] = ()
    """Where the panes of DataFrames are summed up, a line for each."""
    lags: Mapping[str, int] = field(default_factory=dict)
    """By source that answers on demand: how far its answers lag the clock."""
    stage: StatelessStage | None = None
    """Of a query that keeps no rows: its only stage. Its output are chunks as they were read."""
    receivers: Mapping[str, Received] = field(default_factory=dict)
    """By source: the receiver that it reads from."""

    @property
    def receiver_folders(self) -> list[str]:
        return [feed.folder for feed in self.receivers.values()]

    def explain(self) -> Explanation:
        """The fragments, and what was decided about their sources."""
        return Explanation("\n".join([self.plan.describe(), *self.summing]))

    def begin(self, writer: DataStreamWriter) -> StreamingQuery:
        """Start what was made of `output`."""
        with applied(self.output.sparkSession, self.settings):
            return writer.start()

    def figures_of(self, progress: Any) -> BatchFigures | None:
        """The figures of the micro-batch that Spark reports of; None: it has none."""
        if self.stage is not None:
            return self.stage.figures.get(progress.batchId)
        return observed_figures(progress)

    def require_form(self, form: str) -> None:
        """Refuse a form of answers that does not fit the query."""
        root = self.plan.root
        if form == Form.FINAL and not self.consistency.is_final:
            raise PlanError(
                "output='final' needs consistency='final': other answers may still be revised."
            )
        if form == Form.UPSERTS and not root.properties.payload_start_key:
            raise PlanError(
                "output='upserts' needs rows that are known by their group and start, such as the "
                "answers of a window."
            )

    def typed(self, form: str, packed: DataFrame) -> DataFrame:
        """Packed answers as typed rows: `changelog`, `final` or `upserts`."""
        self.require_form(form)
        unpack, schema = unpacker(form, *self._rows, has_clock=self._has_clock)
        return packed.select("kind", "blob").mapInArrow(unpack, from_arrow_schema(schema))

    def typed_chunks(self, form: str, chunks: DataFrame, batch: int) -> DataFrame:
        """The answers to chunks as they were read, of a query that keeps no rows."""
        assert self.stage is not None
        self.require_form(form)
        convert = converter(form, *self._rows, has_clock=self._has_clock)
        _, schema = unpacker(form, *self._rows, has_clock=self._has_clock)
        return self.stage.typed(chunks, batch, convert, from_arrow_schema(schema))

    @property
    def _rows(self) -> tuple[pa.Schema, tuple[str, ...]]:
        """The payload of the answers, and the keys that they are known by."""
        return self.plan.root.schema, self.plan.root.properties.group_keys

    @property
    def _has_clock(self) -> bool:
        return clock_of(self.plan.root) is not None

    def ledger(self, source: str, packed: DataFrame) -> DataFrame:
        """The late rows of a source in one micro-batch."""
        leaves = {
            entry.leaf.name: entry.leaf
            for fragment in self.plan.fragments
            for entry in fragment.inputs
            if entry.source is not None
        }
        if source not in leaves:
            raise PlanError(f"the query has no source {source!r}{did_you_mean(source, leaves)}")
        return packed.mapInArrow(
            unpack_ledger(source), from_arrow_schema(ledger_schema(leaves[source].schema))
        )

    def dead_letters(self, packed: DataFrame) -> DataFrame:
        """The records of one micro-batch that could not be read."""
        return packed.mapInArrow(unpack_dead, from_arrow_schema(DEAD_RECORDS))

    def skipped(self, packed: DataFrame) -> DataFrame:
        """The windows of one micro-batch that modules failed on."""
        return packed.mapInArrow(unpack_skipped(), from_arrow_schema(DEAD_LETTERS))
