"""The stateful stage: one `transformWithState` per fragment, one call per bucket and micro-batch.

What comes out are rows of the next exchange, or of the output. The runner of each bucket is kept in
the worker between micro-batches (see `state`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from thalweg.model.batch import Batch
from thalweg.model.progress import NO_PROGRESS
from thalweg.operators.base import StateSize
from thalweg.operators.consistency import Consistency
from thalweg.shards.element_output import progress_blob
from thalweg.shards.exchange import (
    EXCHANGE_COLUMNS,
    Chunk,
    Header,
    Message,
    blob_of_batch,
    write_rows,
)
from thalweg.shards.fragments import Fragment, Target
from thalweg.shards.ingest import divide
from thalweg.shards.state import Memory, SliceStore
from thalweg.shards.worker import Answer, FragmentRunner
from thalweg.spark.sent_state import sent, settle

__all__ = [
    "OUTPUT_COLUMNS",
    "STATE",
    "FragmentProcessor",
    "FragmentSpec",
    "changes_rows",
    "micro_batch_time",
    "output_batch",
    "tables_rows",
    "unpacked_row",
]

OUTPUT_COLUMNS = (
    "bucket int, kind string, origin string, cti long, read long, taken long, changes long, adjusts"
    " long, late long, dead long, unwanted long, state_rows long, state_bytes long, written long, "
    "report string, blob binary"
)
Fields = dict[str, Any]
"""Some columns of a row of the output; the others are null."""
_exchange_row = cast(Any, Row(*(column.split()[0] for column in EXCHANGE_COLUMNS.split(", "))))
_OUTPUT_NAMES = [column.split()[0] for column in OUTPUT_COLUMNS.split(", ")]
_output_row = cast(Any, Row(*_OUTPUT_NAMES))
_ARROW = {"int": pa.int32(), "long": pa.int64(), "string": pa.string(), "binary": pa.binary()}
OUTPUT_SCHEMA = pa.schema(
    [(name, _ARROW[kind]) for name, kind in map(str.split, OUTPUT_COLUMNS.split(", "))]
)

STATE = (
    "state",
    StructType([StructField("name", StringType())]),
    StructType([StructField("blob", BinaryType())]),
)
"""The one state variable of a fragment: its name, and the types of its keys and values. As text, a
worker would ask the JVM four times in each task what they mean."""

_CHUNK_ROWS = 200_000
"""Elements in one blob of output, a few MiB."""

_MEMORIES: dict[tuple[str, int, int], Memory] = {}
_KEPT = 64
"""Buckets that a worker remembers; of queries that have ended, the memory goes when others come."""


def _memory(key: tuple[str, int, int]) -> Memory:
    """What this worker remembers of a bucket."""
    memory = _MEMORIES.pop(key, None) or Memory()
    _MEMORIES[key] = memory  # the newest last
    while len(_MEMORIES) > _KEPT:
        del _MEMORIES[next(iter(_MEMORIES))]
    return memory


def micro_batch_time(handle: Any) -> float:
    """When Spark planned the micro-batch, in seconds. It is in the offset log, so that a
    micro-batch that runs again has the same time."""
    milliseconds: int = handle._statefulProcessorApiClient._get_batch_timestamp()
    return milliseconds / 1000


@dataclass(frozen=True)
class FragmentSpec:
    """A fragment and its place in the Spark query, as it travels to the workers."""

    run: str
    """Differs for every start of a query, so that workers do not mix up runs."""
    fragment: Fragment
    consistency: Consistency
    parts: dict[str, int]
    idle: dict[str, float]
    first: int
    """The id of the first bucket."""
    targets: list[Target] = field(default_factory=list)
    """The inputs of other fragments that read this one, with their bucket ids; none: this is the
    last."""


class FragmentProcessor(StatefulProcessor):
    def __init__(self, spec: FragmentSpec) -> None:
        self._spec = spec

    def init(self, handle: Any) -> None:
        self.use(handle.getMapState(*STATE), handle)

    def use(self, state: Any, handle: Any) -> None:
        """The state variable to work with, and the handle that knows the time."""
        self._state, self._handle = sent(state), handle

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        bucket = int(key[0])
        chunks, forwarded = _chunks(rows)
        spec = self._spec
        memory = _memory((spec.run, spec.fragment.number, bucket))
        store = SliceStore(self._state, memory, f"fragment {spec.fragment.number}, bucket {bucket}")
        runner = self._runner(memory, store)
        answer = runner.process(chunks, micro_batch_time(self._handle))
        store.save(runner.slices(), runner.signatures)
        settle(self._state)
        memory.runner = runner, memory.token
        first = bucket == spec.first  # every bucket sees every header
        read, unwanted = (answer.rows_read, answer.unwanted) if first else (0, 0)
        if spec.targets:
            yield from self._to_fragments(bucket, answer.batch, read, unwanted)
            for chunk in (*_beside(answer, json.dumps(runner.report())), *forwarded):
                yield self._passed_on(chunk)
            return
        size = sum(runner.state_size().values(), StateSize())
        report = json.dumps(runner.report())
        yield from _to_output(bucket, answer, (read, unwanted), size, store.written, report)
        for fields in tables_rows(bucket, answer):  # the figures above have counted them
            yield _output(**fields)
        for chunk in forwarded:
            yield _output(**unpacked_row(bucket, chunk))

    def _passed_on(self, chunk: Chunk) -> Row:
        """A chunk that is not for this fragment, on to the next one."""
        fragment, _, ids = self._spec.targets[0]
        header = chunk.header.to_json()
        row: Row = _exchange_row(ids[0], fragment, chunk.origin, 0, header, chunk.blob)
        return row

    def _runner(self, memory: Memory, store: SliceStore) -> FragmentRunner:
        """The runner of the last micro-batch if it is this worker's and its state is the store's,
        else a new one."""
        spec = self._spec
        kept, memory.runner = memory.runner, None  # whatever fails now, it is not used again
        if kept is not None and kept[1] == memory.token and store.is_current():
            runner: FragmentRunner = kept[0]
            return runner
        runner = FragmentRunner(spec.fragment, spec.consistency, parts=spec.parts, idle=spec.idle)
        slices = store.load(runner.signatures)
        if slices is not None:
            runner.restore(slices)
        return runner

    def _to_fragments(self, bucket: int, batch: Batch, read: int, unwanted: int) -> Iterator[Row]:
        for fragment, entry, ids in self._spec.targets:
            header = Header.of_progress(
                batch.progress.without_groups(),
                partition=str(bucket),
                rows=read,
                unwanted=unwanted or None,
            ).to_json()
            for target, part in divide(batch, entry.keys, ids):
                yield _exchange_row(
                    target,
                    fragment,
                    entry.leaf.name,
                    0,
                    header,
                    blob_of_batch(part) if len(part) else None,
                )

    def close(self) -> None:
        pass


def _chunks(rows: Iterable[Any]) -> tuple[list[Chunk], list[Chunk]]:
    """The chunks of a micro-batch; and those that only pass through on their way to the output."""
    chunks: list[Chunk] = []
    forwarded: list[Chunk] = []
    for row in rows:
        chunk = Chunk(
            row["origin"],
            row["seq"],
            Header.from_json(row["header"]),
            None if row["blob"] is None else bytes(row["blob"]),
        )
        (chunks if chunk.header.kind is Message.ROWS else forwarded).append(chunk)
    return chunks, forwarded


def _table_blob(table: pa.Table) -> bytes:
    return write_rows(table.combine_chunks().to_batches()[0])


def _beside(answer: Answer, report: str) -> Iterator[Chunk]:
    """What a fragment sends besides its answer, as messages to the output."""
    for kind, tables in ((Message.LATE, answer.ledgers), (Message.SKIPPED, answer.skipped)):
        for name, table in tables.items():
            yield Chunk(name, 0, Header(kind, rows=len(table)), _table_blob(table))
    summed = answer.late_rows - sum(map(len, answer.ledgers.values()))
    if summed:  # late partial sums have no rows for a ledger
        yield Chunk("", 0, Header(Message.LATE, rows=summed), None)
    yield Chunk("", 0, Header(Message.REPORT, report=report), None)


def unpacked_row(bucket: int, chunk: Chunk) -> Fields:
    """A message as a row of the output."""
    kind, rows = chunk.header.kind, chunk.header.rows
    fields: Fields = {"bucket": bucket, "kind": kind, "origin": chunk.origin}
    match kind:
        case Message.REPORT:
            return fields | {"report": chunk.header.report}
        case Message.DEAD:
            return fields | {"dead": rows, "blob": chunk.blob}
        case Message.LATE:
            return fields | {"late": rows, "blob": chunk.blob}
    return fields | {"blob": chunk.blob}


def changes_rows(bucket: int, batch: Batch) -> Iterator[Fields]:
    """The changes of an answer in pieces of a few MiB."""
    for begin in range(0, len(batch), _CHUNK_ROWS):
        piece = (
            batch
            if len(batch) <= _CHUNK_ROWS
            else batch.take(np.arange(begin, min(begin + _CHUNK_ROWS, len(batch))))
        )
        yield {"bucket": bucket, "kind": "changes", "origin": "", "blob": blob_of_batch(piece)}


def tables_rows(bucket: int, answer: Answer) -> Iterator[Fields]:
    """Late rows and windows that modules failed on."""
    for kind, tables in ((Message.LATE, answer.ledgers), (Message.SKIPPED, answer.skipped)):
        for name, table in tables.items():
            yield {"bucket": bucket, "kind": kind, "origin": name, "blob": _table_blob(table)}


def output_batch(rows: list[Fields]) -> pa.RecordBatch:
    """Rows of the output as Spark takes them."""
    columns = {name: [_plain(row.get(name)) for row in rows] for name in _OUTPUT_NAMES}
    return pa.RecordBatch.from_pydict(columns, schema=OUTPUT_SCHEMA)


def _to_output(
    bucket: int,
    answer: Answer,
    read: tuple[int, int],
    size: StateSize,
    written: int,
    report: str,
) -> Iterator[Row]:
    """The answer in pieces of a few MiB, and one row with the figures of the micro-batch. `read`
    are the rows that were read, and those of them that nobody wants."""
    batch = answer.batch
    for fields in changes_rows(bucket, batch):
        yield _output(**fields)
    cti = None if batch.progress.cti == NO_PROGRESS.cti else batch.progress.cti
    adjusts = 0 if batch.is_adjust is None else int(batch.is_adjust.sum())
    yield _output(
        bucket=bucket,
        kind="figures",
        origin="",
        cti=cti,
        read=read[0],
        unwanted=read[1],
        taken=answer.elements_in,
        changes=len(batch),
        adjusts=adjusts,
        late=answer.late_rows,
        state_rows=size.rows,
        state_bytes=size.bytes,
        written=written,
        report=report,
        blob=progress_blob(batch.progress),
    )


def _output(**fields: Any) -> Any:
    """A row of the output; columns that are not given are null."""
    return _output_row(*(_plain(fields.get(name)) for name in _OUTPUT_NAMES))


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Message) else value
