"""Where the answers of a host go: all of a micro-batch leave in one Spark job, each to its query's
own place.

Workers write files themselves, one for each bucket and query, in the folder `batch=N` of the query;
a micro-batch that runs again writes the same names. Tables in memory are handed to the driver.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from thalweg.model.batch import Batch
from thalweg.shards.exchange.blobs import batch_of_blob
from thalweg.shards.exchange.header import Header, Message
from thalweg.shards.output.sink_folder import batch_folder
from thalweg.shards.output.typed_rows import converter

__all__ = ["Delivered", "FileSink", "deliver"]

_SCHEMA = pa.schema(
    [
        ("kind", pa.string()),
        ("origin", pa.string()),
        ("rows", pa.int64()),
        ("report", pa.string()),
        ("blob", pa.binary()),
    ]
)
_COLUMNS = "kind string, origin string, rows long, report string, blob binary"


@dataclass(frozen=True)
class FileSink:
    """A folder of Parquet files, and the form of the rows in it."""

    path: str
    form: str
    schema: pa.Schema
    keys: tuple[str, ...]
    clocked: bool = False
    """Whether times are instants, not ticks."""

    def folder(self, batch: int) -> Path:
        return Path(self.path) / batch_folder(batch)

    def rows(self, answer: Batch) -> pa.RecordBatch:
        convert = converter(self.form, self.schema, self.keys, has_clock=self.clocked)
        rows: pa.RecordBatch = convert(answer)
        return rows


@dataclass(frozen=True)
class Delivered:
    """What a micro-batch gave the driver."""

    answers: dict[str, list[bytes]]
    """By query id: elements for tables in memory."""
    reports: list[str]
    dead: int


def deliver(output: DataFrame, batch: int, sinks: Mapping[str, FileSink]) -> Delivered:
    """Deliver the answers of a micro-batch to their sinks, in one Spark job."""
    for sink in sinks.values():
        shutil.rmtree(sink.folder(batch), ignore_errors=True)  # of a run that was cut off
        sink.folder(batch).mkdir(parents=True)
    found = output.mapInArrow(_sender(batch, dict(sinks)), _COLUMNS).collect()
    for sink in sinks.values():
        (sink.folder(batch) / "_SUCCESS").touch()
    answers: dict[str, list[bytes]] = {}
    for row in found:
        if row["kind"] == Message.ANSWER:
            answers.setdefault(row["origin"], []).append(bytes(row["blob"]))
    return Delivered(
        answers,
        [row["report"] for row in found if row["kind"] == Message.REPORT],
        sum(row["rows"] for row in found if row["kind"] == Message.DEAD),
    )


def _sender(
    batch: int, sinks: dict[str, FileSink]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def send(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        file_counts: dict[str, int] = {}
        for rows in batches:
            left = []
            for row in rows.to_pylist():
                header = Header.from_json(row["header"])
                sink = sinks.get(row["origin"]) if header.kind is Message.ANSWER else None
                if sink is None:
                    facts = {"kind": str(header.kind), "origin": row["origin"], "rows": header.rows}
                    blob = row["blob"] if header.kind is Message.ANSWER else None
                    left.append(facts | {"report": header.report, "blob": blob})
                    continue
                number = file_counts[row["origin"]] = file_counts.get(row["origin"], 0) + 1
                file = f"part-{row['bucket']:05}-{number:05}.parquet"
                typed = sink.rows(batch_of_blob(row["blob"]))
                pq.write_table(pa.Table.from_batches([typed]), sink.folder(batch) / file)
            if left:
                yield pa.RecordBatch.from_pylist(left, schema=_SCHEMA)

    return send
