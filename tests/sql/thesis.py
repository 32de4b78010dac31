"""The queries of the thesis, as it prints them, each with its meaning in DuckDB's SQL over the stored packets.

Where the print has a slip, the query here is what its own words say, and `printed` keeps the slip:

- Q7-2 and Q8-3 say `M1.destIP and M2.srcIP` where every other pair of columns is compared;
- Q8-1 groups by `scIP`;
- Q6-4 and Q7-1 are given in words only.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.sql.packets import MINUTE, SECOND

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


def sliding(size: int, hop: int, source: str, keys: str, aggregate: str, shown: str | None = None) -> str:
    """Aggregates over [s, s + size) for every s on the grid."""
    grouped = f", {keys}" if keys else ""
    columns = grouped if shown is None else shown
    return (
        f"SELECT s, s + {size}{columns}, {aggregate} FROM {source} AS p, {grid(size, hop)} "
        f"WHERE p.ts >= s AND p.ts < s + {size} GROUP BY s{grouped}"
    )


def together(*names: str) -> str:
    return "(" + " UNION ALL ".join(f"SELECT * FROM {name}" for name in names) + ")"


FLOW = "M1.srcIP = M2.destIP AND M1.destIP = M2.srcIP AND M1.srcPort = M2.destPort AND M1.destPort = M2.srcPort"

TEN_BY_ONE = sliding(10 * MINUTE, MINUTE, "{}", "srcIP", "count(*) AS count")

THESIS: dict[str, Query] = {
    "Q1-1": Query(
        "SELECT srcIP, count(*) [RANGE 10 minutes, SLIDE 1 minute, WA ts] FROM M GROUP BY srcIP",
        TEN_BY_ONE.format("M"),
    ),
    "Q1-2": Query(
        "SELECT count (*) [RANGE 1 minute, SLIDE 1 minute, WA ts] FROM Control union Main1 union Main2",
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
    "Q5-1": Query(
        "Select srcIP, count(*) [RANGE 10 minutes, SLIDE 1 minute, WATTR ts] From Main Group By srcIP",
        TEN_BY_ONE.format("Main"),
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
        FROM (SELECT srcIP, count(*) AS n [RANGE 10 minutes, SLIDE 1 minute, WA ts] FROM Main GROUP BY srcIP) AS mine
        JOIN (SELECT count(*) AS total [RANGE 10 minutes, SLIDE 1 minute, WA ts] FROM Main) AS everything
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
        "SELECT srcIP, sum(len) [RANGE 10 seconds, SLIDE 1 second, WA ts] FROM packets GROUPBY srcIP",
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
        sliding(10 * SECOND, SECOND, together("Main2", "Main1", "Control"), "srcIP", "count(*) AS count", shown=""),
    ),
    "Q8-1": Query(
        "SELECT srcIP, destIP, count(*) [RANGE 1 minute, SLIDE 1 minute, WA ts] FROM Main GROUP BY srcIP, destIP",
        sliding(MINUTE, MINUTE, "Main", "srcIP, destIP", "count(*) AS count"),
        printed="SELECT srcIP, destIP, count(*) [RANGE 1 minute, SLIDE 1 minute, WA ts] FROM Main GROUP BY scIP, destIP",
        slip="unknown column 'scIP'. Did you mean 'srcIP'?",
    ),
    "Q8-2": Query(
        """SELECT	srcIP, destIP, count(*)
            [RANGE 1 minute, SLIDE 1 minute, WA ts]
        FROM	M1 UNION M2
        GROUP BY	srcIP, destIP""",
        sliding(MINUTE, MINUTE, together("M1", "M2"), "srcIP, destIP", "count(*) AS count"),
    ),
    "Q8-5": Query(
        """SELECT	count(*)
            [RANGE 5 minutes, SLIDE 1 minute, WA ts]
        FROM	M1 UNION M2 UNION C""",
        sliding(5 * MINUTE, MINUTE, together("M1", "M2", "C"), "", "count(*) AS count"),
    ),
}
