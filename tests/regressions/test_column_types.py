"""Columns of types that few kernels of Arrow take: they work, or are refused in a sentence."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest

import thalweg as tw
from thalweg.errors import TypeMismatchError
from thalweg.testing import assert_physically_independent

arrow: Any = pa
"""With names that the type checker does not know."""

FAR = 2**62
"""Microseconds of a time that Python has no date for."""


def source(kind: pa.DataType) -> tw.Stream:
    return tw.source("s", pa.schema([("p", kind)]))


def points(*values: Any) -> dict[str, list[tw.Element]]:
    return {"s": [tw.point({"p": value}, 1) for value in values]}


def test_the_table_of_a_dictionary_column() -> None:
    table = tw.table(source(pa.dictionary(pa.int8(), pa.string())), points("b", None, "a", "b"))
    assert [row["p"] for _, _, row in table] == ["a", "b", "b", None]
    letters = pa.table({"ts": [1, 2], "p": pa.array(["b", "a"]).dictionary_encode()})
    assert len(tw.table(tw.from_frame(letters, time="ts"))) == 2


@pytest.mark.parametrize("values", [([2], [1], None), (None, [1], [2])])
def test_a_table_is_sorted_by_nested_columns_too(values: tuple[list[int] | None, ...]) -> None:
    table = tw.table(source(pa.list_(pa.int64())), points(*values))
    assert [row["p"] for _, _, row in table] == [[1], [2], None]


@pytest.mark.parametrize(
    "kind",
    [pa.string_view(), arrow.list_view(pa.string_view()), pa.struct([("a", pa.binary_view())])],
)
def test_views_are_declared_as_what_they_view(kind: pa.DataType) -> None:
    value = {"a": b"x"} if pa.types.is_struct(kind) else ["x"] if "list" in str(kind) else "x"
    counts = source(kind).group_by("p").tumbling(5).aggregate(n=tw.count())
    assert tw.table(counts, points(value, None, value))[0] == (0, 5, {"p": value, "n": 2})


def test_runs_in_a_frame_are_read() -> None:
    runs = pa.table({"ts": [1, 2], "p": arrow.RunEndEncodedArray.from_arrays([2], [7])})
    assert [row["p"] for _, _, row in tw.table(tw.from_frame(runs, time="ts"))] == [7, 7]


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.timestamp("us")),
        pa.list_(pa.timestamp("ns")),
        pa.list_(pa.duration("ns")),
        pa.struct([("a", pa.timestamp("us", "UTC"))]),
        pa.map_(pa.string(), pa.timestamp("us")),
    ],
)
def test_times_in_nested_values_that_python_has_none_for(kind: Any) -> None:
    def column(ticks: int) -> Any:
        if pa.types.is_struct(kind):
            return pa.array([{"a": ticks}], pa.struct([("a", pa.int64())])).cast(kind)
        if pa.types.is_map(kind):
            offsets, names = pa.array([0, 1], pa.int32()), pa.array(["a"])
            return arrow.MapArray.from_arrays(
                offsets, names, pa.array([ticks]).cast(kind.item_type)
            )
        return pa.array([[ticks]]).cast(kind)

    frame = pa.table({"_start": [1, 2, 3], "p": pa.concat_arrays(map(column, (FAR, FAR + 1, FAR)))})
    counts = source(kind).group_by("p").tumbling(5).aggregate(n=tw.count())
    assert sorted(row["n"] for _, _, row in tw.table(counts, {"s": frame})) == [1, 2]


@pytest.mark.parametrize("kind", [pa.duration("s"), pa.date64()])
def test_a_time_that_is_too_far_for_python_is_shown(kind: pa.DataType) -> None:
    far = pa.array([2**60]).cast(kind) if pa.types.is_duration(kind) else pa.array([10**18], kind)
    table = tw.table(source(kind), {"s": pa.table({"_start": [1], "p": far})})
    assert len(list(table)) == 1


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.int64()), pa.struct([("a", pa.int64())]), pa.map_(pa.string(), pa.int64())]
)
def test_what_has_no_order_is_not_compared(kind: pa.DataType) -> None:
    """By their texts, [10] would come before [9]."""
    window = source(kind).with_columns(v="1").tumbling(5)
    for aggregate in (tw.min_("p"), tw.max_("p"), tw.arg_min("v", by="p"), tw.arg_max("v", by="p")):
        with pytest.raises(TypeMismatchError, match="has no order"):
            window.aggregate(x=aggregate)
    with pytest.raises(TypeMismatchError, match="has no order"):
        window.top_k(1, by="p")


def test_heavy_hitters_count_equal_values_together() -> None:
    counts = source(pa.float64()).tumbling(5).aggregate(x=tw.heavy_hitters("p", 0.3))
    table = tw.table(counts, points(0.0, -0.0, math.nan, -math.nan, 5.0))
    assert {item["value"]: item["count"] for item in table[0][2]["x"]} == {"0": 2, "nan": 2}


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.null(), None),
        (arrow.float16(), 1.5),
        (arrow.month_day_nano_interval(), arrow.MonthDayNano([1, 2, 3])),
    ],
)
def test_columns_that_arrow_neither_ranks_nor_sorts(kind: pa.DataType, value: object) -> None:
    stream = source(kind)
    for query in (
        stream,
        stream.in_order(),
        tw.merge(stream, stream),
        stream.tumbling(5).aggregate(p=tw.first("p")),
        stream.group_by("p").tumbling(5).aggregate(n=tw.count()),
    ):
        rows = [row for _, _, row in tw.table(query, points(value, value))]
        assert all(row.get("p") == value for row in rows) and rows


def test_the_minimum_of_a_column_without_values() -> None:
    window = source(pa.null()).tumbling(5)
    assert tw.table(window.aggregate(p=tw.min_("p")), points(None)) == [(0, 5, {"p": None})]
    assert tw.table(window.top_k(1, by="p"), points(None)) == [(0, 5, {"p": None})]


NESTED: dict[str, tuple[pa.DataType, list[Any]]] = {
    "list": (pa.list_(pa.int64()), [[10], [9], [], [None]]),
    "map": (pa.map_(pa.string(), pa.int64()), [[("a", 1)], [], [("a", 1), ("b", 1)]]),
    "struct": (pa.struct([("x", pa.float64())]), [{"x": 10.0}, {"x": -0.0}, {"x": None}]),
}


@pytest.mark.parametrize("kind", NESTED)
def test_ties_of_nested_values_go_by_their_texts(kind: str) -> None:
    type_, values = NESTED[kind]
    ends = source(type_).tumbling(10).aggregate(first=tw.first("p"), last=tw.last("p"))
    rows = [(1, 2, {"p": value}) for value in values]
    assert_physically_independent(ends.node, {"s": rows}, forms=6)
