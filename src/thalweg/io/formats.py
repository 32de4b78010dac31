"""Formats of files: which there are, what suffix tells which, and how a file shows that it is
whole."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath

from thalweg.errors import InputError, PlanError, did_you_mean

__all__ = [
    "END_MARKS",
    "FORMATS",
    "TEXT_FORMATS",
    "format_of",
    "format_of_bytes",
    "require_format",
    "suffix_format",
]

FORMATS = ("parquet", "arrow", "csv", "json", "elements")
END_MARKS = {"parquet": b"PAR1", "arrow": b"ARROW1", "elements": b"ARROW1"}
"""The last bytes of a file that is whole; text has none."""

TEXT_FORMATS = ("csv", "json")
"""Formats of lines, whose columns have no types of their own."""

_SUFFIXES = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}
_COMPRESSED = (".gz", ".zst", ".zstd", ".bz2", ".lz4")


def suffix_format(name: str) -> str | None:
    """The format for the suffix of a file name; None for an unknown suffix.

    >>> suffix_format("a/day.csv.gz"), suffix_format("a/b")
    ('csv', None)
    """
    path = PurePath(name.lower())
    if path.suffix in _COMPRESSED:
        path = path.with_suffix("")
    return _SUFFIXES.get(path.suffix)


def format_of(names: Iterable[str], where: str) -> str | None:
    """The one format of files, by their suffixes; None if no suffix is known."""
    found = {format_: name for name in names if (format_ := suffix_format(name)) is not None}
    if len(found) > 1:
        (first_format, first), (second_format, second), *_ = sorted(found.items())
        raise InputError(
            f"{where}: {first} is {first_format}, {second} is {second_format}; say which is meant, "
            f"format={first_format!r} or format={second_format!r}."
        )
    return next(iter(found), None)


def format_of_bytes(head: bytes) -> str | None:
    """The format that the first bytes of a file tell.

    >>> format_of_bytes(b'PAR1...'), format_of_bytes(b'ts,k')
    ('parquet', None)
    """
    for format_ in ("parquet", "arrow"):
        if head.startswith(END_MARKS[format_]):
            return format_
    return "json" if head.lstrip().startswith(b"{") else None


def require_format(format_: str, what: str) -> None:
    if format_ not in FORMATS:
        raise PlanError(
            f"{what}: the format must be one of "
            f"{', '.join(FORMATS)}{did_you_mean(format_, FORMATS)} Got {format_!r}."
        )
