"""A sieve for records: those that can be read become rows, in order; the others dead letters.

Records that are certainly wrong (no JSON, a text where a number belongs, a value too many) are
found first, in one pass. The others are parsed all at once; only where that fails, halves are
tried, and their halves, until the records that are to blame are found.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa

from thalweg.errors import InputError, TimeRangeError
from thalweg.io.dead_letters import DeadLetters
from thalweg.io.text import NULLS, parse_text

__all__ = ["halves", "readable_records"]

T = TypeVar("T")
_INTEGER = re.compile(rb"\s*[+-]?(?:\d+|0[xX][0-9a-fA-F]+)\s*")
_FLOAT = re.compile(
    rb"\s*[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|[a-zA-Z()_]+)\s*"
)
_DATE = re.compile(rb"\s*\d{4}-?\d\d-?\d\d.*", re.DOTALL)
_LINE = re.compile(rb"[^\r\n]+")
_FIELD = rb'(?:"(?:[^"]++|"")*+(?:"[^,\r\n]*+|\Z)|[^",\r\n][^,\r\n]*+|)'
_RECORD = re.compile(_FIELD + rb"(?:," + _FIELD + rb")*+")
Reasons = dict[int, str]


def halves(size: int, attempt: Callable[[int, int], T]) -> tuple[list[T], list[tuple[int, str]]]:
    """What `attempt(begin, end)` gives for the stretches where it works, and the single places
    where it does not, with the reason.

    >>> texts = pa.array(["1", "x", "3"])
    >>> halves(3, lambda begin, end: texts[begin:end].cast(pa.int64()).to_pylist())
    ([[1], [3]], [(1, "Failed to parse string: 'x' as a scalar of type int64")])
    """
    good: list[T] = []
    bad: list[tuple[int, str]] = []
    stack = [(0, size)]
    while stack:
        begin, end = stack.pop()
        if begin >= end:
            continue
        try:
            good.append(attempt(begin, end))
        except (pa.ArrowException, TimeRangeError) as reason:
            if end - begin == 1:
                bad.append((begin, str(reason).splitlines()[0] if str(reason) else "unreadable"))
            else:
                middle = (begin + end) // 2
                stack += [(middle, end), (begin, middle)]  # rows keep their order
    return good, bad


def readable_records(
    data: bytes,
    format_: str,
    schema: pa.Schema,
    dead_letters: DeadLetters,
    where: str,
    nulls: Sequence[str] = NULLS,
) -> pa.Table:
    """The records of a text that can be read, in order; the others become dead letters."""
    found = _split_records(data, format_)
    head = b""
    columns = {entry.name: entry.type for entry in schema}
    names: list[str] = []
    if format_ == "csv" and found:
        head = found.pop(0)[1] + b"\n"
        names = parse_text(head, "csv", None).schema.names
        missing = [name for name in schema.names if name not in names]
        if missing:
            raise InputError(f"{where}: there is no column {missing[0]!r} in its first line.")
    reasons: Reasons = (
        _wrong_csv([text for _, text in found], names, columns, nulls)
        if format_ == "csv"
        else _wrong_json([text for _, text in found], columns)
    )
    rest = [at for at in range(len(found)) if at not in reasons]

    def attempt(begin: int, end: int) -> pa.Table:
        text = b"\n".join(found[at][1] for at in rest[begin:end])
        table = parse_text(head + text + b"\n", format_, schema, nulls)
        if len(table) != end - begin:
            raise pa.ArrowInvalid("one line is not one record")
        return pa.table(
            [table.column(entry.name).cast(entry.type) for entry in schema], schema=schema
        )

    good, bad = halves(len(rest), attempt)
    reasons |= {rest[at]: reason for at, reason in bad}
    dead_letters.note(
        where,
        [
            (found[at][0], found[at][1].decode("utf-8", "backslashreplace"), reason)
            for at, reason in sorted(reasons.items())
        ],
    )
    return pa.concat_tables([schema.empty_table(), *good])


def _split_records(data: bytes, format_: str) -> list[tuple[int, bytes]]:
    """The records of a text, each with the number of its first line. A quoted value of CSV may
    hold line ends: they are part of its record, whatever else is wrong with the text.

    >>> _split_records(b'ts,k\\n1,"a\\n7,b"\\n\\n2,c', "csv")
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


def _wrong_csv(
    records: list[bytes], names: list[str], columns: Mapping[str, pa.DataType], nulls: Sequence[str]
) -> Reasons:
    """Records without quotes that are certainly wrong."""
    empty = {text.encode() for text in nulls}
    tests = [
        (at, name, test, columns[name])
        for at, name in enumerate(names)
        if (test := _pattern(columns.get(name))) is not None
    ]
    wrong: Reasons = {}
    for number, record in enumerate(records):
        if b'"' in record:
            continue
        values = record.split(b",")
        if len(values) != len(names):
            wrong[number] = f"there are {len(values)} values for {len(names)} columns"
            continue
        for at, name, test, kind in tests:
            if values[at] not in empty and test.fullmatch(values[at]) is None:
                wrong[number] = f"{name}: {values[at].decode(errors='replace')!r} is no {kind}"
                break
    return wrong


def _pattern(kind: pa.DataType | None) -> re.Pattern[bytes] | None:
    if kind is None:
        return None
    if pa.types.is_integer(kind):
        return _INTEGER
    if pa.types.is_floating(kind):
        return _FLOAT
    return _DATE if pa.types.is_timestamp(kind) or pa.types.is_date(kind) else None


def _wrong_json(records: list[bytes], columns: Mapping[str, pa.DataType]) -> Reasons:
    """Records that are no JSON object, or have a value of another kind."""
    kinds = {name: _python_kinds(kind) for name, kind in columns.items()}
    tests = [(name, kind, columns[name]) for name, kind in kinds.items() if kind is not None]
    wrong: Reasons = {}
    for number, record in enumerate(records):
        try:
            fields = json.loads(record)
        except ValueError as reason:
            wrong[number] = f"no JSON: {reason}"
            continue
        except RecursionError:
            wrong[number] = "JSON that is nested too deep"
            continue
        if not isinstance(fields, dict):
            wrong[number] = "a record is a JSON object"
            continue
        for name, accepted, kind in tests:
            value = fields.get(name)
            if value is not None and type(value) not in accepted:
                wrong[number] = f"{name}: {value!r:.100} is no {kind}"
                break
    return wrong


def _python_kinds(kind: pa.DataType) -> tuple[type, ...] | None:
    """The kinds of JSON value that can be of a type; None: not known here."""
    if pa.types.is_integer(kind):
        return (int,)
    if pa.types.is_floating(kind):
        return (int, float)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_timestamp(kind):
        return (str,)
    return (bool,) if pa.types.is_boolean(kind) else None
