"""Ingest: the work on the rows of a source before the exchange. It is stateless, so that it runs
where the rows are read.

Each batch passes the row operators of every fragment input that reads the source, is divided by
bucket, and packed. Every bucket gets a chunk, if only an empty one: progress must reach all of
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from thalweg.expr import Expr
from thalweg.io.row_bytes import write_rows
from thalweg.model.batch import Batch
from thalweg.model.rows import Rows
from thalweg.operators.base import Operator
from thalweg.operators.consistency import Consistency
from thalweg.operators.frames import frame_of
from thalweg.operators.registry import kernel_for
from thalweg.plan.nodes import Node, Source
from thalweg.progress import sighting_of
from thalweg.shards.exchange.blobs import blob_of_batch
from thalweg.shards.exchange.buckets import bucket_of
from thalweg.shards.exchange.cells import Cells, cells_of
from thalweg.shards.exchange.chunk import EXCHANGE_SCHEMA, ExchangeRow
from thalweg.shards.exchange.header import Header, Message
from thalweg.shards.fragments.fragment import Target

__all__ = ["Ingest", "divide", "divided_rows", "exchange_rows", "kernels_of", "processed"]


class Ingest:
    """Makes the rows of one source into chunks for all inputs that read it."""

    def __init__(self, targets: list[Target]) -> None:
        self._targets = targets
        self._kernels = [kernels_of(entry.ingest) for _, entry, _ in targets]
        # A source that is judged row by row, in one bucket, needs no summaries of its chunks.
        sources = [
            entry.source
            for _, entry, _ in targets
            if entry.source is not None and not entry.leaf.ingress.observes
        ]
        self._policies = sources[0].ingress.observed if sources else ()

    def rows(self, batch: Batch, header: Header, seq: int) -> Iterator[ExchangeRow]:
        """The rows of the exchange for one batch."""
        if self._policies and len(batch):
            header = header.with_sighting(sighting_of(batch.sync, self._policies))
        for target, kernels in zip(self._targets, self._kernels, strict=True):
            taken = processed(batch.with_progress(header.progress), kernels)
            yield from divided_rows(target, target.entry.leaf.name, taken, header, seq)

    @property
    def has_panes(self) -> bool:
        """Whether rows become partial sums here."""
        return any(entry.panes is not None for _, entry, _ in self._targets)

    @property
    def cells(self) -> Cells | None:
        """The sums that Spark can make itself, if the only input of the source needs just these."""
        if len(self._targets) != 1 or self._policies:
            return None
        return cells_of(self._targets[0].entry.ingest)

    def sums(self, batch: Batch, header: Header, seq: int) -> Iterator[ExchangeRow]:
        """The rows of the exchange for sums that Spark has made, of rows that promise nothing."""
        (target,) = self._targets
        name = target.entry.leaf.name
        yield from divided_rows(target, name, batch, header, seq)

    @property
    def columns(self) -> frozenset[str] | None:
        """The columns of the source that some input reads; None: all."""
        read = [_columns_read(entry.ingest) for _, entry, _ in self._targets]
        column_sets = [columns for columns in read if columns is not None]
        return frozenset().union(*column_sets) if len(column_sets) == len(read) else None

    def dead(self, source: str, dead_letters: Rows) -> ExchangeRow:
        """Records that could not be read, on their way past all fragments to the output."""
        fragment, _, ids = self._targets[0]
        header = Header(Message.DEAD, rows=dead_letters.num_rows).to_json()
        return ExchangeRow(ids[0], fragment, source, 0, header, write_rows(dead_letters))


def divided_rows(
    target: Target, origin: str, batch: Batch, header: Header, seq: int = 0
) -> Iterator[ExchangeRow]:
    """A batch as rows for the buckets of an input: to each its part, and the header to all. The
    promises are those of the batch."""
    text = replace(header, progress=batch.progress).to_json()
    for bucket, part in divide(batch, target.entry.keys, target.buckets):
        blob = blob_of_batch(part) if len(part) else None
        yield ExchangeRow(bucket, target.fragment, origin, seq, text, blob)


def _columns_read(node: Node | None) -> frozenset[str] | None:
    """The columns of its source that a chain of row operators reads; None: all."""
    needed: frozenset[str] | None = None
    while node is not None and not isinstance(node, Source):
        needed = node.columns_needed(needed)
        node = node.inputs[0]
    return needed


def kernels_of(node: Node | None) -> list[Operator]:
    """The kernels of the operators before an exchange, in their order."""
    kernels: list[Operator] = []
    while node is not None and not isinstance(node, Source):
        kernels.append(kernel_for(node, Consistency()))
        node = node.inputs[0]
    return kernels[::-1]


def processed(batch: Batch, kernels: Iterable[Operator]) -> Batch:
    """A batch after the operators before an exchange."""
    for kernel in kernels:
        batch = kernel.process(0, batch)
    return batch


def divide(batch: Batch, keys: tuple[Expr, ...], ids: list[int]) -> Iterator[tuple[int, Batch]]:
    """A batch by bucket, every bucket once. Without keys everything goes to the first."""
    if not keys:
        yield ids[0], batch
        return
    if len(ids) == 1 or not len(batch):
        for number in ids:
            yield number, batch
        return
    frame = frame_of(batch.payload, batch.start)
    bucket = bucket_of([expr.evaluate(frame) for expr in keys], len(batch), len(ids))
    order = np.argsort(bucket.astype(np.int16), kind="stable")
    ends = np.searchsorted(bucket[order], np.arange(len(ids)), side="right")
    ordered = batch.take(order)
    begin = 0
    for number, end in zip(ids, ends.tolist(), strict=True):
        yield number, ordered.between(begin, end)
        begin = end


def exchange_rows(rows: Iterator[ExchangeRow]) -> pa.RecordBatch:
    """Rows of the exchange as Spark takes them."""
    columns = list(zip(*rows, strict=True)) or [()] * len(EXCHANGE_SCHEMA)
    arrays = [
        pa.array(column, entry.type) for column, entry in zip(columns, EXCHANGE_SCHEMA, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=EXCHANGE_SCHEMA)
