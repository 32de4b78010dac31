"""What else a query may say: the plan is the fluent one, and the table is DuckDB's."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq
import pytest

import thalweg as tw
from tests.sql.packets import DISORDER, MINUTE, SECOND, answers, ask_duckdb, links, streams
from tests.sql.thesis import PARAMETERS, THESIS, band, sliding, tumbling
from thalweg.errors import SqlError, WindowWarning
from thalweg.shards.local_engine import DividedEngine
from thalweg.testing import assert_physically_independent, assert_same_table

BYTES_IN = sliding(
    3 * MINUTE, MINUTE, "Main", "destIP", "sum(len)::bigint AS bytes, max(len) + count(*) AS best"
).replace(f"s + {3 * MINUTE}, ", f"s + {3 * MINUTE} AS e, ")

QUERIES = {
    "filter and projection": (
        (
            "SELECT srcIP, len * 2 AS twice, upper(flags) FROM Main WHERE len BETWEEN 100 AND 900 "
            "AND flags IN ('SYN', 'ACK')"
        ),
        """SELECT ts, ts + 1, srcIP, len * 2 AS twice, upper(flags) AS upper FROM Main
        WHERE len BETWEEN 100 AND 900 AND flags IN ('SYN', 'ACK')""",
    ),
    "time in an expression": (
        "SELECT ts, ts // 60000000 AS minute FROM Main WHERE ts >= INTERVAL '5' MINUTES",
        f"SELECT ts, ts + 1, ts, ts // {MINUTE} AS minute FROM Main WHERE ts >= {5 * MINUTE}",
    ),
    "having": (
        (
            "SELECT srcIP, count(*) AS n [RANGE TUMBLING 1 minute, WA ts] FROM Main GROUP BY srcIP "
            "HAVING max(len) > 700 AND n > 1"
        ),
        (
            f"SELECT * FROM ({sliding(MINUTE, MINUTE, 'Main', 'srcIP', 'count(*) AS n')} HAVING "
            "max(len) > 700 AND count(*) > 1)"
        ),
    ),
    "computed key and aggregate of an expression": (
        """SELECT len // 500 AS size, sum(len + 1) / count(*) AS mean,
            count(*) FILTER (WHERE flags = 'SYN') AS syns [RANGE 3 minutes, SLIDE 1 minute, WA ts]
        FROM Main GROUP BY len // 500""",
        sliding(
            3 * MINUTE,
            MINUTE,
            "Main",
            "len // 500",
            "len // 500 AS size, sum(len + 1) / count(*) AS mean, count(*) FILTER (WHERE flags = "
            "'SYN') AS syns",
            shown="",
        ),
    ),
    "the best of each window": (
        """SELECT destIP, sum(len) AS bytes [RANGE 3 minutes, SLIDE 1 minute, WA ts]
        FROM Main GROUP BY destIP ORDER BY max(len) + count(*) DESC LIMIT 2""",
        f"""SELECT s, e, destIP, bytes
        FROM (SELECT *, rank() OVER (PARTITION BY s ORDER BY best DESC) AS r FROM ({BYTES_IN}))
        WHERE r <= 2""",
    ),
    "group by an alias": (
        (
            "SELECT len // 500 AS size, count(*) AS n [RANGE TUMBLING 2 minutes, WA ts] FROM Main "
            "GROUP BY size"
        ),
        sliding(
            2 * MINUTE,
            2 * MINUTE,
            "Main",
            "len // 500",
            "len // 500 AS size, count(*) AS n",
            shown="",
        ),
    ),
    "all the aggregates": (
        """SELECT min(len) AS a, max(len) AS b, avg(len) AS c, median(len) AS d,
            percentile(len, 0.25) AS e, percentile_disc(len, 0.9) AS f, first(len) AS g,
            last(len) AS h, arg_max(srcIP, len) AS i, min_by(srcIP, len) AS j, count(len) AS k
        [RANGE TUMBLING 2 minutes, WA ts] FROM Main""",
        sliding(
            2 * MINUTE,
            2 * MINUTE,
            "Main",
            "",
            """min(len) AS a, max(len) AS b, avg(len) AS c, median(len) AS d,
            quantile_cont(len, 0.25) AS e, quantile_disc(len, 0.9) AS f, arg_min(len, ts) AS g,
            arg_max(len, ts) AS h, arg_max(srcIP, len) AS i, arg_min(srcIP, len) AS j,
            count(len) AS k""",
        ),
    ),
    "with, and a window over a window": (
        """WITH byMinute AS (
            SELECT srcIP, count(*) AS n [RANGE TUMBLING 1 minute, WA ts] FROM Main GROUP BY srcIP
        )
        SELECT srcIP, max(n) AS most [RANGE 5 minutes, SLIDE 1 minute, WA window_start]
        FROM byMinute GROUP BY srcIP""",
        sliding(
            5 * MINUTE,
            MINUTE,
            f"(SELECT ts // {MINUTE} * {MINUTE} AS ts, srcIP, count(*) AS n FROM Main GROUP BY "
            "ALL)",
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
        (
            "SELECT srcIP, len FROM M1 WHERE len > 700 UNION ALL SELECT destIP, length FROM M2 "
            "WHERE len < 700"
        ),
        (
            "SELECT ts, ts + 1, srcIP, len FROM M1 WHERE len > 700 UNION ALL SELECT ts, ts + 1, "
            "destIP, length FROM M2 WHERE len < 700"
        ),
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
        (
            "SELECT a.len AS mine, b.len AS yours FROM M1 AS a [RANGE 1 min] JOIN M2 b [RANGE 30 "
            "sec] ON a.srcIP = b.srcIP AND a.len < b.len"
        ),
        band(
            "M1",
            MINUTE,
            "M2",
            30 * SECOND,
            "M1.len AS mine, M2.len AS yours",
            "M1.srcIP = M2.srcIP AND M1.len < M2.len",
        ),
    ),
    "join, using": (
        (
            "SELECT M1.len AS mine, M2.len AS yours FROM M1 [RANGE 1 min] JOIN M2 [RANGE 30 sec] "
            "USING (srcIP, srcPort)"
        ),
        band(
            "M1",
            MINUTE,
            "M2",
            30 * SECOND,
            "M1.len AS mine, M2.len AS yours",
            "M1.srcIP = M2.srcIP AND M1.srcPort = M2.srcPort",
        ),
    ),
    "join of windows, Flink": (
        """SELECT a.window_start, a.len AS mine, b.len AS yours
        FROM TABLE(TUMBLE(TABLE M1, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) AS a
        JOIN TABLE(TUMBLE(TABLE M2, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) AS b
        ON a.srcIP = b.srcIP AND a.window_start = b.window_start AND a.window_end = b.window_end""",
        tumbling(
            "M1",
            "M2",
            MINUTE,
            f"M1.ts // {MINUTE} * {MINUTE} AS window_start, M1.len AS mine, M2.len AS yours",
            "M1.srcIP = M2.srcIP",
        ),
    ),
    "join of three": (
        """SELECT M1.len AS a, M2.len AS b, C.len AS c
        FROM M1 [RANGE 30 sec], M2 [RANGE 30 sec], C [RANGE 30 sec]
        WHERE M1.srcIP = M2.srcIP AND M2.srcIP = C.srcIP AND M1.len > 400""",
        f"""SELECT greatest(M1.ts, M2.ts, C.ts) AS s, s + 1, M1.len AS a, M2.len AS b, C.len AS c
        FROM M1, M2, C WHERE M1.srcIP = M2.srcIP AND M2.srcIP = C.srcIP AND M1.len > 400
        AND s < least(M1.ts, M2.ts, C.ts) + {30 * SECOND}""",
    ),
    "tumbling join of three, and a window over the time of one": (
        """SELECT count(*) AS n [RANGE TUMBLING 2 minutes, WA C.ts]
        FROM M1, M2, C [RANGE TUMBLING 1 minute, WA ts]
        WHERE M1.srcIP = M2.srcIP AND M2.srcIP = C.srcIP""",
        f"""SELECT C.ts // {2 * MINUTE} * {2 * MINUTE} AS s, s + {2 * MINUTE}, count(*) AS n
        FROM M1, M2, C
        WHERE M1.srcIP = M2.srcIP AND M2.srcIP = C.srcIP
        AND M1.ts // {MINUTE} = M2.ts // {MINUTE} AND M2.ts // {MINUTE} = C.ts // {MINUTE}
        GROUP BY ALL""",
    ),
    "group by the time of one side": (
        (
            "SELECT M1.ts, count(*) AS n FROM M1 [RANGE 20 sec], M2 [RANGE 20 sec] WHERE M1.srcIP ="
            " M2.srcIP GROUP BY M1.ts"
        ),
        f"""SELECT M1.ts, M1.ts + 1, M1.ts, count(*) AS n FROM M1, M2
        WHERE M1.srcIP = M2.srcIP AND abs(M1.ts - M2.ts) < {20 * SECOND} GROUP BY M1.ts""",
    ),
    "a window over the time that a subquery passes on": (
        """SELECT count(*) AS n [RANGE TUMBLING 1 minute, WA sent]
        FROM (
            SELECT M1.ts AS sent, M2.len FROM M1 [RANGE 20 sec], M2 [RANGE 20 sec]
            WHERE M1.srcIP = M2.srcIP
        ) AS pairs""",
        f"""SELECT M1.ts // {MINUTE} * {MINUTE} AS s, s + {MINUTE}, count(*) AS n FROM M1, M2
        WHERE M1.srcIP = M2.srcIP AND abs(M1.ts - M2.ts) < {20 * SECOND} GROUP BY ALL""",
    ),
    "aggregate over a tumbling join, timed by one side": (
        """SELECT count(*) AS n [RANGE TUMBLING 1 minute, WA M2.ts]
        FROM M1, M2 [RANGE TUMBLING 5 minutes, WA ts] WHERE M1.srcIP = M2.srcIP""",
        f"""SELECT M2.ts // {MINUTE} * {MINUTE} AS s, s + {MINUTE}, count(*) AS n
        FROM ({tumbling("M1", "M2", 5 * MINUTE, "M2.ts", "M1.srcIP = M2.srcIP")}) AS M2
        GROUP BY ALL""",
    ),
}


SMALL = tw.source("s", {"v": "int64"})


@pytest.fixture(scope="module")
def packets() -> dict[str, pa.Table]:
    return links()


@pytest.mark.parametrize("name", QUERIES)
def test_query_has_the_table_that_duckdb_has(name: str, packets: dict[str, pa.Table]) -> None:
    text, duckdb = QUERIES[name]
    expected = ask_duckdb(duckdb, packets)
    assert len(expected) > 3
    assert_same_table(expected, answers(tw.sql(text, streams()), packets))


@pytest.mark.parametrize("how", ["LEFT", "RIGHT", "FULL", "SEMI", "ANTI"])
@pytest.mark.parametrize(
    "window",
    ["M1 [RANGE 20 sec] {} JOIN M2 [RANGE 10 sec]", "M1 {} JOIN M2 [RANGE TUMBLING 20 sec, WA ts]"],
)
def test_outer_joins_with_windows_are_those_of_duckdb(
    how: str, window: str, packets: dict[str, pa.Table]
) -> None:
    """A row is alone when nothing matches it at all, as in a database."""
    one_sided = how in ("SEMI", "ANTI")
    shown = "M1.len AS mine" if one_sided else "M1.len AS mine, M2.len AS yours"
    query = tw.sql(
        f"SELECT {shown} FROM {window.format(how)} ON M1.srcPort = M2.srcPort AND M1.len < M2.len",
        streams(),
    )
    band = f"M2.ts < M1.ts + {20 * SECOND} AND M1.ts < M2.ts + {10 * SECOND}"
    tumbling = f"M1.ts // {20 * SECOND} = M2.ts // {20 * SECOND}"
    at = "M1.ts" if one_sided else "greatest(M1.ts, M2.ts)"
    near = tumbling if "TUMBLING" in window else band
    expected = f"""SELECT {at}, {at} + 1, {shown} FROM M1 {how} JOIN M2
        ON M1.srcPort = M2.srcPort AND M1.len < M2.len AND {near}"""
    assert_same_table(ask_duckdb(expected, packets), answers(query, packets))


@pytest.mark.parametrize("how", ["", "LEFT "])
@pytest.mark.parametrize("within", [None, 20])
def test_asof_joins_are_those_of_duckdb(
    how: str, within: int | None, packets: dict[str, pa.Table]
) -> None:
    window = "" if within is None else f" [RANGE {within} seconds, WA ts]"
    shown, on = (
        "M1.ts AS at, M1.len AS mine, M2.len AS yours",
        "ON M1.srcPort = M2.srcPort AND M1.ts >= M2.ts",
    )
    text = f"SELECT {shown} FROM M1 ASOF {how}JOIN M2{window} {on}"
    expected = f"SELECT M1.ts, M1.ts + 1, {shown} FROM M1 ASOF {how}JOIN M2 {on}"
    if within is not None:
        near = f"M1.ts - M2.ts <= {within * SECOND}"
        expected = expected.replace(
            "M2.len AS yours", f"CASE WHEN {near} THEN M2.len END AS yours"
        ) + ("" if how else f" WHERE {near}")
    assert_same_table(ask_duckdb(expected, packets), answers(tw.sql(text, streams()), packets))


def test_joins_without_windows_go_by_lifetimes(packets: dict[str, pa.Table]) -> None:
    given = {name: stream.set_duration("20 s") for name, stream in streams().items()}
    query = tw.sql(
        "SELECT M1.len AS mine, M2.len AS yours FROM M1 LEFT JOIN M2 ON M1.srcPort = M2.srcPort",
        given,
    )
    same = given["M1"].left_join(given["M2"], "srcPort", select={"mine": "l.len", "yours": "r.len"})
    assert_same_table(answers(same, packets), answers(query, packets))


@pytest.mark.parametrize(
    "name",
    [
        "Q1-2",
        "Q2-1",
        "Q5-4",
        "Q5-5",
        "Q5-6",
        "Q5-7",
        "Q5-8",
        "Q6-3",
        "Q6-4",
        "Q7-1",
        "Q7-2",
        "Q8-4",
    ],
)
def test_query_does_not_depend_on_how_packets_arrive(
    name: str, packets: dict[str, pa.Table]
) -> None:
    query = tw.sql(THESIS[name].text, streams(), parameters=PARAMETERS)
    few = {link: _rows(table.slice(0, 8)) for link, table in packets.items()}
    used = {entry: few[entry] for entry in tw.Engine(query).sources}
    assert_physically_independent(query.node, used, forms=2)
    assert_physically_independent(query.node, used, forms=1, engine=DividedEngine)


def _rows(table: pa.Table) -> list[tuple[int, int, dict[str, object]]]:
    return [
        (row["ts"], row["ts"] + 1, {key: value for key, value in row.items() if key != "ts"})
        for row in table.to_pylist()
    ]


def test_rows_are_counted_at_the_system_or_at_the_window(packets: dict[str, pa.Table]) -> None:
    """The window over row-num counts rows that WHERE leaves out; the one over local-row-num does
    not."""
    text = "SELECT count(*) AS n [RANGE 10 rows, SLIDE 10 rows, WA {}] FROM M1 WHERE flags = 'SYN'"
    system = answers(tw.sql(text.format("row-num"), streams()), packets)
    local = answers(tw.sql(text.format("local-row-num"), streams()), packets)
    syns = packets["M1"].filter(pa.compute.equal(packets["M1"]["flags"], "SYN"))
    numbers = syns["row_num"].to_pylist()
    by_ten = [(number - 1) // 10 for number in numbers]
    given = packets["M1"].num_rows  # numbers progress whether their rows pass or not
    complete = [ten for ten in set(by_ten) if given >= (ten + 1) * 10]
    assert sorted(row["n"] for _, _, row in system) == sorted(by_ten.count(ten) for ten in complete)
    assert [row["n"] for _, _, row in local] == [10] * (len(by_ten) // 10)


def test_everything_so_far_by_rows(packets: dict[str, pa.Table]) -> None:
    query = tw.sql(
        "SELECT count(*) AS n [RANGE ALL, SLIDE 20 rows, WA rank(ts)] FROM M1", streams()
    )
    assert [row["n"] for _, _, row in answers(query, packets)] == [20, 40, 60, 80]


def test_a_slide_that_divides_nothing_is_warned_about() -> None:
    with pytest.warns(
        WindowWarning,
        match="have the greatest common divisor 1, so that a window has 599,999,999 panes",
    ):
        tw.sql("SELECT count(*) [RANGE 599999999, SLIDE 1 minute, WA ts] FROM M1", streams())


def test_windows_end_at_multiples_of_the_slide() -> None:
    query = tw.sql(
        "SELECT count(*) AS n [RANGE 10, SLIDE 4, WA ts] FROM S", S=tw.source("s", {"v": "int64"})
    )
    found = tw.table(query, {"s": [tw.point({"v": 1}, 9)]})
    assert [(start, end) for start, end, _ in found] == [(2, 12), (6, 16)]


# ------------------------------------------------------------------------------------------------
# names


def test_the_time_goes_by_the_name_its_author_gives() -> None:
    stream = tw.source("s", {"v": "int64"})
    for options in ({"time": "at"}, {"time": {"S": "at"}}):
        query = tw.sql("SELECT at, v FROM S", S=stream, **options)
        assert tw.table(query, {"s": [tw.point({"v": 4}, 7)]}) == [(7, 8, {"at": 7, "v": 4})]
    assert tw.table(
        tw.sql("SELECT _start + v AS x FROM S", S=stream), {"s": [tw.point({"v": 4}, 7)]}
    ) == [(7, 8, {"x": 11})]


def test_a_column_that_is_called_like_the_time_is_not_the_time() -> None:
    stream = tw.source("s", {"ts": "int64"})
    assert tw.table(tw.sql("SELECT ts FROM S", S=stream), {"s": [tw.point({"ts": 4}, 7)]}) == [
        (7, 8, {"ts": 4})
    ]
    with pytest.raises(SqlError, match="ts does not progress: it is an ordinary column"):
        tw.sql("SELECT count(*) [RANGE TUMBLING 5, WA ts] FROM S", S=stream)
    assert tw.sql(
        "SELECT count(*) AS n [RANGE TUMBLING 5, WA _start] FROM S", S=stream
    ).schema.names == ["n"]


def test_star_names_the_time_too_and_columns_of_one_name_carry_their_stream() -> None:
    stream = tw.source("s", {"v": "int64"})
    assert tw.sql("SELECT * FROM S", S=stream).schema.names == ["v", "ts"]
    both = tw.sql(
        "SELECT a.*, b.v FROM S AS a [RANGE 5] JOIN S AS b [RANGE 5] ON a.v = b.v", S=stream
    )
    assert both.schema.names == ["a_v", "ts", "b_v"]


def test_text_between_double_quotes_is_text_only_where_it_can_be_nothing_else() -> None:
    stream = tw.source("s", {"a b": "string", "v": "string"})
    feed = {"s": [tw.point({"a b": "10.0.0.1", "v": "x"}, 0)]}
    assert len(tw.table(tw.sql('SELECT v FROM S WHERE "a b" = "10.0.0.1"', S=stream), feed)) == 1
    with pytest.raises(SqlError, match=r"unknown column 'a bb'\. Did you mean 'a b'"):
        tw.sql('SELECT v FROM S WHERE v = "a bb"', S=stream)
    with pytest.raises(SqlError, match="unknown column 'word'"):
        tw.sql('SELECT v FROM S WHERE v = "word"', S=stream)


def test_rows_that_last_count_where_they_start() -> None:
    stream = tw.source("s", {"v": "int64"})
    feed = {"s": [tw.insert({"v": 1}, 3, 25), tw.insert({"v": 1}, 14, 15)]}
    query = tw.sql("SELECT count(*) AS n [RANGE TUMBLING 10, WA ts] FROM S", S=stream)
    assert tw.table(query, feed) == [(0, 10, {"n": 1}), (10, 20, {"n": 1})]


def test_lifetime_is_what_a_window_may_go_by_too() -> None:
    stream = tw.source("s", {"watts": "double"})
    feed = {"s": [tw.insert({"watts": 4.0}, 3, 25), tw.insert({"watts": 10.0}, 14, 15)]}
    for text in (
        "[RANGE TUMBLING 10, WA lifetime] FROM S",
        "FROM TUMBLE(TABLE S, DESCRIPTOR(lifetime), 10)",
    ):
        query = tw.sql(
            f"SELECT count(*) AS n, time_weighted_average(watts) AS mean {text}", S=stream
        )
        assert tw.table(query, feed) == [
            (0, 10, {"n": 1, "mean": 2.8}),
            (10, 20, {"n": 2, "mean": 5.0}),
            (20, 30, {"n": 1, "mean": 2.0}),
        ]


def test_in_a_query_holds_while_the_query_has_the_value() -> None:
    blocked = tw.source("blocked", {"ip": "string"})
    packets = tw.source("packets", {"src": "string"})
    query = tw.sql(
        "SELECT src FROM P WHERE src IN (SELECT ip FROM B WHERE ip <> 'x') AND src <> 'c'",
        P=packets,
        B=blocked,
    )
    feed = [
        tw.point({"src": src}, at)
        for at, src in [(1, "a"), (5, "a"), (5, "b"), (9, "a"), (6, "c"), (6, "x")]
    ]
    lists = [tw.insert({"ip": ip}, 4, 8) for ip in ("a", "c", "x")]
    assert tw.table(query, {"packets": feed, "blocked": lists}) == [(5, 6, {"src": "a"})]
    with pytest.raises(SqlError, match="IN takes a query of one column; this one has ip, ts"):
        tw.sql("SELECT src FROM P WHERE src IN (SELECT * FROM B)", P=packets, B=blocked)


def test_dates_as_the_clock_counts_them() -> None:
    query = tw.sql(
        "SELECT v FROM S WHERE ts >= ticks('1970-01-01 00:00:02') AND ts < "
        "ticks('1970-01-01T01:00:03+01:00')",
        S=SMALL,
    )
    assert [
        start
        for start, _, _ in tw.table(
            query, {"s": [tw.point({"v": 1}, second * SECOND) for second in range(5)]}
        )
    ] == [2 * SECOND]


def test_an_amount_needs_no_blank() -> None:
    assert (
        "hopping(600000000 by 60000000)"
        in tw.sql("SELECT count(*) [RANGE 10min, SLIDE 1min, WA ts] FROM S", S=SMALL).explain()
    )


def test_names_that_the_fluent_api_takes_for_arguments() -> None:
    query = tw.sql(
        "SELECT count(*) AS fill, max(v) AS wid [RANGE TUMBLING 10, WA ts] FROM S",
        S=tw.source("s", {"v": "int64"}),
    )
    assert tw.table(query, {"s": [tw.point({"v": 4}, 7)]}) == [(0, 10, {"fill": 1, "wid": 4})]


def test_streams_that_were_read_from_a_time_column_have_its_name(tmp_path: Path) -> None:
    pq.write_table(pa.table({"sent": [1, 2], "v": [1, 2]}), tmp_path / "0.parquet")
    query = tw.sql(
        "SELECT sent, v FROM F", F=tw.from_files(str(tmp_path), time="sent", disorder=DISORDER)
    )
    assert query.schema.names == ["sent", "v"]
