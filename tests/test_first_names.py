"""Names that people reach for are answered with what they are called here, on the user's line."""

from __future__ import annotations

from typing import Any

import pytest

import thalweg as tw
from thalweg import udm
from thalweg.errors import PlanError, SchemaChangeError, UnknownNameError, WindowError
from thalweg.shards.fragments.cutting import fragments_of

SALES = tw.source("sales", {"item": "string", "price": "double", "qty": "int64"})


@pytest.mark.parametrize(
    ("reach", "message"),
    [
        (lambda: SALES.filter("qty > 1"), "Stream has no 'filter'; here it is where."),
        (lambda: SALES.groupBy("item"), "Stream has no 'groupBy'; here it is group_by."),
        (
            lambda: SALES.withColumn("a", "qty"),
            "Stream has no 'withColumn'; here it is with_columns.",
        ),
        (lambda: SALES.tumbling(10).agg(), "WindowedStream has no 'agg'; here it is aggregate."),
        (lambda: SALES.group_by("item").agg(), "here it is aggregate behind a window"),
        (lambda: SALES.to_pandas(1), "here it is tw.table(stream).to_pandas()."),
        (lambda: SALES.tumblin(10), "Stream has no 'tumblin'. Did you mean 'tumbling'?"),
        (lambda: tw.sum("qty"), "thalweg has no 'sum'; here it is sum_."),
        (lambda: tw.min("qty"), "thalweg has no 'min'; here it is min_."),
        (lambda: tw.sorce("a", {}), "thalweg has no 'sorce'. Did you mean 'source'?"),
    ],
)
def test_another_name_gets_the_one_used_here(reach: Any, message: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        reach()
    assert message in str(caught.value) and caught.value.file == __file__


def test_names_that_nobody_means_are_plain_attribute_errors() -> None:
    assert not hasattr(SALES, "_repr_svg_") and not hasattr(tw, "_private")
    assert not hasattr(SALES, "filter")


def test_a_payload_that_lacks_a_column_is_refused_like_one_that_has_too_many() -> None:
    engine = tw.Engine(SALES)
    with pytest.raises(SchemaChangeError, match=r"lacks the columns \['price', 'qty'\]"):
        engine.push("sales", tw.point({"item": "a"}, 1))


def test_windows_without_number_are_refused_before_the_first_row() -> None:
    with pytest.raises(WindowError, match=r"86,400,000,000 windows"):
        SALES.hopping("1 day", "1 us")


def test_points_that_are_joined_without_a_window_are_refused_with_what_to_write() -> None:
    one = tw.from_frame([{"ts": 1, "id": 1}], time="ts", name="one")
    two = tw.from_frame([{"ts": 2, "id": 1}], time="ts", name="two")
    with pytest.raises(PlanError, match=r"window=tw.band\(before='10 min', after='10 min'\)"):
        one.join(two, on="id")
    met = one.window_join(two, on="id", window=tw.band(before=5, after=5))
    assert len(tw.table(met)) == 1


@udm.aggregate("first_names.vwap", inputs={"price": "double", "qty": "int64"}, output="double")
class Vwap:
    """The price, weighted by quantity."""

    def compute(self, rows: list[dict[str, Any]]) -> float:
        return float(
            sum(row["price"] * row["qty"] for row in rows) / sum(row["qty"] for row in rows)
        )


def test_a_plan_is_drawn_and_shown_in_a_notebook() -> None:
    query = SALES.where("qty > 1").tumbling(10).aggregate(n=tw.count())
    drawn = query.explain(format="mermaid")
    assert drawn.startswith("flowchart TD") and "source-1 --> where-1" in drawn
    assert "qty &gt; 1" in drawn
    assert "<td>n</td><td>int64</td>" in query._repr_html_()
    with pytest.raises(PlanError, match=r"format is 'text' or 'mermaid'"):
        query.explain(format="svg")


def test_partial_sums_go_through_an_exchange() -> None:
    counted = tw.source("s", {"k": "int64"}, insert_only=True, disorder=5, constant_duration=1)
    plan = fragments_of(counted.tumbling(10).aggregate(n=tw.count()).node)
    assert "panes" in plan.describe()


ROWS = [
    tw.point({"item": "a", "price": 1.0, "qty": 1}, 1),
    tw.point({"item": "a", "price": 4.0, "qty": 2}, 2),
]


def test_an_aggregate_of_ones_own_stands_beside_others() -> None:
    windows = SALES.group_by("item").tumbling(10)
    named = windows.aggregate(
        n=tw.count(), vwap=tw.module("first_names.vwap"), top=tw.max_("price")
    )
    itself = windows.aggregate(
        n=tw.count(), vwap=tw.module(Vwap, "price", "qty"), top=tw.max_("price")
    )
    for query in (named, itself):
        assert tw.table(query, {"sales": ROWS}) == [
            (0, 10, {"item": "a", "n": 2, "vwap": 3.0, "top": 4.0})
        ]


def test_apply_takes_the_function_itself() -> None:
    query = SALES.tumbling(10).apply(Vwap, name="vwap")
    assert tw.table(query, {"sales": ROWS}) == [(0, 10, {"vwap": 3.0})]
    with pytest.raises(PlanError, match=r"is no module: put @udm.aggregate"):
        SALES.tumbling(10).apply(len)
