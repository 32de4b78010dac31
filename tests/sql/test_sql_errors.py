"""A mistake in a query is refused at its place: line, column, carets under what is wrong, and what
to do."""

from __future__ import annotations

from pathlib import Path

import pytest

import thalweg as tw
from thalweg.errors import PlanError, SqlError

WINDOW = "[RANGE 10 minutes, SLIDE 1 minute, WA ts]"

MISTAKES = [
    # names
    (
        "SELECT srcIPP FROM Main",
        "srcIPP",
        "unknown column 'srcIPP'. Did you mean 'srcIP'? Columns here: srcIP, len, ts.",
    ),
    (
        "SELECT srcIP FROM Mian",
        "Mian",
        "unknown stream 'Mian'. Did you mean 'Main'? Streams here: Main, Other.",
    ),
    ("SELECT Mian.srcIP FROM Main", "Mian.srcIP", "unknown stream 'Mian'. Did you mean 'Main'?"),
    (
        "SELECT len FROM Main, Other [RANGE TUMBLING 1 min, WA ts]",
        "len",
        "'len' is a column of several streams; write one of Main.len, Other.len.",
    ),
    (
        "SELECT Main.len FROM Main, Main [RANGE 1 min]",
        "Main [RANGE 1 min]",
        "two streams are called 'Main'; name them with AS.",
    ),
    ("SELECT foo(len) FROM Main", "foo", "unknown function 'foo'"),
    (
        f"SELECT string_agg(srcIP ORDER BY len) {WINDOW} FROM Main",
        "string_agg",
        "there is no aggregate 'string_agg'. Write one with thalweg.udm.aggregate",
    ),
    (
        f"SELECT srcIP, array_agg(len) {WINDOW} FROM Main GROUP BY srcIP",
        "array_agg",
        "there is no aggregate 'array_agg'. Write one with thalweg.udm.aggregate",
    ),
    ("SELECT lentgh(srcIP) FROM Main", "lentgh", "Did you mean 'length'?"),
    # types
    (
        f"SELECT sum(srcIP) {WINDOW} FROM Main",
        "sum(srcIP)",
        "sum(srcIP) needs a number; srcIP is string.",
    ),
    ("SELECT len FROM Main WHERE len", "len", "must be a condition (true or false); len is int64"),
    ("SELECT len FROM Main WHERE srcIP > len", "srcIP > len", "srcIP"),
    # windows
    (
        "SELECT count(*) [RANGE 0 minutes, SLIDE 1 minute, WA ts] FROM Main",
        "0 minutes",
        "RANGE must be positive",
    ),
    (
        "SELECT count(*) [RANGE 1 fortnight, SLIDE 1 minute, WA ts] FROM Main",
        "1 fortnight",
        "is not understood",
    ),
    (
        "SELECT count(*) [RANGE 1 minute, SLIDE 5 minutes, WA ts] FROM Main",
        "5 minutes",
        "SLIDE 5 minutes is longer than RANGE 1 minute",
    ),
    (
        "SELECT count(*) [RANGE 1 minute, SLIDE 1 minute, WA len] FROM Main",
        "len",
        "len does not progress: it is an ordinary column.",
    ),
    (
        "SELECT count(*) [RANGE 1 minute, SLIDE 1 minute, WA tss] FROM Main",
        "tss",
        "unknown column 'tss'",
    ),
    (
        "SELECT count(*) [RANGE 1 minute, SLIDE 1 minute] FROM Main",
        "[RANGE 1 minute, SLIDE 1 minute]",
        "on which column it is defined: WA ts.",
    ),
    (
        "SELECT count(*) [RANGE 1 minute, WA ts] FROM Main",
        "[RANGE 1 minute, WA ts]",
        "needs a SLIDE",
    ),
    (
        "SELECT count(*) [SLIDE 1 minute, WA ts] FROM Main",
        "[SLIDE 1 minute, WA ts]",
        "needs a RANGE",
    ),
    (
        "SELECT count(*) [RANGE 1 minute, SLDE 1 minute, WA ts] FROM Main",
        "SLDE",
        "not a part of a window. Did you mean 'SLIDE'?",
    ),
    ("SELECT count(*) [RANGE 1 minute, RANGE 1 minute] FROM Main", "RANGE", "RANGE stands twice"),
    ("SELECT count(*) [RANGE , SLIDE 1 minute] FROM Main", ",", "RANGE takes an amount"),
    (
        "SELECT count(*) [RANGE m, SLIDE 1 minute, WA ts] FROM Main",
        "m",
        "unknown parameter 'm'. Give it a value in parameters=. Known: n.",
    ),
    ("SELECT count(*) [RANGE 1 minute, SLIDE 1 minute, WA ts FROM Main", "FROM", "ends with ']'"),
    (f"SELECT count(*) FROM Main {WINDOW}", WINDOW, "a window behind a stream is for a join"),
    (
        f"SELECT count(*) {WINDOW}, max(len) [RANGE TUMBLING 1 minute, WA ts] FROM Main",
        "[RANGE TUMBLING 1 minute, WA ts]",
        "two different windows",
    ),
    (
        "SELECT Main.len FROM Main [RANGE 5 rows], Other [RANGE 1 min]",
        "[RANGE 5 rows]",
        "is a RANGE of time",
    ),
    (
        "SELECT Main.len FROM Main [RANGE 5 min, SLIDE 1 min], Other",
        "[RANGE 5 min, SLIDE 1 min]",
        "SLIDE has no meaning for a joined stream",
    ),
    (
        "SELECT count(*) [RANGE 10 rows, SLIDE 1 minute, WA row-num] FROM Main",
        "1 minute",
        "RANGE counts rows, and SLIDE time",
    ),
    (
        "SELECT count(*) [RANGE 10 rows, SLIDE 2 rows] FROM Main",
        "[RANGE 10 rows, SLIDE 2 rows]",
        "WA row-num, or WA rank(ts)",
    ),
    (
        "SELECT count(*) [RANGE 10 rows, SLIDE 2 rows, WA ts] FROM Main",
        "ts",
        "ts does not number rows",
    ),
    (
        "SELECT count(*) [RANGE 10 rows, SLIDE 2 rows, WA rank(len)] FROM Main",
        "rank(len)",
        "rows are ranked by their time, which len is not",
    ),
    (
        "SELECT count(*) [RANGE 0 rows, SLIDE 2 rows, WA row-num] FROM Main",
        "0 rows",
        "a whole number of rows, at least one",
    ),
    (
        "SELECT count(*) [RANGE 1 rows, SLIDE 2 rows, WA row-num] FROM Main",
        "2 rows",
        "SLIDE 2 rows is longer than RANGE 1 rows",
    ),
    (
        "SELECT count(*) [RANGE 1 minute, SLIDE 1 minute, WA row-num] FROM Main",
        "1 minute",
        "row-num counts rows; RANGE and SLIDE must too",
    ),
    (
        "SELECT count(*) [RANGE 5 minutes, SLIDE 1 row, WA ts] FROM Main",
        "ts",
        "say RATTR ts and SATTR row-num instead of WA",
    ),
    (
        "SELECT count(*) [RANGE 5 minutes, SLIDE 1 row, RATTR ts] FROM Main",
        "[RANGE 5 minutes, SLIDE 1 row, RATTR ts]",
        "SATTR row-num or",
    ),
    (
        "SELECT count(*) [RANGE 5 minutes, SLIDE 1 row, SATTR row-num, RATTR len] FROM Main",
        "len",
        "len does not progress",
    ),
    (
        "SELECT count(*) [RANGE 5 minutes, SLIDE 1 minute, WA ts, RATTR ts] FROM Main",
        "ts",
        "here one WA is enough",
    ),
    ("SELECT count(*) [RANGE ALL, WA ts] FROM Main", "[RANGE ALL, WA ts]", "needs a SLIDE"),
    (
        "SELECT count(*) [RANGE 5 rows, SLIDE 1 rows, WA row-num, PA ts] FROM Main",
        "ts",
        "PA takes ordinary columns",
    ),
    ("SELECT sum(len) FROM COUNT(TABLE Main, 0)", "0", "COUNT takes whole numbers of rows"),
    (
        "SELECT sum(len) FROM COUNT(TABLE Main, 2, 4)",
        "4",
        "COUNT: the slide is longer than the window",
    ),
    (
        "SELECT count(*) [RANGE ALL, SLIDE 1 min, WA lifetime] FROM Main",
        "[RANGE ALL, SLIDE 1 min, WA lifetime]",
        "not by lifetimes",
    ),
    ("SELECT len FROM Main WHERE ts > ticks('soon')", "'soon'", "'soon' is no date"),
    ("SELECT len FROM Main WHERE ts > ticks(len)", "ticks(len)", "ticks takes a date as text"),
    # groups
    (
        "SELECT srcIP, count(*) FROM Main GROUP BY srcIP",
        "count(*)",
        "these groups never end: say over which window",
    ),
    (
        f"SELECT len, count(*) {WINDOW} FROM Main GROUP BY srcIP",
        "len",
        "'len' is neither grouped nor aggregated",
    ),
    (f"SELECT * , count(*) {WINDOW} FROM Main", "*", "* names single rows"),
    ("SELECT len FROM Main WHERE count(*) > 1", "count(*)", "an aggregate has no place here"),
    (
        f"SELECT median(DISTINCT len) {WINDOW} FROM Main",
        "median(DISTINCT len)",
        "median(DISTINCT ...) is not known here; there are count, sum, avg, min and max.",
    ),
    (
        f"SELECT count(DISTINCT len, srcIP) {WINDOW} FROM Main",
        "count(DISTINCT len, srcIP)",
        "count(DISTINCT ...) takes one value; got 2.",
    ),
    (
        (
            "SELECT sum(len) OVER (PARTITION BY srcIP ORDER BY len RANGE INTERVAL '1' HOUR "
            "PRECEDING) FROM Main"
        ),
        "sum(len) OVER (PARTITION BY srcIP ORDER BY len RANGE INTERVAL '1'",
        "OVER is ordered by the time of the rows: ORDER BY ts.",
    ),
    (
        "SELECT sum(len) OVER (ORDER BY ts) FROM Main",
        "sum(len) OVER (ORDER BY ts)",
        "an OVER without bound would keep every row for ever",
    ),
    (f"SELECT sum(len, len) {WINDOW} FROM Main", "sum(len, len)", "sum takes 1 argument; got 2."),
    (
        f"SELECT percentile(len, srcIP) {WINDOW} FROM Main",
        "percentile(len, srcIP)",
        "a number between 0 and 1",
    ),
    # table functions
    (
        "SELECT count(*) FROM TUMBLE(TABLE Main, DESCRIPTOR(ts)) GROUP BY window_start",
        "TUMBLE(TABLE Main, DESCRIPTOR(ts))",
        "size is missing. Arguments: timecol, size, offset.",
    ),
    (
        "SELECT count(*) FROM TUMBLE(TABLE Main, DESCRIPTOR(len), '1 min') GROUP BY window_start",
        "len",
        "len does not progress",
    ),
    (
        (
            "SELECT count(*) FROM HOP(TABLE Main, DESCRIPTOR(ts), '2 min', '1 min') GROUP BY "
            "window_start"
        ),
        "'2 min'",
        "the slide is longer than the window",
    ),
    (
        "SELECT count(*) FROM Main GROUP BY TUMBLE(ts, '1 min'), HOP(ts, '1 min', '5 min')",
        "HOP(ts, '1 min', '5 min')",
        "two windows",
    ),
    (
        "SELECT count(*) FROM TUMBLE(TABLE Main, SIZZE => '1 min', DESCRIPTOR(ts))",
        "'1 min'",
        "no argument 'sizze'. Did you mean 'size'?",
    ),
    (
        "SELECT len FROM SESSION(TABLE Main, DESCRIPTOR(ts), 5)",
        "len FROM SESSION(TABLE Main, DESCRIPTOR(ts), 5)",
        "belong to groups",
    ),
    (
        (
            "SELECT a.len FROM TUMBLE(Main, ts, 5) AS a JOIN TUMBLE(Other, ts, 6) AS b ON a.len = "
            "b.len"
        ),
        "TUMBLE(Main, ts, 5) AS a",
        "all of them have the same TUMBLE",
    ),
    # syntax
    ("SELEC len FROM Main", "SELEC", "a query begins with SELECT or WITH, not with 'SELEC'."),
    ("SELECT len FROM Main; SELECT len FROM Main", ";", "one query is expected"),
    ("SELECT len FROM Main WHERE 'open", "'", "a quote is opened and never closed."),
    ("SELECT len FRM Main", "Main", "'Main' is not expected here."),
    ("SELECT len FROM Main ORDER BY len", "len", "a stream has no end to be sorted"),
    (
        f"SELECT srcIP, count(*) {WINDOW} FROM Main GROUP BY srcIP LIMIT 4",
        "4",
        "The best groups of each window are ORDER BY",
    ),
    (
        f"SELECT srcIP, count(*) {WINDOW} FROM Main GROUP BY srcIP ORDER BY count(*) LIMIT 0",
        "0",
        "LIMIT takes a whole number",
    ),
    (
        "SELECT srcIP, count(*) FROM Main GROUP BY SESSION(ts, 4), srcIP ORDER BY srcIP LIMIT 1",
        "srcIP",
        "windows over time, which all of them",
    ),
    (
        "SELECT rank() OVER (PARTITION BY srcIP) FROM Main",
        "rank() OVER (PARTITION BY srcIP)",
        "OVER takes an aggregate",
    ),
    (
        (
            "SELECT Main.len FROM Main [RANGE 5] LEFT JOIN Other [RANGE 5] ON Main.len = Other.len "
            "LEFT JOIN Other AS o ON o.len = Main.len"
        ),
        "Other AS o ON o.len = Main.len",
        "outer joins with windows take two streams at a time",
    ),
    (
        "SELECT Main.len FROM Main ASOF JOIN Other ON Main.len = Other.len",
        "Other",
        "ASOF JOIN compares the times once",
    ),
    (
        "SELECT Main.len FROM Main ASOF FULL JOIN Other ON Main.ts >= Other.ts",
        "Other ON Main.ts >= Other.ts",
        "FULL JOIN is not known here",
    ),
    ("", "", "a query is expected; the text is empty."),
]


def streams() -> dict[str, tw.Stream]:
    columns = {"srcIP": "string", "len": "int64"}
    return {"Main": tw.source("Main", columns), "Other": tw.source("Other", columns)}


def pointed_at(error: SqlError) -> str:
    """What stands above the carets."""
    _, line, carets = str(error).partition("\n  at ")[0].rsplit("\n", 2)
    begin = carets.index("^")
    assert begin - 2 == error.column - 1
    return line[begin : begin + carets.count("^")]


@pytest.mark.parametrize(
    ("query", "place", "message"), MISTAKES, ids=[entry[0][:60] or "empty" for entry in MISTAKES]
)
def test_mistake_is_shown_at_its_place(query: str, place: str, message: str) -> None:
    with pytest.raises(SqlError) as caught:
        tw.sql(query, streams(), parameters={"n": 5})
    assert message in str(caught.value)
    assert pointed_at(caught.value) == place


def test_the_line_counts_from_the_first_of_the_query_and_the_error_blames_the_users_line() -> None:
    with pytest.raises(SqlError) as caught:
        tw.sql("SELECT srcIP\nFROM Main\nWHERE lenn > 4", streams())
    error = caught.value
    assert (error.row, error.column) == (3, 7)
    assert error.file is not None and Path(error.file).name == Path(__file__).name
    assert "SQL, line 3, column 7: unknown column 'lenn'. Did you mean 'len'?" in str(error)


def test_what_is_no_query_or_no_stream_is_refused() -> None:
    with pytest.raises(PlanError, match="Main must be a stream"):
        tw.sql("SELECT len FROM Main", Main=4)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="the query is text"):
        tw.sql(4, streams())  # type: ignore[arg-type]
