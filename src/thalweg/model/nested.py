"""Lists, structs and maps as texts, by which they are compared and put in order.

Arrow neither hashes nor orders nested values; their text is as good an identity, and the same in
every process. Equal values have equal texts: NaN is one value, and 0.0 equals -0.0. Times inside
are written as NumPy writes them where Python has no value for them, so that none is cut short.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["nested_texts", "python_value"]


def nested_texts(column: pa.Array) -> pa.Array:
    """A text for each value of a nested column; null stays null.

    >>> nested_texts(pa.array([[0.0], [-0.0], None, []])).to_pylist()
    ['[0.0]', '[0.0]', None, '[]']
    """
    leaves = _leaf_types(column.type)
    fine = any(getattr(leaf, "unit", "") == "ns" for leaf in leaves)
    try:
        values = [python_value(value) for value in column] if fine else column.to_pylist()
    except (OverflowError, ValueError):
        values = [python_value(value) for value in column]
    if any(map(pa.types.is_floating, leaves)):
        values = [_without_negative_zero(value) for value in values]
    texts = [None if value is None else repr(value) for value in values]
    return pa.array(texts, pa.large_string())


def python_value(value: Any) -> Any:
    """The value of a scalar; a time that Python has no value for as NumPy has it.

    >>> python_value(pa.scalar([2**62], pa.list_(pa.timestamp("us"))))
    [np.datetime64('148108-07-06T14:00:27.387904')]
    """
    kind = value.type
    if not value.is_valid:
        return None
    if pa.types.is_struct(kind):
        return {name: python_value(item) for name, item in value.items()}
    if pa.types.is_map(kind):
        keys, items = value.values.field(0), value.values.field(1)
        return [
            (python_value(key), python_value(item)) for key, item in zip(keys, items, strict=True)
        ]
    if isinstance(value, pa.ListScalar):
        return [python_value(item) for item in value.values]  # type: ignore[union-attr]
    try:
        if getattr(kind, "unit", "") != "ns":
            return value.as_py()
    except (OverflowError, ValueError):
        pass
    return _numpy_time(value, kind)


def _numpy_time(value: Any, kind: pa.DataType) -> Any:
    if pa.types.is_timestamp(kind):
        return _numpy_scalar(value, f"M8[{kind.unit}]")
    if pa.types.is_date(kind):
        return _numpy_scalar(value, "M8[D]" if pa.types.is_date32(kind) else "M8[ms]")
    if pa.types.is_duration(kind) or pa.types.is_time64(kind):
        return _numpy_scalar(value, f"m8[{kind.unit}]")
    return value.as_py()


def _numpy_scalar(value: Any, kind: str) -> Any:
    ticks = value.cast(pa.int32() if value.type.bit_width == 32 else pa.int64()).as_py()
    return np.array([ticks], kind)[0]


def _leaf_types(kind: pa.DataType) -> list[pa.DataType]:
    """The types of the values that are not nested themselves."""
    if not pa.types.is_nested(kind):
        return [kind]
    return [leaf for at in range(kind.num_fields) for leaf in _leaf_types(kind.field(at).type)]


def _without_negative_zero(value: Any) -> Any:
    if isinstance(value, float):
        return value + 0.0
    if isinstance(value, dict):
        return {name: _without_negative_zero(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(_without_negative_zero, value))
    return value
