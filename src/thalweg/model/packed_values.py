"""Values as something that JSON can write, for snapshots and plans.

Values that JSON has no word for (dates, timestamps, bytes, decimals) are written as an Arrow column
inside the text.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

__all__ = ["pack_scope", "pack_values", "unpack_scope", "unpack_values"]


def pack_values(values: Sequence[Any]) -> Any:
    """Values of one column as something that JSON can write."""
    try:
        json.dumps(values)
    except TypeError:
        pass
    else:
        return list(values)
    # what Python has a type for, Arrow infers; pandas brings the two that are finer than a
    # microsecond
    kind = None
    for value in values:
        if hasattr(value, "nanosecond"):
            kind = pa.timestamp("ns", None if value.tzinfo is None else "UTC")
        elif hasattr(value, "nanoseconds"):
            kind = pa.duration("ns")
    rows = pa.RecordBatch.from_arrays([pa.array(values, kind)], names=["values"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    return {"arrow": base64.b64encode(sink.getvalue().to_pybytes()).decode()}


def unpack_values(packed: Any) -> list[Any]:
    """The inverse of `pack_values`. There is one NaN, so that it is found again as a key."""
    if isinstance(packed, dict):
        values = (
            pa.ipc.open_stream(base64.b64decode(packed["arrow"])).read_all().column(0).to_pylist()
        )
    else:
        values = packed
    return [math.nan if value != value else value for value in values]


def pack_scope(scope: tuple[Any, ...]) -> list[Any]:
    """A scope as something that JSON can write: plain values as they are, each other one packed.

    >>> pack_scope(("a", 1.5))
    ['a', 1.5]
    """
    plain = (str, int, float, bool, type(None))
    return [value if isinstance(value, plain) else pack_values([value]) for value in scope]


def unpack_scope(packed: Sequence[Any]) -> tuple[Any, ...]:
    """The inverse of `pack_scope`.

    >>> unpack_scope(pack_scope(("a", b"raw")))
    ('a', b'raw')
    """
    return tuple(
        unpack_values(value if isinstance(value, dict) else [value])[0] for value in packed
    )
