"""The examples give the answers that DuckDB gives over the same files, in one go and in order."""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import duckdb
import nbclient
import nbformat
import pytest

import thalweg as tw
from examples import connections, flights, orders, quotes
from examples.answers import DATA

ROOT = Path(__file__).parents[2]
RECORDED = ROOT.parent / "shared" / "data" / "zeek_conn" / "conn.parquet"


def asked(text: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as database:
        database.sql("SET timezone = 'UTC'")
        return database.sql(text.replace("DATA", str(DATA))).fetchall()


def told(query: tw.Stream, *columns: str) -> list[tuple[Any, ...]]:
    return sorted((start, *(row[name] for name in columns)) for start, _, row in tw.table(query))


def test_flights_by_hour_of_departure() -> None:
    expected = asked(
        "SELECT date_trunc('hour', departed) h, origin, count(*), sum(miles) FROM "
        "'DATA/flights.parquet' GROUP BY ALL ORDER BY ALL"
    )
    table = told(flights.departures(flights.flights()), "origin", "flights", "miles")
    assert table == expected
    assert len(table) > 50


_IN_THE_AIR = """
WITH edges AS (
    SELECT departed AS t FROM 'DATA/flights.parquet' UNION SELECT landed FROM 'DATA/flights.parquet'
)
SELECT t, count(*) AS n FROM edges JOIN 'DATA/flights.parquet' ON departed <= t AND t < landed
GROUP BY t ORDER BY n DESC, t LIMIT 1
"""


def test_flights_in_the_air() -> None:
    rows = told(flights.in_the_air(flights.flights()), "flights")
    most = max(count for _, count in rows)
    assert min(row for row in rows if row[1] == most) == asked(_IN_THE_AIR)[0]


_OPEN = """
WITH edges AS (SELECT src, start AS t FROM 'DATA/connections.parquet'
               UNION SELECT src, "end" FROM 'DATA/connections.parquet')
SELECT t, e.src, count(*) FROM edges e JOIN 'DATA/connections.parquet' c
  ON c.src = e.src AND c.start <= t AND t < c."end" GROUP BY ALL ORDER BY ALL
"""


def test_connections_that_are_open_at_once() -> None:
    assert told(connections.open_at_once(connections.connections()), "src", "open") == asked(_OPEN)


def test_connections_that_sent_most() -> None:
    expected = asked(
        "SELECT time_bucket(INTERVAL '10 seconds', start) w, src, sum(bytes) b FROM "
        "'DATA/connections.parquet' GROUP BY w, src QUALIFY rank() OVER (PARTITION BY w ORDER BY b "
        "DESC) <= 3 ORDER BY ALL"
    )
    assert told(connections.busiest(connections.connections()), "src", "bytes") == expected


@pytest.mark.shared_data
def test_connections_of_a_real_sensor() -> None:
    """The same query over three days of a sensor, whose log may not be carried along."""
    if not RECORDED.exists():
        pytest.skip(f"RECORDED DATA NOT FOUND: {RECORDED} does not exist.")
    with duckdb.connect() as database:
        log = database.sql(
            'SELECT start_us AS start, greatest(end_us, start_us + 1) AS "end", src_ip AS src, len'
            " AS bytes "
            f"FROM '{RECORDED}' ORDER BY seq LIMIT 20000"
        ).to_arrow_table()
    stream = tw.from_frame(log, time="start", end="end", disorder=2 * 3600 * 10**6)
    table = tw.table(connections.busiest(stream))
    assert len(table) > 100
    assert sum(row["connections"] for _, _, row in table) > 5_000


_RESTING = """
WITH lasting AS (SELECT side, price, size, received AS since,
    lead(received) OVER (PARTITION BY side, price ORDER BY received) AS until
    FROM 'DATA/levels.parquet')
SELECT t, l.side, count(*) FROM (SELECT DISTINCT since AS t, side FROM lasting) e
  JOIN lasting l ON l.side = e.side AND l.since <= t AND (until IS NULL OR t < until) AND size > 0
GROUP BY ALL ORDER BY ALL
"""


def test_levels_that_rest() -> None:
    rows = tw.table(orders.depth(orders.resting(orders.changes())))
    expected = {(at, side): count for at, side, count in asked(_RESTING)}
    ours: dict[tuple[Any, str], int] = {}
    for side in ("ask", "bid"):  # spans of one side do not overlap
        spans = sorted(
            (start, end, row["levels"]) for start, end, row in rows if row["side"] == side
        )
        starts = [start for start, _, _ in spans]
        for at in [at for at, which in expected if which == side]:
            _, end, levels = spans[bisect_right(starts, at) - 1]
            ours[at, side] = levels if end is None or at < end else 0
    assert ours == expected


def test_quotes_count_once_whichever_connection_was_first() -> None:
    expected = asked(
        "SELECT time_bucket(INTERVAL '5 seconds', ts) w, symbol, max(bid), min(ask), count(*) FROM "
        "(SELECT DISTINCT ts, symbol, bid, ask FROM 'DATA/quotes.parquet') GROUP BY ALL ORDER "
        "BY ALL"
    )
    table = told(quotes.best(quotes.quotes()), "symbol", "bid", "ask", "quotes")
    assert table == expected


def test_what_less_disorder_would_cost() -> None:
    assert [quotes.left_out(d) for d in ("0 s", "1 s", "10 s")] == [320, 15, 0]


@pytest.mark.parametrize("example", [connections, flights, orders, quotes])
def test_each_prints_its_answers(
    example: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [example.__name__])
    main: Callable[[], None] = example.main
    main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) >= 4
    assert not [line for line in lines if "Error" in line or "1970" in line]


def test_the_notebook_runs() -> None:
    notebook = nbformat.reads(  # type: ignore[no-untyped-call]
        (ROOT / "examples" / "own_aggregate.ipynb").read_text(encoding="utf-8"), 4
    )
    client = nbclient.NotebookClient(
        notebook, timeout=110, resources={"metadata": {"path": str(ROOT)}}
    )
    client.execute()
    shown = [
        out.data for cell in notebook.cells for out in cell.get("outputs", ()) if "data" in out
    ]
    assert any("<th>gap</th>" in str(data.get("text/html")) for data in shown)
    assert "<svg" in str(shown[-1].get("image/svg+xml"))
