"""Bytes of CSV and JSON lines as text, and text as a table: what a parser is given, and with which
options.

Text may be compressed (gzip, zstd, bzip2, LZ4 frames, by its first bytes), UTF-8 with or
without a mark, or UTF-16. It need not end with a line end, and lines may end with CR alone. Before
Arrow's parser sees JSON, its nesting is measured: a few thousand brackets would end the process.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json

__all__ = ["DEEPEST", "NULLS", "parse_text", "parse_times", "plain_text", "split_records"]

NULLS = ("",)
"""What stands for null in CSV by default: nothing between two commas."""
DEEPEST = 200
"""Brackets that may be open at once in a record of JSON."""
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


_ZONE = "(?:[Zz]|[T ].*[+-][0-9]{2}(?::?[0-9]{2})?)$"


def time_type(texts: pa.ChunkedArray) -> pa.DataType | None:
    """The type of times that are written as ISO 8601: in UTC where one of them names a zone; None
    where they are none.

    >>> [time_type(pa.chunked_array([[text]])) for text in ("2026-03-01T12:00Z", "noon")]
    [TimestampType(timestamp[us, tz=UTC]), None]
    """
    zoned = pc.any(pc.match_substring_regex(pc.utf8_trim_whitespace(texts), _ZONE)).as_py()
    kind = pa.timestamp("us", "UTC") if zoned else pa.timestamp("us")
    try:
        parse_times(texts, kind)
    except pa.ArrowException:
        return None
    return kind


def first_wrong_time(texts: pa.ChunkedArray) -> int:
    """The row of the first text that is no time, if `time_type` finds that one is none.

    >>> first_wrong_time(pa.chunked_array([["2026-03-01", None, "noon", "night"]]))
    2
    """
    low, high = 0, len(texts)
    while high - low > 1:
        middle = (low + high) // 2
        if time_type(texts.slice(low, middle - low)) is None:
            high = middle
        else:
            low = middle
    return low


def parse_times(texts: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """ISO 8601 as timestamps; one without a zone is in UTC. `ArrowInvalid` if it is none.

    >>> parse_times(pa.chunked_array([["2026-03-01T12:00+02:00", "2026-03-01 10:00:00.5", None]]),
    ...             pa.timestamp("ms", "UTC")).cast(pa.int64()).to_pylist()
    [1772359200000, 1772359200500, None]
    """
    texts = pc.utf8_trim_whitespace(texts)
    utc, local = pa.timestamp(kind.unit, "UTC"), pa.timestamp(kind.unit)
    zoned = pc.match_substring_regex(texts, _ZONE)
    if not pc.any(zoned).as_py():
        return texts.cast(local).cast(utc).cast(kind)
    nothing = pa.scalar(None, texts.type)
    with_zone = pc.if_else(zoned, texts, nothing).cast(utc)
    without = pc.if_else(zoned, nothing, texts).cast(local).cast(utc)
    return pc.coalesce(with_zone, without).cast(kind)


def _json(data: bytes, schema: pa.Schema | None) -> pa.Table:
    _require_utf8(data)
    if data.lstrip()[:1] == b"[":
        raise pa.ArrowInvalid("it is one array; JSON lines have one object a line")
    if _deepest(data) > DEEPEST:
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


def _deepest(data: bytes) -> int:
    """How many brackets are open at once, at most: exact for records that are whole, else not
    less."""
    if data.count(b"[") + data.count(b"{") <= DEEPEST:
        return 0
    bytes_ = np.frombuffer(data, np.uint8)
    opens = (bytes_ == 0x5B) | (bytes_ == 0x7B)
    if _is_one_record_a_line(data):
        ends = np.flatnonzero(bytes_ == 10)
        most = np.diff(np.searchsorted(np.flatnonzero(opens), ends), prepend=0, append=0).max()
        last = int(np.count_nonzero(opens[ends[-1] :])) if len(ends) else int(opens.sum())
        if max(int(most), last) <= DEEPEST:
            return 0
    step = opens.astype(np.int8)
    step -= (bytes_ == 0x5D) | (bytes_ == 0x7D)
    step[_in_strings(bytes_)] = 0
    depth = np.cumsum(step, dtype=np.int64)
    return int((depth - np.minimum(np.minimum.accumulate(depth), 0)).max(initial=0))


def _is_one_record_a_line(data: bytes) -> bool:
    """Whether every line ends with a closing bracket and the next begins with an opening one.

    No valid JSON goes on like this from one line to the next, so what a parser finds nested
    stands in one line.
    """
    inner = data.count(b"\n") - data.endswith(b"\n")
    return data.count(b"}\n{") + data.count(b"}\r\n{") == inner


def _in_strings(bytes_: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Which bytes of JSON stand between quotes; a string never goes on after a line end."""
    quotes = bytes_ == 0x22
    slashes = np.flatnonzero(bytes_ == 0x5C)
    if len(slashes):
        first = np.flatnonzero(np.diff(slashes, prepend=-2) != 1)
        run = np.diff(first, append=len(slashes))
        escaped = (slashes[first] + run)[run % 2 == 1]
        quotes[escaped[escaped < len(quotes)]] = False
    seen = np.cumsum(quotes, dtype=np.int64)
    ends = np.flatnonzero((bytes_ == 10) | (bytes_ == 13))
    lengths = np.diff(ends, prepend=-1, append=len(bytes_) - 1)
    before = np.repeat(np.concatenate([[0], seen[ends]]), lengths)
    inside: npt.NDArray[np.bool_] = (seen - before) % 2 == 1
    return inside


_LINE = re.compile(rb"[^\r\n]+")
_FIELD = rb'(?:"(?:[^"]++|"")*+(?:"[^,\r\n]*+|\Z)|[^",\r\n][^,\r\n]*+|)'
_RECORD = re.compile(_FIELD + rb"(?:," + _FIELD + rb")*+")


def split_records(data: bytes, format_: str) -> list[tuple[int, bytes]]:
    """The records of a text, each with the number of its first line. A quoted value of CSV may
    hold line ends: they are part of its record, whatever else is wrong with the text.

    >>> split_records(b'ts,k\\n1,"a\\n7,b"\\n\\n2,c', "csv")
    [(1, b'ts,k'), (2, b'1,"a\\n7,b"'), (5, b'2,c')]
    """
    found = list(_spans(data, format_))
    bytes_ = np.frombuffer(data, np.uint8)
    feeds = bytes_ == 10
    lone = bytes_ == 13
    lone[:-1] &= ~feeds[1:]
    ends = np.flatnonzero(feeds | lone)
    lines = np.searchsorted(ends, [begin for begin, _ in found]) + 1
    return [
        (int(line), data[begin:end])
        for line, (begin, end) in zip(lines, found, strict=True)
        if data[begin:end].strip()
    ]


def _spans(data: bytes, format_: str) -> Iterator[tuple[int, int]]:
    if format_ != "csv" or b'"' not in data:
        yield from (match.span() for match in _LINE.finditer(data))
        return
    at = 0
    while at < len(data):
        match = _RECORD.match(data, at)
        end = at if match is None else match.end()
        yield at, end
        at = end + (2 if data[end : end + 2] == b"\r\n" else 1)
