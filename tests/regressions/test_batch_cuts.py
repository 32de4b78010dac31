"""What happens inside one batch is the same as over several."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import thalweg as tw
from tests.udm.test_laws import LAWS
from thalweg import adjust, cti, insert, remove
from thalweg.model import Element, Row, rows_of_table, table_of_batches
from thalweg.testing import Form, assert_form_right, step

VALUE = {"v": "int64"}


def play(query: tw.Stream, *pushes: Sequence[Element], consistency: str = "eager") -> list[Row]:
    """The final table of one source's elements, batch by batch."""
    engine = tw.Engine(query, consistency=consistency)
    out = [batch for push in pushes for batch in engine.push("s", push)]
    return rows_of_table(table_of_batches(out + engine.finish(), query.schema))


@pytest.mark.parametrize("in_one", [True, False])
def test_an_end_corrected_inside_a_batch_does_not_block_the_promise(in_one: bool) -> None:
    elements = [insert({"v": 1}, 10), adjust({"v": 1}, 10, None, 12)]
    engine = tw.Engine(tw.source("s", VALUE), consistency="final")
    for push in [elements] if in_one else [[one] for one in elements]:
        engine.push("s", push)
    out = list(tw.elements_of(engine.push("s", cti(10**9))))
    assert out == [insert({"v": 1}, 10, 12), cti(10**9)]
    assert engine.status().state.rows == 0


def test_row_numbers_do_not_depend_on_batch_cuts() -> None:
    query = tw.source("s", VALUE).number_rows()
    elements: list[Element] = [
        insert({"v": 1}, 5, 6),
        remove({"v": 1}, 5, 6),
        insert({"v": 1}, 5, 6),
    ]
    in_one, in_three = play(query, elements), play(query, *([one] for one in elements))
    assert in_one == in_three == [(5, 6, {"v": 1, "_row": 2, "_at": 5})]


def test_row_numbers_follow_their_rows_through_a_batch() -> None:
    query = tw.source("s", VALUE).number_rows()
    elements: list[Element] = [
        insert({"v": 1}, 5, 6),
        insert({"v": 1}, 5, 6),
        adjust({"v": 1}, 5, 6, 9),
        adjust({"v": 1}, 5, 9, 8),
        insert({"v": 2}, 3, 4),
    ]
    expected = [
        (3, 4, {"v": 2, "_row": 3, "_at": 5}),
        (5, 6, {"v": 1, "_row": 2, "_at": 5}),
        (5, 8, {"v": 1, "_row": 1, "_at": 5}),
    ]
    for cuts in ([elements], [elements[:2], elements[2:]], [[one] for one in elements]):
        assert play(query, *cuts) == expected


def test_a_null_amount_leaves_its_row_out_whatever_the_batch() -> None:
    query = tw.source("s", {"d": "int64"}).shift(tw.col("d")).tumbling(10).aggregate(n=tw.count())
    rows = [tw.point({"d": None}, 5), tw.point({"d": 1}, 6)]
    assert play(query, rows) == play(query, *([row] for row in rows)) == [(0, 10, {"n": 1})]


def test_times_beside_a_null_stay_exact() -> None:
    start = 2**53 + 1
    rows = [tw.point({"d": None}, 5), tw.point({"d": start}, 6)]
    moved = tw.source("s", {"d": "int64"}).alter_lifetime(start="d", duration=3)
    assert play(moved, rows) == [(start, start + 3, {"d": start})]


def test_a_union_inside_a_group_keeps_its_columns_apart() -> None:
    """Windows carry the key columns in front, rows behind."""
    stream = tw.source("s", {"k": "int64", "v": "int64"})
    query = stream.group_apply(
        "k", lambda g: g.tumbling(3).aggregate(k=tw.count(), v=tw.sum_("v")).union(g)
    )
    assert play(query, [tw.point({"k": 1, "v": 7}, 1)]) == [
        (0, 3, {"k": 1, "v": 7}),
        (1, 2, {"k": 1, "v": 7}),
    ]


def test_a_window_comes_once_though_its_row_and_the_time_bring_it() -> None:
    query = LAWS["time-bound per group over tumbling"].build()
    first = insert({"k": 3, "v": 0}, 15, 18)
    second = insert({"k": 2, "v": 1}, 30, 37)
    assert_form_right(query, Form([step("a", first, cti(15)), step("a", second)]))
