"""The tree and its frame: building, comparing, reading columns, broadcasting, and what never
happens."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import thalweg.expr
from thalweg.errors import ExpressionError
from thalweg.expr import Call, Case, Cast, Column, Frame, Literal, as_expr, call, col, lit, parse
from thalweg.expr.functions import ALIASES, FUNCTIONS

ROWS = pa.RecordBatch.from_pydict({"a": [1, None, 3], "s": ["x", "y", None]})


def test_every_public_name_exists() -> None:
    assert len(set(thalweg.expr.__all__)) == len(thalweg.expr.__all__)
    assert all(hasattr(thalweg.expr, name) for name in thalweg.expr.__all__)


def test_nodes_say_what_they_are() -> None:
    assert col("a").name == "a"
    assert lit(5).value == 5 and lit(5).type is None and Literal(5, pa.int8()).type == pa.int8()
    expr = parse("case when a > 1 then cast(a as varchar) else s end")
    assert isinstance(expr, Case) and isinstance(expr.default, Column)
    ((condition, value),) = expr.branches
    assert (
        isinstance(condition, Call)
        and condition.function == "gt"
        and condition.args[0].same(col("a"))
    )
    assert isinstance(value, Cast) and value.type == pa.string() and value.expr.same(col("a"))
    assert expr.columns() == {"a", "s"}
    assert repr(expr) == "<Case CASE WHEN a > 1 THEN CAST(a AS varchar) ELSE s END>"


def test_aliases_are_stored_under_the_name_of_the_table() -> None:
    for alias, name in ALIASES.items():
        assert name in FUNCTIONS and alias not in FUNCTIONS
    made = call("substr", col("s"), 1)
    assert isinstance(made, Call) and made.function == "substring"


def test_same_tells_types_apart() -> None:
    assert lit(1).same(lit(1)) and not lit(1).same(lit(1.0)) and not lit(1).same(lit(True))
    assert not Literal(1, pa.int8()).same(lit(1)) and not lit("a").same(col("a"))
    assert not col("a").same("a")
    assert not parse("a + b").same(parse("b + a"))
    assert not col("a").cast(pa.int8()).same(col("a").cast(pa.int16()))
    one = Case(((col("p"), lit(1)),), None)
    assert not one.same(Case(((col("p"), lit(1)),), lit(None)))


def test_expressions_are_frozen_and_hashable() -> None:
    a, b = col("a"), col("a")
    assert len({a, b}) == 2 and len({a.key(), b.key()}) == 1
    for expr, name in (
        (a, "name"),
        (lit(1), "value"),
        (a + 1, "args"),
        (a.cast(pa.int8()), "type"),
    ):
        with pytest.raises(AttributeError):
            setattr(expr, name, None)


def test_numpy_scalars_are_constants_on_either_side() -> None:
    assert (np.int64(5) + col("a")).same(5 + col("a"))
    assert (col("a") > np.float64(1.5)).same(col("a") > 1.5)
    assert str(np.int32(2) < col("a")) == "a > 2"
    assert col("a").isin(np.array([1, 2])).same(col("a").isin([1, 2]))


def test_reflected_operators() -> None:
    p = col("p")
    assert (True & p).same(lit(True) & p) and (False | p).same(lit(False) | p)
    assert (1 < col("a")).same(col("a") > 1)  # noqa: SIM300


def test_a_python_string_is_a_constant_in_an_operator_and_sql_in_as_expr() -> None:
    assert (col("s") == "a").same(parse("s = 'a'"))
    assert as_expr("a").same(col("a"))


@pytest.mark.parametrize("length", [0, 1, 5])
def test_constants_fill_the_frame(length: int) -> None:
    frame = Frame({"a": pa.array(range(length), pa.int64())}, length)
    for text, value in (
        ("1 + 1", 2),
        ("'x'", "x"),
        ("null", None),
        ("1 > 2", False),
        ("coalesce(null, 1.5)", 1.5),
        ("1 in (1)", True),
    ):
        found = parse(text).evaluate(frame)
        assert isinstance(found, pa.Array)
        assert found.to_pylist() == [value] * length


def test_a_column_is_handed_through_without_a_copy() -> None:
    there, here = ROWS.column("a").buffers()[1], col("a").evaluate(Frame.of(ROWS)).buffers()[1]
    assert there is not None
    assert here is not None
    assert here.address == there.address


def test_slices_are_read_where_they_start() -> None:
    part = Frame.of(ROWS.slice(1, 2))
    assert parse("a + 1").evaluate(part).to_pylist() == [None, 4]
    assert parse("a // 2").evaluate(part).to_pylist() == [None, 1]
    assert parse("s || '!'").evaluate(part).to_pylist() == ["y!", None]


def test_chunks_become_one_array() -> None:
    chunked = pa.chunked_array([[1], [2, 3]])
    columns: Any = {"a": chunked}
    found = (col("a") + 1).evaluate(Frame(columns, 3))
    assert isinstance(found, pa.Array)
    assert found.to_pylist() == [2, 3, 4]


def test_frame_of_rows_and_more() -> None:
    frame = Frame.of(
        ROWS, _start=np.array([1, 2, 3]), _end=pa.array([4, 5, 6]), **{"l.x": pa.array([7, 8, 9])}
    )
    assert parse("_end - _start + l.x").evaluate(frame).to_pylist() == [10, 11, 12]
    assert Frame.of(ROWS, a=pa.array([0, 0, 0])).columns["a"].to_pylist() == [0, 0, 0]
    assert Frame.of(ROWS, rows=pa.array([1, 2, 3])).columns["rows"].to_pylist() == [1, 2, 3]
    assert Frame.of(pa.RecordBatch.from_pydict({}), x=np.arange(4)).length == 4


def test_renaming_swaps_at_once() -> None:
    assert str(parse("a - b").rename({"a": "b", "b": "a"})) == "b - a"
    expr = parse("case when a in (1) then cast(b as int) else 1 end")
    assert (
        str(expr.rename({"a": "l.a", "b": "odd name"}))
        == 'CASE WHEN l.a IN (1) THEN CAST("odd name" AS int) ELSE 1 END'
    )
    assert expr.rename({}).same(expr)


def test_types_without_rows() -> None:
    schema = pa.schema(
        [
            ("a", pa.int32()),
            ("x", pa.float32()),
            ("s", pa.string()),
            ("d", pa.dictionary(pa.int8(), pa.string())),
        ]
    )
    wanted = {
        "a": pa.int32(), "a + a": pa.int64(), "a / a": pa.float64(), "a + x": pa.float64(),
        "a > x": pa.bool_(), "length(s)": pa.int64(), "null": pa.null(), "a + null": pa.int64(),
        "null > 1": pa.bool_(), "d": schema.field("d").type, "d || s": pa.string(),
        "coalesce(a, 1)": pa.int64(), "coalesce(a, a)": pa.int32(),
        "case when true then null end": pa.null(), "sign(a)": pa.int64(),
        "case when true then a else null end": pa.int32(), "nullif(d, 'x')": pa.string(),
        "round(x)": pa.float64(), "ceil(a)": pa.int64(),
    }  # fmt: skip
    for text, type_ in wanted.items():
        assert parse(text).type_in(schema) == type_, text


def test_nothing_is_ever_evaluated_as_python() -> None:
    for path in Path(thalweg.expr.__file__).parent.glob("*.py"):
        called = {
            node.func.id
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        assert not called & {"eval", "exec", "compile", "__import__"}, path


def test_sqlglot_is_loaded_only_for_text() -> None:
    script = (
        "import sys; from thalweg.expr import col; col('a') + 1; assert 'sqlglot' not in "
        "sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_deep_trees_built_in_python_have_a_depth() -> None:
    expr = col("a") + 1 + 2 + 3
    assert expr.depth() == 4 and col("a").depth() == 1


def test_the_empty_name_cannot_be_written_as_text() -> None:
    with pytest.raises(ExpressionError, match="a name is missing"):
        parse(str(col("")))
