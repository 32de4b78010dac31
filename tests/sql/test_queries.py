"""What else a query may say: the plan is the fluent one, and the table is DuckDB's."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import thalweg as tw
from tests.sql.packets import DISORDER, MINUTE, SECOND, answers, ask_duckdb, links, streams
from tests.sql.thesis import PARAMETERS, THESIS, band, sliding, tumbling
from thalweg.errors import SqlError
from thalweg.spark.simulation import DividedEngine
from thalweg.testing import assert_physically_independent, assert_same_table

QUERIES = {
    "filter and projection": (
        "SELECT srcIP, len * 2 AS twice, upper(flags) FROM Main WHERE len BETWEEN 100 AND 900 AND flags IN ('SYN', 'ACK')",
        """SELECT ts, ts + 1, srcIP, len * 2 AS twice, upper(flags) AS upper FROM Main
        WHERE len BETWEEN 100 AND 900 AND flags IN ('SYN', 'ACK')""",
    ),
    "time in an expression": (
        "SELECT ts, ts // 60000000 AS minute FROM Main WHERE ts >= INTERVAL '5' MINUTES",
        f"SELECT ts, ts + 1, ts, ts // {MINUTE} AS minute FROM Main WHERE ts >= {5 * MINUTE}",
    ),
    "having": (
        "SELECT srcIP, count(*) AS n [RANGE TUMBLING 1 minute, WA ts] FROM Main GROUP BY srcIP HAVING max(len) > 700 AND n > 1",
        f"SELECT * FROM ({sliding(MINUTE, MINUTE, 'Main', 'srcIP', 'count(*) AS n')} HAVING max(len) > 700 AND count(*) > 1)",
    ),
    "computed key and aggregate of an expression": (
        """SELECT len // 500 AS size, sum(len + 1) / count(*) AS mean, count(*) FILTER (WHERE flags = 'SYN') AS syns
        [RANGE 3 minutes, SLIDE 1 minute, WA ts] FROM Main GROUP BY len // 500""",
        sliding(
            3 * MINUTE,
            MINUTE,
            "Main",
            "len // 500",
            "len // 500 AS size, sum(len + 1) / count(*) AS mean, count(*) FILTER (WHERE flags = 'SYN') AS syns",
            shown="",
        ),
    ),
    "group by an alias": (
        "SELECT len // 500 AS size, count(*) AS n [RANGE TUMBLING 2 minutes, WA ts] FROM Main GROUP BY size",
        sliding(2 * MINUTE, 2 * MINUTE, "Main", "len // 500", "len // 500 AS size, count(*) AS n", shown=""),
    ),
    "all the aggregates": (
        """SELECT min(len) AS a, max(len) AS b, avg(len) AS c, median(len) AS d, percentile(len, 0.25) AS e, percentile_disc(len, 0.9) AS f,
        first(len) AS g, last(len) AS h, arg_max(srcIP, len) AS i, min_by(srcIP, len) AS j, count(len) AS k
        [RANGE TUMBLING 2 minutes, WA ts] FROM Main""",
        sliding(
            2 * MINUTE,
            2 * MINUTE,
            "Main",
            "",
            """min(len) AS a, max(len) AS b, avg(len) AS c, median(len) AS d, quantile_cont(len, 0.25) AS e, quantile_disc(len, 0.9) AS f,
            arg_min(len, ts) AS g, arg_max(len, ts) AS h, arg_max(srcIP, len) AS i, arg_min(srcIP, len) AS j, count(len) AS k""",
        ),
    ),
    "with, and a window over a window": (
        """WITH byMinute AS (SELECT srcIP, count(*) AS n [RANGE TUMBLING 1 minute, WA ts] FROM Main GROUP BY srcIP)
        SELECT srcIP, max(n) AS most [RANGE 5 minutes, SLIDE 1 minute, WA window_start] FROM byMinute GROUP BY srcIP""",
        sliding(
            5 * MINUTE,
            MINUTE,
            f"(SELECT ts // {MINUTE} * {MINUTE} AS ts, srcIP, count(*) AS n FROM Main GROUP BY ALL)",
            "srcIP",
            "max(n) AS most",
        ),
    ),
    "a subquery that keeps its time": (
        """SELECT count(*) AS n [RANGE TUMBLING 1 minute, WA sent]
        FROM (SELECT ts AS sent, len FROM Main WHERE len > 500) AS big""",
        sliding(MINUTE, MINUTE, "(SELECT * FROM Main WHERE len > 500)", "", "count(*) AS n"),
    ),
    "union all of queries": (
        "SELECT srcIP, len FROM M1 WHERE len > 700 UNION ALL SELECT destIP, length FROM M2 WHERE len < 700",
        "SELECT ts, ts + 1, srcIP, len FROM M1 WHERE len > 700 UNION ALL SELECT ts, ts + 1, destIP, length FROM M2 WHERE len < 700",
    ),
    "union is distinct": (
        "SELECT srcIP FROM M1 UNION SELECT srcIP FROM M1",
        "SELECT DISTINCT ts, ts + 1, srcIP FROM M1",
    ),
    "distinct": (
        "SELECT DISTINCT window_start, srcIP FROM TUMBLE(M1, ts, '1 min')",
        f"SELECT DISTINCT ts, ts + 1, ts // {MINUTE} * {MINUTE} AS window_start, srcIP FROM M1",
    ),
    "join, on": (
        "SELECT a.len AS mine, b.len AS yours FROM M1 AS a [RANGE 1 min] JOIN M2 b [RANGE 30 sec] ON a.srcIP = b.srcIP AND a.len < b.len",
        band("M1", MINUTE, "M2", 30 * SECOND, "M1.len AS mine, M2.len AS yours", "M1.srcIP = M2.srcIP AND M1.len < M2.len"),
    ),
    "join, using": (
        "SELECT M1.len AS mine, M2.len AS yours FROM M1 [RANGE 1 min] JOIN M2 [RANGE 30 sec] USING (srcIP, srcPort)",
        band("M1", MINUTE, "M2", 30 * SECOND, "M1.len AS mine, M2.len AS yours", "M1.srcIP = M2.srcIP AND M1.srcPort = M2.srcPort"),
    ),
    "join of three": (
        """SELECT M1.len AS a, M2.len AS b, C.len AS c FROM M1 [RANGE 30 sec], M2 [RANGE 30 sec], C [RANGE 30 sec]
        WHERE M1.srcIP = M2.srcIP AND M2.srcIP = C.srcIP AND M1.len > 400""",
        f"""SELECT greatest(M1.ts, M2.ts, C.ts), least(M1.ts, M2.ts, C.ts) + {30 * SECOND}, M1.len AS a, M2.len AS b, C.len AS c
        FROM M1, M2, C WHERE M1.srcIP = M2.srcIP AND M2.srcIP = C.srcIP AND M1.len > 400
        AND greatest(M1.ts, M2.ts, C.ts) < least(M1.ts, M2.ts, C.ts) + {30 * SECOND}""",
    ),
    "aggregate over a tumbling join, timed by one side": (
        """SELECT count(*) AS n [RANGE TUMBLING 1 minute, WA M2.ts] FROM M1, M2 [RANGE TUMBLING 5 minutes, WA ts]
        WHERE M1.srcIP = M2.srcIP""",
        f"""SELECT M2.ts // {MINUTE} * {MINUTE}, M2.ts // {MINUTE} * {MINUTE} + {MINUTE}, count(*) AS n
        FROM ({tumbling("M1", "M2", 5 * MINUTE, "M2.ts", "M1.srcIP = M2.srcIP")}) AS M2 GROUP BY ALL""",
    ),
}


@pytest.fixture(scope="module")
def packets() -> dict[str, pa.Table]:
    return links()


@pytest.mark.parametrize("name", QUERIES)
def test_query_has_the_table_that_duckdb_has(name: str, packets: dict[str, pa.Table]) -> None:
    text, duckdb = QUERIES[name]
    expected = ask_duckdb(duckdb, packets)
    assert len(expected) > 3
    assert_same_table(expected, answers(tw.sql(text, streams()), packets))


@pytest.mark.parametrize("how", ["LEFT", "FULL", "SEMI", "ANTI"])
def test_outer_joins_are_the_fluent_ones(how: str, packets: dict[str, pa.Table]) -> None:
    shown = "M1.len AS mine" if how in ("SEMI", "ANTI") else "M1.len AS mine, M2.len AS yours"
    query = tw.sql(f"SELECT {shown} FROM M1 [RANGE 20 sec] {how} JOIN M2 [RANGE 10 sec] ON M1.srcPort = M2.srcPort", streams())
    given = streams()
    one, two = given["M1"].set_duration("20 s"), given["M2"].set_duration("10 s")
    select = None if how in ("SEMI", "ANTI") else {"mine": "l.len", "yours": "r.len"}
    same = one.join(two, "srcPort", how=how.lower(), select=select)
    same = same.select(mine="len") if select is None else same
    assert_same_table(answers(same, packets), answers(query, packets))


@pytest.mark.parametrize("name", ["Q1-2", "Q2-1", "Q5-7", "Q5-8", "Q6-3", "Q6-4", "Q7-1", "Q7-2", "Q8-4"])
def test_query_does_not_depend_on_how_packets_arrive(name: str, packets: dict[str, pa.Table]) -> None:
    query = tw.sql(THESIS[name].text, streams(), parameters=PARAMETERS)
    few = {link: _rows(table.slice(0, 8)) for link, table in packets.items()}
    used = {entry: few[entry] for entry in tw.Engine(query).sources}
    assert_physically_independent(query.node, used, forms=2)
    assert_physically_independent(query.node, used, forms=1, engine=DividedEngine)


def _rows(table: pa.Table) -> list[tuple[int, int, dict[str, object]]]:
    return [(row["ts"], row["ts"] + 1, {key: value for key, value in row.items() if key != "ts"}) for row in table.to_pylist()]


# ------------------------------------------------------------------------------------------------------------- names


def test_the_time_goes_by_the_name_its_author_gives() -> None:
    stream = tw.source("s", {"v": "int64"})
    for options in ({"time": "at"}, {"time": {"S": "at"}}):
        query = tw.sql("SELECT at, v FROM S", S=stream, **options)
        assert tw.table(query, {"s": [tw.point({"v": 4}, 7)]}) == [(7, 8, {"at": 7, "v": 4})]
    assert tw.table(tw.sql("SELECT _start + v AS x FROM S", S=stream), {"s": [tw.point({"v": 4}, 7)]}) == [(7, 8, {"x": 11})]


def test_a_column_that_is_called_like_the_time_is_not_the_time() -> None:
    stream = tw.source("s", {"ts": "int64"})
    assert tw.table(tw.sql("SELECT ts FROM S", S=stream), {"s": [tw.point({"ts": 4}, 7)]}) == [(7, 8, {"ts": 4})]
    with pytest.raises(SqlError, match="ts does not progress: it is an ordinary column"):
        tw.sql("SELECT count(*) [RANGE TUMBLING 5, WA ts] FROM S", S=stream)
    assert tw.sql("SELECT count(*) AS n [RANGE TUMBLING 5, WA _start] FROM S", S=stream).schema.names == ["n"]


def test_star_names_the_time_too_and_columns_of_one_name_carry_their_stream() -> None:
    stream = tw.source("s", {"v": "int64"})
    assert tw.sql("SELECT * FROM S", S=stream).schema.names == ["v", "ts"]
    both = tw.sql("SELECT a.*, b.v FROM S AS a [RANGE 5] JOIN S AS b [RANGE 5] ON a.v = b.v", S=stream)
    assert both.schema.names == ["a_v", "ts", "b_v"]


def test_text_between_double_quotes_is_text_only_where_it_can_be_nothing_else() -> None:
    stream = tw.source("s", {"a b": "string", "v": "string"})
    feed = {"s": [tw.point({"a b": "10.0.0.1", "v": "x"}, 0)]}
    assert len(tw.table(tw.sql('SELECT v FROM S WHERE "a b" = "10.0.0.1"', S=stream), feed)) == 1
    with pytest.raises(SqlError, match=r"unknown column .a bb.. Did you mean .a b."):
        tw.sql('SELECT v FROM S WHERE v = "a bb"', S=stream)
    with pytest.raises(SqlError, match="unknown column 'word'"):
        tw.sql('SELECT v FROM S WHERE v = "word"', S=stream)


def test_rows_that_last_count_where_they_start() -> None:
    stream = tw.source("s", {"v": "int64"})
    feed = {"s": [tw.insert({"v": 1}, 3, 25), tw.insert({"v": 1}, 14, 15)]}
    query = tw.sql("SELECT count(*) AS n [RANGE TUMBLING 10, WA ts] FROM S", S=stream)
    assert tw.table(query, feed) == [(0, 10, {"n": 1}), (10, 20, {"n": 1})]


def test_names_that_the_fluent_api_takes_for_arguments() -> None:
    query = tw.sql("SELECT count(*) AS fill, max(v) AS wid [RANGE TUMBLING 10, WA ts] FROM S", S=tw.source("s", {"v": "int64"}))
    assert tw.table(query, {"s": [tw.point({"v": 4}, 7)]}) == [(0, 10, {"fill": 1, "wid": 4})]


def test_streams_that_were_read_from_a_time_column_have_its_name(tmp_path: Path) -> None:
    pq.write_table(pa.table({"sent": [1, 2], "v": [1, 2]}), tmp_path / "0.parquet")
    query = tw.sql("SELECT sent, v FROM F", F=tw.from_files(str(tmp_path), time="sent", disorder=DISORDER))
    assert query.schema.names == ["sent", "v"]
