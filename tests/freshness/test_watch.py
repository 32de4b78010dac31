"""`thalweg watch`: newest answers from files, and what the receiver says about them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from thalweg.cli import main
from thalweg.freshness.receiver_client import ReceiverClient
from thalweg.freshness.receiver_process import ensure_receiver, stop_receiver
from thalweg.freshness.receiver_settings import ReceiverSettings
from thalweg.shards.output.newest_answers import NewestAnswers, WatchNote

ANSWERS = pa.schema(
    [
        ("_kind", pa.string()),
        ("_start", pa.int64()),
        ("_end", pa.int64()),
        ("_new_end", pa.int64()),
        ("symbol", pa.string()),
        ("price", pa.int64()),
    ]
)


def write_batch(folder: Path, number: int, rows: list[tuple[object, ...]]) -> None:
    batch = folder / f"batch={number}"
    batch.mkdir(parents=True)
    columns = list(zip(*rows, strict=True))
    pq.write_table(pa.table(columns, schema=ANSWERS), batch / "part-0.parquet")
    (batch / "_SUCCESS").touch()


def test_the_newest_answer_of_each_key(tmp_path: Path) -> None:
    note = WatchNote({}, ["symbol"], "parquet", str(tmp_path / "answers"))
    answers = NewestAnswers(note, tmp_path)
    write_batch(
        tmp_path / "answers",
        0,
        [("insert", 1, 2, None, "IBM", 24), ("insert", 2, 3, None, "GM", 40)],
    )
    answers.refresh()
    write_batch(
        tmp_path / "answers",
        1,
        [("insert", 5, 6, None, "IBM", 25), ("adjust", 2, 3, 2, "GM", 40)],
    )
    (tmp_path / "answers" / "batch=2").mkdir()  # not whole yet
    answers.refresh()
    assert answers.rows is not None
    assert answers.rows.select(["symbol", "price"]).to_pylist() == [{"symbol": "IBM", "price": 25}]


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "queue"
    schema = pa.schema({"symbol": pa.string(), "price": pa.int64()})
    ensure_receiver(folder, ReceiverSettings(schema, ("symbol",)))
    yield folder
    stop_receiver(folder)


def test_answers_beside_their_queue(queue: Path, tmp_path: Path) -> None:
    """What was delivered is fresh; what waits is stale, and its answer is the one before."""
    with ReceiverClient.of(queue) as receiver:
        receiver.offer_json('{"symbol": "IBM", "price": 24}\n{"symbol": "GM", "price": 40}')
        cut = receiver.next_cut(0)
        assert cut is not None
        receiver.begin(cut.number)
        receiver.finish()
        receiver.offer_json('{"symbol": "IBM", "price": 25}\n{"symbol": "IBM", "price": 26}')
    WatchNote({"quotes": str(queue)}, ["symbol"], "parquet", str(tmp_path / "answers")).write(
        tmp_path
    )
    write_batch(
        tmp_path / "answers",
        0,
        [("insert", 1, 2, None, "IBM", 24), ("insert", 2, 3, None, "GM", 40)],
    )
    shown = CliRunner().invoke(main, ["watch", str(tmp_path), "--json", "--count", "1"])
    stale, fresh = json.loads(shown.output)["sources"]["quotes"]["keys"]
    assert (stale["key"], stale["answer"]["price"], stale["conflated"]) == ("IBM", 24, 1)
    assert stale["staleness"] > 0
    assert (fresh["key"], fresh["answer"]["price"], fresh["staleness"]) == ("GM", 40, 0)
    text = CliRunner().invoke(main, ["watch", str(tmp_path), "--count", "1"]).output
    assert "1 of 2 keys wait, 4 updates arrived, 1 conflated" in text


def test_a_receiver_that_is_gone_and_a_folder_that_is_no_checkpoint(tmp_path: Path) -> None:
    refused = CliRunner().invoke(main, ["watch", str(tmp_path)])
    assert refused.exit_code == 1
    assert "not the checkpoint of a query over a receiver" in refused.output
    WatchNote({"quotes": str(tmp_path / "none")}, [], "noop", None).write(tmp_path)
    shown = CliRunner().invoke(main, ["watch", str(tmp_path), "--count", "1"])
    assert "no receiver has run here" in shown.output
    assert "cannot be read from here" in shown.output
