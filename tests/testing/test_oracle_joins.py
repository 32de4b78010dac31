"""The oracle's joins, on tables worked out by hand."""

from __future__ import annotations

import pyarrow as pa

from thalweg.expr import col, lit
from thalweg.model import INFINITY, Row
from thalweg.plan.nodes import ClipBy, Join, Source
from thalweg.plan.properties import StreamProperties
from thalweg.testing import assert_same_table, oracle

LEFT = Source("left", pa.schema([("k", pa.int64()), ("a", pa.string())]))
RIGHT = Source("right", pa.schema([("k", pa.int64()), ("b", pa.string())]))
KEY = (col("k"),)
BOTH = (("k", col("l.k")), ("a", col("a")), ("b", col("r.b")))
LEFT_ONLY = (("k", col("k")), ("a", col("a")), ("b", lit(None)))
RIGHT_ONLY = (("k", col("k")), ("a", lit(None)), ("b", col("b")))

# k = 1    left x   [1 . . . . . . . . 10)
#          right p      [3 . 5)
#          right q           [5 . 8)
# k = 2    left y   [1 . 3)
#          right r      [3 . 5)                     touches, does not overlap
# k null   left z and right n never match
left: list[Row] = [
    (1, 10, {"k": 1, "a": "x"}),
    (1, 3, {"k": 2, "a": "y"}),
    (1, 3, {"k": None, "a": "z"}),
]
right: list[Row] = [
    (3, 5, {"k": 1, "b": "p"}),
    (5, 8, {"k": 1, "b": "q"}),
    (3, 5, {"k": 2, "b": "r"}),
    (1, 3, {"k": None, "b": "n"}),
]
INNER: list[Row] = [(3, 5, {"k": 1, "a": "x", "b": "p"}), (5, 8, {"k": 1, "a": "x", "b": "q"})]
LEFT_ALONE: list[Row] = [
    (1, 3, {"k": 1, "a": "x", "b": None}),
    (8, 10, {"k": 1, "a": "x", "b": None}),
    (1, 3, {"k": 2, "a": "y", "b": None}),
    (1, 3, {"k": None, "a": "z", "b": None}),
]
RIGHT_ALONE: list[Row] = [
    (3, 5, {"k": 2, "a": None, "b": "r"}),
    (1, 3, {"k": None, "a": None, "b": "n"}),
]


def check(how: str, expected: list[Row], predicate: str | None = None) -> None:
    where = None if predicate is None else col("r.b") == lit(predicate)
    query = Join(LEFT, RIGHT, KEY, KEY, where, how, BOTH, LEFT_ONLY, RIGHT_ONLY)
    assert_same_table(expected, oracle(query, {"left": left, "right": right}))


def test_inner() -> None:
    check("inner", INNER)


def test_left() -> None:
    check("left", INNER + LEFT_ALONE)


def test_right() -> None:
    check("right", INNER + RIGHT_ALONE)


def test_whole_rows_are_matched_or_alone_throughout() -> None:
    firm = StreamProperties(insert_only=True, firm_ends=True)
    one, two = (
        Source("left", LEFT.columns, declared=firm),
        Source("right", RIGHT.columns, declared=firm),
    )

    def whole(how: str) -> list[Row]:
        query = Join(one, two, KEY, KEY, None, how, BOTH, LEFT_ONLY, RIGHT_ONLY, whole=True)
        return oracle(query, {"left": left, "right": right})

    alone: list[Row] = [
        (1, 3, {"k": 2, "a": "y", "b": None}),
        (1, 3, {"k": None, "a": "z", "b": None}),
    ]
    assert_same_table(INNER + alone, whole("left"))
    assert_same_table(INNER + alone + RIGHT_ALONE, whole("full"))
    assert_same_table([(1, 10, {"k": 1, "a": "x"})], whole("semi"))
    assert_same_table([(1, 3, {"k": 2, "a": "y"}), (1, 3, {"k": None, "a": "z"})], whole("anti"))


def test_full() -> None:
    check("full", INNER + LEFT_ALONE + RIGHT_ALONE)


def test_semi_merges_touching_matches() -> None:
    check("semi", [(3, 8, {"k": 1, "a": "x"})])


def test_anti() -> None:
    check("anti", [(s, e, {"k": p["k"], "a": p["a"]}) for s, e, p in LEFT_ALONE])


def test_a_predicate_that_is_false_is_no_match() -> None:
    check("semi", [(5, 8, {"k": 1, "a": "x"})], predicate="q")
    rest: list[Row] = [
        (1, 5, {"k": 1, "a": "x"}),
        (8, 10, {"k": 1, "a": "x"}),
        (1, 3, {"k": 2, "a": "y"}),
        (1, 3, {"k": None, "a": "z"}),
    ]
    check("anti", rest, predicate="q")


def test_a_predicate_that_is_null_is_no_match() -> None:
    query = Join(LEFT, RIGHT, KEY, KEY, col("r.b") == lit("p"), "inner", BOTH)
    table: list[Row] = [(3, 5, {"k": 1, "b": None})]
    assert oracle(query, {"left": left, "right": table}) == []


def test_duplicates_multiply() -> None:
    query = Join(LEFT, RIGHT, KEY, KEY, None, "inner", BOTH)
    two_left: list[Row] = [(1, 4, {"k": 1, "a": "x"})] * 2
    two_right: list[Row] = [(2, 9, {"k": 1, "b": "p"})] * 2
    assert (
        oracle(query, {"left": two_left, "right": two_right})
        == [(2, 4, {"k": 1, "a": "x", "b": "p"})] * 4
    )


def test_without_keys_everything_that_overlaps_matches() -> None:
    query = Join(LEFT, RIGHT, (), (), None, "inner", (("a", col("a")), ("b", col("b"))))
    expected: list[Row] = [
        (1, 3, {"a": "x", "b": "n"}),
        (1, 3, {"a": "y", "b": "n"}),
        (1, 3, {"a": "z", "b": "n"}),
    ]
    assert_same_table(expected, oracle(query, {"left": left, "right": right[-1:]}))


def test_endless_rows_join_to_the_end_of_time() -> None:
    query = Join(LEFT, RIGHT, KEY, KEY, None, "full", BOTH, LEFT_ONLY, RIGHT_ONLY)
    tables: dict[str, list[Row]] = {
        "left": [(1, INFINITY, {"k": 1, "a": "x"})],
        "right": [(4, INFINITY, {"k": 1, "b": "p"})],
    }
    expected: list[Row] = [
        (1, 4, {"k": 1, "a": "x", "b": None}),
        (4, INFINITY, {"k": 1, "a": "x", "b": "p"}),
    ]
    assert_same_table(expected, oracle(query, tables))


def test_clip_by_cuts_at_the_first_start_strictly_after() -> None:
    query = ClipBy(LEFT, RIGHT, KEY, KEY)
    cutters: list[Row] = [
        (1, 2, {"k": 1, "b": "same start"}),
        (6, 7, {"k": 1, "b": "later"}),
        (4, 5, {"k": 1, "b": "first"}),
    ]
    cutters += [(2, 3, {"k": None, "b": "null"}), (3, 4, {"k": 2, "b": "at the end"})]
    expected: list[Row] = [
        (1, 4, {"k": 1, "a": "x"}),
        (1, 3, {"k": 2, "a": "y"}),
        (1, 3, {"k": None, "a": "z"}),
    ]
    assert_same_table(expected, oracle(query, {"left": left, "right": cutters}))
