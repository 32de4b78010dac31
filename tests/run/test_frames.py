"""Frames in, frames out: whatever a frame is made with, what goes in comes out, times in the type
they were given in."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import thalweg as tw
from thalweg.errors import SchemaChangeError, TimeRangeError, UnknownColumnError

ZONES = ("UTC", "Europe/Berlin", "America/New_York")
MOMENTS = st.datetimes(datetime(1990, 1, 1), datetime(2035, 1, 1))
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.float64(): st.floats(allow_nan=False, allow_infinity=False),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5),
    pa.date32(): st.dates(date(1990, 1, 1), date(2035, 1, 1)),
    pa.decimal128(12, 2): st.integers(-(10**9), 10**9).map(lambda n: Decimal(n) / 100),
    pa.timestamp("us"): MOMENTS,
    pa.timestamp("us", "UTC"): MOMENTS.map(lambda moment: moment.replace(tzinfo=UTC)),
}
READERS: dict[str, Callable[[pa.Table], object]] = {
    "arrow": lambda table: table,
    "reader": lambda table: table.to_reader(),
    "pandas": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
    "polars": pl.from_arrow,
    "duckdb": duckdb.from_arrow,
}


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Rows with a time of some zone, or without, and columns of random types with nulls."""
    size = draw(st.integers(1, 6))
    zone = draw(st.sampled_from([None, *ZONES]))
    stamps = draw(st.lists(MOMENTS, min_size=size, max_size=size, unique=True))
    columns = {"ts": pa.array(stamps, pa.timestamp("us")).cast(pa.timestamp("us", zone))}
    for number, type_ in enumerate(
        draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=3))
    ):
        values = st.lists(st.none() | VALUES[type_], min_size=size, max_size=size)
        columns[f"c{number}"] = pa.array(draw(values), type_)
    return pa.table(columns)


@pytest.mark.parametrize("reader", READERS)
@given(table=tables())
@settings(max_examples=25, deadline=None)
def test_what_goes_in_comes_out(reader: str, table: pa.Table) -> None:
    stream = tw.from_frame(READERS[reader](table), time="ts")
    out = tw.table(stream)
    expected = table.sort_by("ts")
    assert out.to_arrow().column("_start").cast(pa.int64()) == expected.column("ts").cast(
        pa.int64()
    )
    zone = table.schema.field("ts").type.tz
    if reader != "duckdb":  # DuckDB gives instants in the zone of its session
        assert out.to_arrow().schema.field("_start").type == pa.timestamp("us", zone)
    for name in table.schema.names[1:]:
        found = out.to_arrow().column(name).to_pylist()
        assert found == expected.column(name).to_pylist()


@given(table=tables())
@settings(max_examples=25, deadline=None)
def test_every_form_of_the_answer_says_the_same(table: pa.Table) -> None:
    out = tw.table(tw.from_frame(table, time="ts"))
    arrow = out.to_arrow()
    assert pa.table(out).equals(arrow)
    assert pa.Table.from_batches(out.batches(2), arrow.schema).equals(arrow)
    assert out.to_polars().to_dicts() == arrow.to_pylist()
    pd.testing.assert_frame_equal(out.to_pandas(), arrow.to_pandas())
    assert [start for start, _, _ in out] == arrow.column("_start").to_pylist()


def test_harmless_differences_are_cast() -> None:
    declared: dict[str, str | pa.DataType]
    declared = {"ts": pa.timestamp("us", "UTC"), "k": "string", "n": "int64", "x": "float64"}
    given = pa.table(
        {
            "x": pa.array([1, 2], pa.int32()),
            "n": pa.array([3, 4], pa.int16()),
            "k": pa.array(["a", "b"]).dictionary_encode(),
            "ts": pa.array([1, 2], pa.timestamp("s", "Asia/Tokyo")),
        }
    )
    query = tw.source("s", declared, time="ts")
    assert [row for _, _, row in tw.table(query, {"s": given})] == [
        {"k": "a", "n": 3, "x": 1.0},
        {"k": "b", "n": 4, "x": 2.0},
    ]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"n": ["1"]}, r"the column 'n' is string; the source declared int64"),
        ({"n": [1.5]}, r"the column 'n' is double; the source declared int64"),
        ({"nn": [1]}, r"the column 'n' is missing\. Did you mean 'nn'\?"),
        ({"n": [1], "extra": [1]}, r"the column 'extra' is not one of the source"),
        ({"n": pa.array([2**40], pa.int64())}, r"'n' is int64 and does not fit int32"),
    ],
)
def test_what_cannot_be_cast_is_refused_by_name(columns: dict[str, Any], message: str) -> None:
    small = "fit" in message
    query = tw.source("s", {"ts": "int64", "n": "int32" if small else "int64"}, time="ts")
    with pytest.raises(SchemaChangeError, match=message):
        tw.Engine(query).push("s", pa.table({"ts": [1], **columns}))


def test_lists_of_dictionaries() -> None:
    query = tw.source("s", {"ts": pa.timestamp("us"), "v": "int64"}, time="ts")
    rows = [{"ts": datetime(2026, 1, 1), "v": 1}, {"v": None, "ts": datetime(2026, 1, 2)}]
    assert [row for _, _, row in tw.table(query, {"s": rows})] == [{"v": 1}, {"v": None}]
    with pytest.raises(SchemaChangeError, match=r"row 1: the column 'v' is missing"):
        tw.table(query, {"s": [rows[0], {"ts": datetime(2026, 1, 2)}]})


def test_times_of_python_pandas_and_numpy_are_one() -> None:
    moment = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
    same = [moment, moment.astimezone(ZoneInfo("Asia/Tokyo")), pd.Timestamp(moment)]
    same += [np.datetime64("2026-03-29T01:30"), pd.Timestamp("2026-03-29 01:30")]
    points = {tw.point({}, time).start for time in same}
    assert points == {1_774_747_800_000_000}
    assert tw.cti(same[2]).time == tw.insert({}, same[3]).start
    assert (
        tw.adjust({}, moment, moment + timedelta(hours=1), None).end - points.pop() == 3_600_000_000
    )
    assert tw.point({}, date(1970, 1, 2)).start == 86_400_000_000


@pytest.mark.parametrize("time", [pd.NaT, np.datetime64("NaT"), pd.Timestamp(1, unit="ns")])
def test_what_is_no_time_is_refused(time: Any) -> None:
    with pytest.raises(TimeRangeError, match=r"NaT is none|whole number of microseconds"):
        tw.point({}, time)


def test_whole_times_stay_whole() -> None:
    query = tw.source("s", {"ts": "int64", "v": "int64"}, time="ts").tumbling(10)
    out = tw.table(query.aggregate(n=tw.count()), {"s": [{"ts": 3, "v": 1}]})
    assert out == [(0, 10, {"n": 1})]
    assert out.to_arrow().schema.field("_start").type == pa.int64()


def test_times_are_timestamps_wherever_they_are_shown() -> None:
    stamps = pd.to_datetime(["2026-03-29 00:10", "2026-03-29 01:10"]).tz_localize("Europe/Berlin")
    frame = pd.DataFrame({"ts": stamps, "v": [1, 2]})
    zoned = pa.timestamp("us", "Europe/Berlin")
    orders = tw.source("orders", {"ts": zoned, "v": "int64"}, time="ts", disorder="5 min")
    hourly = orders.tumbling("1 h").aggregate(n=tw.count(), newest=tw.max_("_start"))
    engine = tw.Engine(hourly)
    engine.push("orders", frame)
    why = str(engine.why(pd.Timestamp("2026-03-29 01:00", tz="Europe/Berlin")))
    assert "what starts at 2026-03-29 01:00:00+01:00 is not final" in why
    assert "a row at 2026-03-29 03:05:00+02:00 or later" in why and "disorder 5 min" in why
    assert str(engine.status().final_up_to) == "2026-03-29 01:00:00+01:00"
    with pytest.raises(tw.errors.LateEventError, match=r"time 2026-03-28 23:00:00\+01:00"):
        engine.push("orders", tw.point({"v": 1}, datetime(2026, 3, 28, 22)))
    answers = tw.table(hourly, {"orders": frame})
    assert [str(start) for start, _, _ in answers] == [
        "2026-03-29 00:00:00+01:00",
        "2026-03-29 01:00:00+01:00",
    ]
    assert answers.to_arrow().schema.field("newest").type == zoned
    assert "2026-03-29 00:00:00+01:00" in repr(tw.changes(hourly, {"orders": frame}))
    assert "<td>2026-03-29 00:00:00+01:00</td>" in answers._repr_html_()


def test_expressions_compare_times_with_text_and_know_their_parts() -> None:
    frame = [{"ts": datetime(2026, 3, 29, hour), "v": hour} for hour in range(4)]
    stream = tw.from_frame(frame, time="ts")

    def kept(condition: str) -> list[int]:
        return [row["v"] for _, _, row in tw.table(stream.where(condition))]

    assert kept("_start >= '2026-03-29 02:00'") == [2, 3]
    assert kept("_start < TIMESTAMP '2026-03-29 01:00:00'") == [0]
    assert kept("hour(_start) % 2 = 1") == [1, 3]
    assert kept("_start - INTERVAL '1' HOUR >= DATE '2026-03-29'") == [1, 2, 3]
    later = stream.alter_lifetime(start="_start + INTERVAL '1' DAY", duration=1)
    assert tw.table(later)[0][0] == datetime(2026, 3, 30)


def test_an_unknown_time_column_is_refused_where_it_is_named() -> None:
    with pytest.raises(UnknownColumnError, match=r"unknown column 'tss'. Did you mean 'ts'\?"):
        tw.source("s", {"ts": "int64", "v": "int64"}, time="tss")
