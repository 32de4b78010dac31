"""One task of a query that keeps no rows: its chunks go through the fragment as they were read.

The task starts with the progress that the sources had before its micro-batch. The promises after
the micro-batch follow from its report, which has the headers of its chunks (`progress_keeper`).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import pyarrow as pa

from thalweg.errors import StateError
from thalweg.graph.graph_operator import OperatorFigures
from thalweg.operators.consistency import Consistency
from thalweg.shards.exchange.chunk import Chunk
from thalweg.shards.exchange.header import Header, Message
from thalweg.shards.fragments.fragment import Fragment
from thalweg.shards.output.rows import changes_rows, output_batch, output_of_chunk, tables_rows
from thalweg.shards.output.typed_rows import Convert
from thalweg.shards.reports.combined import sum_figures
from thalweg.shards.reports.query_figures import Counts
from thalweg.shards.stateless.progress_keeper import SavedProgress, slices_of
from thalweg.shards.worker.answer import Answer
from thalweg.shards.worker.fragment_runner import FragmentRunner

__all__ = ["RowWorker", "TaskReport", "run_task"]

OperatorTotals: TypeAlias = dict[str, OperatorFigures]


@dataclass(slots=True)
class TaskReport:
    """The chunks and the figures of a task."""

    chunks: list[Chunk] = field(default_factory=list)
    """Without their rows."""
    operators: OperatorTotals = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)


class RowWorker:
    """Runs the fragment on the chunks of one task after the other."""

    def __init__(self, fragment: Fragment, consistency: Consistency) -> None:
        self._runner = FragmentRunner(fragment, consistency, parts={})
        self._begin: dict[str, dict[str, int]] = {}

    def start(self, saved: SavedProgress) -> None:
        """Begin a micro-batch with the progress before it."""
        self._runner.restore(slices_of(saved))
        self._begin = self._runner.positions()

    def process(self, chunk: Chunk) -> Answer:
        """The answer to one chunk. Its promise is for the micro-batches that follow."""
        source_header = chunk.header
        begin = self._begin.get(chunk.origin, {}).get(source_header.partition)
        if begin is not None and source_header.begin is not None and source_header.begin < begin:
            raise StateError(
                f"source {chunk.origin!r}: input that begins at {source_header.begin} was read "
                f"already, up to {begin}. The checkpoint's offsets were changed or restored apart. "
                "Restore the whole checkpoint, or start a new one."
            )
        header = Header(partition=source_header.partition, rows=source_header.rows)
        return self._runner.process([replace(chunk, header=header)], time.time())

    @property
    def figures(self) -> OperatorTotals:
        """What each operator did with the last chunk."""
        return self._runner.figures


def run_task(
    worker: RowWorker,
    saved: SavedProgress,
    convert: Convert | None,
    batches: Iterable[pa.RecordBatch],
    report: TaskReport,
) -> Iterator[pa.RecordBatch]:
    """The answers of a task, as rows of the output or typed by `convert`; fills the `report`."""
    worker.start(saved)
    for rows in batches:
        columns = (rows.column(name).to_pylist() for name in ("origin", "seq", "header", "blob"))
        for chunk in map(Chunk.of, *columns):
            if chunk.header.kind is not Message.ROWS:
                report.counts += Counts(dead=chunk.header.rows)
                if convert is None:
                    yield output_batch([output_of_chunk(0, chunk)])
                continue
            answer = worker.process(chunk)
            report.chunks.append(chunk.without_rows())
            report.operators = sum_figures([report.operators, worker.figures])
            report.counts += Counts(
                read=answer.rows_read,
                unwanted=answer.unwanted,
                taken=answer.elements_in,
                changes=len(answer.batch),
                adjusts=answer.adjusts,
                late=answer.late_rows,
            )
            if convert is None:
                out = [*changes_rows(0, answer.batch), *tables_rows(0, answer)]
                if out:
                    yield output_batch(out)
            elif len(answer.batch):
                yield convert(answer.batch)
