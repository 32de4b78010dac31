"""Chunks: the units of an exchange, elements as Arrow bytes with a header.

One row of the exchange is (bucket, fragment, origin, seq, header, blob). Spark sees numbers, text
and bytes; it never touches a single element.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.shards.exchange.blobs import batch_of_blob
from thalweg.shards.exchange.header import Header, Message

__all__ = ["EXCHANGE_COLUMNS", "EXCHANGE_SCHEMA", "UNORDERED", "Chunk", "ExchangeRow"]

UNORDERED = -1
"""The `seq` of chunks that come in no order: parallel tasks of one micro-batch."""

EXCHANGE_COLUMNS = "bucket int, fragment int, origin string, seq long, header string, blob binary"
EXCHANGE_SCHEMA = pa.schema(
    [
        ("bucket", pa.int32()),
        ("fragment", pa.int32()),
        ("origin", pa.string()),
        ("seq", pa.int64()),
        ("header", pa.string()),
        ("blob", pa.binary()),
    ]
)


class ExchangeRow(NamedTuple):
    """One row of the exchange, as Spark sees it."""

    bucket: int
    fragment: int
    origin: str
    seq: int
    header: str
    blob: bytes | None


@dataclass(frozen=True, slots=True)
class Chunk:
    """A row of the exchange as a fragment sees it."""

    origin: str
    seq: int
    header: Header
    blob: bytes | None
    _read: list[Batch] = field(default_factory=list, compare=False)

    @classmethod
    def of(cls, origin: str, seq: int, header: str, blob: bytes | None) -> Chunk:
        """A chunk from the columns of its row."""
        content = None if blob is None else bytes(blob)
        return cls(origin, seq, Header.from_json(header), content)

    @classmethod
    def message(
        cls,
        kind: Message,
        origin: str = "",
        *,
        rows: int = 0,
        report: str = "",
        blob: bytes | None = None,
    ) -> Chunk:
        """A message that passes the fragments on its way to the output."""
        return cls(origin, 0, Header(kind, rows=rows, report=report), blob)

    def without_rows(self) -> Chunk:
        """The chunk without its elements."""
        return Chunk(self.origin, self.seq, self.header, None)

    def to_row(self, bucket: int, fragment: int) -> ExchangeRow:
        """The chunk as a row for a bucket of a fragment."""
        header = self.header.to_json()
        return ExchangeRow(bucket, fragment, self.origin, self.seq, header, self.blob)

    def batch(self, schema: pa.Schema) -> Batch:
        """The elements, decoded once for all readers of the chunk."""
        if self.blob is None:
            return Batch.empty(schema)
        if not self._read:
            self._read.append(batch_of_blob(self.blob))
        return self._read[0]
