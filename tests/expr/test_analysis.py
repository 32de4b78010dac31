"""Monotone in `_start`: the answer yes is checked against values, the answer no against a list."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thalweg.errors import EvaluationError
from thalweg.expr import Call, Cast, Expr, Frame, Literal, col, is_monotone_in_start, parse

YES = [
    "5", "-2.5", "60 * 1000", "_start", "_start + 1", "1 + _start", "_start - 10",
    "_start - -_start", "_start * 2", "2 * _start", "_start * 0", "_start // 10",
    "_start div 10 * 10", "_start / 3", "floor(_start / 3)", "round(_start, -2)", "ceil(_start)",
    "-(-_start)", "10 - (5 - _start)", "_start * -1 * -1", "_start // -10 * -1",
    "least(_start, 100)", "greatest(_start, _start + 1)", "cast(_start as double)",
    "cast(_start / 10 as bigint)", "sign(_start)", "_start // 10 + _start * 3", "exp(_start / 1e6)",
]  # fmt: skip
NO = [
    "x", "_end", "l._start", "_start + x", "-_start", "10 - _start", "_start * -1", "_start * x",
    "_start * _start", "_start % 10", "floor_mod(_start, 10)", "_start // -10", "_start / 0",
    "10 / _start", "10 // _start", "abs(_start)", "cast(_start as varchar)",
    "case when _start > 5 then 1 else 2 end", "_start > 5", "_start + null", "null", "'x'", "true",
    "coalesce(_start, 0)", "least(_start, -_start)", "_start - _start", "power(_start, 2)",
    "1 // 0", "_start + cast('nan' as double)",
]  # fmt: skip


@pytest.mark.parametrize("text", YES)
def test_yes(text: str) -> None:
    assert is_monotone_in_start(parse(text)) is True


@pytest.mark.parametrize("text", NO)
def test_no(text: str) -> None:
    assert is_monotone_in_start(parse(text)) is False


CONSTANTS = st.one_of(
    st.integers(-20, 20), st.sampled_from([0.1, -0.5, 2.5, 1e300, -3.0, 0.0])
).map(Literal)
LEAVES = st.one_of(st.just(col("_start")), CONSTANTS)
FUNCTIONS = (
    "add",
    "subtract",
    "multiply",
    "divide",
    "floor_div",
    "mod",
    "floor_mod",
    "least",
    "greatest",
)


def _bigger(below: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    return st.one_of(
        st.builds(lambda name, a, b: Call(name, (a, b)), st.sampled_from(FUNCTIONS), below, below),
        st.builds(
            lambda name, a: Call(name, (a,)),
            st.sampled_from(("negate", "abs", "floor", "ceil", "sign", "round", "exp", "sqrt")),
            below,
        ),
        st.builds(Cast, below, st.sampled_from([pa.int64(), pa.float64(), pa.float32()])),
    )


TIMES = st.lists(
    st.one_of(st.integers(-100, 100), st.integers(-(2**62), 2**62)), min_size=2, max_size=8
)


@settings(max_examples=600, deadline=None)
@given(st.recursive(LEAVES, _bigger, max_leaves=5), TIMES)
def test_what_counts_as_monotone_never_falls(expr: Expr, times: list[int]) -> None:
    if is_monotone_in_start(expr):
        try:
            values = expr.evaluate(
                Frame({"_start": pa.array(sorted(times))}, len(times))
            ).to_pylist()
        except EvaluationError:
            return
        assert None not in values
        assert all(not a > b for a, b in pairwise(values)), (str(expr), sorted(times), values)
