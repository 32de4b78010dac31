"""What the command refuses is one sentence that names the place, never a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from thalweg.cli import main

ORDERS = "ts,qty\n2026-03-01T10:05:00Z,1\n2026-03-01T10:50:00Z,2\n"


def refused(*arguments: str, given: bytes | None = None) -> str:
    done = CliRunner().invoke(main, ["sql", "--in-process", *arguments], input=given)
    assert done.exit_code == 1 and isinstance(done.exception, SystemExit), done.output
    return done.output


@pytest.fixture
def orders(tmp_path: Path) -> str:
    (tmp_path / "orders.csv").write_text(ORDERS)
    return f"Main={tmp_path / 'orders.csv'} time=ts"


def test_a_folder_that_cannot_be_written(tmp_path: Path, orders: str) -> None:
    """A file stands where the folder should be."""
    taken = tmp_path / "taken"
    taken.write_text("")
    sink = f"parquet:{taken / 'answers'}"
    said = refused("-e", "SELECT qty FROM Main", "--source", orders, "--sink", sink)
    assert f"Error: {taken / 'answers'}: Not a directory." in said


def test_columns_that_a_format_does_not_take(tmp_path: Path, orders: str) -> None:
    query = "SELECT heavy_hitters(qty, 0.1) AS h [RANGE TUMBLING 1 hour, WA ts] FROM Main"
    said = refused("-e", query, "--source", orders, "--sink", f"csv:{tmp_path / 'out'}")
    assert "the columns do not fit csv" in said


def test_a_script_that_is_no_text(tmp_path: Path) -> None:
    script = tmp_path / "script.sql"
    script.write_bytes(b"\xffSELECT")
    assert f"{script} is no text in UTF-8 (byte 0)" in refused(str(script))
    assert "standard input is no text in UTF-8" in refused(given=b"SELECT \xff")


def test_a_script_may_begin_with_a_mark_of_its_encoding(tmp_path: Path, orders: str) -> None:
    script = tmp_path / "script.sql"
    script.write_text("SELECT qty FROM Main", encoding="utf-8-sig")
    done = CliRunner().invoke(
        main, ["sql", "--in-process", str(script), "--source", orders, "--json"]
    )
    assert done.exit_code == 0 and done.output.count("qty") == 2
