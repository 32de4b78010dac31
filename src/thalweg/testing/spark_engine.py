"""Spark as an engine that the fuzzer and the vectors can drive.

Steps are gathered and played when the input ends: as files of elements, a few per micro-batch,
through a real streaming query. A restart in the form is a real one: the query stops and another one
goes on from its checkpoint.
"""

from __future__ import annotations

import tempfile
from functools import reduce
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc

from thalweg.io.feeds import Feed, batches_from
from thalweg.model.batch import Batch
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.plan.nodes import Node, Source, walk
from thalweg.shards.exchange.blobs import batch_of_blob
from thalweg.shards.exchange.header import Header
from thalweg.shards.fragments.cutting import fragments_of
from thalweg.shards.output.rows import OutputKind
from thalweg.spark.failures import with_short_search
from thalweg.spark.preparing import prepare
from thalweg.spark.running import RunningQuery
from thalweg.spark.sources.file_feed import Files
from thalweg.stream import Stream

__all__ = ["SparkEngine", "write_elements"]

_FILES_PER_BATCH = 3

Script = list[tuple[str, Batch] | None]
"""Batches by source; None is a restart."""


class SparkEngine:
    """Like `thalweg.run.Engine`, but everything comes out at the end."""

    def __init__(self, query: Stream | Node, *, consistency: str = "speculative") -> None:
        self._query = query.node if isinstance(query, Stream) else query
        self._consistency = consistency
        fragments_of(self._query)  # a plan that cannot run is refused here
        self._script: Script = []

    def push(self, source_name: str, feed: Feed) -> list[Batch]:
        schema = next(
            node.schema
            for node in walk(self._query)
            if isinstance(node, Source) and node.name == source_name
        )
        self._script += [(source_name, batch) for batch in batches_from(feed, schema, source_name)]
        return []

    def snapshot(self) -> bytes:
        _HELD.append([*self._script, None])
        return str(len(_HELD) - 1).encode()

    @classmethod
    def restore(
        cls, query: Stream | Node, snapshot: bytes, *, consistency: str = "speculative"
    ) -> SparkEngine:
        engine = cls(query, consistency=consistency)
        engine._script = _HELD[int(snapshot)]
        return engine

    def finish(self) -> list[Batch]:
        with tempfile.TemporaryDirectory(prefix="thalweg-") as folder:
            return self._play(Path(folder), finish=True)

    def settle(self) -> list[Batch]:
        """Play what was gathered, without an end of the input."""
        with tempfile.TemporaryDirectory(prefix="thalweg-") as folder:
            return self._play(Path(folder), finish=False)

    def _play(self, folder: Path, *, finish: bool) -> list[Batch]:
        sources = sorted({node.name for node in walk(self._query) if isinstance(node, Source)})
        for name in sources:
            (folder / name).mkdir()
        # One after the other, so that the whole script goes through one checkpoint.
        segments = [
            list(group)
            for ends, group in groupby(self._script, lambda part: part is None)
            if not ends
        ] or [[]]
        out: list[Batch] = []
        number = 0
        for index, segment in enumerate(segments):
            for part in segment:
                assert part is not None
                write_elements(folder / part[0] / f"{number:06}.arrow", part[1])
                number += 1
            feeds = {
                name: self._files(folder / name, finish=finish and index == len(segments) - 1)
                for name in sources
            }
            out += self._run(feeds, folder)
        return out

    def _files(self, folder: Path, *, finish: bool) -> Files:
        return Files(str(folder), "elements", None, files_per_batch=_FILES_PER_BATCH, finish=finish)

    def _run(self, feeds: dict[str, Files], folder: Path) -> list[Batch]:
        checkpoint = folder / "checkpoint"
        ready = prepare(
            self._query, feeds, checkpoint=str(checkpoint), consistency=self._consistency
        )
        collected: dict[int, list[Any]] = {}

        def collect(rows: Any, batch: int) -> None:
            collected[batch] = rows.select("bucket", "kind", "cti", "blob").collect()

        writer = ready.output.writeStream.foreachBatch(with_short_search(collect)).option(
            "checkpointLocation", str(checkpoint)
        )
        RunningQuery(
            writer.trigger(availableNow=True), ready, None, checkpoint, temporary=True
        ).wait()  # raises what one of ours would
        return [_one(rows, self._query.schema) for _, rows in sorted(collected.items())]


_HELD: list[Script] = []


def write_elements(path: Path, batch: Batch) -> None:
    """A file that a source of format `elements` reads: the rows, and the promise as metadata."""
    table = batch.to_table()
    table = table.replace_schema_metadata(
        {b"thalweg": Header(progress=batch.progress).to_json().encode()}
    )
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def _one(rows: list[Any], schema: pa.Schema) -> Batch:
    """The output of all buckets of a micro-batch as one batch, with the promise they all make."""
    parts = [batch_of_blob(bytes(row["blob"])) for row in rows if row["kind"] == OutputKind.CHANGES]
    progress_of_buckets = [
        NO_PROGRESS if row["cti"] is None else Progress(row["cti"])
        for row in rows
        if row["kind"] == OutputKind.FIGURES
    ]
    return Batch.concat(parts, schema).with_progress(
        reduce(Progress.meet, progress_of_buckets, Progress(progress_of_buckets[0].cti))
        if progress_of_buckets
        else NO_PROGRESS
    )
