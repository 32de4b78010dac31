"""Running a query of the command line, in-process or on Spark, and looking at its answers as they
come."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

import thalweg as tw
from thalweg.cli.sql_sources import Place
from thalweg.errors import PlanError, ThalwegError
from thalweg.model.answers import AnswerRow, Answers, Changelog
from thalweg.model.batch import Batch
from thalweg.model.clocks import Clock
from thalweg.model.delta import Delta
from thalweg.model.progress import NO_PROGRESS
from thalweg.model.python_rows import python_rows
from thalweg.model.time import MIN_TIME, time_us
from thalweg.plan.clock import clock_of
from thalweg.plan.nodes import Source, walk

__all__ = ["Job", "Look", "Sink", "parse_sink"]

_SMALL = 512 * 2**20
"""Files of so many bytes, and fewer, are read in this process by default."""
_AT_ONCE = 20_000
"""Rows of a source that are pushed together."""


@dataclass(frozen=True)
class Look:
    """The answers and counters of a query at one moment."""

    rows: Callable[[], Sequence[AnswerRow]]
    """Reads the current answers."""
    read: int
    changes: int
    retractions: int
    late: int
    cti: int | None
    ended: bool = False
    clock: Clock = None


@dataclass(frozen=True)
class Sink:
    """Where answers go: shown, or written to files under a path."""

    format: str = "show"
    path: str | None = None


def parse_sink(text: str) -> Sink:
    """
    >>> parse_sink("parquet:answers")
    Sink(format='parquet', path='answers')
    """
    if text in ("show", "noop"):
        return Sink(text)
    name, colon, path = text.partition(":")
    if name not in ("parquet", "csv", "json") or not colon or not path:
        raise PlanError(f"--sink {text!r}: write show, noop, parquet:PATH, csv:PATH or json:PATH.")
    return Sink(name, path)


@dataclass(frozen=True)
class Job:
    """A query with all it needs to run."""

    places: Sequence[Place]
    in_process: bool = False
    follow: bool = False
    consistency: str = "speculative"
    output: str = "changelog"
    sink: Sink = Sink()
    checkpoint: str | None = None
    parameters: Mapping[str, object] | None = None
    views: Mapping[str, str] | None = None

    def query(self, text: str) -> tw.Stream:
        """The plan of a query over the sources."""
        streams = {
            place.name: (
                place.stream() if self.in_process else place.spark_stream(follow=self.follow)
            )
            for place in self.places
        }
        return tw.sql(
            text,
            streams,
            time={place.name: place.time() for place in self.places},
            parameters=self.parameters,
            views=self.views,
        )

    def choose(self, *, in_process: bool, on_spark: bool) -> tuple[Job, str]:
        """The same job on one of the engines, and the reason. Small finite input runs in this
        process, which answers at once; Spark takes ten seconds to start."""
        if in_process or on_spark:
            return replace(self, in_process=in_process), ""
        needs = (
            "--follow" if self.follow else "--checkpoint" if self.checkpoint else "--output upserts"
        )
        if self.follow or self.checkpoint or self.output == "upserts":
            return self, f"on Spark, which {needs} needs"
        sizes = [place.size() for place in self.places]
        if any(size is None for size in sizes):
            return self, "on Spark; --in-process runs it without"
        total = sum(size for size in sizes if size is not None)
        if total > _SMALL and importlib.util.find_spec("pyspark") is not None:
            return self, f"on Spark: {_bytes(total)} of files; --in-process runs it without"
        why = f"in-process: {_bytes(total)} of files; --spark runs it on Spark"
        return replace(self, in_process=True), why

    def run(self, query: tw.Stream) -> Generator[Look, None, None]:
        """The answers as they change; at the end, all of them."""
        return self._in_process(query) if self.in_process else self._on_spark(query)

    def _in_process(self, query: tw.Stream) -> Generator[Look, None, None]:
        if self.follow:
            raise PlanError(
                "--follow goes on with new files, which Spark does; leave --in-process out."
            )
        if self.output == "upserts":
            raise PlanError(
                "--output upserts is for Spark; in-process there are changelog and final."
            )
        engine = tw.Engine(query, consistency=self.consistency)
        answers = Delta.empty(query.schema)
        out: list[Batch] = []
        for batches in self._pushed(engine, query):
            answers = Delta.concat(
                [answers, *(Delta.of_batch(batch) for batch in batches)], query.schema
            ).consolidate()
            if self.sink.path is not None:
                out += batches
            yield self._look(engine, query, answers)
        if self.sink.path is not None:
            self._write(query, out)
        yield self._look(engine, query, answers, ended=True)

    def _pushed(self, engine: tw.Engine, query: tw.Stream) -> Iterator[list[Batch]]:
        used = {node.name for node in walk(query.node) if isinstance(node, Source)}
        feeds = {place.name: place.tables(_AT_ONCE) for place in self.places if place.name in used}
        while feeds:
            for name in list(feeds):
                table = next(feeds[name], None)
                if table is None:
                    del feeds[name]
                else:
                    yield engine.push(name, table)
        yield engine.finish()

    def _look(
        self, engine: tw.Engine, query: tw.Stream, answers: Delta, *, ended: bool = False
    ) -> Look:
        status = engine.status()

        def rows() -> Answers:
            return Answers.of_batches([answers.to_batch(NO_PROGRESS)], query.schema, engine.clock)

        cti = None if status.progress.cti == MIN_TIME else status.progress.cti
        return Look(
            rows,
            status.elements_in,
            status.elements_out,
            status.adjusts_out,
            status.late,
            cti,
            ended,
            engine.clock,
        )

    def _write(self, query: tw.Stream, out: list[Batch]) -> None:
        folder = Path(str(self.sink.path))
        folder.mkdir(parents=True, exist_ok=True)
        clock = clock_of(query.node)
        final = self.output == "final"
        answers = (
            Answers.of_batches(out, query.schema, clock)
            if final
            else Changelog(out, query.schema, clock)
        )
        table = answers.to_arrow()
        if not final and not table.num_rows:
            return
        file = folder / f"answers.{self.sink.format}"
        try:
            self._write_file(table, file)
        except pa.ArrowException as reason:
            raise ThalwegError(
                f"{file}: the columns do not fit {self.sink.format}: {str(reason).splitlines()[0]}."
                " Choose another format, or leave them out."
            ) from reason

    def _write_file(self, table: pa.Table, file: Path) -> None:
        if self.sink.format == "parquet":
            pq.write_table(table, file)
        elif self.sink.format == "csv":
            pyarrow.csv.write_csv(table, file)
        else:
            file.write_text(
                "".join(f"{json.dumps(row, default=str)}\n" for row in python_rows(table)),
                encoding="utf-8",
            )

    def _on_spark(self, query: tw.Stream) -> Generator[Look, None, None]:
        from thalweg import spark

        shown = self.sink.format == "show"
        options: dict[str, Any] = (
            {} if shown else {"to": self.sink.format, "path": self.sink.path, "output": self.output}
        )
        running = spark.start(
            query,
            checkpoint=self.checkpoint,
            consistency=self.consistency,
            trigger="at once" if self.follow else "available now",
            progress=not shown,
            **options,
        )
        try:
            ended, batches = False, -1
            while not ended:
                ended = running.wait(0.2)
                status = running.status()
                if status.batches != batches or ended:
                    batches = status.batches
                    yield Look(
                        running.table if shown else list,
                        status.rows,
                        status.changes,
                        status.adjusts,
                        status.late,
                        None if status.cti is None else time_us(status.cti),
                        ended,
                        clock_of(query.node),
                    )
        finally:
            running.stop()


def _bytes(size: int) -> str:
    """
    >>> _bytes(900), _bytes(3_500_000)
    ('900 bytes', '3.3 MiB')
    """
    if size < 1024:
        return f"{size} bytes"
    value, unit = size / 1024, "KiB"
    for larger in ("MiB", "GiB"):
        if value >= 1024:
            value, unit = value / 1024, larger
    return f"{value:.1f} {unit}"
