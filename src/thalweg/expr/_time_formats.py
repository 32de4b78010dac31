"""Kernels of times as text: patterns of Java and C, ISO 8601. Null in, null out.

Patterns are constants.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from thalweg.expr._times import has_times, wall_time
from thalweg.expr.kinds import Datum, Refusal, constant, text

__all__ = ["date_format", "strftime", "timestamps_of_text", "to_date", "to_timestamp"]


_JAVA = {
    "yyyy": "%Y", "yy": "%y", "MMMM": "%B", "MMM": "%b", "MM": "%m", "dd": "%d", "DDD": "%j",
    "EEEE": "%A", "EEE": "%a", "E": "%a", "HH": "%H", "hh": "%I", "mm": "%M", "ss": "%S",
    "a": "%p", "XXX": "%z", "VV": "%Z",
}  # fmt: skip
_JAVA_LETTERS = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")


def _c_format(pattern: str) -> str:
    """A pattern of Java's DateTimeFormatter, as Spark and Flink write it, in C's letters."""
    directives = []
    for found in _JAVA_LETTERS.finditer(pattern):
        if found.group(1) is not None:
            directives.append((found.group(1) or "'").replace("''", "'").replace("%", "%%"))
        elif found.group(2) is None:
            directives.append(found.group(0).replace("%", "%%"))
        elif found.group(0) in _JAVA:
            directives.append(_JAVA[found.group(0)])
        else:
            raise Refusal(
                f"the letters {found.group(0)!r} of the format are unknown; known are "
                f"{', '.join(_JAVA)}"
            )
    return "".join(directives)


def date_format(value: Datum, pattern: Datum) -> Datum:
    """A time as text, in a pattern such as 'yyyy-MM-dd HH:mm'."""
    return _formatted(value, _c_format(str(constant(pattern, "the format"))))


def strftime(value: Datum, pattern: Datum) -> Datum:
    """A time as text, in C's letters: '%Y-%m-%d %H:%M'."""
    return _formatted(value, str(constant(pattern, "the format")))


def _formatted(value: Datum, pattern: str) -> Datum:
    time = value if types.is_timestamp(value.type) else wall_time(value)
    seconds = pc.floor_temporal(time, unit="second").cast(pa.timestamp("s", time.type.tz))
    return pc.strftime(seconds, format=pattern, locale="C")


def to_timestamp(value: Datum, pattern: Datum | None = None) -> Datum:
    """Text as a time: ISO 8601, or in a pattern such as 'dd/MM/yyyy HH:mm'."""
    if has_times(value):
        return wall_time(value)
    if pattern is None:
        return timestamps_of_text(text(value))
    c_pattern = _c_format(str(constant(pattern, "the format")))
    return pc.strptime(text(value), format=c_pattern, unit="us")


def to_date(value: Datum, pattern: Datum | None = None) -> Datum:
    """The date of a time, or of text."""
    time = wall_time(to_timestamp(value, pattern))
    return pc.floor_temporal(time, unit="day").cast(pa.date32())


def timestamps_of_text(value: Datum) -> Datum:
    """Parse ISO 8601. The result has no zone; text with 'Z' or an offset is converted to UTC."""
    if isinstance(value, pa.Scalar):
        iso_text = value.as_py()
        return pa.scalar(None if iso_text is None else instant(iso_text), pa.timestamp("us"))
    zoned = pc.match_substring_regex(value, r"(Z|[+-]\d\d:?\d\d)$")
    if not pc.any(zoned).as_py():
        return value.cast(pa.timestamp("us"))
    plain = pc.if_else(zoned, pa.scalar(None, value.type), value).cast(pa.timestamp("us"))
    moments = pc.if_else(zoned, value, pa.scalar(None, value.type)).cast(pa.timestamp("us", "UTC"))
    return pc.coalesce(plain, moments.cast(pa.timestamp("us")))


def instant(iso_text: str) -> datetime:
    """Parse one ISO 8601 text. The result has no zone; an offset is converted to UTC."""
    found = datetime.fromisoformat(iso_text.strip())
    return found if found.tzinfo is None else found.astimezone(UTC).replace(tzinfo=None)
