"""Row numbers: in the order of arrival, kept by adjusts, unused after removals; and windows that
count by them."""

from __future__ import annotations

from random import Random

import pytest

from tests.operators.test_laws import SCHEMA
from tests.operators.test_wid_aggregate import aggregate
from thalweg import (
    Engine,
    adjust,
    changes,
    count,
    cti,
    insert,
    max_,
    point,
    remove,
    rows,
    source,
    sum_,
)
from thalweg.errors import PlanError
from thalweg.model import Row, rows_of_table, table_of_batches
from thalweg.plan.nodes import Source
from thalweg.shards.local_engine import DividedEngine
from thalweg.stream import Stream
from thalweg.testing import CONSISTENCIES, assert_form_right, logical_inputs, make_form
from thalweg.testing.manner import Manner

IN_ORDER = Manner(promises=0.6, cut=0.6, restarts=0.2, delay=0.3)
"""As they start, so they arrive: then what the oracle numbers is what the engine does."""
A = Stream(Source("a", SCHEMA))
CALLS = {"n": count(), "s": sum_("v"), "m": max_("v")}

QUERIES = {
    "numbers": A.number_rows().node,
    "numbers in partitions": A.number_rows(partition_by="k").node,
    "sliding": aggregate(A.group_by("k").sliding(4, 2, over=rows()), CALLS),
    "tumbling at the system": aggregate(A.where("v > 0").sliding(3, over=rows(at="system")), CALLS),
    "partitions": aggregate(A.sliding(3, 1, over=rows(), partition_by="k"), CALLS),
    "partitions by system": aggregate(
        A.where("v > 0").sliding(3, 2, over=rows(at="system"), partition_by="k"), CALLS
    ),
    "landmark": aggregate(A.group_by("k").landmark(2, over=rows()), CALLS),
    "every third": aggregate(A.slide_by_tuple(8, every=3, order=rows()), CALLS),
    "every second, partitions": aggregate(
        A.slide_by_tuple(8, every=2, order=rows(), partition_by="k"), CALLS
    ),
}


def one_at_a_time(random: Random) -> dict[str, list[Row]]:
    starts = random.sample(range(40), 12)
    return {
        "a": [
            (
                start,
                start + random.randint(1, 5),
                {"k": random.randint(0, 2), "v": random.randint(0, 3)},
            )
            for start in starts
        ]
    }


@pytest.mark.parametrize("name", QUERIES)
def test_law(name: str) -> None:
    for number, consistency in enumerate(CONSISTENCIES):
        logicals = logical_inputs(QUERIES[name], one_at_a_time(Random(f"{name}/{number}")))
        form = make_form(logicals, IN_ORDER, Random(f"{name}/{number}"))
        assert_form_right(QUERIES[name], form, consistency=consistency)
        assert_form_right(QUERIES[name], form, consistency=consistency, engine=DividedEngine)


def test_numbers_stay_with_their_rows() -> None:
    query = source("s", {"v": "int64"}).number_rows()
    elements = [
        insert({"v": 1}, 5, 9),
        insert({"v": 2}, 3, 9),
        adjust({"v": 1}, 5, 9, 7),
        remove({"v": 2}, 3, 9),
        insert({"v": 3}, 4, 6),
    ]
    engine = Engine(query)
    batches = [batch for element in elements for batch in engine.push("s", element)]
    final = rows_of_table(table_of_batches(batches, query.schema))
    assert {row[2]["v"]: (row[1], row[2]["_row"], row[2]["_at"]) for row in final} == {
        1: (7, 1, 5),
        3: (6, 3, 5),
    }


def test_a_row_taken_back_does_not_complete_a_window_earlier() -> None:
    """Windows of two: 1 and 2 by arrival, then 2 is taken back and 3 completes the window, no
    earlier than 2 would have."""
    query = source("s", {"v": "int64"}).sliding(2, over=rows()).aggregate(n=count(), s=sum_("v"))
    elements = [
        point({"v": 1}, 0),
        point({"v": 2}, 20),
        cti(15),
        remove({"v": 2}, 20, 21),
        point({"v": 4}, 16),
        cti(40),
    ]
    inserts = [
        e
        for e in changes(query, {"s": elements}, consistency="final")
        if type(e).__name__ == "Insert"
    ]
    assert [(e.start, e.payload["s"]) for e in inserts] == [(20, 1)]  # type: ignore[union-attr]


def test_numbered_twice_is_refused() -> None:
    with pytest.raises(PlanError, match="numbered already"):
        A.number_rows().number_rows()
