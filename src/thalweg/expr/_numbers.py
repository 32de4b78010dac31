"""Kernels of numbers. Null in, null out; whole numbers are exact or an error, never wrapped around.

| function | whole numbers | doubles |
| --- | --- | --- |
| add, subtract, multiply, negate, abs | int64, an overflow is an error | IEEE |
| divide | double; null when the divisor is 0 | double; null when the divisor is 0 |
| floor_div, mod, floor_mod | int64; a divisor of 0 is an error | null when the divisor is 0 |
| sqrt, ln, exp, power | double | null outside the domain |
| round (halves away from 0), floor, ceil, sign | int64 | double |

`floor_div` rounds down; `mod` has the sign of the dividend, as in SQL, and `floor_mod` that of the
divisor, as in Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from thalweg.expr._times import add_times, has_times, subtract_times
from thalweg.expr.kinds import (
    Datum,
    Refusal,
    column,
    constant,
    convert,
    kind_of,
    meet,
    number,
    numbers,
)

__all__ = [
    "absolute",
    "add",
    "arithmetic",
    "ceil",
    "divide",
    "exp",
    "extreme",
    "floor",
    "integer_division",
    "ln",
    "log",
    "negate",
    "power",
    "round_",
    "sign",
    "sqrt",
    "subtract",
    "within_domain",
]

_FLOAT64, _ZERO = pa.float64(), pa.scalar(0.0)
_INT64, _DOUBLE = pa.int64().id, _FLOAT64.id
_EXACT = frozenset({_INT64, _DOUBLE})
_MIN = -(2**63)
_NULL_DOUBLE = pa.scalar(None, _FLOAT64)

_call = {
    name: pc.get_function(name).call
    for name in (
        "add_checked", "negate_checked", "abs_checked", "divide", "equal", "if_else", "sqrt", "ln",
        "exp", "power", "floor", "ceil", "sign", "is_nan", "and_not", "or", "less_equal", "less",
    )
}  # fmt: skip
_join = pc.get_function("binary_join_element_wise").call
_JOIN = pc.JoinOptions(null_handling="emit_null")


def arithmetic(kernel: str) -> Callable[[Datum, Datum], Datum]:
    """A checked kernel of two numbers."""
    run = pc.get_function(kernel).call

    def apply(left: Datum, right: Datum) -> Datum:
        if left.type.id != right.type.id or left.type.id not in _EXACT:
            left, right = numbers(left, right)
            if types.is_decimal(left.type):
                left, right = _with_room(left, right, kernel)
        return run([left, right])

    return apply


def _with_room(left: Datum, right: Datum, kernel: str) -> tuple[Datum, Datum]:
    """The operands as decimals of up to 76 digits where the result may need more than 38."""
    product = kernel.startswith("multiply")
    scale = max(left.type.scale, right.type.scale)
    whole = max(left.type.precision - left.type.scale, right.type.precision - right.type.scale)
    digits = left.type.precision + right.type.precision + 1 if product else whole + scale + 1
    if digits <= 38:
        return left, right
    return _widened(left), _widened(right)


def _widened(value: Datum) -> Datum:
    return value.cast(pa.decimal256(value.type.precision, value.type.scale))


_add_numbers = arithmetic("add_checked")


def add(left: Datum, right: Datum) -> Datum:
    """Numbers are added, texts are joined, times move by durations."""
    if left.type.id not in _EXACT and "text" in (kind_of(left.type), kind_of(right.type)):
        left, right = meet([left, right])
        return _join([left, right, pa.scalar("", left.type)], _JOIN)
    return add_times(left, right) if has_times(left, right) else _add_numbers(left, right)


_subtract_numbers = arithmetic("subtract_checked")


def subtract(left: Datum, right: Datum) -> Datum:
    """The difference of two numbers; the duration between two times."""
    return subtract_times(left, right) if has_times(left, right) else _subtract_numbers(left, right)


def negate(value: Datum) -> Datum:
    return _call["negate_checked"]([value if types.is_duration(value.type) else number(value)])


def absolute(value: Datum) -> Datum:
    return _call["abs_checked"]([number(value)])


def _double(value: Datum) -> Datum:
    return value if value.type.id == _DOUBLE else convert(number(value), _FLOAT64)


def _without_zeros(divisor: Datum) -> Datum:
    if isinstance(divisor, pa.Scalar):
        return _NULL_DOUBLE if divisor.as_py() == 0 else divisor
    return pc.if_else(pc.equal(divisor, _ZERO), _NULL_DOUBLE, divisor)


def divide(left: Datum, right: Datum) -> Datum:
    """True division."""
    return _call["divide"]([_double(left), _without_zeros(_double(right))])


def integer_division(
    ufunc: Callable[..., npt.NDArray[Any]], *, overflows: bool
) -> Callable[[Datum, Datum], Datum]:
    """`floor_div`, `mod` and `floor_mod`: NumPy has each by its definition. `overflows`: whether
    MIN op -1 leaves int64."""

    def apply(left: Datum, right: Datum) -> Datum:
        left, right = numbers(left, right)
        whole = left.type.id == _INT64
        if not whole:
            right = _without_zeros(right)
        if isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar):
            return column(apply(pa.array([left.as_py()], left.type), right))[0]
        dividend, divisor, nulls = _values(left, 0), _values(right, 1), _nulls(left, right)
        if dividend is None or divisor is None:
            return pa.nulls(len(column(right if dividend is None else left)), left.type)
        if whole and nulls is not None and isinstance(divisor, np.ndarray):
            divisor = np.where(nulls, 1, divisor)  # null divided by 0 is null
        if whole:
            _check_divisor(dividend, divisor, overflows=overflows)
        with np.errstate(all="ignore"):
            result = ufunc(dividend, divisor)
        return pa.array(result, mask=nulls)

    return apply


def _check_divisor(dividend: Any, divisor: Any, *, overflows: bool) -> None:
    if isinstance(divisor, int):
        zero, minus_one = divisor == 0, divisor == -1
    else:
        zero, minus_one = not divisor.all(), bool((divisor == -1).any())
    if zero:
        raise pa.ArrowInvalid("division by zero")
    if overflows and minus_one and np.any((divisor == -1) & (dividend == _MIN)):
        raise pa.ArrowInvalid("overflow")


def _values(value: Datum, filler: int) -> Any:
    """A column as NumPy, a scalar as a Python number (None when null). Nulls of a column become the
    filler; the caller masks them."""
    if isinstance(value, pa.Scalar):
        return value.as_py()
    return (value.fill_null(filler) if value.null_count else value).to_numpy()


def _nulls(left: Datum, right: Datum) -> npt.NDArray[np.bool_] | None:
    masks = [
        v.is_null().to_numpy(zero_copy_only=False)
        for v in (left, right)
        if isinstance(v, pa.Array) and v.null_count
    ]
    return None if not masks else masks[0] if len(masks) == 1 else masks[0] | masks[1]


def _null_where(condition: Datum, value: Datum) -> Datum:
    return _call["if_else"]([condition, _NULL_DOUBLE, value])


def sqrt(value: Datum) -> Datum:
    value = _double(value)
    return _call["sqrt"]([_null_where(_call["less"]([value, _ZERO]), value)])


def ln(value: Datum) -> Datum:
    value = _double(value)
    return _call["ln"]([_null_where(_call["less_equal"]([value, _ZERO]), value)])


def within_domain(kernel: str) -> Callable[..., Datum]:
    """A function of doubles; null outside its domain."""
    run = pc.get_function(kernel).call

    def apply(*values: Datum) -> Datum:
        doubles = [_double(value) for value in values]
        result = run(doubles)
        outside = _call["is_nan"]([result])
        if kernel.startswith("log"):
            outside = _call["or"]([outside, _call["less_equal"]([doubles[-1], _ZERO])])
        for value in doubles:
            outside = _call["and_not"]([outside, _call["is_nan"]([value])])
        return _null_where(outside, result)

    return apply


def log(first: Datum, second: Datum | None = None) -> Datum:
    """The natural logarithm; with two arguments the first is the base."""
    return ln(first) if second is None else divide(ln(second), ln(first))


def exp(value: Datum) -> Datum:
    return _call["exp"]([_double(value)])


def power(base: Datum, exponent: Datum) -> Datum:
    base, exponent = _double(base), _double(exponent)
    result = _call["power"]([base, exponent])
    operand_is_nan = _call["or"]([_call["is_nan"]([base]), _call["is_nan"]([exponent])])
    return _null_where(_call["and_not"]([_call["is_nan"]([result]), operand_is_nan]), result)


def round_(value: Datum, digits: Datum | None = None) -> Datum:
    """Round to `digits` digits after the decimal point; a negative number rounds before it."""
    places = 0 if digits is None else constant(digits, "the number of digits")
    if not isinstance(places, int) or isinstance(places, bool):
        raise Refusal(f"the number of digits must be a whole number, not {places!r}")
    return pc.round(number(value), ndigits=places, round_mode="half_towards_infinity")


def floor(value: Datum) -> Datum:
    value = number(value)
    return value if value.type.id == _INT64 else _call["floor"]([value])


def ceil(value: Datum) -> Datum:
    value = number(value)
    return value if value.type.id == _INT64 else _call["ceil"]([value])


def sign(value: Datum) -> Datum:
    """-1, 0 or 1."""
    value = number(value)
    return _call["sign"]([value]).cast(value.type)


def extreme(kernel: str) -> Callable[..., Datum]:
    """`least` and `greatest`, over the values that are not null."""
    run = pc.get_function(kernel).call
    options = pc.ElementWiseAggregateOptions(skip_nulls=True)

    def apply(*values: Datum) -> Datum:
        same = meet(values)
        if kind_of(same[0].type) == "condition":
            raise Refusal("conditions have no order; numbers, text or times are needed")
        return same[0] if kind_of(same[0].type) == "null" else run(same, options)

    return apply
