"""Conditions: truth tables, comparisons, IN, CASE, and the functions that see nulls."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thalweg.errors import EvaluationError, TypeMismatchError
from thalweg.expr import Case, Expr, Frame, Literal, call, col, lit, parse
from thalweg.expr._logic import is_in

TRUTH = [True, False, None]


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


def test_truth_tables() -> None:
    """
    AND | T F N     OR | T F N     NOT
    T   | T F N     T  | T T T     T -> F
    F   | F F F     F  | T F N     F -> T
    N   | N F N     N  | T N N     N -> N
    """
    p, q = [a for a in TRUTH for _ in TRUTH], TRUTH * 3
    assert run("p and q", p=p, q=q) == [True, False, None, False, False, False, None, False, None]
    assert run("p or q", p=p, q=q) == [True, True, True, True, False, None, True, None, None]
    assert run("not p", p=TRUTH) == [False, True, None]
    assert run("p is true", p=TRUTH) == [True, False, False]
    assert run("p is not true", p=TRUTH) == [False, True, True]
    assert run("p is false", p=TRUTH) == [False, True, False]
    assert run("p is null", p=TRUTH) == [False, False, True]
    assert run("p is not null", p=TRUTH) == [True, True, False]


@pytest.mark.parametrize("operator", ["=", "==", "<>", "!=", "<", "<=", ">", ">="])
def test_a_comparison_with_null_is_null(operator: str) -> None:
    assert run(f"a {operator} b", a=[1, None, None], b=[None, 1, None]) == [None, None, None]
    assert run(f"a {operator} null", a=[1, None]) == [None, None]
    assert run(f"null {operator} null", a=[1]) == [None]


def test_nan_equals_nothing() -> None:
    nan = float("nan")
    assert run("x = x", x=[nan, 1.0]) == [False, True]
    assert run("x <> x", x=[nan, 1.0]) == [True, False]
    assert run("x > 1 or x <= 1", x=[nan]) == [False]


def test_in_is_a_disjunction_of_comparisons() -> None:
    assert run("a in (1, 2)", a=[1, 3, None]) == [True, False, None]
    assert run("a in (1, null)", a=[1, 3, None]) == [True, None, None]
    assert run("a not in (1, null)", a=[1, 3, None]) == [False, None, None]
    assert run("a in (null)", a=[1, None]) == [None, None]
    assert run("a in (1.0, 2.5)", a=[1, 2]) == [True, False]
    assert run("x in (0, 1)", x=[-0.0, 0.0, 1.0]) == [True, True, True]
    assert run("n in (1)", n=pa.nulls(2)) == [None, None]
    assert run("n in (null)", n=pa.nulls(2)) == [None, None]


@given(
    st.lists(st.none() | st.floats(-2, 2) | st.just(float("nan"))),
    st.lists(st.none() | st.sampled_from([0.0, -0.0, 1.0, float("nan")])),
)
def test_in_agrees_with_equality(values: list[float | None], choices: list[float | None]) -> None:
    rows = pa.RecordBatch.from_arrays([pa.array(values, pa.float64())], names=["x"])
    wanted: Expr = lit(False)
    for choice in choices:
        wanted = wanted | (col("x") == Literal(choice, pa.float64()))
    assert (
        col("x").isin(choices).evaluate(Frame.of(rows)).to_pylist()
        == wanted.evaluate(Frame.of(rows)).to_pylist()
    )


def test_in_of_no_values_is_false_even_for_null() -> None:
    rows = pa.RecordBatch.from_pydict({"a": [1, None]})
    assert col("a").isin([]).evaluate(Frame.of(rows)).to_pylist() == [False, False]


def test_in_takes_only_lists() -> None:
    with pytest.raises(TypeMismatchError, match="IN takes a list of constants"):
        call("in", col("a"), 1).type_in(pa.schema([("a", pa.int64())]))
    assert is_in(pa.scalar(1), pa.scalar([1])) == pa.scalar(True)


def test_between() -> None:
    assert run("a between 1 and 3", a=[0, 1, 3, 4, None]) == [False, True, True, False, None]
    assert run("a not between 1 and 3", a=[0, 1, 3, 4, None]) == [True, False, False, True, None]
    assert run("a between 1 and null", a=[0, 1]) == [False, None]


def test_functions_that_see_nulls() -> None:
    assert run("coalesce(a, b, 0)", a=[1, None, None], b=[2, 2, None]) == [1, 2, 0]
    assert run("if_null(a, 7)", a=[1, None]) == [1, 7]
    assert run("coalesce(a, 1.5)", a=[1, None]) == [1.0, 1.5]
    assert run("coalesce(null, null)", a=[1]) == [None]
    assert run("nullif(a, 1)", a=[1, 2, None]) == [None, 2, None]
    assert run("nullif(a, null)", a=[1, None]) == [1, None]
    assert run("nullif(a, 1.0)", a=[1, 2]) == [None, 2]


def test_case_takes_the_first_true_branch() -> None:
    text = "case when a > 10 then 'big' when a > 5 then 'mid' else 'small' end"
    assert run(text, a=[11, 6, 1, None]) == ["big", "mid", "small", "small"]
    assert run("case when a > 10 then 'big' end", a=[11, 1, None]) == ["big", None, None]
    assert run("case a when 1 then 'one' when 2 then 'two' end", a=[2, 1, 3, None]) == [
        "two",
        "one",
        None,
        None,
    ]
    assert run("if(a > 1, 'many', 'few')", a=[2, 1, None]) == ["many", "few", "few"]
    assert run("if(a > 1, a)", a=[2, 1, None]) == [2, None, None]
    assert run("case when p then 1 else x end", p=[True, False], x=[0.5, 0.5]) == [1.0, 0.5]
    assert run("case when null then 1 when true then 2 end", p=[True]) == [2]
    assert run("case when p then null else null end", p=[True]) == [None]


def test_case_guards_what_would_fail_elsewhere() -> None:
    assert run("case when b <> 0 then a // b else -1 end", a=[6, 1, None], b=[3, 0, 2]) == [
        2,
        -1,
        None,
    ]
    assert run("case when s = 'NA' then null else cast(s as bigint) end", s=["1", "NA", None]) == [
        1,
        None,
        None,
    ]
    assert run(
        "case when b = 0 then 'zero' when a // b > 1 then 'big' end", a=[6, 1], b=[3, 0]
    ) == ["big", "zero"]
    assert run("case when b = 0 then x else a // b end", a=[6, 1], b=[3, 0], x=[0.5, 0.5]) == [
        2.0,
        0.5,
    ]
    with pytest.raises(EvaluationError, match="a // b failed on row 0"):
        run("case when b = 0 then a // b end", a=[6, 1], b=[3, 0])


def test_case_of_nested_values() -> None:
    assert run("case when p then v end", p=[True, False], v=[[1], [2]]) == [[1], None]


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (pa.timestamp("us"), pa.timestamp("ns")),
        (pa.timestamp("s"), pa.timestamp("ms")),
        (pa.string(), pa.large_string()),
        (pa.string(), pa.string_view()),
        (pa.string(), pa.dictionary(pa.int32(), pa.string())),
        (pa.int8(), pa.uint32()),
        (pa.float32(), pa.int64()),
        (pa.date32(), pa.date32()),
        (pa.decimal128(10, 2), pa.decimal128(10, 2)),
        (pa.binary(), pa.binary()),
        (pa.timestamp("us"), pa.date32()),
        (pa.timestamp("us", "UTC"), pa.timestamp("ms", "Asia/Tokyo")),
        (pa.int64(), pa.decimal128(10, 2)),
        (pa.float32(), pa.decimal128(10, 2)),
    ],
)
def test_types_that_meet(one: pa.DataType, two: pa.DataType) -> None:
    schema = pa.schema([("a", one), ("b", two)])
    assert parse("a = b").type_in(schema) == pa.bool_()
    assert parse("coalesce(a, b)").type_in(schema) == parse(
        "case when true then b else a end"
    ).type_in(schema)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (pa.int64(), pa.string()),
        (pa.int64(), pa.bool_()),
        (pa.timestamp("us"), pa.timestamp("us", "UTC")),
        (pa.timestamp("us", "UTC"), pa.date32()),
        (pa.string(), pa.timestamp("us")),
        (pa.string(), pa.binary()),
        (pa.string(), pa.decimal128(10, 2)),
    ],
)
@pytest.mark.parametrize(
    "text",
    [
        "a = b",
        "a < b",
        "coalesce(a, b)",
        "nullif(a, b)",
        "case when true then a else b end",
        "least(a, b)",
    ],
)
def test_types_that_do_not_meet(text: str, one: pa.DataType, two: pa.DataType) -> None:
    with pytest.raises(
        TypeMismatchError, match="do not go together; convert one of them with CAST"
    ):
        parse(text).type_in(pa.schema([("a", one), ("b", two)]))


def test_times_compare_with_datetimes() -> None:
    noon = dt.datetime(2024, 5, 1, 12)
    rows = pa.RecordBatch.from_arrays(
        [pa.array([noon, noon + dt.timedelta(hours=1), None], pa.timestamp("ns"))], names=["t"]
    )
    assert (col("t") > noon).evaluate(Frame.of(rows)).to_pylist() == [False, True, None]


def test_a_case_needs_a_branch() -> None:
    with pytest.raises(Exception, match="at least one WHEN"):
        Case((), lit(1))
