"""User-defined functions: in filters, projections and join predicates, in text and fluently, per
event and on columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import thalweg as tw
from thalweg import udm
from thalweg.errors import EvaluationError, ExpressionError, PlanError, TypeMismatchError
from thalweg.model import Row
from thalweg.shards.local_engine import DividedEngine
from thalweg.testing import assert_physically_independent

CALLS: list[Any] = []


@udm.function("fn.threshold", inputs={"id": "int64"}, output="double")
def threshold(number: int) -> float:
    """The paper's valThreshold: a limit for each id."""
    CALLS.append(number)
    return 10.0 * number


@udm.function("fn.doubled", inputs=["double"], output="double", vectorised=True)
def doubled(values: pa.Array) -> pa.Array:
    return pc.multiply(values, 2.0)


@udm.function("fn.as_numpy", inputs=["double", "double"], output="double", vectorised=True)
def as_numpy(one: pa.Array, two: pa.Array) -> Any:
    return np.hypot(one.to_numpy(zero_copy_only=False), two.to_numpy(zero_copy_only=False))


@udm.function("fn.label", inputs=["any"], output="string", nulls=True)
def label(value: Any) -> str:
    return f"<{value}>"


@udm.function("fn.wrong", inputs=["int64"], output="int64")
def wrong(value: int) -> Any:
    return "text"


S = tw.source("s", {"id": "int64", "value": "double"})
ROWS: list[Row] = [
    (0, 5, {"id": 1, "value": 4.0}),
    (1, 6, {"id": 2, "value": 30.0}),
    (2, 9, {"id": None, "value": 1.0}),
]
ELEMENTS = {"s": [tw.insert(payload, start, end) for start, end, payload in ROWS]}


def columns(query: tw.Stream) -> list[tuple[Any, ...]]:
    return [tuple(payload.values()) for _, _, payload in tw.table(query, ELEMENTS)]


def test_in_a_filter_as_text_and_fluently() -> None:
    assert columns(S.where("value < fn.threshold(id)")) == [(1, 4.0)]
    assert columns(S.where("value < threshold(id)")) == [(1, 4.0)]
    assert columns(S.where(tw.col("value") < tw.call("fn.threshold", tw.col("id")))) == [(1, 4.0)]


def test_in_a_projection_on_whole_columns() -> None:
    assert columns(S.select(x="fn.doubled(value) + 1")) == [(9.0,), (61.0,), (3.0,)]
    assert columns(S.select(x="fn.as_numpy(value, 0)")) == [(4.0,), (30.0,), (1.0,)]


def test_in_a_join_predicate() -> None:
    other = tw.source("o", {"limit": "double"})
    query = S.join(other, where="fn.doubled(value) > limit", select=["value", "limit"])
    found = tw.table(query, {**ELEMENTS, "o": [tw.insert({"limit": 50.0}, 0, 10)]})
    assert found == [(1, 6, {"value": 30.0, "limit": 50.0})]


def test_nulls_are_skipped_unless_they_are_asked_for() -> None:
    CALLS.clear()
    assert columns(S.select(x="fn.threshold(id)")) == [(10.0,), (20.0,), (None,)]
    assert CALLS == [1, 2]
    assert columns(S.select(x="fn.label(id)")) == [("<1>",), ("<2>",), ("<None>",)]


def test_the_plan_says_it_and_moves_it_with_its_columns() -> None:
    query = S.select(value="value * 2", id="id").where("value < fn.threshold(id)")
    assert "value < fn.threshold(id)" in query.explain()
    assert columns(query) == [(8.0, 1)]


@pytest.mark.parametrize("engine", [None, DividedEngine])
def test_whatever_the_form(engine: Any) -> None:
    query = S.where("value < fn.threshold(id)").select(x="fn.doubled(value)")
    assert_physically_independent(query.node, {"s": ROWS}, forms=4, engine=engine)


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("fn.threshold(id, id)", ExpressionError, "takes 1 arguments; got 2"),
        ("fn.thershold(id)", ExpressionError, "no function 'fn.thershold' is registered"),
        ("fn.threshold('a')", TypeMismatchError, "argument 1 must be int64"),
    ],
)
def test_mistakes(text: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        S.select(x=text)


def test_failures_name_the_values() -> None:
    with pytest.raises(EvaluationError, match="returned something that is no int64"):
        columns(S.select(x="fn.wrong(id)"))

    @udm.function("fn.raises", inputs=["int64"], output="int64")
    def raises(value: int) -> int:
        return 1 // (value - 2)

    with pytest.raises(
        EvaluationError, match=r"fn\.raises\(id\) failed where id = 2: ZeroDivisionError"
    ):
        columns(S.select(x="fn.raises(id)"))


def test_in_queries_in_sql() -> None:
    for name in ("threshold", "fn.threshold"):
        assert columns(
            tw.sql(f"SELECT id, value FROM readings WHERE value < {name}(id)", readings=S)
        ) == [(1, 4.0)]


# ------------------------------------------------------------------------------------------------
# failures


def _inverse(value: float) -> Any:
    """Fails for 4, does not end for 30, gives a text for 1."""
    while value == 30.0:
        pass
    return "text" if value == 1.0 else 1 / (value - 4.0)


def _inverses(values: pa.Array) -> Any:
    return [_inverse(value) for value in values.to_pylist()]


for _name, _run in (("inverse", _inverse), ("inverses", _inverses)):
    udm.function(
        f"fn.{_name}",
        inputs=["double"],
        output="double",
        vectorised=_name == "inverses",
        on_error="null",
        time_limit="50 ms",
    )(_run)


@pytest.mark.parametrize("name", ["fn.inverse", "fn.inverses"])
def test_an_event_that_a_function_fails_on_gives_null(name: str) -> None:
    query = S.select("id", x=f"{name}(value)", y=f"{name}(value + 1)")
    rows = [{"id": at, "value": value} for at, value in enumerate([4.0, 30.0, 1.0, 6.0])]
    elements = {"s": [tw.point(row, at) for at, row in enumerate(rows)]}
    found = tw.table(query, elements)
    assert [row["x"] for _, _, row in found] == [None, None, None, 0.5]
    assert found[0][2]["y"] == 1.0


def test_a_function_that_takes_too_long_is_named() -> None:
    @udm.function("fn.endless", inputs=["double"], output="double", time_limit="50 ms")
    def endless(value: float) -> float:
        while True:
            pass

    with pytest.raises(
        EvaluationError, match=r"fn.endless\(value\) failed where value = 4.0: longer"
    ):
        columns(S.select(x="fn.endless(value)"))
    with pytest.raises(PlanError, match="on_error must be one of fail, null"):
        udm.function("fn.other", inputs=["double"], output="double", on_error="skip")
