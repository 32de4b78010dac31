"""Records that cannot be read: refused, or passed over and kept with the reason; in-process and by
the reader of files on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import thalweg as tw
from thalweg.errors import InputError, PlanError, TimeRangeError, UnknownColumnError
from thalweg.io.row_bytes import read_rows
from thalweg.shards.exchange.blobs import batch_of_blob
from thalweg.shards.exchange.header import Header, Message
from thalweg.shards.exchange.ingest import Ingest
from thalweg.shards.fragments.cutting import fragments_of
from thalweg.shards.fragments.fragment import targets_of
from thalweg.shards.output.typed_rows import DEAD_RECORDS, unpack_dead
from thalweg.shards.sources.event_columns import EventColumns
from thalweg.shards.sources.event_files import FileChunks
from thalweg.spark.sources.file_feed import FileReader, Files
from thalweg.spark.sources.streams import from_files

COLUMNS = pa.schema([("ts", pa.int64()), ("k", pa.string()), ("v", pa.int64())])
JSON = b"""{"ts": 1, "k": "a", "v": 1}
{"ts": 2, "k": "a", "v": "much"}

{"ts": 3, "k": "b", "v": 3, "extra": [1]}
{"ts": 4, "k":
{"k": "b", "v": 5}
{"ts": 6, "k": null, "v": null}
"""
CSV = b"""ts,k,v
1,a,1
2,a,much
3,b,3
4,b
,b,5
6,,
"""
PAYLOAD = {"k": "string", "v": "int64"}
GOOD = [(1, "a", 1), (3, "b", 3), (6, None, None)]
BAD_LINES = {"json": [2, 5], "csv": [3, 5]}


@pytest.mark.parametrize(("format_", "text"), [("json", JSON), ("csv", CSV)])
def test_bad_records_are_passed_over_counted_and_kept(format_: str, text: bytes) -> None:
    feed = tw.records(text, COLUMNS, time="ts", format=format_, bad="skip")
    engine = tw.Engine(tw.source("s", PAYLOAD))
    out = engine.push("s", feed)
    assert [
        (e.start, e.payload["k"], e.payload["v"])
        for e in tw.elements_of(out)
        if isinstance(e, tw.Insert)
    ] == GOOD
    assert engine.status().dead == feed.dead == 3
    letters = engine.dead("s").to_pylist()
    assert [letter["line"] for letter in letters[:2]] == BAD_LINES[format_]
    assert "much" in letters[0]["text"] and letters[0]["reason"]
    assert "null" in letters[2]["reason"], "a row without a time is no event"
    assert engine.dead("s").num_rows == 0 and engine.status().dead == 3


@pytest.mark.parametrize(("format_", "text"), [("json", JSON), ("csv", CSV)])
def test_bad_records_are_an_error_unless_told(format_: str, text: bytes) -> None:
    engine = tw.Engine(tw.source("s", PAYLOAD))
    with pytest.raises(InputError, match="bad='skip'"):
        engine.push("s", tw.records(text, COLUMNS, time="ts", format=format_))
    assert engine.status().elements_in == 0


def test_a_time_out_of_range_is_an_error_or_a_dead_letter() -> None:
    text = '{"ts": 99999999999999999999}\n{"ts": 9000000000000000000}\n{"ts": 4}\n'
    columns = pa.schema([("ts", pa.int64())])
    feed = tw.records(text, columns, time="ts", bad="skip")
    assert [row["_start"] for table in feed for row in table.to_pylist()] == [4]
    assert feed.dead == 2
    with pytest.raises(TimeRangeError):
        list(tw.records('{"ts": 9000000000000000000}\n', columns, time="ts"))


def test_a_file_and_a_clean_text_are_read_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_bytes(b"ts,k,v\n1,a,2\n")
    feed = tw.records(tmp_path / "one.csv", COLUMNS, time="ts", format="csv", bad="skip")
    assert [table.num_rows for table in feed] == [1] and feed.dead == 0
    assert [table.num_rows for table in tw.records("", COLUMNS, time="ts")] == [0]


def test_a_first_line_that_lacks_a_column_is_an_error_whatever_the_policy() -> None:
    with pytest.raises(InputError, match="no column 'v'"):
        list(tw.records("ts,k\n1,a\nx,b\n", COLUMNS, time="ts", format="csv", bad="skip"))


def test_mistakes() -> None:
    with pytest.raises(PlanError, match="bad must be one of"):
        tw.records("", COLUMNS, time="ts", bad="ignore")
    with pytest.raises(PlanError, match="csv or json"):
        tw.records("", COLUMNS, time="ts", format="jsonl")
    with pytest.raises(UnknownColumnError):
        tw.records("", COLUMNS, time="when")


# ------------------------------------------------------------------------------------------------
# Spark


def read(folder: Path, format_: str, **options: Any) -> list[dict[str, Any]]:
    """The rows of the exchange that the reader makes of a folder."""
    stream = from_files(
        str(folder),
        time="ts",
        format=format_,
        columns=COLUMNS,
        late="drop",
        name="s",
        disorder=0,
        settle=0,
        **options,
    )
    plan = fragments_of(stream.node)
    feed = stream.node.feed  # type: ignore[attr-defined]
    assert isinstance(feed, Files) and isinstance(feed.times, EventColumns)
    job = FileChunks(
        feed,
        Ingest(targets_of(plan, [0], source="s")),
        stream.schema,
        "s",
        str(folder / "_log"),
    )
    reader = FileReader(job)
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    parts = reader.partitions(reader.initialOffset(), end)
    return [row for part in parts for rows in reader.read(part) for row in rows.to_pylist()]


@pytest.mark.parametrize(("format_", "text"), [("json", JSON), ("csv", CSV)])
def test_the_reader_of_files_sends_dead_letters_past_the_fragments(
    tmp_path: Path, format_: str, text: bytes
) -> None:
    (tmp_path / f"one.{format_}").write_bytes(text)
    rows, letters = read(tmp_path, format_, bad="skip")
    assert batch_of_blob(rows["blob"]).start.tolist() == [start for start, _, _ in GOOD]
    header = Header.from_json(letters["header"])
    assert (letters["origin"], header.kind, header.rows) == ("s", Message.DEAD, 3)
    told = read_rows(letters["blob"])
    assert told.column("where").to_pylist()[:2] == [f"one.{format_}"] * 2
    late = {"kind": "late", "origin": "s", "blob": b""}
    packed = pa.RecordBatch.from_pylist(
        [{"kind": "dead", "origin": "s", "blob": letters["blob"]}, late]
    )
    (typed,) = unpack_dead([packed])
    assert typed.schema == DEAD_RECORDS and typed.num_rows == 3


def test_the_reader_of_files_refuses_bad_records_unless_told(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_bytes(JSON)
    with pytest.raises(InputError, match=r"one.json cannot be read"):
        read(tmp_path, "json")
    with pytest.raises(PlanError, match="bad must be one of"):
        read(tmp_path, "json", bad="drop")
