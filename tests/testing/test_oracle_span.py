"""The oracle's span operators, on tables worked out by hand from the definitions of the nodes."""

from __future__ import annotations

import pyarrow as pa
import pytest

from thalweg.expr import col, lit
from thalweg.model import INFINITY, Row
from thalweg.plan.nodes import (
    AlterLifetime,
    Chop,
    ClipDuration,
    Extend,
    HoppingLifetime,
    Node,
    PointAtEnd,
    Quantize,
    Select,
    SelectMany,
    SetDuration,
    Shift,
    Source,
    Union,
    Where,
)
from thalweg.testing import assert_same_table, oracle

S = Source("s", pa.schema([("v", pa.int64())]))
L = Source("l", pa.schema([("v", pa.int64()), ("items", pa.list_(pa.int64()))]))


def rows(*spans: tuple[int, int, int | None]) -> list[Row]:
    return [(start, end, {"v": v}) for start, end, v in spans]


def check(query: Node, given: list[Row], expected: list[Row], horizon: int | None = None) -> None:
    assert_same_table(expected, oracle(query, {"s": given}, horizon=horizon))


def test_a_source_is_its_table_without_empty_rows() -> None:
    check(S, rows((1, 3, 1), (1, 3, 1), (4, 4, 2), (6, 5, 3)), rows((1, 3, 1), (1, 3, 1)))


def test_a_source_without_a_table_is_an_error() -> None:
    with pytest.raises(ValueError, match="the query reads the source 's'"):
        oracle(S, {})


def test_where_keeps_true_only() -> None:
    check(Where(S, col("v") > 1), rows((1, 3, 1), (2, 4, 2), (3, 5, None)), rows((2, 4, 2)))


def test_where_sees_the_start() -> None:
    check(Where(S, col("_start") >= 2), rows((1, 3, 1), (2, 4, 1)), rows((2, 4, 1)))


def test_select_computes_from_payload_and_start() -> None:
    query = Select(S, (("w", col("v") + col("_start")), ("c", lit(7))))
    assert_same_table(
        [(3, 5, {"w": 13, "c": 7}), (4, 9, {"w": None, "c": 7})],
        oracle(query, {"s": rows((3, 5, 10), (4, 9, None))}),
    )


def test_select_many_repeats() -> None:
    check(
        SelectMany(S, (("v", lit(33)),), repeat=col("v")),
        rows((1, 2, 2), (5, 6, 0), (7, 8, None)),
        rows((1, 2, 33), (1, 2, 33)),
    )


def test_select_many_unnests_lists() -> None:
    table: list[Row] = [
        (1, 4, {"v": 1, "items": [5, 6, 5]}),
        (2, 3, {"v": 2, "items": []}),
        (2, 3, {"v": 3, "items": None}),
    ]
    query = SelectMany(L, (("v", col("v")), ("item", col("items"))), unnest="items")
    expected: list[Row] = [
        (1, 4, {"v": 1, "item": 5}),
        (1, 4, {"v": 1, "item": 6}),
        (1, 4, {"v": 1, "item": 5}),
    ]
    assert_same_table(expected, oracle(query, {"l": table}))


def test_set_duration_ignores_the_end() -> None:
    check(SetDuration(S, 3), rows((1, 9, 1), (2, INFINITY, 2)), rows((1, 4, 1), (2, 5, 2)))
    check(SetDuration(S, INFINITY), rows((1, 9, 1)), rows((1, INFINITY, 1)))


def test_alter_lifetime_moves_every_row_to_one_instant() -> None:
    check(
        AlterLifetime(S, lit(100), 1),
        rows((1, 9, 1), (2, INFINITY, 2)),
        rows((100, 101, 1), (100, 101, 2)),
    )
    check(AlterLifetime(S, col("_start") * 2 + col("v"), 5), rows((3, 4, 1)), rows((7, 12, 1)))


def test_a_null_start_has_no_place_on_the_time_axis() -> None:
    check(AlterLifetime(S, col("v"), 5), rows((3, 4, None), (3, 4, 7)), rows((7, 12, 7)))
    check(Shift(S, col("v")), rows((3, 4, None), (3, 4, 7)), rows((10, 11, 7)))


def test_shift_by_a_constant_and_by_an_expression() -> None:
    check(Shift(S, -2), rows((1, 4, 1), (3, INFINITY, 2)), rows((-1, 2, 1), (1, INFINITY, 2)))
    check(Shift(S, col("v")), rows((1, 4, 10), (1, 4, 20)), rows((11, 14, 10), (21, 24, 20)))


def test_extend_by_less_than_nothing_removes_short_rows() -> None:
    check(
        Extend(S, -3),
        rows((1, 4, 1), (1, 5, 2), (1, INFINITY, 3)),
        rows((1, 2, 2), (1, INFINITY, 3)),
    )
    check(Extend(S, 3), rows((1, 4, 1)), rows((1, 7, 1)))


def test_clip_duration() -> None:
    check(
        ClipDuration(S, 2),
        rows((1, 9, 1), (1, 2, 2), (5, INFINITY, 3)),
        rows((1, 3, 1), (1, 2, 2), (5, 7, 3)),
    )


def test_point_at_end_forgets_rows_that_never_end() -> None:
    check(PointAtEnd(S), rows((1, 4, 1), (2, INFINITY, 2)), rows((4, 5, 1)))


def test_chop_cuts_strictly_inside() -> None:
    # grid        0         10        20        30
    # row         |    [5 . . . . . . . . . 25) |
    check(
        Chop(S, 10),
        rows((5, 25, 1), (10, 20, 2)),
        rows((5, 10, 1), (10, 20, 1), (20, 25, 1), (10, 20, 2)),
    )
    check(Chop(S, 10, offset=3), rows((0, 14, 1)), rows((0, 3, 1), (3, 13, 1), (13, 14, 1)))


def test_chop_of_an_endless_row_needs_a_horizon() -> None:
    with pytest.raises(ValueError, match="horizon"):
        oracle(Chop(S, 10), {"s": rows((5, INFINITY, 1))})
    check(
        Chop(S, 10),
        rows((5, INFINITY, 1)),
        rows((5, 10, 1), (10, 20, 1), (20, INFINITY, 1)),
        horizon=25,
    )


def test_hopping_lifetime_rounds_the_start_up_and_ignores_the_end() -> None:
    # Trill: the value on [T, T + hop) covers starts in (T - size, T]; a start on the grid stays
    # where it is.
    check(
        HoppingLifetime(S, 20, 10),
        rows((10, 11, 1), (11, 99, 2), (20, 21, 3)),
        rows((10, 30, 1), (20, 40, 2), (20, 40, 3)),
    )
    check(
        HoppingLifetime(S, 10, 10, offset=3),
        rows((3, 4, 1), (4, 5, 2)),
        rows((3, 13, 1), (13, 23, 2)),
    )


def test_hopping_lifetime_smaller_than_its_hop_loses_rows_between_the_windows() -> None:
    check(HoppingLifetime(S, 1, 12), rows((12, 13, 1), (13, 14, 2)), rows((12, 13, 1)))


def test_quantize_covers_every_window_that_the_row_touches() -> None:
    check(
        Quantize(S, 10, 10),
        rows((12, 13, 1), (5, 25, 2), (10, 20, 3)),
        rows((10, 20, 1), (0, 30, 2), (10, 20, 3)),
    )
    check(Quantize(S, 100, 10), rows((105, 106, 1)), rows((100, 200, 1)))
    check(Quantize(S, 100, 10, progress=5), rows((106, 107, 1)), rows((105, 200, 1)))
    check(Quantize(S, 10, 10), rows((12, INFINITY, 1)), rows((10, INFINITY, 1)))


def test_union_keeps_duplicates() -> None:
    check(
        Union(Where(S, col("v") > 1), S),
        rows((1, 2, 1), (1, 2, 2)),
        rows((1, 2, 1), (1, 2, 2), (1, 2, 2)),
    )
