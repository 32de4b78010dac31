"""Laws that hold for every expression: it means what the naive oracle says, its type is known
beforehand, and so on."""

from __future__ import annotations

import math
import pickle
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.expr.oracle import Undefined, value_of
from tests.expr.strategies import COMPARISONS, SCHEMA, any_expression, batches, expressions
from thalweg.errors import EvaluationError, TypeMismatchError
from thalweg.expr import Call, Expr, Frame, Literal, col, parse

MORE = settings(max_examples=300, deadline=None)


def equal(one: Any, two: Any) -> bool:
    if isinstance(one, float) and isinstance(two, float):
        return one == two or (math.isnan(one) and math.isnan(two))
    return type(one) is type(two) and bool(one == two)


def typed(expr: Expr) -> pa.DataType:
    """The type; expressions that fail whatever the rows are (`1 // 0`) are refused when typed, and
    left out here."""
    try:
        return expr.type_in(SCHEMA)
    except TypeMismatchError as error:
        assume("on every row" not in str(error))
        raise


@MORE
@given(any_expression(), batches())
def test_an_expression_means_what_the_oracle_says_and_has_the_type_it_announced(
    expr: Expr, rows: pa.RecordBatch
) -> None:
    type_ = typed(expr)
    try:
        wanted = [value_of(expr, row) for row in rows.to_pylist()]
    except Undefined:
        with pytest.raises(EvaluationError):
            expr.evaluate(Frame.of(rows))
        return
    found = expr.evaluate(Frame.of(rows))
    assert found.type == type_
    assert isinstance(found, pa.Array)
    assert len(found) == rows.num_rows
    assert all(equal(a, b) for a, b in zip(found.to_pylist(), wanted, strict=True)), (
        found.to_pylist(),
        wanted,
    )


_SMALL = {
    "number": st.none() | st.integers(-2, 2) | st.sampled_from([-(2**63), 2**63 - 1]),
    "double": st.none()
    | st.sampled_from([0.0, -0.0, 1.0, -2.0, 2.5, math.inf, -math.inf, math.nan]),
    "text": st.none() | st.sampled_from(["", "a", "ab", "B"]),
    "condition": st.none() | st.booleans(),
}
_ARROW = {
    "number": pa.int64(),
    "double": pa.float64(),
    "text": pa.string(),
    "condition": pa.bool_(),
}
_ARITHMETIC = ("add", "subtract", "multiply", "divide", "floor_div", "mod", "floor_mod")
_BOTH_NUMBERS = [
    (name, one, two)
    for name in (*_ARITHMETIC, *COMPARISONS)
    for one in ("number", "double")
    for two in ("number", "double")
]
_ALIKE = [(name, kind, kind) for name in ("coalesce", "nullif") for kind in _SMALL]
_OTHERS = [(name, kind, kind) for name in COMPARISONS for kind in ("text", "condition")]
_LOGIC = [
    ("and", "condition", "condition"),
    ("or", "condition", "condition"),
    ("concat", "text", "text"),
]


@pytest.mark.parametrize(("name", "one", "two"), [*_BOTH_NUMBERS, *_ALIKE, *_OTHERS, *_LOGIC])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_every_operation_on_two_columns_and_on_a_column_and_a_constant(
    name: str, one: str, two: str, data: st.DataObject
) -> None:
    pairs = data.draw(st.lists(st.tuples(_SMALL[one], _SMALL[two]), min_size=1, max_size=6))
    columns = [
        pa.array([pair[side] for pair in pairs], _ARROW[kind])
        for side, kind in enumerate((one, two))
    ]
    rows = pa.RecordBatch.from_arrays(columns, names=["a", "b"])
    left, right = (Literal(pairs[0][side], _ARROW[kind]) for side, kind in enumerate((one, two)))
    shapes: list[tuple[Expr, ...]] = [(col("a"), col("b")), (left, col("b"))]
    if right.value != 0:  # dividing by the constant 0 is refused when typed
        shapes.append((col("a"), right))
    for args in shapes:
        expr = Call(name, args)
        try:
            wanted = [value_of(expr, row) for row in rows.to_pylist()]
        except Undefined:
            with pytest.raises(EvaluationError):
                expr.evaluate(Frame.of(rows))
            continue
        found = expr.evaluate(Frame.of(rows))
        assert found.type == expr.type_in(rows.schema)
        assert all(equal(a, b) for a, b in zip(found.to_pylist(), wanted, strict=True)), (
            str(expr),
            found.to_pylist(),
            wanted,
        )


@MORE
@given(expressions("condition"), batches())
def test_conditions_follow_three_valued_logic(expr: Expr, rows: pa.RecordBatch) -> None:
    typed(expr)
    try:
        wanted = [value_of(expr, row) for row in rows.to_pylist()]
    except Undefined:
        assume(False)
    assert expr.evaluate(Frame.of(rows)).to_pylist() == wanted


@MORE
@given(any_expression(depth=4))
def test_text_parses_back_to_the_same_expression(expr: Expr) -> None:
    again = parse(str(expr))
    assert again.same(expr), (str(expr), str(again))


@given(any_expression(), batches(), st.integers(0, 8))
def test_the_cut_of_batches_does_not_matter(expr: Expr, rows: pa.RecordBatch, cut: int) -> None:
    typed(expr)
    try:
        whole = expr.evaluate(Frame.of(rows))
    except EvaluationError:
        return
    parts = [expr.evaluate(Frame.of(part)) for part in (rows.slice(0, cut), rows.slice(cut))]
    assert all(
        equal(a, b)
        for a, b in zip(pa.concat_arrays(parts).to_pylist(), whole.to_pylist(), strict=True)
    )


@given(any_expression(), batches())
def test_renaming_columns_on_both_sides_changes_nothing(expr: Expr, rows: pa.RecordBatch) -> None:
    typed(expr)
    mapping = {name: f"r.{name}" for name in SCHEMA.names}
    renamed = expr.rename(mapping)
    assert renamed.columns() == {mapping[name] for name in expr.columns()}
    assert renamed.rename({new: old for old, new in mapping.items()}).same(expr)
    try:
        wanted = expr.evaluate(Frame.of(rows)).to_pylist()
    except EvaluationError:
        return
    found = renamed.evaluate(Frame.of(rows.rename_columns(list(mapping.values())))).to_pylist()
    assert all(equal(a, b) for a, b in zip(found, wanted, strict=True))


@given(any_expression(), any_expression())
def test_same_means_equal_keys_and_survives_pickling(one: Expr, two: Expr) -> None:
    assert one.same(pickle.loads(pickle.dumps(one)))
    assert one.same(two) == (one.key() == two.key())
    assert len({one.key(), one.key()}) == 1


@given(any_expression())
def test_typing_refuses_only_constants_that_always_fail(expr: Expr) -> None:
    typed(expr)
