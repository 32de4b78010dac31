"""No column name is reserved: options are methods, so that every name is left to the user."""

from __future__ import annotations

import pytest

import thalweg as tw
from thalweg.errors import PlanError
from thalweg.plan.nodes import WindowAggregate, find
from thalweg.plan.rules import optimize

NAMES = (
    "strategy", "fill", "wid", "name", "start", "end", "self", "aggregates", "named", "window",
    "keys", "expected", "table", "sources", "partition", "using", "with_id", "n", "value", "time",
    "params", "clip", "stamp", "on_error", "module", "columns", "repeat", "unnest",
)  # fmt: skip
ROWS = [tw.point({"k": 1, "v": 2}, 1), tw.point({"k": 1, "v": 3}, 4)]


def _stream() -> tw.Stream:
    return tw.source("s", {"k": "int64", "v": "int64"}, insert_only=True)


@pytest.mark.parametrize("name", NAMES)
def test_an_output_column_may_have_any_name(name: str) -> None:
    windows = {
        "tumbling": _stream().group_by("k").tumbling(10),
        "sliding": _stream().group_by("k").sliding(10, 5),
        "session": _stream().group_by("k").session(5),
        "by tuple": _stream().group_by("k").slide_by_tuple(5),
    }
    for windowed in windows.values():
        for query in (
            windowed.aggregate(**{name: tw.sum_("v"), "rows": tw.count()}),
            windowed.aggregate({name: tw.sum_("v"), "rows": tw.count()}),
        ):
            assert query.schema.names == ["k", name, "rows"]
    (first,) = tw.table(windows["tumbling"].aggregate({name: tw.sum_("v")}), {"s": ROWS})
    assert first[2] == {"k": 1, name: 5}


@pytest.mark.parametrize("name", NAMES)
def test_a_computed_column_and_a_key_may_have_any_name(name: str) -> None:
    stream = tw.source("s", {"a": "int64", "b": "int64"})
    assert stream.with_columns(**{name: "a + b"}).schema.names == ["a", "b", name]
    assert stream.select(**{name: "a + b"}).schema.names == [name]
    assert stream.rename(a=name).schema.names == [name, "b"]
    assert stream.group_by(**{name: "a"}).tumbling(5).aggregate(x=tw.count()).schema.names == [
        name,
        "x",
    ]


@pytest.mark.parametrize("name", NAMES)
def test_sql_may_call_an_output_column_anything(name: str) -> None:
    query = tw.sql(
        f'SELECT sum(v) AS "{name}", count(*) AS rows_ FROM s GROUP BY k, TUMBLE(ts, 10)',
        {"s": _stream()},
    )
    assert query.schema.names == [name, "rows_"]
    assert [row for _, _, row in tw.table(query, {"s": ROWS})] == [{name: 5, "rows_": 2}]


@pytest.mark.parametrize("name", NAMES)
def test_the_window_id_and_a_module_value_may_have_any_name(name: str) -> None:
    numbered = _stream().slide_by_tuple(5).with_id(name).aggregate(x=tw.count())
    assert numbered.schema.names == [name, "x"]
    averaged = _stream().tumbling(10).apply("average", {"value": "v"}, name=name)
    assert averaged.schema.names == [name]


@pytest.mark.parametrize(
    ("option", "method"), [("fill", ".fill("), ("wid", ".with_id("), ("strategy", ".using(")]
)
def test_an_option_in_its_old_place_is_an_error_that_says_where_it_went(
    option: str, method: str
) -> None:
    with pytest.raises(PlanError) as raised:
        _stream().tumbling(10).aggregate(n=tw.count(), **{option: "x"})  # type: ignore[arg-type]
    assert method in str(raised.value)


def test_the_options_do_what_they_did() -> None:
    filled = _stream().group_by("k").tumbling(10).fill([1, 2]).aggregate(n=tw.count())
    rows = [(s, row["k"], row["n"]) for s, _, row in tw.table(filled, {"s": ROWS})]
    assert rows == [(0, 1, 2), (0, 2, 0)]
    by_rows = _stream().tumbling(10).using("rows").aggregate(n=tw.count())
    assert "evaluation: rows, asked for" in by_rows.explain()


def test_the_strategy_of_a_rewritten_plan_is_a_field() -> None:
    query = _stream().tumbling(10).aggregate(m=tw.max_("v"))
    (asked,) = find(query.node, WindowAggregate)
    (rewritten,) = find(optimize(query.node)[0], WindowAggregate)
    assert (asked.evaluation, rewritten.evaluation) == (None, asked.chosen)
