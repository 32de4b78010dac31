"""An expression over the values of one row has the value that its kernels give, or none at all."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.expr.strategies import BOOLS, COMPARISONS, FLOATS, INTS, SCHEMA, TEXTS, any_expression
from thalweg.errors import EvaluationError, TypeMismatchError
from thalweg.expr import Call, Column, Expr, Frame, Literal
from thalweg.expr.one_row import Cell, NeedsKernel, row_function

CELLS = {field.name: Cell(at, field.type, at) for at, field in enumerate(SCHEMA)}
VALUES = {"i": INTS, "l.x": FLOATS | st.sampled_from([math.inf, math.nan]), "s": TEXTS, "p": BOOLS}
TWINS = {"i": "odd name", "l.x": "y", "s": 't"', "p": "end"}
TRANSLATED = (*COMPARISONS, "add", "subtract", "multiply", "and", "or")


@st.composite
def rows(draw: st.DrawFn) -> pa.RecordBatch:
    """One row."""
    columns = [
        pa.array([draw(st.none() | values)], SCHEMA.field(name).type)
        for column, values in VALUES.items()
        for name in (column, TWINS[column])
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def by_kernel(expr: Expr, row: pa.RecordBatch) -> Any:
    return expr.evaluate(Frame.of(row)).to_pylist()[0]


def check(expr: Expr, row: pa.RecordBatch) -> None:
    """Where there is a form for one row, it has the type and the value of the kernels."""
    try:
        type_ = expr.type_in(SCHEMA)
    except TypeMismatchError:
        return
    used: set[Cell] = set()
    found = row_function(expr, CELLS, used)
    if found is None:
        return
    function, kind = found
    assert kind == type_
    read = {cell.source for cell in used}
    assert read == {SCHEMA.get_field_index(name) for name in expr.columns()}
    values = [column[0].as_py() for column in row.columns]
    try:
        value = function(values)
    except NeedsKernel:
        return  # the kernels may refuse the row, as they do an overflow
    wanted = by_kernel(expr, row)
    assert type(value) is type(wanted)
    assert value == wanted or (value != value and wanted != wanted)
    assert not isinstance(value, float) or math.copysign(1, value) == math.copysign(1, wanted)


@settings(max_examples=400)
@given(any_expression(), rows())
def test_the_value_of_one_row_is_that_of_the_kernels(expr: Expr, row: pa.RecordBatch) -> None:
    check(expr, row)


@settings(max_examples=600)
@given(st.sampled_from(TRANSLATED), st.sampled_from(sorted(VALUES)), st.data(), rows())
def test_each_translated_function(
    name: str, column: str, data: st.DataObject, row: pa.RecordBatch
) -> None:
    other: Expr = Column(TWINS[column])
    if data.draw(st.booleans(), label="constant"):
        other = Literal(data.draw(VALUES[column]))
    check(Call(name, (Column(column), other)), row)


def test_what_is_translated_and_what_is_left_to_the_kernels() -> None:
    """A form that never existed would pass the laws above."""
    number, text = Column("i"), Column("s")
    for name in TRANSLATED[:-2]:
        assert row_function(Call(name, (number, number)), CELLS, set()) is not None
    for expr in (number + 1 > 2, ~(Column("p") & Column("end")), text.is_null(), text == "a"):
        assert row_function(expr, CELLS, set()) is not None
    for expr in (number / 2, number + Column("y"), text.substring(1, 2), number.cast(pa.int32())):
        assert row_function(expr, CELLS, set()) is None


def test_a_sum_beyond_int64_is_left_to_the_kernels_which_refuse_it() -> None:
    row = pa.RecordBatch.from_arrays(
        [pa.array([2**63 - 1 if field.name == "i" else None], field.type) for field in SCHEMA],
        schema=SCHEMA,
    )
    expr = Column("i") + 1
    found = row_function(expr, CELLS, set())
    assert found is not None
    with pytest.raises(NeedsKernel):
        found[0]([2**63 - 1])
    with pytest.raises(EvaluationError, match="overflow"):
        by_kernel(expr, row)
