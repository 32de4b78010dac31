"""Queries as users of Flink and Spark type them, against DuckDB over the same rows: distinct
aggregates, OVER, interval joins, cumulating windows, subqueries over times.

DuckDB is the oracle, which sorts all rows and looks at each; here rows arrive in random order, in
random batches.
"""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import thalweg as tw
from thalweg.plan.nodes import Source, walk

BEGIN = datetime(2026, 3, 29, tzinfo=UTC)
QUERIES: dict[str, tuple[str, str]] = {
    "count distinct": (
        (
            "SELECT window_start, id, count(DISTINCT v) AS a, count(*) AS b, sum(DISTINCT v) FILTER"
            " (WHERE v > 1) AS c FROM TUMBLE(TABLE o, DESCRIPTOR(ts), INTERVAL '10' MINUTE) GROUP "
            "BY id, window_start, window_end"
        ),
        (
            "SELECT time_bucket(INTERVAL '10 minutes', ts) AS w, id, count(DISTINCT v), count(*), "
            "sum(DISTINCT v) FILTER (WHERE v > 1) FROM o GROUP BY id, w"
        ),
    ),
    "distinct in hopping windows": (
        (
            "SELECT window_start, count(DISTINCT id) AS a FROM HOP(TABLE o, DESCRIPTOR(ts), "
            "INTERVAL '5' MINUTE, INTERVAL '10' MINUTE) GROUP BY window_start, window_end HAVING "
            "count(*) > 1"
        ),
        (
            "SELECT w, count(DISTINCT id) FROM (SELECT id, unnest([time_bucket(INTERVAL '5 "
            "minutes', ts), time_bucket(INTERVAL '5 minutes', ts) - INTERVAL '5 minutes']) AS w "
            "FROM o) GROUP BY w HAVING count(*) > 1"
        ),
    ),
    "over": (
        (
            "SELECT id, ts, v, sum(v) OVER (PARTITION BY id ORDER BY ts RANGE BETWEEN INTERVAL '7' "
            "MINUTE PRECEDING AND CURRENT ROW) AS s, count(*) OVER (PARTITION BY id ORDER BY ts "
            "RANGE BETWEEN INTERVAL '7' MINUTE PRECEDING AND CURRENT ROW) * 2 AS n FROM o"
        ),
        (
            "SELECT id, ts, v, sum(v) OVER w, count(*) OVER w * 2 FROM o WINDOW w AS (PARTITION BY "
            "id ORDER BY ts RANGE BETWEEN INTERVAL '7 minutes' PRECEDING AND CURRENT ROW)"
        ),
    ),
    "over everything": (
        (
            "SELECT v, max(v) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '3' MINUTE PRECEDING AND "
            "CURRENT ROW) AS s FROM o WHERE v > 0"
        ),
        (
            "SELECT v, max(v) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '3 minutes' PRECEDING AND "
            "CURRENT ROW) FROM o WHERE v > 0"
        ),
    ),
    "interval join": (
        (
            "SELECT o.id, o.ts AS ots, p.ts AS pts FROM o JOIN p ON o.id = p.id AND p.ts BETWEEN "
            "o.ts AND o.ts + INTERVAL '10' MINUTE"
        ),
        "",
    ),
    "interval join in WHERE": (
        (
            "SELECT o.v, p.v AS w FROM o, p WHERE o.id = p.id AND o.ts >= p.ts - INTERVAL '5' "
            "MINUTE AND o.ts < p.ts AND o.v <> p.v"
        ),
        "",
    ),
    "interval left join": (
        (
            "SELECT o.id, o.ts AS ots, p.ts AS pts FROM o LEFT JOIN p ON o.id = p.id AND p.ts > "
            "o.ts - INTERVAL '4' MINUTE AND p.ts <= o.ts"
        ),
        "",
    ),
    "cumulate": (
        (
            "SELECT window_start, window_end, id, sum(v) FROM CUMULATE(TABLE o, DESCRIPTOR(ts), "
            "INTERVAL '10' MINUTE, INTERVAL '30' MINUTE) GROUP BY id, window_start, window_end"
        ),
        (
            "SELECT w, w + n * INTERVAL '10 minutes' AS e, id, sum(v) FROM (SELECT *, "
            "time_bucket(INTERVAL '30 minutes', ts) AS w, unnest([1, 2, 3]) AS n FROM o) WHERE ts "
            "< w + n * INTERVAL '10 minutes' GROUP BY w, e, id"
        ),
    ),
    "Flink's group windows": (
        (
            "SELECT TUMBLE_START(ts, INTERVAL '10' MINUTE) AS s, TUMBLE_END(ts, INTERVAL '10' "
            "MINUTE) AS e, max(ts) AS newest FROM o GROUP BY TUMBLE(ts, INTERVAL '10' MINUTE)"
        ),
        (
            "SELECT time_bucket(INTERVAL '10 minutes', ts) AS s, s + INTERVAL '10 minutes', max(ts)"
            " FROM o GROUP BY s"
        ),
    ),
    "Spark's window": (
        "SELECT window.start, window.end, avg(v) AS a FROM o GROUP BY window(ts, '10 minutes')",
        (
            "SELECT time_bucket(INTERVAL '10 minutes', ts) AS s, s + INTERVAL '10 minutes', avg(v) "
            "FROM o GROUP BY s"
        ),
    ),
    "a window over the time of a join": (
        (
            "SELECT window_start, count(*) AS n FROM TUMBLE(TABLE (SELECT o.id, p.ts AS pts FROM o "
            "JOIN p ON o.id = p.id AND p.ts BETWEEN o.ts AND o.ts + INTERVAL '10' MINUTE), "
            "DESCRIPTOR(pts), INTERVAL '20' MINUTE) GROUP BY window_start"
        ),
        (
            "SELECT time_bucket(INTERVAL '20 minutes', p.ts) AS s, count(*) FROM o JOIN p ON o.id ="
            " p.id AND p.ts BETWEEN o.ts AND o.ts + INTERVAL '10 minutes' GROUP BY s"
        ),
    ),
    "times in conditions": (
        (
            "SELECT ts, v FROM o WHERE ts >= '2026-03-29 00:20:00' AND minute(ts) % 2 = 0 AND ts < "
            "TIMESTAMP '2026-03-29 00:50:00'"
        ),
        (
            "SELECT ts, v FROM o WHERE ts >= TIMESTAMPTZ '2026-03-29 00:20:00Z' AND extract(minute "
            "FROM ts) % 2 = 0 AND ts < TIMESTAMPTZ '2026-03-29 00:50:00Z'"
        ),
    ),
}


def rows(rng: Random, size: int) -> pa.Table:
    """Some rows of an hour, several at one time, several alike."""
    moments = [BEGIN + timedelta(seconds=30 * rng.randrange(120)) for _ in range(size)]
    return pa.table(
        {
            "ts": pa.array(moments, pa.timestamp("us", "UTC")),
            "id": [rng.randrange(3) for _ in range(size)],
            "v": pa.array([rng.choice([0, 1, 2, 3, None]) for _ in range(size)], pa.int64()),
        }
    )


def in_pieces(rng: Random, table: pa.Table) -> list[pa.Table]:
    order = rng.sample(range(table.num_rows), table.num_rows)
    cuts = [0, *sorted(rng.sample(range(1, table.num_rows), 3)), table.num_rows]
    shuffled = table.take(order)
    return [shuffled.slice(a, b - a) for a, b in itertools.pairwise(cuts)]


def sorted_rows(found: list[tuple[Any, ...]]) -> list[str]:
    return sorted(
        str([str(v.astimezone(UTC)) if isinstance(v, datetime) else v for v in row])
        for row in found
    )


@pytest.mark.parametrize("consistency", ["speculative", "final"])
@pytest.mark.parametrize("name", QUERIES)
def test_the_answer_is_duckdbs(name: str, consistency: str) -> None:
    text, theirs = QUERIES[name]
    for seed in range(3):
        rng = Random(seed)
        tables = {"o": rows(rng, 60), "p": rows(rng, 40)}
        streams = {
            name: tw.source(name, table.schema, time="ts", insert_only=True, constant_duration=1)
            for name, table in tables.items()
        }
        query = tw.sql(text, streams)
        used = {node.name for node in walk(query.node) if isinstance(node, Source)}
        inputs = {name: in_pieces(rng, table) for name, table in tables.items() if name in used}
        ours = tw.table(query, inputs, consistency=consistency)
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            for name, table in tables.items():
                connection.register(name, table)
            expected = connection.execute(theirs or text).fetchall()
        assert sorted_rows([tuple(row.values()) for _, _, row in ours]) == sorted_rows(expected)
