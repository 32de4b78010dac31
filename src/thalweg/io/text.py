"""Bytes of CSV and JSON lines as text, and text as a table: what a parser is given, and with which
options.

Text may be compressed (gzip, zstd, bzip2, LZ4 frames, by its first bytes), UTF-8 with or
without a mark, or UTF-16. It need not end with a line end, and lines may end with CR alone. Before
Arrow's parser sees JSON, its nesting is measured: a few thousand brackets would end the process.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.json

from thalweg.io.json_depth import DEEPEST, deepest
from thalweg.io.written_times import parse_times

__all__ = ["NULLS", "parse_text", "plain_text"]

NULLS = ("",)
"""What stands for null in CSV by default: nothing between two commas."""
_LARGEST = 8 << 30
"""Bytes of text that one file may decompress to."""
_PIECE = 4 << 20
_BLOCK = 1 << 20

_COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bz2",
    b"\x04\x22\x4d\x18": "lz4",
}
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def plain_text(data: bytes) -> bytes:
    """The bytes as UTF-8 without a mark; what cannot be decompressed or decoded is `ArrowInvalid`.

    >>> plain_text("ts,k\\n1,ä".encode("utf-16"))
    b'ts,k\\n1,\\xc3\\xa4'
    """
    for mark, codec in _COMPRESSED.items():
        if data.startswith(mark):
            data = _decompressed(data, codec)
            break
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :] if encoding == "utf-8" else _decoded(data[2:], encoding)
    if b"\0" in data[:2] and len(data) > 1:  # UTF-16 without a mark: records begin with ASCII
        return _decoded(data, "utf-16-be" if data[0] == 0 else "utf-16-le")
    return data


def _decoded(data: bytes, encoding: str) -> bytes:
    try:
        return data.decode(encoding).encode()
    except UnicodeError as reason:
        raise pa.ArrowInvalid(f"it is no {encoding.upper()}: {reason}") from None


def _decompressed(data: bytes, codec: str) -> bytes:
    pieces: list[bytes] = []
    size = 0
    try:
        with pa.CompressedInputStream(pa.BufferReader(data), codec) as stream:
            while piece := stream.read(_PIECE):
                pieces.append(piece)
                size += len(piece)
                if size > _LARGEST:
                    raise pa.ArrowInvalid(f"it decompresses to more than {_LARGEST >> 30} GiB")
    except OSError as reason:
        raise pa.ArrowInvalid(f"its {codec} data is damaged or cut off: {reason}") from None
    return b"".join(pieces)


def parse_text(
    data: bytes, format_: str, schema: pa.Schema | None, nulls: Sequence[str] = NULLS
) -> pa.Table:
    """CSV (with a line of names) or JSON lines in UTF-8 as a table; raises `ArrowInvalid`."""
    return _csv(data, schema, nulls) if format_ == "csv" else _json(data, schema)


def _csv(data: bytes, schema: pa.Schema | None, nulls: Sequence[str]) -> pa.Table:
    types = {f.name: _first_type(f.type) for f in schema} if schema is not None else None
    convert = pyarrow.csv.ConvertOptions(
        column_types=types,
        null_values=list(nulls),
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,  # two quotes are an empty text
    )
    read = pyarrow.csv.ReadOptions(use_threads=False, block_size=_block(data))
    parse = pyarrow.csv.ParseOptions(newlines_in_values=b'"' in data)
    source = pa.BufferReader(data)
    table = pyarrow.csv.read_csv(
        source, read_options=read, parse_options=parse, convert_options=convert
    )
    return table if schema is None else _with_times(table, schema)


def _first_type(kind: pa.DataType) -> pa.DataType:
    """Times are read as text first: Arrow wants either all or none of them to name a zone."""
    return pa.string() if pa.types.is_timestamp(kind) else kind


def _with_times(table: pa.Table, schema: pa.Schema) -> pa.Table:
    for at, name in enumerate(table.schema.names):
        declared = schema.field(name).type if name in schema.names else None
        if declared is not None and pa.types.is_timestamp(declared):
            table = table.set_column(at, name, parse_times(table.column(name), declared))
    return table


def _json(data: bytes, schema: pa.Schema | None) -> pa.Table:
    _require_utf8(data)
    if data.lstrip()[:1] == b"[":
        raise pa.ArrowInvalid("it is one array; JSON lines have one object a line")
    if deepest(data) > DEEPEST:
        raise pa.ArrowInvalid(f"JSON that is nested more than {DEEPEST} deep")
    read = pyarrow.json.ReadOptions(use_threads=False, block_size=_block(data))
    if schema is None:
        return pyarrow.json.read_json(pa.BufferReader(data), read_options=read)
    as_text = pa.schema([(entry.name, _first_type(entry.type)) for entry in schema])
    parse = pyarrow.json.ParseOptions(explicit_schema=as_text, unexpected_field_behavior="ignore")
    table = pyarrow.json.read_json(pa.BufferReader(data), read_options=read, parse_options=parse)
    return _with_times(table, schema)


def _require_utf8(data: bytes) -> None:
    try:
        data.decode()
    except UnicodeDecodeError as reason:
        raise pa.ArrowInvalid(f"it is no UTF-8: {reason.reason} at byte {reason.start}") from None


def _block(data: bytes) -> int:
    """Arrow reads in blocks, and a record must fit into one."""
    if len(data) <= _BLOCK:
        return _BLOCK
    if b'"' in data:
        longest = len(data)  # a value may hold line ends
    else:
        ends = np.flatnonzero(np.frombuffer(data, np.uint8) == 10)
        longest = int(np.diff(ends, prepend=-1, append=len(data)).max())
    return min(max(_BLOCK, longest + 1), 2**31 - 1)
