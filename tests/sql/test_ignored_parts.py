"""Nothing that a query says is passed over: it is done, or refused at its place."""

from __future__ import annotations

import pytest

import thalweg as tw
from thalweg.errors import SqlError

ROWS = [
    tw.point({"k": "a", "v": 1, "f": 1.5}, 1),
    tw.point({"k": "b", "v": 2, "f": None}, 2),
]
STREAM = tw.source("s", {"k": "string", "v": "int64", "f": "float64"})


def table(text: str) -> list[dict[str, object]]:
    return [dict(row) for _, _, row in tw.table(tw.sql(text, S=STREAM), {"s": ROWS})]


@pytest.mark.parametrize("word", ["EXCLUDE", "EXCEPT"])
@pytest.mark.parametrize("star", ["*", "S.*"])
def test_a_star_leaves_columns_out(star: str, word: str) -> None:
    assert table(f"SELECT {star} {word} (k, f, ts) FROM S") == [{"v": 1}, {"v": 2}]


def test_a_key_in_brackets() -> None:
    query = "SELECT k, count(*) AS n FROM S GROUP BY (k), TUMBLE(ts, 10)"
    assert table(query) == [{"k": "a", "n": 1}, {"k": "b", "n": 1}]


WINDOW = "[RANGE TUMBLING 10, WA ts]"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("SELECT * EXCLUDE (kk) FROM S", "unknown column 'kk'. Did you mean 'k'"),
        ("SELECT * REPLACE (v + 1 AS v) FROM S", r"\* REPLACE is not known here"),
        ("SELECT * RENAME (v AS w) FROM S", r"\* RENAME is not known here"),
        (
            f"SELECT k, sum(f) AS t {WINDOW} FROM S GROUP BY k ORDER BY t NULLS FIRST LIMIT 1",
            "come last here",
        ),
        (f"SELECT k, sum(v) AS t {WINDOW} FROM S GROUP BY k ORDER BY 2 LIMIT 1", "a constant"),
        (f"SELECT k, sum(v) AS t {WINDOW} FROM S GROUP BY 1", "a constant groups nothing"),
        ("SELECT v FROM S UNION ALL SELECT v FROM S ORDER BY v", "no end to be sorted"),
        ("SELECT v FROM S UNION ALL SELECT v FROM S LIMIT 1", "no end to be sorted"),
        ("(SELECT v FROM S) LIMIT 1", "no end to be sorted"),
        (
            "SELECT TUMBLE_START(ts, 20) AS t, count(*) FROM S GROUP BY TUMBLE(ts, 10)",
            r"other windows than GROUP BY TUMBLE\(ts, 10\)",
        ),
        (
            "SELECT HOP_END(ts, 5, 10) AS t, count(*) FROM S GROUP BY TUMBLE(ts, 10)",
            "other windows than GROUP BY",
        ),
        ("SELECT a.v FROM SEQ(S AS a, S AS b, S AS a)", "two steps of SEQ are called 'a'"),
        ("SELECT * FROM", "the name of a stream is missing at 'FROM'"),
        ("SELECT v FROM SEQ()", "the name of a stream is missing"),
        (f"SELECT v{'+1' * 3000} AS x FROM S", "too deep"),
        (f"SELECT v FROM S WHERE {' OR '.join(['v > 1'] * 3000)}", "too deep"),
    ],
)
def test_what_is_not_done_is_refused(text: str, says: str) -> None:
    with pytest.raises(SqlError, match=says):
        table(text)
