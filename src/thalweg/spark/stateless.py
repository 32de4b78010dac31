"""A query that keeps no rows, on Spark: one stage from the reader to the sink, without exchange and
without `transformWithState`.

The streaming query hands out chunks as they were read. The job that processes them is planned for
each micro-batch, with the progress before it; the tasks report the headers of their chunks and
their figures through an accumulator, and the driver follows the promises (see `shards.stateless`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, cast

import pyarrow as pa
from pyspark import AccumulatorParam, TaskContext, cloudpickle
from pyspark.sql import DataFrame, SparkSession

from thalweg.model.batch import Batch
from thalweg.model.time import MIN_TIME
from thalweg.shards.exchange import Chunk, Header, Message
from thalweg.shards.stateless import ProgressKeeper, RowWorker, SavedProgress, added
from thalweg.spark.processor import (
    OUTPUT_COLUMNS,
    FragmentSpec,
    changes_rows,
    output_batch,
    tables_rows,
    unpacked_row,
)
from thalweg.spark.unpacking import unpacked

__all__ = ["StatelessStage"]

Convert = Callable[[Batch], pa.RecordBatch]


class _Listed(AccumulatorParam[list[Any]]):
    """An accumulator: the list of what the tasks report."""

    def zero(self, value: list[Any]) -> list[Any]:
        return []

    def addInPlace(self, value1: list[Any], value2: list[Any]) -> list[Any]:
        return value1 + value2


class StatelessStage:
    """The only stage of a query. `figures` has those of the micro-batches that were run, the newest
    last."""

    def __init__(self, spark: SparkSession, spec: FragmentSpec, keeper: ProgressKeeper) -> None:
        self._packed = cast(Any, cloudpickle).dumps(spec)
        self._reports: Any = spark.sparkContext.accumulator([], _Listed())
        self.keeper = keeper
        self.figures: dict[int, dict[str, Any]] = {}

    def packed(self, chunks: DataFrame, batch: int) -> DataFrame:
        """The answers of a micro-batch as rows of the output, with late rows and dead letters."""
        return chunks.mapInArrow(self._task(batch, None), OUTPUT_COLUMNS)

    def typed(self, chunks: DataFrame, batch: int, convert: Convert, columns: Any) -> DataFrame:
        """The answers of a micro-batch as typed rows."""
        return chunks.mapInArrow(self._task(batch, convert), columns)

    def _task(self, batch: int, convert: Convert | None) -> Any:
        spec, progress, reports = self._packed, self.keeper.before(batch), self._reports

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return run_task(spec, progress, convert, batches, reports)

        return run

    def begin(self) -> None:
        """Before the sink gets a micro-batch."""
        self._reports.value = []

    def finish(self, chunks: DataFrame, batch: int) -> dict[str, Any]:
        """After the sink has taken a micro-batch: its figures. A sink that did not look at all of
        it does not keep promises from being followed."""
        tasks = self._complete(chunks)
        if tasks is None:
            self._reports.value = []
            self.packed(chunks, batch).write.format("noop").mode("append").save()
            tasks = self._complete(chunks)
            assert tasks is not None
        all_chunks = [
            Chunk(origin, seq, Header.from_json(text), None)
            for task in tasks
            for origin, seq, text in task["chunks"]
        ]
        cti, report = self.keeper.follow(batch, all_chunks, (task["operators"] for task in tasks))
        total: Counter[str] = Counter()
        for task in tasks:
            total.update(task["figures"])
        figures = {
            **dict.fromkeys(("read", "unwanted", "taken", "changes", "adjusts", "late", "dead"), 0),
            **dict.fromkeys(("state_rows", "state_bytes", "written"), 0),
            **total,
            "cti": None if cti == MIN_TIME else cti,
            "reports": [report],
        }
        self.figures[batch] = figures
        while len(self.figures) > _REMEMBERED:
            del self.figures[next(iter(self.figures))]
        return figures

    def _complete(self, chunks: DataFrame) -> list[dict[str, Any]] | None:
        """The reports of the tasks of one run over all chunks; None if there was no such run."""
        expected = chunks._jdf.logicalPlan().rdd().getNumPartitions()
        stages: dict[int, list[dict[str, Any]]] = {}
        for stage, task in self._reports.value:
            stages.setdefault(stage, []).append(task)
        if expected == 0:
            return []
        return next((tasks for tasks in stages.values() if len(tasks) == expected), None)


_REMEMBERED = 200


@lru_cache(maxsize=8)
def _worker(packed: bytes) -> RowWorker:
    """A worker keeps the fragment between micro-batches."""
    spec: FragmentSpec = unpacked(packed)
    return RowWorker(spec.fragment, spec.consistency)


def run_task(
    packed: bytes,
    progress: SavedProgress,
    convert: Convert | None,
    batches: Iterable[pa.RecordBatch],
    reports: Any,
) -> Iterator[pa.RecordBatch]:
    """One task: runs its chunks through the fragment, and reports figures at the end."""
    worker = _worker(packed)
    worker.start(progress)
    headers: list[tuple[str, int, str]] = []
    operators: list[Any] = []
    figures: Counter[str] = Counter()
    for rows in batches:
        for origin, seq, text, blob in zip(
            *(rows.column(name).to_pylist() for name in ("origin", "seq", "header", "blob")),
            strict=True,
        ):
            chunk = Chunk(origin, seq, Header.from_json(text), blob)
            if chunk.header.kind is not Message.ROWS:
                figures["dead"] += chunk.header.rows
                if convert is None:
                    yield output_batch([unpacked_row(0, chunk)])
                continue
            headers.append((origin, seq, text))
            answer = worker.process(chunk)
            operators.append(worker.operators())
            adjusts = answer.batch.is_adjust
            figures.update(
                read=answer.rows_read,
                unwanted=answer.unwanted,
                taken=answer.elements_in,
                changes=len(answer.batch),
                adjusts=0 if adjusts is None else int(adjusts.sum()),
                late=answer.late_rows,
            )
            if convert is not None:
                if len(answer.batch):
                    yield convert(answer.batch)
                continue
            out = [*changes_rows(0, answer.batch), *tables_rows(0, answer)]
            if out:
                yield output_batch(out)
    context = TaskContext.get()
    stage = -1 if context is None else context.stageId()
    reports.add(
        [(stage, {"chunks": headers, "operators": added(operators), "figures": dict(figures)})]
    )
