"""Every error: what it says, and whose line it blames."""

from __future__ import annotations

import inspect

import numpy as np
import pyarrow as pa
import pytest

from thalweg.errors import (
    EvaluationError,
    ExpressionError,
    PlanError,
    TypeMismatchError,
    UnknownColumnError,
)
from thalweg.expr import Call, Case, Frame, Literal, call, col, lit, parse

SCHEMA = pa.schema(
    [("len", pa.int64()), ("src", pa.string()), ("up", pa.bool_()), ("tags", pa.list_(pa.string()))]
)


def second_line_from_here() -> int:
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    return frame.f_back.f_lineno + 2


def blames(error: PlanError, line: int) -> bool:
    return error.file == __file__ and error.line == line and f"at {__file__}:{line}" in str(error)


def test_an_unknown_column_is_named_with_the_closest_one_and_all_others() -> None:
    line = second_line_from_here()
    with pytest.raises(UnknownColumnError) as caught:
        parse("lenn > 40").type_in(SCHEMA)
    assert (
        "in lenn > 40: unknown column 'lenn'. Did you mean 'len'? Columns here: len, src, up, tags."
        in str(caught.value)
    )
    assert caught.value.name == "lenn" and blames(caught.value, line)


def test_an_unknown_column_of_a_frame() -> None:
    with pytest.raises(UnknownColumnError, match="unknown column 'x'"):
        col("x").evaluate(Frame({"y": pa.array([1])}, 1))


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (
            "len > 'x'",
            [
                "len > 'x': int64 and string do not go together",
                "CAST(... AS ...)",
                "len is int64, 'x' is string",
            ],
        ),
        ("src + len", ["src + len: string and int64 do not go together"]),
        ("up + 1", ["up + 1: a number is needed, not bool", "CAST(... AS bigint)"]),
        ("up = 1", ["up = 1: bool and int64 do not go together"]),
        (
            "len and up",
            [
                "len AND up: a condition (true or false) is needed, not int64",
                "compare it with something",
            ],
        ),
        ("not len", ["NOT len: a condition"]),
        ("-src", ["-src: a number is needed, not string"]),
        ("sqrt(src)", ["sqrt(src): a number is needed"]),
        ("round(len, 0.5)", ["the number of digits must be a whole number, not 0.5"]),
        ("round(len, len)", ["the number of digits must be a constant"]),
        (
            "timestampadd(month, true, timestamp '2026-01-31')",
            ["the number of months is a whole number, not True"],
        ),
        ("least(up, up)", ["conditions have no order"]),
        ("tags = tags", ["list<item: string> cannot be compared"]),
        ("tags < tags", ["cannot be compared"]),
        ("upper(tags)", ["text is needed, not list<item: string>"]),
        ("case when len then 1 end", ["a condition (true or false) is needed, not int64"]),
        (
            "case when up then 1 else src end",
            ["int64 and string do not go together", "CASE WHEN up THEN 1 ELSE src END"],
        ),
        ("coalesce(len, src)", ["coalesce(len, src): int64 and string do not go together"]),
        ("src in (1, 2)", ["src IN (1, 2): string and int64 do not go together"]),
        ("len // 0", ["len // 0 fails on every row: division by zero"]),
        ("9223372036854775807 + 1", ["fails on every row: overflow"]),
        ("1 + (len > 'x')", ["len > 'x': int64 and string do not go together"]),
    ],
)
def test_ill_typed_expressions_name_the_part_the_types_and_the_way_out(
    text: str, parts: list[str]
) -> None:
    expr = parse(text)
    line = second_line_from_here()
    with pytest.raises(TypeMismatchError) as caught:
        expr.type_in(SCHEMA)
    assert all(part in str(caught.value) for part in parts), str(caught.value)
    assert blames(caught.value, line)


def test_python_operators_blame_the_line_that_types_them() -> None:
    line = second_line_from_here()
    with pytest.raises(TypeMismatchError) as caught:
        (col("len") > "x").type_in(SCHEMA)
    assert blames(caught.value, line)


def test_evaluation_names_the_expression_and_shows_the_value() -> None:
    frame = Frame({"len": pa.array([1, 2, 2**62]), "src": pa.array(["1", "x'y", "3"])}, 3)
    with pytest.raises(
        EvaluationError,
        match=r"len \* 4 failed on row 2 of the batch, where len = 4611686018427387904: overflow",
    ):
        (col("len") * 4).evaluate(frame)
    with pytest.raises(
        EvaluationError,
        match=r"CAST\(src AS bigint\) failed on row 1 of the batch, where src = \"x'y\"",
    ):
        (col("src").cast(pa.int64()) + 1).evaluate(frame)
    with pytest.raises(EvaluationError, match="do not go together"):
        (col("src") > 1).evaluate(frame)


def test_a_failure_between_two_columns_shows_both() -> None:
    frame = Frame({"a": pa.array([1, 2**62]), "b": pa.array([2**62, 2**62])}, 2)
    with pytest.raises(
        EvaluationError,
        match=r"row 1 of the batch, where a = 4611686018427387904, b = 4611686018427387904",
    ):
        (col("a") + col("b")).evaluate(frame)


def test_unknown_functions_and_wrong_numbers_of_arguments() -> None:
    line = second_line_from_here()
    with pytest.raises(ExpressionError) as caught:
        call("lenght", col("src"))
    assert "unknown function 'lenght'. Did you mean 'length'?" in str(caught.value) and blames(
        caught.value, line
    )
    with pytest.raises(ExpressionError, match="upper takes 1 argument; got 2"):
        Call("upper", (col("src"), col("src")))
    with pytest.raises(ExpressionError, match="replace takes 3 arguments; got 1"):
        call("replace", col("src"))


@pytest.mark.parametrize("value", [object(), 2**63, {1, 2}, [object()], (1, "x")])
def test_what_cannot_be_a_literal(value: object) -> None:
    line = second_line_from_here()
    with pytest.raises(ExpressionError) as caught:
        lit(value)
    assert "cannot be a literal" in str(caught.value) and blames(caught.value, line)


def test_a_literal_must_fit_its_type() -> None:
    with pytest.raises(ExpressionError, match="300 cannot be a literal as int8"):
        Literal(300, pa.int8())


def test_an_expression_has_no_truth_value() -> None:
    a = col("a")
    for attempt in (
        lambda: a > 1 and a < 3,
        lambda: 1 < a < 3,
        lambda: not a,
        lambda: a in [col("b"), col("c")],
        lambda: bool(a == col("a")),
        lambda: [col("b"), a].index(col("c")),
    ):
        with pytest.raises(ExpressionError, match=r"no truth value.*& \| ~"):
            attempt()


def test_arguments_of_the_wrong_sort() -> None:
    with pytest.raises(ExpressionError, match="the name of a column is text; got 5"):
        col(5)  # type: ignore[arg-type]
    with pytest.raises(ExpressionError, match=r"write isin\(\['ab'\]\)"):
        col("a").isin("ab")
    with pytest.raises(ExpressionError, match="at least one WHEN"):
        Case((), None)
    with pytest.raises(ValueError, match="'x' has 3 values beside 2 rows"):
        Frame.of(pa.RecordBatch.from_pydict({"a": [1, 2]}), x=np.arange(3))
