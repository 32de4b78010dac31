"""CAST: what fits is converted, what does not is an error that shows the value."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from thalweg.errors import EvaluationError, ExpressionError, TypeMismatchError
from thalweg.expr import Cast, Frame, Literal, col, lit, parse
from thalweg.expr.casts import TYPE_NAMES


def run(text: str, values: Any) -> list[Any]:
    rows = pa.RecordBatch.from_arrays(
        [values if isinstance(values, pa.Array) else pa.array(values)], names=["v"]
    )
    expr = parse(text)
    found = expr.evaluate(Frame.of(rows))
    assert found.type == expr.type_in(rows.schema)
    return found.to_pylist()


@pytest.mark.parametrize(
    ("text", "values", "wanted"),
    [
        ("cast(v as bigint)", ["12", "-3", None], [12, -3, None]),
        ("cast(v as INT)", [1.9, -1.9, None], [1, -1, None]),
        ("cast(v as double)", [2**53 + 1, None], [2.0**53, None]),
        ("cast(v as varchar)", [1, None], ["1", None]),
        ("cast(v as string)", [True, None], ["true", None]),
        ("cast(v as bigint)", [True, False, None], [1, 0, None]),
        ("cast(v as boolean)", [2, 0, None], [True, False, None]),
        ("cast(v as tinyint)", [127, None], [127, None]),
        ("cast(v as double)", ["1.5", None], [1.5, None]),
        ("cast(null as bigint)", [1], [None]),
        ("cast(v as bigint)", pa.array(["1", "2"]).dictionary_encode(), [1, 2]),
        ("cast(v as bigint)", pa.array(["1", None], pa.string_view()), [1, None]),
        ("cast(v as bigint)", pa.array([7], pa.timestamp("us")), [7]),
        ("cast(cast(v as timestamp) as bigint)", [7], [7]),
    ],
)
def test_what_fits(text: str, values: Any, wanted: list[Any]) -> None:
    assert run(text, values) == wanted


@pytest.mark.parametrize(
    ("text", "values", "shown"),
    [
        ("cast(v as bigint)", ["1", "2", "NA"], "row 2 of the batch, where v = 'NA'"),
        ("cast(v as bigint)", ["1.5"], "v = '1.5'"),
        ("cast(v as tinyint)", [1, 128], "row 1 of the batch, where v = 128"),
        ("cast(v as bigint)", [1e19], "v = 1e+19"),
        ("cast(v as bigint)", [0.0, float("nan")], "v = nan"),
        ("cast(v as double)", ["x" * 100], "v = 'xxx"),
    ],
)
def test_what_does_not_fit(text: str, values: list[Any], shown: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        run(text, values)
    message = str(caught.value)
    assert shown in message and "CAST(v AS" in message
    assert len(message) < 400


def test_the_first_bad_row_of_many_is_shown() -> None:
    values = pa.array([str(i) for i in range(10_000)] + ["bad"] + ["worse"] * 10_000)
    with pytest.raises(EvaluationError, match="row 10000 of the batch, where v = 'bad'"):
        run("cast(v as bigint)", values)


def test_casts_that_do_not_exist_are_refused_before_any_row() -> None:
    with pytest.raises(
        TypeMismatchError, match=r"CAST\(v AS int\) is not defined for these types: v is list"
    ):
        parse("cast(v as int)").type_in(pa.schema([("v", pa.list_(pa.int64()))]))
    with pytest.raises(TypeMismatchError, match="fails on every row"):
        parse("cast('x' as int)").type_in(pa.schema([]))


@pytest.mark.parametrize("name", TYPE_NAMES)
def test_every_type_has_a_name_that_parses(name: str) -> None:
    expr = parse(f"cast(v as {name.upper()})")
    assert expr.same(Cast(col("v"), TYPE_NAMES[name]))
    assert parse(str(expr)).same(expr)


def test_any_arrow_type_can_be_the_target() -> None:
    rows = pa.RecordBatch.from_pydict({"v": [1, None]})
    assert col("v").cast(pa.decimal128(21, 2)).evaluate(Frame.of(rows)).type == pa.decimal128(21, 2)
    with pytest.raises(ExpressionError, match="cast takes an Arrow type"):
        col("v").cast("int")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("literal", "text"),
    [
        (lit(5), "5"),
        (lit(-5), "-5"),
        (lit(1.5), "1.5"),
        (lit("it's"), "'it''s'"),
        (lit(None), "NULL"),
        (lit(True), "TRUE"),
        (Literal(5, pa.int8()), "CAST(5 AS tinyint)"),
        (Literal(None, pa.string()), "CAST(NULL AS varchar)"),
        (lit(float("nan")), "CAST('nan' AS double)"),
        (lit(float("-inf")), "CAST('-inf' AS double)"),
    ],
)
def test_literals_print_as_text_of_equal_meaning(literal: Literal, text: str) -> None:
    assert str(literal) == text
    again = parse(text)
    one, two = (expr.evaluate(Frame({}, 2)) for expr in (literal, again))
    assert one.type == two.type and str(one) == str(two)
