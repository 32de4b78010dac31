"""Functions and aggregates that a user registered, by name in queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

import thalweg as tw
from tests.sql.packets import MINUTE, answers, ask_duckdb, links, streams
from tests.sql.thesis import sliding
from thalweg import udm
from thalweg.errors import SqlError
from thalweg.shards.local_engine import DividedEngine
from thalweg.testing import assert_physically_independent, assert_same_table


@udm.function("sqltests.kilobytes", inputs={"size": "bigint"}, output="double")
def kilobytes(size: int) -> float:
    return size / 1024


@udm.aggregate("sqltests.spread", inputs={"value": "bigint"}, output="bigint")
def spread(values: Sequence[int]) -> int:
    return max(values) - min(values)


@udm.aggregate("sqltests.above", inputs={"value": "bigint"}, output="bigint")
class Above:
    """How many values are above a limit."""

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def compute(self, values: Sequence[int]) -> int:
        return sum(value > self.limit for value in values)


@udm.aggregate("sqltests.clipped", inputs={"name": "bigint", "clip": "bigint"}, output="bigint")
def clipped(rows: Sequence[Any]) -> int:
    return sum(min(row["name"], row["clip"]) for row in rows)


@udm.operator("sqltests.twice", inputs={"value": "bigint"}, output={"value": "bigint"})
def twice(values: Sequence[int]) -> list[dict[str, int]]:
    return [{"value": 2 * value} for value in values]


@udm.operator("sqltests.beyond", inputs={"value": "bigint"}, output={"big": "bigint"})
class Beyond:
    """The values beyond a limit."""

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def compute(self, values: Sequence[int]) -> list[dict[str, int]]:
        return [{"big": value} for value in values if value > self.limit]


@udm.operator(
    "sqltests.edges", inputs={"value": "bigint"}, output={"low": "bigint", "high": "bigint"}
)
def edges(values: Sequence[int]) -> list[dict[str, int]]:
    return [{"low": min(values), "high": max(values)}]


@udm.aggregate("sqltests.common", inputs={"value": "bigint"}, output="bigint")
def common(values: Sequence[int]) -> int:
    return len(values)


@udm.aggregate("othersqltests.common", inputs={"value": "bigint"}, output="bigint")
def other_common(values: Sequence[int]) -> int:
    return -len(values)


@pytest.fixture(scope="module")
def packets() -> dict[str, pa.Table]:
    return links()


def test_function_in_where_select_and_join(packets: dict[str, pa.Table]) -> None:
    query = tw.sql(
        "SELECT srcIP, kilobytes(len) AS kb FROM M1 WHERE sqltests.kilobytes(len + 24) > 1",
        streams(),
    )
    assert_same_table(
        ask_duckdb("SELECT ts, ts + 1, srcIP, len / 1024 AS kb FROM M1 WHERE len > 1000", packets),
        answers(query, packets),
    )
    pairs = tw.sql(
        "SELECT M1.len FROM M1, M2 [RANGE TUMBLING 1 min, WA ts] WHERE kilobytes(M1.len) > 2 * "
        "kilobytes(M2.len)",
        streams(),
    )
    expected = f"""SELECT greatest(M1.ts, M2.ts), greatest(M1.ts, M2.ts) + 1, M1.len FROM M1, M2
        WHERE M1.ts // {MINUTE} = M2.ts // {MINUTE} AND M1.len > 2 * M2.len"""
    assert_same_table(ask_duckdb(expected, packets), answers(pairs, packets))


QUERIES = {
    "alone": (
        "SELECT srcIP, spread(len) [RANGE 3 minutes, SLIDE 1 minute, WA ts] FROM M1 GROUP BY srcIP",
        sliding(3 * MINUTE, MINUTE, "M1", "srcIP", "max(len) - min(len) AS spread"),
    ),
    "beside others, in an expression and in HAVING": (
        """SELECT srcIP, count(*) AS n, sqltests.spread(len) + 1 AS wide,
            spread(len + row_num) AS other [RANGE 3 minutes, SLIDE 1 minute, WA ts]
        FROM M1 GROUP BY srcIP HAVING spread(len) > 100""",
        sliding(
            3 * MINUTE,
            MINUTE,
            "M1",
            "srcIP",
            "count(*) AS n, max(len) - min(len) + 1 AS wide, max(len + row_num) - min(len + "
            "row_num) AS other",
        )
        + " HAVING max(len) - min(len) > 100",
    ),
    "without groups": (
        (
            "SELECT count(*) AS n, spread(value => len) AS wide FROM M1 GROUP BY window(ts, '1 "
            "minute')"
        ),
        sliding(MINUTE, MINUTE, "M1", "", "count(*) AS n, max(len) - min(len) AS wide"),
    ),
    "inputs that are called like arguments of apply": (
        "SELECT clipped(name => len, clip => 500) AS n FROM TUMBLE(M1, ts, '2 minutes')",
        sliding(2 * MINUTE, 2 * MINUTE, "M1", "", "sum(least(len, 500))::bigint AS n"),
    ),
    "with a parameter": (
        "SELECT sqltests.above(len, limit => 700) AS n FROM TUMBLE(M1, ts, '2 minutes')",
        sliding(2 * MINUTE, 2 * MINUTE, "M1", "", "count(*) FILTER (WHERE len > 700) AS n"),
    ),
}


@pytest.mark.parametrize("name", QUERIES)
def test_aggregate_of_a_user_is_computed_for_each_window(
    name: str, packets: dict[str, pa.Table]
) -> None:
    text, duckdb = QUERIES[name]
    expected = ask_duckdb(duckdb, packets)
    assert len(expected) > 3
    query = tw.sql(text, streams())
    assert_same_table(expected, answers(query, packets))


OPERATORS = {
    "by group": (
        "SELECT srcIP, twice(len) [RANGE TUMBLING 1 minute, WA ts] FROM M1 GROUP BY srcIP",
        (
            f"SELECT ts // {MINUTE} * {MINUTE} s, (ts // {MINUTE} + 1) * {MINUTE} e, srcIP, 2 * len"
            " AS value FROM M1"
        ),
    ),
    "two columns, between the edges of the window, with HAVING": (
        (
            "SELECT window_start, edges(len) FROM TUMBLE(TABLE M1, DESCRIPTOR(ts), '1 minute') "
            "HAVING high - low > 100"
        ),
        f"""SELECT ts // {MINUTE} * {MINUTE} s, (ts // {MINUTE} + 1) * {MINUTE} e,
            s AS window_start, min(len) AS low, max(len) AS high
        FROM M1 GROUP BY ts // {MINUTE} HAVING max(len) - min(len) > 100""",
    ),
    "a parameter, under another name": (
        (
            "SELECT sqltests.beyond(len, limit => 700) AS large FROM M1 GROUP BY TUMBLE(ts, '2 "
            "minutes')"
        ),
        f"""SELECT ts // {2 * MINUTE} * {2 * MINUTE} s, (ts // {2 * MINUTE} + 1) * {2 * MINUTE} e,
            len AS large
        FROM M1 WHERE len > 700""",
    ),
    "in a query around it": (
        """SELECT big - 700 AS above
        FROM (SELECT beyond(value => len, limit => 700) FROM TUMBLE(M1, ts, '2 minutes'))
        WHERE big < 1200""",
        f"""SELECT ts // {2 * MINUTE} * {2 * MINUTE} s, (ts // {2 * MINUTE} + 1) * {2 * MINUTE} e,
            len - 700 AS above
        FROM M1 WHERE len > 700 AND len < 1200""",
    ),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operator_of_a_user_gives_rows_for_each_window(
    name: str, packets: dict[str, pa.Table]
) -> None:
    text, duckdb = OPERATORS[name]
    expected = ask_duckdb(duckdb, packets)
    assert len(expected) > 3
    assert_same_table(expected, answers(tw.sql(text, streams()), packets))


def test_operator_does_not_depend_on_how_packets_arrive(packets: dict[str, pa.Table]) -> None:
    query = tw.sql(OPERATORS["by group"][0], streams())
    rows = [
        (row["ts"], row["ts"] + 1, {key: row[key] for key in row if key != "ts"})
        for row in packets["M1"].slice(0, 8).to_pylist()
    ]
    assert_physically_independent(query.node, {"M1": rows}, forms=2)
    assert_physically_independent(query.node, {"M1": rows}, forms=1, engine=DividedEngine)


def test_it_does_not_depend_on_how_packets_arrive(packets: dict[str, pa.Table]) -> None:
    query = tw.sql(QUERIES["beside others, in an expression and in HAVING"][0], streams())
    rows = [
        (row["ts"], row["ts"] + 1, {key: row[key] for key in row if key != "ts"})
        for row in packets["M1"].slice(0, 8).to_pylist()
    ]
    assert_physically_independent(query.node, {"M1": rows}, forms=2)
    assert_physically_independent(query.node, {"M1": rows}, forms=1, engine=DividedEngine)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "SELECT spread(len) FILTER (WHERE len > 5) [RANGE TUMBLING 1 minute, WA ts] FROM M1",
            "spread takes no FILTER",
        ),
        (
            "SELECT above(len, limit => len) [RANGE TUMBLING 1 minute, WA ts] FROM M1",
            "its value is a constant",
        ),
        ("SELECT spread(len, len) [RANGE TUMBLING 1 minute, WA ts] FROM M1", "it takes 1 inputs"),
        ("SELECT len FROM M1 WHERE spread(len) > 4", "an aggregate has no place here"),
        (
            "SELECT common(len) [RANGE TUMBLING 1 minute, WA ts] FROM M1",
            "several modules are called 'common'",
        ),
        ("SELECT twice(len) FROM M1", "these groups never end"),
        (
            "SELECT twice(len) + 1 FROM TUMBLE(M1, ts, '1 minute')",
            "twice gives rows, not a value; compute with its columns in a query around it",
        ),
        (
            "SELECT twice(len), count(*) FROM TUMBLE(M1, ts, '1 minute')",
            "twice gives any number of rows for a window",
        ),
        (
            "SELECT edges(len) AS x FROM TUMBLE(M1, ts, '1 minute')",
            "edges gives the columns low, high; AS names one",
        ),
        (
            "SELECT destIP, twice(len) FROM TUMBLE(M1, ts, '1 minute') GROUP BY srcIP",
            "'destIP' is neither grouped nor aggregated",
        ),
        (
            "SELECT twice(len) FROM TUMBLE(M1, ts, '1 minute') ORDER BY value LIMIT 3",
            "the rows of an operator are not ranked",
        ),
        ("SELECT kilobytes(len, len) FROM M1", "takes 1 arguments; got 2"),
    ],
)
def test_mistakes(text: str, message: str) -> None:
    with pytest.raises(SqlError) as caught:
        tw.sql(text, streams())
    assert message in str(caught.value)
