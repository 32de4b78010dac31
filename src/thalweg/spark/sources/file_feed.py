"""Files as a feed on Spark: a Python source that numbers them, and reads them with ingest fused
in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from thalweg.io.file_notes import clear_read_notes
from thalweg.shards.host.host_ingest import AnyIngest
from thalweg.shards.sources.event_files import EventFiles, FileChunks
from thalweg.spark.sources.feed import load_reader
from thalweg.spark.sources.file_offsets import FileOffsets, FilePart

__all__ = ["FileReader", "Files"]


@dataclass(frozen=True)
class Files(EventFiles):
    """Files in a folder, for Spark."""

    fits_host: ClassVar[bool] = True

    def exchange(
        self, spark: SparkSession, ingest: AnyIngest, schema: pa.Schema, name: str, log: str
    ) -> DataFrame:
        self.log(log)  # one that is damaged is refused before a process is started for it
        clear_read_notes(Path(log))
        return load_reader(spark, FileReader(FileChunks(self, ingest, schema, name, log)), ingest)


def _offsets(chunks: FileChunks) -> FileOffsets:
    files = chunks.files
    return FileOffsets(
        chunks.where,
        files.folder,
        files.format,
        chunks.log,
        files.settle_us,
        files.files_per_batch,
        files.tasks,
        files.finish,
        files.unwanted,
        files.file_times,
    )


class FileReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the files that `offsets` hands out."""

    def __init__(self, chunks: FileChunks) -> None:
        self._chunks = chunks
        self.offsets = _offsets(chunks)

    def initialOffset(self) -> dict[str, int]:
        return self.offsets.initialOffset()

    def getDefaultReadLimit(self) -> ReadLimit:
        return self.offsets.getDefaultReadLimit()

    def prepareForTriggerAvailableNow(self) -> None:
        self.offsets.prepareForTriggerAvailableNow()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        return self.offsets.latestOffset(start, limit)

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return self.offsets.partitions(start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, FilePart)
        if partition.end:
            yield self._chunks.end(partition.entries[0][0])
        else:
            yield from self._chunks.read(partition.entries, partition.unwanted)
