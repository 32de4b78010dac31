"""Times that are written as ISO 8601."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["first_wrong_time", "parse_times", "time_type"]

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
