"""Calendar windows against DuckDB's date_trunc in three zones, over two changes of their clocks;
and the laws that every kind of window has to keep."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import thalweg as tw
from thalweg.errors import SqlError, WindowError
from thalweg.model.time import time_us
from thalweg.windows.calendar import UNITS, CalendarWindow, calendar
from thalweg.windows.framework import Tuples, duality

ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe")
"""The third moves its clocks by half an hour, in the other half of the year."""


def rows(seed: int, zone: str, size: int = 120) -> pa.Table:
    """Instants of a year that has both changes, many of them near midnights and the changes."""
    rng = Random(seed)
    changes = [
        datetime(2026, month, day, tzinfo=UTC)
        for month, day in ((3, 8), (3, 29), (4, 4), (10, 4), (10, 25), (11, 1))
    ]
    moments = [
        rng.choice(changes) + timedelta(minutes=rng.randrange(-3 * 1440, 3 * 1440))
        for _ in range(size // 2)
    ]
    moments += [
        datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=rng.randrange(525_600))
        for _ in range(size // 2)
    ]
    return pa.table(
        {
            "ts": pa.array(moments, pa.timestamp("us", "UTC")).cast(pa.timestamp("us", zone)),
            "k": [rng.randrange(2) for _ in moments],
        }
    )


def duckdbs(table: pa.Table, unit: str, zone: str) -> list[tuple[int, int, int]]:
    with duckdb.connect() as connection:
        connection.execute(f"SET TimeZone = '{zone}'")
        connection.register("rows", table)
        found = connection.execute(
            f"SELECT epoch_us(date_trunc('{unit}', ts)) AS w, k, count(*) FROM rows GROUP BY w, k"
        ).fetchall()
    return sorted(found)


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("unit", UNITS)
def test_windows_begin_where_duckdb_truncates(unit: str, zone: str) -> None:
    for seed in range(2):
        table = rows(seed, zone)
        pieces = [table.slice(at, 40) for at in range(0, table.num_rows, 40)]
        stream = tw.source("s", table.schema, time="ts", insert_only=True)
        query = stream.group_by("k").calendar(unit).aggregate(n=tw.count())
        for consistency in ("speculative", "final"):
            answers = tw.table(query, {"s": pieces}, consistency=consistency)
            ours = sorted((time_us(start), row["k"], row["n"]) for start, _, row in answers)
            assert ours == duckdbs(table, unit, zone)


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("unit", UNITS)
def test_the_kind_keeps_the_duality_and_its_windows_meet(unit: str, zone: str) -> None:
    kind = calendar(unit, zone)
    ts = rows(3, zone).column("ts").cast(pa.int64()).to_numpy()
    tuples = Tuples.of(ts, partition=np.arange(len(ts)) % 3)
    assert duality(kind, tuples) is None
    ids = np.unique(kind.wids(tuples).window)
    start, end = kind.time_range(ids)
    assert (end > start).all() and (end - start <= kind.longest).all()
    following = kind.wids(Tuples.of(end)).window
    assert (kind.time_range(following)[0] == end).all()


def test_a_day_has_23_and_25_hours_where_clocks_change() -> None:
    kind = CalendarWindow("day", "Europe/Berlin")
    days = np.array(["2026-03-28", "2026-03-29", "2026-10-25"], "M8[D]").astype(np.int64)
    start, end = kind.time_range(days)
    assert ((end - start) // 3_600_000_000).tolist() == [24, 23, 25]


SQL = (
    "SELECT window_start, window_end, k, count(*) AS n FROM {window} GROUP BY k, window_start, "
    "window_end"
)


@pytest.mark.parametrize(
    ("window", "unit"),
    [
        ("TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '1' MONTH)", "month"),
        ("TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '1' YEAR)", "year"),
        ("CALENDAR(TABLE s, DESCRIPTOR(ts), 'day', 'Europe/Berlin')", "day"),
        ("CALENDAR(TABLE s, DESCRIPTOR(ts), 'week')", "week"),
    ],
)
def test_calendars_in_sql(window: str, unit: str) -> None:
    table = rows(5, "Europe/Berlin")
    answers = tw.table(tw.sql(SQL.format(window=window), s=tw.from_frame(table, time="ts")))
    found = [row for _, _, row in answers]
    assert sorted((time_us(r["window_start"]), r["k"], r["n"]) for r in found) == duckdbs(
        table, unit, "Europe/Berlin"
    )
    assert [(row["window_start"], row["window_end"]) for row in found] == [
        (start, end) for start, end, _ in answers
    ]


@pytest.mark.parametrize("unit", ["day", "month", "hour"])
def test_groups_of_a_truncated_time_are_windows(unit: str) -> None:
    table = rows(6, "Europe/Berlin")
    text = (
        f"SELECT date_trunc('{unit}', ts) AS w, k, count(*) AS n FROM s GROUP BY "
        f"date_trunc('{unit}', ts), k"
    )
    answers = tw.table(tw.sql(text, s=tw.from_frame(table, time="ts")))
    found = sorted((time_us(r["w"]), r["k"], r["n"]) for _, _, r in answers)
    assert found == duckdbs(table, unit, "Europe/Berlin")


def test_what_is_no_period_is_refused() -> None:
    stream = tw.from_frame(rows(1, "UTC"), time="ts")
    with pytest.raises(WindowError, match=r"the unit is one of day, week, month, quarter, year"):
        stream.calendar("fortnight")
    with pytest.raises(WindowError, match=r"unknown time zone 'Europe/Berln'"):
        stream.calendar("day", zone="Europe/Berln")
    with pytest.raises(SqlError, match=r"a unit and a zone are texts"):
        tw.sql(SQL.format(window="CALENDAR(TABLE s, DESCRIPTOR(ts), 5)"), s=stream)
