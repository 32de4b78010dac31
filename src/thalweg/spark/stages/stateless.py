"""A query that keeps no rows, on Spark: one stage from the reader to the sink, without exchange and
without `transformWithState`.

The streaming query hands out chunks as they were read. The job that processes them is planned for
each micro-batch, with the progress before it; the tasks report the headers of their chunks and
their figures through an accumulator, and the driver follows the promises (see
`shards.stateless.progress_keeper`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from functools import lru_cache
from typing import Any, TypeAlias, cast

import pyarrow as pa
from pyspark import AccumulatorParam, TaskContext, cloudpickle
from pyspark.sql import DataFrame, SparkSession

from thalweg.shards.output.rows import OUTPUT_COLUMNS
from thalweg.shards.output.typed_rows import Convert
from thalweg.shards.reports.combined import sum_figures
from thalweg.shards.reports.query_figures import BatchFigures, Counts
from thalweg.shards.stateless.progress_keeper import ProgressKeeper
from thalweg.shards.stateless.row_task import RowWorker, TaskReport, run_task
from thalweg.shards.worker.fragment_bucket import FragmentSpec
from thalweg.shards.worker.newest import Newest
from thalweg.spark.processes.unpacking import unpacked

__all__ = ["StatelessStage"]


Reports: TypeAlias = list[tuple[int, TaskReport]]
"""What tasks report, each with the id of its stage in Spark."""
_NO_STAGE = -1


class _Listed(AccumulatorParam[Reports]):
    """An accumulator: the list of what the tasks report."""

    def zero(self, value: Reports) -> Reports:
        return []

    def addInPlace(self, value1: Reports, value2: Reports) -> Reports:
        return value1 + value2


class StatelessStage:
    """The only stage of a query. `figures` has those of the micro-batches that were run, the newest
    last."""

    def __init__(self, spark: SparkSession, spec: FragmentSpec, keeper: ProgressKeeper) -> None:
        self._packed = cast(Any, cloudpickle).dumps(spec)
        self._reports: Any = spark.sparkContext.accumulator([], _Listed())
        self.keeper = keeper
        self.figures: Newest[int, BatchFigures] = Newest(200)

    def packed(self, chunks: DataFrame, batch: int) -> DataFrame:
        """The answers of a micro-batch as rows of the output, with late rows and dead letters."""
        return chunks.mapInArrow(self._task(batch, None), OUTPUT_COLUMNS)

    def typed(self, chunks: DataFrame, batch: int, convert: Convert, columns: Any) -> DataFrame:
        """The answers of a micro-batch as typed rows."""
        return chunks.mapInArrow(self._task(batch, convert), columns)

    def _task(self, batch: int, convert: Convert | None) -> Any:
        spec, progress, reports = self._packed, self.keeper.before(batch), self._reports

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            report = TaskReport()
            yield from run_task(_worker(spec), progress, convert, batches, report)
            context = TaskContext.get()
            reports.add([(_NO_STAGE if context is None else context.stageId(), report)])

        return run

    def begin(self) -> None:
        """Before the sink gets a micro-batch."""
        self._reports.value = []

    def finish(self, chunks: DataFrame, batch: int) -> None:
        """After the sink has taken a micro-batch: follow its promises and keep its figures. A sink
        that did not look at all of it does not keep promises from being followed."""
        tasks = self._complete(chunks)
        if tasks is None:
            self._reports.value = []
            self.packed(chunks, batch).write.format("noop").mode("append").save()
            tasks = self._complete(chunks)
            assert tasks is not None
        read = [chunk for task in tasks for chunk in task.chunks]
        cti, report = self.keeper.follow(batch, read, sum_figures(task.operators for task in tasks))
        counts = sum((task.counts for task in tasks), Counts())
        self.figures[batch] = BatchFigures(**asdict(counts), cti=cti, reports=(report,))

    def _complete(self, chunks: DataFrame) -> list[TaskReport] | None:
        """The reports of the tasks of one run over all chunks; None if there was no such run."""
        expected = chunks._jdf.logicalPlan().rdd().getNumPartitions()
        stages: dict[int, list[TaskReport]] = {}
        for stage, task in self._reports.value:
            stages.setdefault(stage, []).append(task)
        if expected == 0:
            return []
        return next((tasks for tasks in stages.values() if len(tasks) == expected), None)


@lru_cache(maxsize=8)
def _worker(packed: bytes) -> RowWorker:
    """A worker keeps the fragment between micro-batches."""
    spec: FragmentSpec = unpacked(packed)
    return RowWorker(spec.fragment, spec.consistency)
