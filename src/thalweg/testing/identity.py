"""When two payload values are the same, and which of two comes first.

Null equals null, NaN equals NaN, 0.0 equals -0.0: `identity` turns a value into something hashable
that says so. `order` sorts values: ordinary ones by size, then NaN, then null.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Any

__all__ = ["identity", "order"]

_NAN = ("not a number",)


def identity(value: Any) -> Hashable:
    """A hashable stand-in: equal for values that are the same.

    >>> identity(float("nan")) == identity(float("nan")), identity(-0.0) == identity(0.0)
    (True, True)
    >>> identity({"b": [1, None], "a": 2}) == identity({"a": 2, "b": [1, None]})
    True
    """
    if isinstance(value, float):
        return _NAN if math.isnan(value) else value + 0.0
    if isinstance(value, Mapping):
        return frozenset((name, identity(item)) for name, item in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(identity(item) for item in value)
    if isinstance(value, bool):
        return ("bool", value)
    result: Hashable = value
    return result


def order(value: Any) -> tuple[int, Any]:
    """A sort key: values by size, then NaN, then null. Lists, structs and maps, which have no size,
    go by their texts.

    >>> sorted([None, 3, 1], key=order), sorted([[10], [9], [-0.0, 1], [None]], key=order)
    ([1, 3, None], [[-0.0, 1], [10], [9], [None]])
    """
    if value is None:
        return (2, 0)
    if isinstance(value, float) and math.isnan(value):
        return (1, 0)
    if isinstance(value, (list, tuple, Mapping)):
        return (0, repr(_without_negative_zero(value)))
    return (0, value)


def _without_negative_zero(value: Any) -> Any:
    if isinstance(value, float):
        return value + 0.0
    if isinstance(value, Mapping):
        return {name: _without_negative_zero(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(_without_negative_zero, value))
    return value
