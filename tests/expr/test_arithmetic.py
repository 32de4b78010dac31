"""Numbers: division in all its kinds, overflow, rounding, the borders of int64 and of the domains
of functions."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thalweg.errors import EvaluationError
from thalweg.expr import Frame, call, col, lit, parse

MIN, MAX = -(2**63), 2**63 - 1


def run(text: str, **columns: Any) -> list[Any]:
    rows = pa.RecordBatch.from_pydict(
        {
            name: values if isinstance(values, pa.Array) else pa.array(values)
            for name, values in columns.items()
        }
    )
    expr = parse(text)
    found = expr.evaluate(Frame.of(rows))
    assert found.type == expr.type_in(rows.schema)
    return found.to_pylist()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a / b", [3.5, -3.5, -3.5, 3.5]),
        ("a // b", [3, -4, -4, 3]),
        ("a div b", [3, -4, -4, 3]),
        ("a % b", [1, -1, 1, -1]),
        ("floor_mod(a, b)", [1, 1, -1, -1]),
        ("mod(a, b)", [1, -1, 1, -1]),
    ],
)
def test_kinds_of_division(text: str, wanted: list[float]) -> None:
    assert run(text, a=[7, -7, 7, -7], b=[2, 2, -2, -2]) == wanted
    assert run(text, a=[7.0, -7.0, 7.0, -7.0], b=[2, 2, -2, -2]) == wanted


@pytest.mark.parametrize("operator", ["/", "//", "%"])
def test_a_double_divided_by_zero_is_null(operator: str) -> None:
    assert run(f"x {operator} y", x=[1.0, 0.0, -1.0, 4.0], y=[0.0, -0.0, 0.0, 4.0])[:3] == [
        None,
        None,
        None,
    ]
    assert run(f"x {operator} 0", x=[1.0, None]) == [None, None]


def test_true_division_of_whole_numbers_by_zero_is_null() -> None:
    assert run("a / b", a=[1, 0, None], b=[0, 0, 0]) == [None, None, None]


@pytest.mark.parametrize("operator", ["//", "%"])
def test_whole_division_by_zero_is_an_error_that_shows_the_row(operator: str) -> None:
    with pytest.raises(
        EvaluationError, match=r"row 2 of the batch, where a = 9, b = 0: division by zero"
    ):
        run(f"a {operator} b", a=[1, None, 9, 5], b=[1, 0, 0, 0])


def test_a_null_divisor_or_dividend_divides_nothing() -> None:
    assert run("a // b", a=[None, 1, None], b=pa.array([0, None, None], pa.int64())) == [
        None,
        None,
        None,
    ]
    assert run("a // null", a=[1, 2]) == [None, None]
    assert run("null // a", a=[1, 2]) == [None, None]
    assert run("10 // a", a=[3, -3, None]) == [3, -4, None]


@pytest.mark.parametrize(
    "text", ["a + b", "a - -b", "a * 2", "-(a + 0) - 2 - b", "abs(c)", "-c", "c // -1", "c - b"]
)
def test_overflow_is_an_error(text: str) -> None:
    with pytest.raises(EvaluationError, match="overflow"):
        run(text, a=[0, MAX], b=[0, 1], c=[0, MIN])


def test_the_border_of_int64_is_reached_without_error() -> None:
    assert run("a % -1", a=[MIN]) == [0]
    assert run("floor_mod(a, -1)", a=[MIN]) == [0]
    assert run("a // 1", a=[MIN, MAX]) == [MIN, MAX]
    assert run("-9223372036854775808", a=[0]) == [MIN]


@pytest.mark.parametrize(
    "type_", [pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
)
def test_small_whole_numbers_are_promoted(type_: pa.DataType) -> None:
    small = pa.array([100, None, 100], type_)
    assert run("a * a + 1", a=small) == [10001, None, 10001]
    assert parse("a * a").type_in(pa.schema([("a", type_)])) == pa.int64()
    assert run("a > 99.5 and a < 101", a=small) == [True, None, True]
    assert run("-a", a=small) == [-100, None, -100]


def test_floats_are_promoted_to_double() -> None:
    assert parse("a + a").type_in(pa.schema([("a", pa.float32())])) == pa.float64()
    assert run("a + 1", a=pa.array([1.5, None], pa.float32())) == [2.5, None]


def test_unsigned_numbers_beyond_int64_are_refused_not_wrapped() -> None:
    with pytest.raises(EvaluationError, match="18446744073709551615"):
        run("a + 1", a=pa.array([1, 2**64 - 1], pa.uint64()))


def test_large_whole_numbers_meet_doubles_as_the_nearest_double() -> None:
    assert run("a = x", a=[2**53 + 1, MAX], x=[2.0**53, 2.0**63]) == [True, True]
    assert run("a + 0.0", a=[2**53 + 1]) == [2.0**53]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("round(x)", [3.0, -3.0, 3.0, None]),
        ("floor(x)", [2.0, -3.0, 2.0, None]),
        ("ceil(x)", [3.0, -2.0, 3.0, None]),
        ("ceiling(x)", [3.0, -2.0, 3.0, None]),
        ("sign(x)", [1.0, -1.0, 1.0, None]),
        ("abs(x)", [2.5, 2.5, 2.75, None]),
        ("round(x, 1)", [2.5, -2.5, 2.8, None]),
        ("power(x, 2)", [6.25, 6.25, 7.5625, None]),
        ("pow(x, 0)", [1.0, 1.0, 1.0, None]),
    ],
)
def test_functions_of_doubles(text: str, wanted: list[float | None]) -> None:
    assert run(text, x=[2.5, -2.5, 2.75, None]) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("round(a)", [15, -15, None]),
        ("round(a, -1)", [20, -20, None]),
        ("floor(a)", [15, -15, None]),
        ("ceil(a)", [15, -15, None]),
        ("sign(a)", [1, -1, None]),
        ("abs(a)", [15, 15, None]),
    ],
)
def test_functions_of_whole_numbers_stay_whole(text: str, wanted: list[int | None]) -> None:
    found = run(text, a=[15, -15, None])
    assert found == wanted and all(value is None or type(value) is int for value in found)


def test_functions_outside_their_domain_are_null() -> None:
    assert run("sqrt(x)", x=[4.0, -1.0, 0.0, None]) == [2.0, None, 0.0, None]
    assert run("ln(x)", x=[1.0, 0.0, -1.0, None]) == [0.0, None, None, None]
    assert run("power(x, 0.5)", x=[4.0, -4.0, None]) == [2.0, None, None]
    assert run("exp(a)", a=[0, None]) == [1.0, None]
    assert math.isnan(run("sqrt(x)", x=[math.nan])[0]) and math.isnan(
        run("power(x, 2)", x=[math.nan])[0]
    )


def test_least_and_greatest_skip_nulls() -> None:
    assert run("least(a, b, 5)", a=[1, None, 9], b=[2, None, None]) == [1, 5, 5]
    assert run("greatest(a, b)", a=[1, None, 9], b=[2, None, None]) == [2, None, 9]
    assert run("least(a, 1.5)", a=[1, 2]) == [1.0, 1.5]
    assert run("greatest(s, 'b')", s=["a", "c"]) == ["b", "c"]
    assert run("least(null, null)", a=[1]) == [None]


@given(st.lists(st.floats(allow_nan=True), min_size=1), st.floats(allow_nan=True))
def test_division_of_doubles_is_ieee_but_for_zero(values: list[float], divisor: float) -> None:
    found = run("x / y", x=values, y=[divisor] * len(values))
    for value, result in zip(values, found, strict=True):
        if divisor == 0:
            assert result is None
        else:
            assert result == value / divisor or (math.isnan(result) and math.isnan(value / divisor))


@given(st.integers(MIN, MAX), st.integers(MIN, MAX).filter(bool))
def test_floor_division_and_its_remainder_belong_together(a: int, b: int) -> None:
    if (a, b) != (MIN, -1):
        frame = Frame({}, 1)
        quotient = call("floor_div", lit(a), lit(b)).evaluate(frame)[0].as_py()
        rest = call("floor_mod", lit(a), lit(b)).evaluate(frame)[0].as_py()
        assert (quotient, rest) == divmod(a, b)


def test_operators_of_python_and_of_text_build_the_same() -> None:
    a, b = col("a"), col("b")
    pairs = {
        "a + b": a + b, "a - b": a - b, "a * b": a * b, "a / b": a / b, "a // b": a // b,
        "a % b": a % b, "-a": -a, "1 + a": 1 + a, "1 - a": 1 - a, "2 * a": 2 * a, "1 / a": 1 / a,
        "1 // a": 1 // a, "1 % a": 1 % a,
    }  # fmt: skip
    for text, expr in pairs.items():
        assert parse(text).same(expr) and str(expr) == text
