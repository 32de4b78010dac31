"""The records of CSV and JSON lines, each with the number of its first line."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

__all__ = ["split_records"]

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
