"""Statements of `thalweg sql`, as people type them: from a file, from a pipe, in the shell."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from thalweg.cli import main

CSV = "ts,item,qty\n2026-03-01T10:00:00Z,a,1\n2026-03-01T10:20:00Z,b,2\n2026-03-01T11:10:00Z,a,3\n"
HOURLY = (
    "SELECT window_start, sum(qty) AS q FROM TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' "
    "HOUR) GROUP BY window_start, window_end"
)


@pytest.fixture
def orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders.csv").write_text(CSV, encoding="utf-8")
    return tmp_path


def call(*args: str, stdin: str = "") -> Result:
    return CliRunner().invoke(main, ["sql", *args], input=stdin)


def rows(done: Result) -> list[dict[str, object]]:
    return [json.loads(line) for line in done.output.splitlines() if line.startswith("{")]


def test_a_file_is_read_by_its_name_in_this_process_and_it_says_so(orders: Path) -> None:
    done = call("--json", "-e", "SELECT item, qty FROM 'orders.csv' WHERE ts >= '2026-03-01 11:00'")
    assert [(row["item"], row["qty"]) for row in rows(done)] == [("a", 3)], done.output
    assert rows(done)[0]["_start"] == "2026-03-01T11:10:00+00:00"
    assert "in-process: 87 bytes of files; --spark runs it on Spark" in done.output


@pytest.mark.parametrize(
    "text",
    [
        "SELECT item FROM 'orders.csv'",
        "SELECT orders_2.item FROM 'orders.csv'",
        "SELECT item FROM TUMBLE('orders.csv', ts, '1 hour')",
        "SELECT item FROM TUMBLE(TABLE 'orders.csv', DESCRIPTOR(ts), '1 hour')",
        "WITH orders_2 AS (SELECT item FROM orders) SELECT item FROM 'orders.csv'",
        "SELECT item FROM orders WHERE item = 'c' UNION ALL SELECT item FROM 'orders.csv'",
    ],
)
def test_a_file_is_not_taken_for_a_stream_of_its_name(orders: Path, text: str) -> None:
    (orders / "new").mkdir()
    (orders / "new" / "orders.csv").write_text(CSV.replace(",a,", ",c,"), encoding="utf-8")
    named = call("--json", "-s", "orders=new/orders.csv time=ts", "-e", text)
    expected = ["c", "c"] if "UNION" in text else []
    assert sorted(str(row["item"]) for row in rows(named)) == ["a", "a", "b", *expected]
    view = "CREATE VIEW orders AS SELECT 'v' AS item FROM 'new/orders.csv';"
    done = call("--json", stdin=f"{view} SELECT item FROM 'orders.csv';")
    assert [row["item"] for row in rows(done)] == ["a", "b", "a"], done.output


def test_a_file_without_quotes_is_refused_with_how_to_write_it(orders: Path) -> None:
    done = call("-e", "SELECT item FROM orders.csv")
    assert done.exit_code == 1 and "between single quotes, FROM 'orders.csv'" in done.output


def test_a_script_comes_through_a_pipe(orders: Path) -> None:
    script = f"""
        CREATE TEMPORARY TABLE orders WITH ('path' = 'orders.csv', 'time' = 'ts');
        CREATE VIEW big AS SELECT ts, item, qty FROM orders WHERE qty > 1;
        SHOW TABLES;
        DESCRIBE orders;
        EXPLAIN {HOURLY};
        SELECT item, qty FROM big; -- a comment
        quit;
        SELECT nonsense;
    """
    done = call("--json", stdin=script)
    assert done.exit_code == 0, done.output
    assert done.output.count("orders (item string, qty int64), time ts") == 3
    assert "big (view): SELECT ts, item, qty FROM orders WHERE qty > 1" in done.output
    assert "window_aggregate-1" in done.output
    assert [(row["item"], row["qty"]) for row in rows(done)] == [("b", 2), ("a", 3)]


def test_insert_writes_the_files_of_a_table(orders: Path) -> None:
    done = call(
        stdin=(
            "CREATE TABLE orders WITH ('path' = 'orders.csv');"
            "CREATE TABLE hourly WITH ('path' = 'hourly', 'format' = 'parquet');"
            f"INSERT INTO hourly {HOURLY};"
        )
    )
    assert done.exit_code == 0, done.output
    assert pq.read_table(orders / "hourly").column("q").to_pylist() == [3, 3]


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("CREATE orders", "CREATE: write CREATE TABLE name WITH (...)"),
        ("CREATE TABLE orders WITH ('time' = 'ts')", "CREATE TABLE: write"),
        (
            "CREATE TABLE orders WITH ('path' = 'orders.csv', 'tim' = 'ts')",
            "unknown option 'tim'. Did you mean 'time'?",
        ),
        ("DESCRIBE nobody", "DESCRIBE: unknown stream 'nobody'"),
        ("INSERT INTO nobody SELECT 1", "nobody created that table to write to"),
        (
            "SELECT lenght(item) FROM 'orders.csv'",
            "unknown function 'lenght'. Did you mean 'length'?",
        ),
        ("SELECT x FROM 'order.csv'", "order.csv"),
        ("DROP TABLE orders", "a query begins with SELECT or WITH, not with 'DROP'"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(orders: Path, script: str, message: str) -> None:
    done = call(stdin=script)
    assert done.exit_code == 1 and message in done.output, done.output
    assert "Traceback" not in done.output
