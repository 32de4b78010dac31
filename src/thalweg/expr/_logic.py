"""Kernels of conditions, comparisons and nulls: SQL's three-valued logic.

A comparison with null is null. `NULL AND FALSE` is false and `NULL OR TRUE` is true; otherwise null
wins. `is_null`, `is_not_null`, `coalesce` and `nullif` are the functions that see nulls. Doubles
compare as in IEEE 754: NaN equals nothing. `x IN (...)` is the disjunction of the comparisons, null
when only a null could decide; IN of no values is false.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from thalweg.expr.kinds import Datum, Refusal, column, common_type, convert, meet, truth

__all__ = [
    "choose",
    "coalesce",
    "comparison",
    "connective",
    "is_distinct",
    "is_in",
    "is_not_null",
    "is_null",
    "not_",
    "nullif",
]

_SAME = frozenset(
    t.id
    for t in (
        pa.int64(),
        pa.float64(),
        pa.string(),
        pa.bool_(),
        pa.int32(),
        pa.float32(),
        pa.int16(),
        pa.int8(),
    )
)
_NO, _YES, _UNKNOWN = (pa.scalar(value, pa.bool_()) for value in (False, True, None))
_invert, _is_null, _is_valid, _if_else, _coalesce, _is_in, _equal, _add = (
    pc.get_function(name).call
    for name in ("invert", "is_null", "is_valid", "if_else", "coalesce", "is_in", "equal", "add")
)


def comparison(kernel: str) -> Callable[[Datum, Datum], Datum]:
    run = pc.get_function(kernel).call

    def apply(left: Datum, right: Datum) -> Datum:
        if left.type.id != right.type.id or left.type.id not in _SAME:
            left, right = _comparable(left, right)
        return run([left, right])

    return apply


def _comparable(left: Datum, right: Datum) -> tuple[Datum, Datum]:
    left, right = meet([left, right])
    if types.is_null(left.type):
        return left.cast(pa.bool_()), right.cast(pa.bool_())
    if types.is_nested(left.type):
        raise Refusal(f"{left.type} cannot be compared")
    return left, right


def connective(kernel: str) -> Callable[[Datum, Datum], Datum]:
    run = pc.get_function(kernel).call

    def apply(left: Datum, right: Datum) -> Datum:
        return run([truth(left), truth(right)])

    return apply


def is_distinct(left: Datum, right: Datum) -> Datum:
    """Whether two values differ, where null is a value like others."""
    left, right = _comparable(left, right)
    differ = pc.not_equal(left, right)
    nulls = pc.xor(pc.is_null(left), pc.is_null(right))
    return pc.coalesce(differ, nulls)


def not_(value: Datum) -> Datum:
    return _invert([truth(value)])


def is_null(value: Datum) -> Datum:
    return _is_null([value])


def is_not_null(value: Datum) -> Datum:
    return _is_valid([value])


def coalesce(*values: Datum) -> Datum:
    """The first value that is not null."""
    same = meet(values)
    return same[0] if types.is_null(same[0].type) else _coalesce(same)


def nullif(value: Datum, unwanted: Datum) -> Datum:
    """Null where the two values are equal, else the first."""
    value = value if types.is_null(value.type) else convert(value, common_type([value.type]))
    hit = _equal(list(_comparable(value, unwanted)))
    return choose(hit, pa.scalar(None, value.type), value)


def choose(condition: Datum, then: Datum, otherwise: Datum) -> Datum:
    """`then` where the condition is true, `otherwise` where it is false or null; both of one
    type."""
    if isinstance(condition, pa.Scalar):
        if isinstance(then, pa.Scalar) and isinstance(otherwise, pa.Scalar):
            return then if condition.as_py() else otherwise
        condition = _YES if condition.as_py() else _NO
    elif condition.null_count:
        condition = condition.fill_null(fill_value=False)
    return _if_else([condition, then, otherwise])


def is_in(value: Datum, choices: Datum) -> Datum:
    if not isinstance(choices, pa.ListScalar) or not choices.is_valid:
        raise Refusal("IN takes a list of constants")
    items = choices.values
    if items is None or not len(items):
        return _NO
    type_ = common_type([value.type, items.type])
    if types.is_null(type_):
        return _UNKNOWN if isinstance(value, pa.Scalar) else pa.nulls(len(value), pa.bool_())
    value, lookup = convert(value, type_), column(convert(items.drop_null(), type_))
    if types.is_floating(type_):
        zero = pa.scalar(0.0, type_)  # is_in distinguishes -0.0 from 0.0; = does not
        value, lookup = _add([value, zero]), pc.add(lookup, zero)
        lookup = lookup.filter(pc.invert(pc.is_nan(lookup)))
    found = _is_in([value], pc.SetLookupOptions(lookup))
    if items.null_count:
        found = _if_else([found, _YES, _UNKNOWN])
    return _if_else([_is_valid([value]), found, _UNKNOWN]) if value_has_nulls(value) else found


def value_has_nulls(value: Datum) -> bool:
    return not value.is_valid if isinstance(value, pa.Scalar) else bool(value.null_count)
