"""SEQ in FROM: the sequence patterns of the fluent API, as text."""

from __future__ import annotations

import pytest

import thalweg as tw
from thalweg.errors import SqlError

STREAMS = {
    "cases": tw.source("cases", {"belt": "int64", "box": "string"}),
    "products": tw.source("products", {"belt": "int64", "tag": "string"}),
    "alarms": tw.source("alarms", {"belt": "int64"}),
}
ROWS = {
    "cases": [tw.point({"belt": 1, "box": "A"}, 1), tw.point({"belt": 1, "box": "B"}, 5)],
    "products": [tw.point({"belt": 1, "tag": t}, at) for at, t in [(2, "x"), (3, "y"), (6, "z")]],
    "alarms": [tw.point({"belt": 1}, 2)],
}


def answer(text: str) -> list[tuple[object, ...]]:
    query = tw.sql(text, STREAMS)
    read = {name: rows for name, rows in ROWS.items() if name in tw.Engine(query).sources}
    return [tuple(row[2].values()) for row in tw.table(query, read)]


def test_the_packaging_examples() -> None:
    contained = (
        "SELECT a.box, b.tag FROM SEQ(cases AS a, products AS b) MODE RECENT PARTITION BY belt"
    )
    assert answer(contained) == [("A", "x"), ("A", "y"), ("B", "z")]
    single = (
        "SELECT a.box, b.tag FROM SEQ(cases AS a, products AS b) "
        "MODE CHRONICLE PARTITION BY belt WITHIN 10"
    )
    assert answer(single) == [("A", "x"), ("B", "z")]


def test_where_is_a_condition_on_matches_and_times_are_columns() -> None:
    text = (
        "SELECT box, tag, a.ts AS since FROM SEQ(cases AS a, products AS b) MODE UNRESTRICTED "
        "PARTITION BY belt WITHIN 10 WHERE b.tag = 'z' AND a.box < b.tag"
    )
    assert answer(text) == [("A", "z", 1), ("B", "z", 5)]


def test_nothing_between() -> None:
    text = (
        "SELECT box, tag FROM SEQ(cases AS a, NOT alarms, products AS b) MODE RECENT "
        "PARTITION BY belt WITHIN 10"
    )
    assert answer(text) == [("A", "x"), ("B", "z")]


def test_a_window_over_matches() -> None:
    text = (
        "SELECT count(*) AS n [RANGE 4, SLIDE 4, WA b.ts] "
        "FROM SEQ(cases AS a, products AS b) MODE RECENT PARTITION BY belt WITHIN 10"
    )
    query = tw.sql(text, STREAMS)
    rows = {name: ROWS[name] for name in ("cases", "products")}
    assert sum(row[2]["n"] for row in tw.table(query, rows)) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT * FROM SEQ(cases AS a, products AS b) MODE RECEN", "recent"),
        ("SELECT * FROM SEQ(cases AS a, products AS b) MODE CHRONICLE", "within"),
        ("SELECT * FROM SEQ(cases AS a)", "at least two"),
        ("SELECT * FROM SEQ(NOT alarms, cases AS a, products AS b) WITHIN 5", "between two steps"),
        ("SELECT * FROM SEQ(cases AS a, products AS b PARTITION BY belt", r"end with '\)'"),
        ("SELECT * FROM SEQ(cases AS a, products AS b) PARTITION BY belts WITHIN 5", "belts"),
        ("SELECT * FROM cases MATCH_RECOGNIZE (ORDER BY ts PATTERN (A B+))", "stream.detect"),
    ],
)
def test_mistakes_are_shown_where_they_are(text: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        tw.sql(text, STREAMS)
