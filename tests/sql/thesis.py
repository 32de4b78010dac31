"""The queries of the thesis, as it prints them, each with its meaning in DuckDB's SQL over the
stored packets.

Where the print has a slip, the query here is what its own words say, and `printed` keeps the slip:

- Q7-2 and Q8-3 say `M1.destIP and M2.srcIP` where every other pair of columns is compared;
- Q8-1 groups by `scIP`;
- Q6-4 and Q7-1 are given in words only.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.sql.packets import COLUMNS, MINUTE, SECOND
from thalweg import INFINITY

__all__ = ["PARAMETERS", "THESIS", "Query"]

PARAMETERS = {"n": "9 seconds"}


@dataclass(frozen=True)
class Query:
    text: str
    duckdb: str
    printed: str = ""
    slip: str = ""


def grid(size: int, hop: int) -> str:
    """All windows of `size` every `hop` that can hold a packet."""
    return f"range({-size}, {20 * MINUTE}, {hop}) AS w(s)"


def sliding(
    size: int, hop: int, source: str, keys: str, aggregate: str, shown: str | None = None
) -> str:
    """Aggregates over [s, s + size) for every s on the grid."""
    grouped = f", {keys}" if keys else ""
    columns = grouped if shown is None else shown
    return (
        f"SELECT s, s + {size}{columns}, {aggregate} FROM {source} AS p, {grid(size, hop)} "
        f"WHERE p.ts >= s AND p.ts < s + {size} GROUP BY s{grouped}"
    )


def together(*names: str) -> str:
    return "(" + " UNION ALL ".join(f"SELECT * FROM {name}" for name in names) + ")"


def band(left: str, stays: int, right: str, other: int, columns: str, condition: str) -> str:
    """Pairs that are in each other's windows, at the later of their times."""
    return (
        f"SELECT greatest({left}.ts, {right}.ts), greatest({left}.ts, {right}.ts) + 1, {columns} "
        f"FROM {left}, {right} WHERE {right}.ts < {left}.ts + {stays} AND {left}.ts < {right}.ts + "
        f"{other} AND {condition}"
    )


def tumbling(
    left: str,
    right: str,
    size: int,
    columns: str,
    condition: str,
    names: tuple[str, str] | None = None,
) -> str:
    """Pairs in the same window of `size`, at the later of their times."""
    one, two = names or (left, right)
    return (
        f"SELECT greatest({one}.ts, {two}.ts), greatest({one}.ts, {two}.ts) + 1, {columns} FROM "
        f"{left} AS {one}, {right} AS {two} WHERE {one}.ts // {size} = {two}.ts // {size} AND "
        f"{condition}"
    )


def everything(*names: str) -> str:
    """Every column of several links, under the names that a star gives them."""
    return ", ".join(
        f"{name}.{column} AS {name}_{column}" for name in names for column in (*COLUMNS, "ts")
    )


ADDRESSES = (
    "Main1.srcIP AS Main1_srcIP, Main1.destIP AS Main1_destIP, "
    "Main2.srcIP AS Main2_srcIP, Main2.destIP AS Main2_destIP, Main2.ts AS ts"
)
FLOW = (
    "M1.srcIP = M2.destIP AND M1.destIP = M2.srcIP AND M1.srcPort = M2.destPort AND M1.destPort = "
    "M2.srcPort"
)
PRINTED_FLOW = FLOW.replace("M1.destIP = M2.srcIP", "M1.destIP and M2.srcIP")

TEN_BY_ONE = sliding(10 * MINUTE, MINUTE, "{}", "srcIP", "count(*) AS count")

THESIS: dict[str, Query] = {
    "Q1-1": Query(
        "SELECT srcIP, count(*) [RANGE 10 minutes, SLIDE 1 minute, WA ts] FROM M GROUP BY srcIP",
        TEN_BY_ONE.format("M"),
    ),
    "Q1-2": Query(
        "SELECT count (*) [RANGE 1 minute, SLIDE 1 minute, WA ts] FROM Control union Main1 union "
        "Main2",
        sliding(MINUTE, MINUTE, together("Control", "Main1", "Main2"), "", "count(*) AS count"),
    ),
    "Q2-1": Query(
        """SELECT	srcIP, ts, count (*)
        FROM	Main1
        WHERE	srcIP = "202.101.0.0" or srcIP = "202.101.0.1"
        GROUP BY	srcIP, ts""",
        """SELECT ts, ts + 1, srcIP, ts, count(*) AS count FROM Main1
        WHERE srcIP = '202.101.0.0' OR srcIP = '202.101.0.1' GROUP BY srcIP, ts""",
    ),
    "Q3-1": Query(
        """SELECT *
        FROM Main1 [WA ts, RANGE 3 min],
        Main2 [WA ts, RANGE 2 min]
        WHERE Main1.srcIP = Main2.destIP;""",
        band(
            "Main1",
            3 * MINUTE,
            "Main2",
            2 * MINUTE,
            everything("Main1", "Main2"),
            "Main1.srcIP = Main2.destIP",
        ),
    ),
    "Q5-1": Query(
        "Select srcIP, count(*) [RANGE 10 minutes, SLIDE 1 minute, WATTR ts] From Main Group By "
        "srcIP",
        TEN_BY_ONE.format("Main"),
    ),
    "Q5-2": Query(
        "SELECT srcIP, max(length) [RANGE 1000 rows, SLIDE 10 rows, WA row-num, PA srcIP] FROM "
        "Main",
        """WITH numbered AS (
            SELECT *, row_number() OVER (PARTITION BY srcIP ORDER BY row_num) AS n,
                max(ts) OVER (ORDER BY row_num) AS so_far FROM Main
        )
        SELECT w.so_far, w.so_far + 1, w.srcIP, max(p.length) AS max
        FROM numbered AS w JOIN numbered AS p
        ON p.srcIP = w.srcIP AND p.n <= w.n AND p.n > w.n - 1000
        WHERE w.n % 10 = 0 GROUP BY w.srcIP, w.n, w.so_far""",
    ),
    "Q5-3": Query(
        "SELECT srcIP, max(length) [RANGE 1000 rows, SLIDE 10 rows, WA row-num] FROM Main GROUP-BY "
        "srcIP",
        """WITH numbered AS (SELECT *, max(ts) OVER (ORDER BY row_num) AS so_far FROM Main)
        SELECT w.so_far, w.so_far + 1, p.srcIP, max(p.length) AS max
        FROM numbered AS w JOIN numbered AS p
        ON p.row_num <= w.row_num AND p.row_num > w.row_num - 1000
        WHERE w.row_num % 10 = 0 GROUP BY p.srcIP, w.row_num, w.so_far""",
    ),
    "Q5-4": Query(
        """SELECT srcIP, count(*) [RANGE ALL, SLIDE 1 minute, WA ts]
        FROM Main1 GROUP BY srcIP""",
        f"""WITH minutes AS (SELECT DISTINCT srcIP, ts // {MINUTE} AS w FROM Main1)
        SELECT m.w * {MINUTE},
            coalesce(lead(m.w) OVER (PARTITION BY m.srcIP ORDER BY m.w) * {MINUTE}, {INFINITY}),
            m.srcIP, (
                SELECT count(*) FROM Main1 AS p
                WHERE p.srcIP = m.srcIP AND p.ts < (m.w + 1) * {MINUTE}
            ) AS count
        FROM minutes AS m""",
    ),
    "Q5-5": Query(
        """SELECT max(length)
        [RANGE 5 minutes, RATTR ts, SLIDE 1 row, SATTR row-num] FROM Main""",
        f"""SELECT ts - {5 * MINUTE} + 1, ts + 1,
            max(length) OVER (ORDER BY ts RANGE {5 * MINUTE - 1} PRECEDING) AS max
        FROM Main""",
    ),
    "Q5-6": Query(
        """SELECT count(*)
        [RANGE 5 minutes, RATTR ts, SLIDE 5 rows, SATTR rank(ts)] FROM Main""",
        f"""WITH ranked AS (
            SELECT ts, rank() OVER (ORDER BY ts) AS r,
                count(*) OVER (ORDER BY ts RANGE {5 * MINUTE - 1} PRECEDING) AS count FROM Main
        ) SELECT ts - {5 * MINUTE} + 1, ts + 1, count FROM ranked WHERE r % 5 = 0""",
    ),
    "Q5-7": Query(
        """SELECT Main1.srcIP, Main1.destIP, Main2.srcIP, Main2.destIP, Main2.ts FROM Main1, Main2
        [RANGE TUMBLING 5 minutes, WA ts], WHERE Main1.srcIP = Main2.destIP""",
        tumbling("Main1", "Main2", 5 * MINUTE, ADDRESSES, "Main1.srcIP = Main2.destIP"),
    ),
    "Q5-8": Query(
        """SELECT Main1.srcIP, Main1.destIP, Main2.srcIP, Main2.destIP, Main2.ts
        FROM Main1 [RANGE 3 minutes, WA ts], Main2 [RANGE 2 minutes, WA ts]
        WHERE Main1.srcIP = Main2.destIP""",
        band("Main1", 3 * MINUTE, "Main2", 2 * MINUTE, ADDRESSES, "Main1.srcIP = Main2.destIP"),
    ),
    "Q6-1": Query(
        "Select srcIP, count(*) [RANGE 10 minutes, SLIDE 1 minute, WA ts] From Main Group By srcIP",
        TEN_BY_ONE.format("Main"),
    ),
    "Q6-2": Query(
        "SELECT max(length) [RANGE 4 minutes, SLIDE 1 minute, WA ts] FROM Main",
        sliding(4 * MINUTE, MINUTE, "Main", "", "max(length) AS max"),
    ),
    "Q6-3": Query(
        "SELECT count(*) [RANGE 4 minutes, SLIDE 1 minute, WA ts] FROM packets GROUP BY srcIP",
        sliding(4 * MINUTE, MINUTE, "packets", "srcIP", "count(*) AS count", shown=""),
    ),
    "Q6-4": Query(
        """SELECT mine.srcIP, mine.n
        FROM (SELECT srcIP, count(*) AS n [RANGE 10 minutes, SLIDE 1 minute, WA ts]
              FROM Main GROUP BY srcIP) AS mine
        JOIN (SELECT count(*) AS total [RANGE 10 minutes, SLIDE 1 minute, WA ts]
              FROM Main) AS everything
          ON mine.window_start = everything.window_start
        WHERE mine.n >= 0.05 * everything.total""",
        f"""SELECT m.s, m.s + {10 * MINUTE}, m.srcIP, m.n
        FROM (SELECT s, srcIP, count(*) AS n FROM Main, {grid(10 * MINUTE, MINUTE)}
              WHERE ts >= s AND ts < s + {10 * MINUTE} GROUP BY s, srcIP) AS m
        JOIN (SELECT s, count(*) AS total FROM Main, {grid(10 * MINUTE, MINUTE)}
              WHERE ts >= s AND ts < s + {10 * MINUTE} GROUP BY s) AS e ON m.s = e.s
        WHERE m.n >= 0.05 * e.total""",
    ),
    "Q6-5": Query(
        "SELECT srcIP, count(*) [RANGE 5 minutes, SLIDE 1 minute, WA ts] FROM M1 GROUP BY srcIP",
        sliding(5 * MINUTE, MINUTE, "M1", "srcIP", "count(*) AS count"),
    ),
    "Q6-6": Query(
        "SELECT srcIP, sum(len) [RANGE 10 seconds, SLIDE 1 second, WA ts] FROM packets GROUPBY "
        "srcIP",
        sliding(10 * SECOND, SECOND, "packets", "srcIP", "sum(len)::bigint AS sum"),
    ),
    "Q6-7": Query(
        "SELECT srcIP, sum(len) [RANGE 1 second, SLIDE 1 second, WA ts] FROM Main GROUP-BY srcIP",
        sliding(SECOND, SECOND, "Main", "srcIP", "sum(len)::bigint AS sum"),
    ),
    "Q6-8": Query(
        """SELECT count(*)
        [RANGE 10 sec, SLIDE 1 sec, WA ts]
        FROM (Main2 ∪ (Main1 ∪ Control))
        GROUP-BY srcIP""",
        sliding(
            10 * SECOND,
            SECOND,
            together("Main2", "Main1", "Control"),
            "srcIP",
            "count(*) AS count",
            shown="",
        ),
    ),
    "Q7-1": Query(
        """SELECT S0.ts, S1.ts, count(*)
        FROM S0 [RANGE 2 minutes, WA ts], S1 [RANGE 2 minutes, WA ts]
        WHERE S0.flags = 'SYN' AND S1.flags = 'SYN_ACK' AND S1.ts >= S0.ts
          AND S0.srcIP = S1.destIP AND S0.destIP = S1.srcIP
        GROUP BY S0.ts, S1.ts""",
        f"""SELECT greatest(S0.ts, S1.ts) AS s, s + 1, S0.ts AS S0_ts, S1.ts AS S1_ts,
            count(*) AS count
        FROM S0, S1 WHERE S1.ts < S0.ts + {2 * MINUTE} AND S0.ts < S1.ts + {2 * MINUTE}
        AND S1.ts >= S0.ts AND S0.flags = 'SYN' AND S1.flags = 'SYN_ACK'
        AND S0.srcIP = S1.destIP AND S0.destIP = S1.srcIP GROUP BY S0.ts, S1.ts""",
    ),
    "Q7-2": Query(
        f"""SELECT count(*) [RANGE 1 minute, SLIDE 1 minute, WA M1.ts]
        FROM M1 [RANGE n, WA ts], M2 [RANGE n, WA ts] WHERE {FLOW}""",
        f"""SELECT s, s + {MINUTE}, count(*) AS count FROM M1, M2, {grid(MINUTE, MINUTE)}
        WHERE M1.ts >= s AND M1.ts < s + {MINUTE}
        AND M2.ts < M1.ts + {9 * SECOND} AND M1.ts < M2.ts + {9 * SECOND} AND {FLOW}
        GROUP BY s""",
        printed=f"""SELECT count(*) [RANGE 1 minute, SLIDE 1 minute, WA M1.ts]
        FROM M1 [RANGE n, WA ts], M2 [RANGE n, WA ts] WHERE {PRINTED_FLOW}""",
        slip="must be a condition (true or false); destIP is string.",
    ),
    "Q8-1": Query(
        "SELECT srcIP, destIP, count(*) [RANGE 1 minute, SLIDE 1 minute, WA ts] FROM Main GROUP BY "
        "srcIP, destIP",
        sliding(MINUTE, MINUTE, "Main", "srcIP, destIP", "count(*) AS count"),
        printed=(
            "SELECT srcIP, destIP, count(*) [RANGE 1 minute, SLIDE 1 minute, WA ts] FROM Main GROUP"
            " BY scIP, destIP"
        ),
        slip="unknown column 'scIP'. Did you mean 'srcIP'?",
    ),
    "Q8-2": Query(
        """SELECT	srcIP, destIP, count(*)
            [RANGE 1 minute, SLIDE 1 minute, WA ts]
        FROM	M1 UNION M2
        GROUP BY	srcIP, destIP""",
        sliding(MINUTE, MINUTE, together("M1", "M2"), "srcIP, destIP", "count(*) AS count"),
    ),
    "Q8-3": Query(
        f"""SELECT	M1.srcIP, M1.destIP, M1.ts
        FROM	A UNION B as M1, C UNION D as M2
            [RANGE TUMBLING 10 seconds, WA ts],
        WHERE	{FLOW}""",
        tumbling(
            together("A", "B"),
            together("C", "D"),
            10 * SECOND,
            "M1.srcIP AS srcIP, M1.destIP AS destIP, M1.ts AS ts",
            FLOW,
            ("M1", "M2"),
        ),
        printed=f"""SELECT	M1.srcIP, M1.destIP, M1.ts
        FROM	A UNION B as M1, C UNION D as M2
            [RANGE TUMBLING 10 seconds, WA ts],
        WHERE	{PRINTED_FLOW}""",
        slip="must be a condition (true or false); destIP is string.",
    ),
    "Q8-4": Query(
        f"""SELECT	M1.srcIP, M1.destIP, M1.ts
        FROM	M1, M2 Union C as M3
            [RANGE TUMBLING 1 minute, WA ts]
        WHERE	{FLOW.replace("M2", "M3")}""",
        tumbling(
            "M1",
            together("M2", "C"),
            MINUTE,
            "M1.srcIP AS srcIP, M1.destIP AS destIP, M1.ts AS ts",
            FLOW.replace("M2", "M3"),
            ("M1", "M3"),
        ),
    ),
    "Q8-5": Query(
        """SELECT	count(*)
            [RANGE 5 minutes, SLIDE 1 minute, WA ts]
        FROM	M1 UNION M2 UNION C""",
        sliding(5 * MINUTE, MINUTE, together("M1", "M2", "C"), "", "count(*) AS count"),
    ),
}
