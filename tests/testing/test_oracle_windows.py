"""The oracle's windows, aggregates, top-k, stitch, distinct, sessions and groups, on tables worked
out by hand."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest

from thalweg.expr import col, lit
from thalweg.model import INFINITY, Row
from thalweg.plan import aggregates as agg
from thalweg.plan.aggregates import AggregateCall, count, max_, sum_
from thalweg.plan.nodes import (
    Distinct,
    GroupApply,
    GroupInput,
    Node,
    SessionLifetime,
    Source,
    Stitch,
    TopK,
    Union,
    Where,
    WindowAggregate,
)
from thalweg.testing import assert_same_table, oracle
from thalweg.windows import HoppingWindow, SessionWindow, SnapshotWindow, Window

S = Source("s", pa.schema([("k", pa.string()), ("v", pa.int64())]))
N = (("n", count()),)


def rows(*given: tuple[int, int, str | None, int | None]) -> list[Row]:
    return [(start, end, {"k": k, "v": v}) for start, end, k, v in given]


def counts(*given: tuple[int, int, int]) -> list[Row]:
    return [(start, end, {"n": n}) for start, end, n in given]


def check(query: Node, given: list[Row], expected: list[Row], horizon: int | None = None) -> None:
    assert_same_table(expected, oracle(query, {"s": given}, horizon=horizon))


# ------------------------------------------------------------------------------------------------
# windows


def test_snapshots_skip_gaps_and_are_not_merged() -> None:
    # [1 . . 5)
    #    [3 . . 7)  [9 10)
    given = rows((1, 5, "a", 1), (3, 7, "a", 2), (9, 10, "b", 3))
    check(
        WindowAggregate(S, SnapshotWindow(), N),
        given,
        counts((1, 3, 1), (3, 5, 2), (5, 7, 1), (9, 10, 1)),
    )
    touching = rows((1, 3, "a", 1), (3, 5, "a", 1))
    check(WindowAggregate(S, SnapshotWindow(), N), touching, counts((1, 3, 1), (3, 5, 1)))


def test_snapshots_of_a_group_are_cut_only_by_its_own_rows() -> None:
    given = rows((1, 5, "a", 1), (3, 7, "b", 2), (1, 5, None, 1))
    expected: list[Row] = [
        (1, 5, {"k": "a", "n": 1}),
        (3, 7, {"k": "b", "n": 1}),
        (1, 5, {"k": None, "n": 1}),
    ]
    check(WindowAggregate(S, SnapshotWindow(), N, keys=("k",)), given, expected)


def test_the_last_snapshot_of_an_endless_row_is_endless() -> None:
    given = rows((1, INFINITY, "a", 1), (2, 4, "a", 1))
    check(
        WindowAggregate(S, SnapshotWindow(), N),
        given,
        counts((1, 2, 1), (2, 4, 2), (4, INFINITY, 1)),
    )


def test_hopping_windows_hold_what_overlaps_them() -> None:
    #             -5    0     5     10    15    20
    # rows                    [5 . . . . . . 16)
    #                           [9 10)
    given = rows((5, 16, "a", 1), (9, 10, "a", 1))
    check(
        WindowAggregate(S, HoppingWindow(10, 5), N),
        given,
        counts((0, 10, 2), (5, 15, 2), (10, 20, 1), (15, 25, 1)),
    )
    check(WindowAggregate(S, HoppingWindow(10, 10), N), given, counts((0, 10, 2), (10, 20, 1)))


def test_hopping_windows_with_gaps_and_offset() -> None:
    given = rows((0, 3, "a", 1), (3, 6, "a", 1), (4, 13, "a", 1))
    check(WindowAggregate(S, HoppingWindow(2, 10, 1), N), given, counts((1, 3, 1), (11, 13, 1)))


def test_hopping_windows_of_an_endless_row_need_a_horizon() -> None:
    query = WindowAggregate(S, HoppingWindow(10, 10), N)
    with pytest.raises(ValueError, match="horizon"):
        oracle(query, {"s": rows((5, INFINITY, "a", 1))})
    check(query, rows((5, INFINITY, "a", 1)), counts((0, 10, 1), (10, 20, 1)), horizon=20)


def test_sessions_go_by_starts_less_than_a_gap_apart() -> None:
    # starts 1 4 8   gap 4: 4 - 1 < 4 goes on, 8 - 4 does not. The end of a row does not matter.
    given = rows((1, 99, "a", 1), (4, 5, "b", 2), (8, 9, "a", 3), (8, 9, "a", 3))
    check(WindowAggregate(S, SessionWindow(4), N), given, counts((1, 8, 2), (8, 12, 2)))
    keyed: list[Row] = [
        (1, 5, {"k": "a", "n": 1}),
        (8, 12, {"k": "a", "n": 2}),
        (4, 8, {"k": "b", "n": 1}),
    ]
    check(WindowAggregate(S, SessionWindow(4), N, keys=("k",)), given, keyed)


def test_fill_gives_named_groups_a_row_for_their_empty_windows() -> None:
    # windows 0, 10, 20, 30. "a" has rows in 0 and 30, "b" in 10, "c" is only named.
    given = rows((1, 2, "a", 1), (31, 32, "a", 5), (11, 12, "b", 2))
    query = WindowAggregate(
        S,
        HoppingWindow(10, 10),
        (("n", count()), ("t", sum_("v"))),
        keys=("k",),
        fill=(("a",), ("c",)),
    )
    expected: list[Row] = [
        (0, 10, {"k": "a", "n": 1, "t": 1}),
        (10, 20, {"k": "a", "n": 0, "t": None}),
        (20, 30, {"k": "a", "n": 0, "t": None}),
        (30, 40, {"k": "a", "n": 1, "t": 5}),
        (10, 20, {"k": "b", "n": 1, "t": 2}),
        *((at, at + 10, {"k": "c", "n": 0, "t": None}) for at in (0, 10, 20, 30)),
    ]
    check(query, given, expected)
    check(query, [], [])


def test_a_filter_does_not_remove_the_window() -> None:
    query = WindowAggregate(
        S,
        SnapshotWindow(),
        (("n", count(where=col("v") > 5)), ("t", sum_("v", where=col("v") > 5))),
    )
    check(query, rows((1, 2, "a", 1)), [(1, 2, {"n": 0, "t": None})])


def test_counts_of_nulls_are_zero_and_neighbouring_zeros_stay_apart() -> None:
    given = rows((1, 5, "a", None), (1, 3, "a", None), (2, 3, "a", None))
    check(
        WindowAggregate(S, SnapshotWindow(), (("n", count("v")),)),
        given,
        counts((1, 2, 0), (2, 3, 0), (3, 5, 0)),
    )


# ------------------------------------------------------------------------------------------------
# aggregates

#            start  k    v
WINDOW = [(1, "d", 4), (2, "b", 10), (2, "a", 4), (3, "c", None), (0, None, 7)]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (count(), 5),
        (count("v"), 4),
        (sum_("v"), 25),
        (agg.avg("v"), 6.25),
        (agg.min_("v"), 4),
        (max_("v"), 10),
        (max_("k"), "d"),
        (agg.variance("v"), (2.25**2 + 3.75**2 + 2.25**2 + 0.75**2) / 3),
        (agg.stddev("v"), math.sqrt((2.25**2 + 3.75**2 + 2.25**2 + 0.75**2) / 3)),
        (agg.variance("v", where=col("v") > 7), None),
        (agg.percentile("v", 0.5), 5.5),  # 4 4 7 10: rank 1.5
        (agg.percentile("v", 0.6), 6.4),  # rank 1.8
        (agg.percentile("v", 0.5, discrete=True), 4),
        (agg.percentile("v", 0.51, discrete=True), 7),
        (agg.percentile("v", 0.0, discrete=True), 4),
        (agg.percentile("v", 1.0, discrete=True), 10),
        (agg.first("v"), 7),
        (agg.first("k"), "d"),  # the null at 0 is passed over
        (agg.last("v"), 10),  # the null at 3 is passed over; at 2 the larger of 10 and 4
        (agg.last("k"), "c"),
        (agg.arg_max("k", by="v"), "b"),
        (agg.arg_min("k", by="v"), "a"),  # v is 4 twice: the smallest k
        (agg.arg_max("k", by="v", where=col("v") == 7), None),
        (agg.arg_min("v", by="k"), 4),  # the row whose k is null is passed over
        (sum_("v", where=col("v") > 99), None),
        (agg.avg("v", where=col("v") > 99), None),
        (agg.percentile("v", 0.5, where=col("v") > 99), None),
        (agg.first("v", where=col("v") > 99), None),
    ],
    ids=str,
)
def test_aggregates(call: AggregateCall, expected: Any) -> None:
    query = WindowAggregate(S, HoppingWindow(100, 100), (("x", call),))
    given = rows(*((start, start + 5, k, v) for start, k, v in WINDOW))
    check(query, given, [(0, 100, {"x": expected})])


# ------------------------------------------------------------------------------------------------
# top-k


def ranked(*given: tuple[int, int, int | None, int]) -> list[Row]:
    return [(start, end, {"k": "a", "v": v, "rank": rank}) for start, end, v, rank in given]


def test_top_k_keeps_ties_whole() -> None:
    given = rows((1, 5, "a", 9), (1, 5, "a", 7), (1, 5, "a", 7), (1, 5, "a", 3), (1, 5, "a", None))
    check(
        TopK(S, 2, col("v"), rank="rank"), given, ranked((1, 5, 9, 1), (1, 5, 7, 2), (1, 5, 7, 2))
    )
    check(
        TopK(S, 2, col("v"), descending=False, rank="rank"),
        given,
        ranked((1, 5, 3, 1), (1, 5, 7, 2), (1, 5, 7, 2)),
    )
    check(
        TopK(S, 9, col("v"), rank="rank"),
        given[2:],
        ranked((1, 5, 7, 1), (1, 5, 3, 2), (1, 5, None, 3)),
    )


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (SnapshotWindow(), [(1, 3, "a", 1), (3, 5, "b", 2), (5, 7, "b", 2)]),
        (HoppingWindow(4, 4), [(0, 4, "b", 2), (4, 8, "b", 2)]),
    ],
    ids=str,
)
def test_top_k_rows_live_as_long_as_the_window(
    window: Window, expected: list[tuple[int, int, str, int]]
) -> None:
    check(
        TopK(S, 1, col("v"), window=window), rows((1, 5, "a", 1), (3, 7, "b", 2)), rows(*expected)
    )


def test_top_k_per_group() -> None:
    given = rows((1, 5, "a", 1), (3, 7, "b", 2), (1, 5, "a", 4))
    check(TopK(S, 1, col("v"), keys=("k",)), given, rows((1, 5, "a", 4), (3, 7, "b", 2)))


# ------------------------------------------------------------------------------------------------
# stitch and distinct


def test_stitch_joins_chains() -> None:
    pieces = rows((1, 3, "a", 1), (3, 5, "a", 1), (5, 9, "a", 1), (5, 6, "a", 2), (10, 11, "a", 1))
    check(Stitch(S), pieces, rows((1, 9, "a", 1), (5, 6, "a", 2), (10, 11, "a", 1)))


def test_stitch_pairs_duplicates_by_rank() -> None:
    # two rows end at 5, ordered by start (1 before 2); three start there, ordered by end; the last
    # stays alone
    pieces = rows((2, 5, "a", 1), (1, 5, "a", 1), (5, 9, "a", 1), (5, 7, "a", 1), (5, 12, "a", 1))
    check(Stitch(S), pieces, rows((1, 7, "a", 1), (2, 9, "a", 1), (5, 12, "a", 1)))


def test_stitch_leaves_overlapping_rows_alone() -> None:
    given = rows((1, 4, "a", 1), (3, 5, "a", 1), (2, INFINITY, "b", 1))
    check(Stitch(S), given, given)


def test_distinct_gives_the_snapshots_of_each_payload_once() -> None:
    given = rows((1, 5, "a", 1), (3, 7, "a", 1), (3, 7, "a", 1), (2, 4, "b", 1))
    check(Distinct(S), given, rows((1, 3, "a", 1), (3, 5, "a", 1), (5, 7, "a", 1), (2, 4, "b", 1)))


# ------------------------------------------------------------------------------------------------
# sessions


def test_session_lifetime_ends_a_timeout_after_the_last_start() -> None:
    given = rows((1, 2, "a", 1), (4, 99, "a", 2), (10, 11, "a", 3))
    check(SessionLifetime(S, 6), given, rows((1, 10, "a", 1), (4, 10, "a", 2), (10, 16, "a", 3)))


def test_session_lifetime_per_group() -> None:
    given = rows((1, 2, "a", 1), (3, 4, "b", 2), (4, 5, "a", 3))
    check(
        SessionLifetime(S, 5, keys=("k",)),
        given,
        rows((1, 9, "a", 1), (4, 9, "a", 3), (3, 8, "b", 2)),
    )


def test_the_longest_session_is_enforced_on_a_fixed_grid() -> None:
    # m = 10. The chain begins at 3, not a multiple: the second multiple after it is the first cut,
    # 20; then 30.
    given = rows(*((at, at + 1, "a", at) for at in (3, 8, 13, 18, 23)))
    check(
        SessionLifetime(S, 6, 10),
        given,
        rows(
            (3, 20, "a", 3),
            (8, 20, "a", 8),
            (13, 20, "a", 13),
            (18, 20, "a", 18),
            (23, 29, "a", 23),
        ),
    )
    # The chain begins on a multiple: the very next multiple is the first cut.
    given = rows(*((at, at + 1, "a", at) for at in (10, 15, 20)))
    check(
        SessionLifetime(S, 6, 10),
        given,
        rows((10, 20, "a", 10), (15, 20, "a", 15), (20, 26, "a", 20)),
    )


# ------------------------------------------------------------------------------------------------
# groups


def group_of(node: Node) -> GroupInput:
    return GroupInput(node.schema, node.properties)


def test_group_apply_puts_the_keys_in_front() -> None:
    group = group_of(S)
    query = GroupApply(S, (("k", col("k")),), group, WindowAggregate(group, SnapshotWindow(), N))
    given = rows((1, 5, "a", 1), (3, 7, "b", 2), (1, 5, None, 3))
    check(
        query,
        given,
        [(1, 5, {"k": "a", "n": 1}), (3, 7, {"k": "b", "n": 1}), (1, 5, {"k": None, "n": 1})],
    )


def test_group_apply_with_a_result_sees_keys_and_inner_columns() -> None:
    group = group_of(S)
    inner = WindowAggregate(group, HoppingWindow(10, 10), N)
    query = GroupApply(
        S,
        (("odd", col("v") % 2),),
        group,
        inner,
        (("x", col("key_odd") * 100 + col("n") + col("_start")),),
    )
    check(
        query,
        rows((11, 12, "a", 1), (12, 13, "a", 3), (13, 14, "a", 2)),
        [(10, 20, {"x": 112}), (10, 20, {"x": 11})],
    )


def test_groups_may_be_nested_and_use_their_rows_twice() -> None:
    outer, inner = group_of(S), group_of(S)
    counted = GroupApply(
        outer,
        (("w", col("v")),),
        inner,
        WindowAggregate(Union(inner, Where(inner, lit(True))), SnapshotWindow(), N),
    )
    query = GroupApply(S, (("k", col("k")),), outer, counted)
    given = rows((1, 5, "a", 1), (3, 7, "a", 2), (3, 7, "b", 2))
    check(
        query,
        given,
        [
            (1, 5, {"k": "a", "w": 1, "n": 2}),
            (3, 7, {"k": "a", "w": 2, "n": 2}),
            (3, 7, {"k": "b", "w": 2, "n": 2}),
        ],
    )


def test_an_inner_query_may_see_the_outer_group() -> None:
    outer, inner = group_of(S), group_of(S)
    both = WindowAggregate(Union(inner, outer), SnapshotWindow(), N)
    query = GroupApply(
        S, (("k", col("k")),), outer, GroupApply(outer, (("w", col("v")),), inner, both)
    )
    check(
        query,
        rows((1, 5, "a", 1), (1, 5, "a", 2)),
        [(1, 5, {"k": "a", "w": 1, "n": 3}), (1, 5, {"k": "a", "w": 2, "n": 3})],
    )
