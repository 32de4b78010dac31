"""Where the answers of a micro-batch go: to a table in memory, a function, files, a log of elements
or standard output."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql.functions import col

from thalweg.errors import StateError
from thalweg.freshness.receiver_links import finish_batches
from thalweg.io.element_log import ElementLog
from thalweg.model.printing import printable
from thalweg.plan.clock import clock_of
from thalweg.shards.output.element_output import OutputPart, elements_of_output
from thalweg.shards.output.kept_table import KeptTable
from thalweg.shards.output.rows import OutputKind
from thalweg.shards.output.sink_folder import SinkFolder, batch_folder
from thalweg.shards.output.typed_rows import PACKED
from thalweg.spark.prepared import Prepared

__all__ = ["Deliver", "Each", "MicroBatch", "Sink", "each_batch", "open_sink", "takes_rows"]

Each = Callable[[DataFrame, int], None]
"""What a user gives for the rows of a micro-batch and its number."""


@dataclass(frozen=True)
class MicroBatch:
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


Deliver = Callable[[MicroBatch], None]


def each_batch(
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
        batch = MicroBatch(ready, rows, number, is_typed=is_typed)
        if late is None and dead is None and skipped is None:
            deliver(batch)
        else:
            share(batch)
        if ready.stage is not None:
            ready.stage.finish(rows, number)
        finish_batches(ready.receiver_folders)

    def share(batch: MicroBatch) -> None:
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


def takes_rows(to: str | Each, output: str) -> bool:
    """Whether a sink takes typed rows; the others take them packed."""
    return to not in ("memory", "elements") and output != PACKED


@dataclass(frozen=True)
class Sink:
    """The place for answers that a query was started with."""

    table: KeptTable | None = None
    folder: SinkFolder | None = None
    log: Deliver | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know about the place."""
        if self.folder is None or self.folder.is_checked:
            return ()
        return (
            (
                f"{self.folder.path} can only be reached by Spark, so whether it belongs to this "
                "checkpoint was not checked."
            ),
        )

    def deliver(self, to: str | Each, output: str) -> Deliver:
        """How a micro-batch gets there, as rows of the form `output`."""
        if self.log is not None:
            return self.log
        if self.table is not None:
            kept = self.table
            return lambda batch: kept.take(batch.number, _changes(batch.packed))
        if callable(to):
            function = to
            if output == PACKED:
                return lambda batch: function(batch.packed, batch.number)
            return lambda batch: function(batch.typed(output), batch.number)
        if to == "noop":
            return lambda batch: batch.typed(output).write.format("noop").mode("append").save()
        if self.folder is None:
            return lambda batch: _print(batch.typed(output), batch.number)
        path = self.folder.path
        return lambda batch: (
            batch.typed(output)
            .write.format(to)
            .mode("overwrite")
            .save(f"{path}/{batch_folder(batch.number)}")
        )


def open_sink(to: str | Each, path: str | None, ready: Prepared, kept: Path | None) -> Sink:
    """The place for answers, checked against what the checkpoint says was delivered. `kept` is the
    checkpoint that a table in memory is written to as well."""
    record = ready.record
    if to == "memory":
        place = None if kept is None else kept / "thalweg" / "table"
        schema = ready.plan.root.schema
        return Sink(KeptTable(schema, place, last=record.last, finished=record.finished))
    if path is None:
        return Sink()
    if to == "elements":
        return Sink(log=_log_sink(_element_log(path, ready), ready))
    folder = SinkFolder(path, str(to))
    folder.check(record.identity, last=record.last, finished=record.finished)
    return Sink(folder=folder)


def _element_log(path: str, ready: Prepared) -> ElementLog:
    """The log that a query writes; refused where the folder and the checkpoint do not go
    together."""
    root, record = ready.plan.root, ready.record
    log = ElementLog(Path(path), record.identity, clock_of(root))
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

    def write(batch: MicroBatch) -> None:
        rows = batch.packed.where(_is(OutputKind.CHANGES, OutputKind.FIGURES)).select(
            "kind", "cti", "blob"
        )
        parts = [
            OutputPart(row["kind"], row["cti"], None if row["blob"] is None else bytes(row["blob"]))
            for row in rows.collect()
        ]
        log.write(batch.number, elements_of_output(parts, ready.plan.root.schema, buckets))

    return write


def _is(*kinds: OutputKind) -> Column:
    """The condition for rows of these kinds."""
    return col("kind").isin(*map(str, kinds))


def _changes(packed: DataFrame) -> list[bytes]:
    rows = packed.where(_is(OutputKind.CHANGES)).select("blob").collect()
    return [bytes(row["blob"]) for row in rows]


def _print(answers: DataFrame, batch: int) -> None:
    """The answers of a micro-batch on standard output."""
    frame: Any = answers.toPandas()
    text = frame.to_string(index=False)
    sys.stdout.write(f"micro-batch {batch}\n{printable(text)}\n")
    sys.stdout.flush()
