"""TUMBLE, HOP and SESSION in FROM and in GROUP BY, as Flink and Spark write them: the tables are
DuckDB's."""

from __future__ import annotations

import pyarrow as pa
import pytest

import thalweg as tw
from tests.sql.packets import MINUTE, SECOND, answers, ask_duckdb, links, streams
from tests.sql.thesis import sliding
from thalweg.testing import assert_same_table

TUMBLING = sliding(MINUTE, MINUTE, "Main", "srcIP", "sum(len)::bigint AS bytes")
HOPPING = sliding(5 * MINUTE, MINUTE, "Main", "srcIP", "sum(len)::bigint AS bytes")
SESSIONS = f"""
    WITH gaps AS (
        SELECT *, ts - lag(ts) OVER (PARTITION BY srcIP ORDER BY ts) AS gap FROM Main
    ), cut AS (
        SELECT *, coalesce(gap >= {20 * SECOND}, true) AS opens FROM gaps
    ), numbered AS (
        SELECT *, sum(opens::int) OVER (PARTITION BY srcIP ORDER BY ts) AS session FROM cut
    )
    SELECT min(ts), max(ts) + {20 * SECOND}, srcIP, sum(len)::bigint AS bytes
    FROM numbered GROUP BY srcIP, session"""

RANKED = """
    WITH ranked AS (SELECT *, rank() OVER ({}ORDER BY ts) AS r FROM Control)
    SELECT w.ts, w.ts + 1, {}sum(p.len)::bigint AS bytes
    FROM ranked AS w JOIN ranked AS p ON {}p.r <= w.r AND p.r > w.r - 4
    WHERE w.r % 2 = 0 GROUP BY ALL"""

FORMS = {
    "count": (
        "SELECT sum(len) AS bytes FROM COUNT(TABLE Control, 4, 2)",
        RANKED.format("", "", ""),
    ),
    "count, partitioned": (
        (
            "SELECT srcIP, sum(len) AS bytes FROM COUNT(TABLE Main2 PARTITION BY srcIP, ROWS => 4, "
            "SLIDE => 2)"
        ),
        RANKED.format("PARTITION BY srcIP ", "w.srcIP, ", "w.srcIP = p.srcIP AND ").replace(
            "Control", "Main2"
        ),
    ),
    "brackets, ranked": (
        "SELECT sum(len) AS bytes [RANGE 4 rows, SLIDE 2 rows, WA rank(ts)] FROM Control",
        RANKED.format("", "", ""),
    ),
    "tumble, Flink": (
        (
            "SELECT srcIP, sum(len) AS bytes FROM TABLE(TUMBLE(TABLE Main, DESCRIPTOR(ts), INTERVAL"
            " '1' MINUTE)) GROUP BY window_start, window_end, srcIP"
        ),
        TUMBLING,
    ),
    "tumble, named arguments": (
        (
            "SELECT srcIP, sum(len) AS bytes FROM TUMBLE(DATA => TABLE Main, SIZE => INTERVAL '1' "
            "MINUTE, TIMECOL => DESCRIPTOR(ts)) GROUP BY srcIP, window_start"
        ),
        TUMBLING,
    ),
    "tumble, short": (
        "SELECT srcIP, sum(len) AS bytes FROM TUMBLE(Main, ts, '1 minute') GROUP BY srcIP",
        TUMBLING,
    ),
    "tumble, grouped": (
        "SELECT srcIP, sum(len) AS bytes FROM Main GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE), srcIP",
        TUMBLING,
    ),
    "window, Spark": (
        "SELECT srcIP, sum(len) AS bytes FROM Main GROUP BY window(ts, '1 minute'), srcIP",
        TUMBLING,
    ),
    "brackets, tumbling": (
        "SELECT srcIP, sum(len) AS bytes [RANGE TUMBLING 1 minute, WA ts] FROM Main GROUP BY srcIP",
        TUMBLING,
    ),
    "brackets, partitioned": (
        "SELECT srcIP, sum(len) AS bytes [RANGE TUMBLING 1 minute, WA ts, PA srcIP] FROM Main",
        TUMBLING,
    ),
    "hop, Flink": (
        (
            "SELECT srcIP, sum(len) AS bytes FROM HOP(TABLE Main, DESCRIPTOR(ts), INTERVAL '1' "
            "MINUTE, INTERVAL '5' MINUTES) GROUP BY window_start, window_end, srcIP"
        ),
        HOPPING,
    ),
    "hop, grouped": (
        "SELECT srcIP, sum(len) AS bytes FROM Main GROUP BY srcIP, HOP(ts, '1 min', '5 min')",
        HOPPING,
    ),
    "hop, Spark": (
        (
            "SELECT srcIP, sum(len) AS bytes FROM Main GROUP BY srcIP, window(ts, '5 minutes', '1 "
            "minute')"
        ),
        HOPPING,
    ),
    "session, Flink": (
        (
            "SELECT srcIP, sum(len) AS bytes FROM SESSION(TABLE Main PARTITION BY srcIP, "
            "DESCRIPTOR(ts), INTERVAL '20' SECONDS)"
        ),
        SESSIONS,
    ),
    "session, Spark": (
        (
            "SELECT srcIP, sum(len) AS bytes FROM Main GROUP BY session_window(ts, '20 seconds'), "
            "srcIP"
        ),
        SESSIONS,
    ),
}


@pytest.fixture(scope="module")
def packets() -> dict[str, pa.Table]:
    return links()


@pytest.mark.parametrize("name", FORMS)
def test_window_function_has_the_table_that_duckdb_has(
    name: str, packets: dict[str, pa.Table]
) -> None:
    text, duckdb = FORMS[name]
    expected = ask_duckdb(duckdb, packets)
    assert len(expected) > 3
    assert_same_table(expected, answers(tw.sql(text, streams()), packets))


def test_window_start_and_end_are_columns(packets: dict[str, pa.Table]) -> None:
    for function in ("TUMBLE(ts, '1 min')", "HOP(ts, '1 min', '5 min')", "SESSION(ts, '20 s')"):
        query = tw.sql(
            f"SELECT window_start, window_end, count(*) AS n FROM Main GROUP BY {function}",
            streams(),
        )
        rows = answers(query, packets)
        assert rows and all(
            (start, end) == (row["window_start"], row["window_end"]) for start, end, row in rows
        )


def test_a_tumbling_window_tells_every_row_where_it_is(packets: dict[str, pa.Table]) -> None:
    query = tw.sql(
        "SELECT ts, window_start, window_end FROM TUMBLE(TABLE Main, DESCRIPTOR(ts), '5 min', '1 "
        "min')",
        streams(),
    )
    origin = f"(ts - {MINUTE}) // {5 * MINUTE} * {5 * MINUTE} + {MINUTE}"
    expected = f"""SELECT ts, ts + 1, ts, {origin} AS window_start,
        {origin} + {5 * MINUTE} AS window_end FROM Main WHERE ts >= {MINUTE}"""
    assert_same_table(
        ask_duckdb(expected, packets), [row for row in answers(query, packets) if row[0] >= MINUTE]
    )


def test_snapshot_windows_go_by_lifetimes() -> None:
    lasting = tw.source("runs", {"device": "string", "watts": "int64"})
    query = tw.sql(
        "SELECT window_start, sum(watts) AS watts FROM SNAPSHOT(TABLE Runs)", Runs=lasting
    )
    feed = [
        tw.insert({"device": "pump", "watts": 5}, 0, 10),
        tw.insert({"device": "fan", "watts": 2}, 4, 6),
    ]
    expected = [(0, 4, 5), (4, 6, 7), (6, 10, 5)]
    found = tw.table(query, {"runs": feed})
    assert [(start, end, row["watts"]) for start, end, row in found] == expected
    assert all(start == row["window_start"] for start, _, row in found)
