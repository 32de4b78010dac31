"""Files of events: which are picked up, in which order, how the order is kept, how they are
read."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles

from thalweg import spark
from thalweg.errors import InputError, PlanError, SchemaChangeError, StateError, UnknownColumnError
from thalweg.io.file_log import FileLog, passed_files
from thalweg.io.files import FileForm, read_file
from thalweg.io.listed import equal_runs
from thalweg.io.listing import FilePlace
from thalweg.model.time import INFINITY, MIN_TIME
from thalweg.plan.nodes import Source
from thalweg.shards.exchange.blobs import batch_of_blob
from thalweg.shards.exchange.header import Header
from thalweg.shards.exchange.ingest import Ingest
from thalweg.shards.fragments.cutting import fragments_of
from thalweg.shards.fragments.fragment import targets_of
from thalweg.shards.sources.event_columns import EventColumns
from thalweg.shards.sources.event_files import FileChunks
from thalweg.spark.sources.file_feed import FileReader, Files

TABLE = pa.table(
    {"ts": pa.array([3, 1, 2], pa.int64()), "k": ["a", "b", None], "v": pa.array([1.5, None, 2.5])}
)
FORMATS = ["parquet", "arrow", "csv", "json"]


def write(path: Path, table: pa.Table, format_: str) -> Path:
    if format_ == "parquet":
        pq.write_table(table, path)
    elif format_ == "arrow":
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    elif format_ == "csv":
        pyarrow.csv.write_csv(table, path)
    else:
        path.write_text(
            "".join(f"{json.dumps(row)}\n" for row in table.to_pylist()), encoding="utf-8"
        )
    return path


def read(
    path: Path, format_: str, columns: list[str] | None = None, schema: pa.Schema | None = None
) -> pa.Table:
    return pa.concat_tables(pieces(path, format_, columns, schema))


def pieces(
    path: Path, format_: str, columns: list[str] | None = None, schema: pa.Schema | None = None
) -> Iterator[pa.Table]:
    form = FileForm(format_, schema)
    return read_file(FilePlace(str(path.parent)), path.name, form, columns)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "events"
    made.mkdir()
    return made


def log_of(folder: Path, format_: str = "json", settle_us: int = 0) -> FileLog:
    log = folder.parent / "checkpoint" / "s.files"
    return FileLog(FilePlace(str(folder)), format_, log, settle_us)


def names(log: FileLog) -> list[str]:
    return [found.name for found in log.files]


def put(folder: Path, name: str, at: int = 0, text: str = '{"ts": 1}\n') -> Path:
    """A file with a time of its own."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    os.utime(path, (1_000_000 + at, 1_000_000 + at))
    return path


# ------------------------------------------------------------------------------------------------
# formats


@pytest.mark.parametrize("format_", FORMATS)
def test_every_format_is_read(folder: Path, format_: str) -> None:
    path = write(folder / "one", TABLE, format_)
    assert read(path, format_, schema=TABLE.schema).to_pylist() == TABLE.to_pylist()
    assert (
        read(path, format_, ["v", "ts"], TABLE.schema).to_pylist()
        == TABLE.select(["v", "ts"]).to_pylist()
    )


def test_nothing_in_a_csv_file_is_null_and_two_quotes_are_an_empty_text(folder: Path) -> None:
    (folder / "one").write_text('ts,k\n1,\n2,""\n3,"x"\n', encoding="utf-8")
    (folder / "two").write_text("ts,k\n1,\n", encoding="utf-8")
    assert read(folder / "one", "csv").column("k").to_pylist() == [None, "", "x"]
    assert read(folder / "two", "csv").column("k").to_pylist() == [None]


@pytest.mark.parametrize("format_", ["parquet", "arrow"])
def test_a_file_without_rows_has_its_columns(folder: Path, format_: str) -> None:
    path = write(folder / "one", TABLE.slice(0, 0), format_)
    assert read(path, format_).schema.equals(TABLE.schema, check_metadata=False)


def test_a_large_parquet_file_comes_in_pieces(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("thalweg.io.files._CHUNK_ROWS", 4)
    table = pa.table({"ts": range(10)})
    pq.write_table(table, folder / "one", row_group_size=2)
    assert [len(piece) for piece in pieces(folder / "one", "parquet")] == [4, 4, 2]
    write(folder / "two", table, "csv")
    assert [len(piece) for piece in pieces(folder / "two", "csv")] == [4, 4, 2]


@pytest.mark.parametrize("format_", FORMATS)
def test_a_missing_column_is_an_error_that_names_the_file(folder: Path, format_: str) -> None:
    path = write(folder / "one", TABLE, format_)
    with pytest.raises(InputError, match="the file one has no column 'w'; it has ts, k, v"):
        read(path, format_, ["ts", "w"], TABLE.schema)


@pytest.mark.parametrize("format_", ["parquet", "arrow", "json"])
def test_an_unreadable_file_is_an_error_that_names_it(folder: Path, format_: str) -> None:
    marks = {"parquet": b"nonsensePAR1", "arrow": b"nonsenseARROW1", "json": b"{nonsense\n"}
    (folder / "one").write_bytes(marks[format_])
    assert log_of(folder, format_).look() == 1
    with pytest.raises(
        InputError, match=f"the file one cannot be read as {format_}: .*, and start again"
    ):
        read(folder / "one", format_)


def test_a_file_that_is_gone_is_an_error_unless_it_was_set_aside(folder: Path) -> None:
    with pytest.raises(InputError, match="the file one cannot be read"):
        read(folder / "one", "parquet")
    write(folder / "_one", TABLE, "parquet")
    assert list(pieces(folder / "one", "parquet")) == []


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(PlanError, match="the format must be one of parquet, arrow, csv, json"):
        Files("events", "xml", EventColumns("ts"))


# ------------------------------------------------------------------------------------------------
# what is whole


@pytest.mark.parametrize("format_", ["parquet", "arrow"])
def test_a_half_written_file_is_left_alone_and_named(folder: Path, format_: str) -> None:
    whole = write(folder / "one", TABLE, format_).read_bytes()
    log = log_of(folder, format_)
    for size in (0, len(whole) // 2, len(whole) - 1):
        (folder / "one").write_bytes(whole[:size])
        assert log.look() == 0
        assert log.passed == {"one": "its end is missing" if size else "it is empty"}
    assert passed_files(log.log) == (1, {"one": "its end is missing"})
    (folder / "one").write_bytes(whole)
    assert log.look() == 1 and not log.passed
    assert passed_files(log.log) == (0, {})


@pytest.mark.parametrize("format_", ["csv", "json"])
def test_text_is_left_alone_while_it_changes(folder: Path, format_: str) -> None:
    whole = write(folder / "one", TABLE, format_).read_bytes()
    now = [1_000_000_000 * 1_000_000]
    log = log_of(folder, format_, settle_us=1_000_000)
    log.clock_ns = lambda: now[0]
    for size in range(1, len(whole) + 1):
        (folder / "one").write_bytes(whole[:size])
        os.utime(folder / "one", ns=(now[0], now[0]))
        assert log.look() == 0 and log.passed == {"one": "it is still being written"}
        now[0] += 900_000_000
        assert log.look() == 0
    now[0] += 100_000_000
    assert log.look() == 1 and not log.passed


def test_text_from_another_clock_is_read_when_it_stays_the_same(folder: Path) -> None:
    """A file from the future never grows old."""
    now = [1_000_000_000 * 1_000_000]
    put(folder, "one", at=10**9)
    log = log_of(folder, settle_us=1_000_000)
    log.clock_ns = lambda: now[0]
    assert log.look() == 0
    now[0] += 1_000_000_000
    assert log.look() == 1


def test_a_file_that_grew_after_it_was_read_is_told_of(folder: Path) -> None:
    path = put(folder, "one")
    log = log_of(folder)
    assert log.look() == 1
    with path.open("a", encoding="utf-8") as file:
        file.write('{"ts": 2}\n')
    put(folder, "two")
    assert log.look() == 2
    assert "it was 10 bytes when it was read and is 20 now" in log.passed["one"]


def test_hidden_and_temporary_files_and_folders_are_left_alone(folder: Path) -> None:
    for name in ("_SUCCESS", ".one.json.crc", ".hidden", "one.tmp", "one.crc", "one.csv.part"):
        put(folder, name)
    for name in ("_temporary", ".git"):
        (folder / name).mkdir()
        put(folder / name, "one")
    assert log_of(folder).look() == 0
    put(folder, "one")
    assert log_of(folder).look() == 1


def test_nested_and_partitioned_folders_are_read(folder: Path) -> None:
    for name in ("a", "day=1/a", "day=1/k=x/b", "_k=y/c"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        put(folder, name)
    log = log_of(folder)
    assert log.look() == 4
    assert sorted(names(log)) == ["_k=y/c", "a", "day=1/a", "day=1/k=x/b"]


def test_files_of_another_format_are_left_alone_and_named(folder: Path) -> None:
    put(folder, "one.csv")
    put(folder, "two.json")
    log = log_of(folder)
    assert log.look() == 1
    assert log.passed == {"one.csv": "its name says csv, the source reads json"}


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no file or folder"):
        log_of(tmp_path / "nowhere").look()


# ------------------------------------------------------------------------------------------------
# the log


def test_files_are_numbered_by_age_then_by_name(folder: Path) -> None:
    for name, age in (("c", 1), ("a", 2), ("b", 2), ("d", 0)):
        put(folder, name, age)
    log = log_of(folder)
    assert log.look() == 4
    assert names(log) == ["d", "c", "a", "b"]


def test_the_order_stays_when_older_files_come_later(folder: Path) -> None:
    put(folder, "b", 5)
    log_of(folder).look()
    put(folder, "a", 1)
    put(folder, "c", 9)
    log = log_of(folder)
    assert names(log) == ["b"]
    log.look()
    assert names(log) == names(log_of(folder)) == ["b", "a", "c"]


def test_a_file_is_known_by_its_name_even_when_it_is_touched_or_gone(folder: Path) -> None:
    path = put(folder, "b", 5)
    log_of(folder).look()
    os.utime(path, (9_000_000, 9_000_000))
    put(folder, "a", 1)
    path.unlink()
    log = log_of(folder)
    log.look()
    assert names(log) == ["b", "a"]


def test_no_more_are_handed_out_than_the_limit(folder: Path) -> None:
    for number in range(5):
        put(folder, f"{number}", number)
    log = log_of(folder)
    assert [
        log.look(2, since=0),
        log.look(2, since=2),
        log.look(2, since=4),
        log.look(None, since=4),
    ] == [2, 4, 5, 5]


@pytest.mark.parametrize("name", ["with space", "ünïcode", 'quote"and\\slash', "line\nend", "#1"])
def test_any_name_is_kept(folder: Path, name: str) -> None:
    put(folder, name)
    log_of(folder).look()
    assert names(log_of(folder)) == [name]


def test_a_log_that_was_changed_anywhere_is_refused(folder: Path) -> None:
    for number in range(3):
        put(folder, f"{number}", number)
    log = log_of(folder)
    log.look()
    whole = log.log.read_bytes()
    for at in range(len(whole)):
        for bit in (1, 128):
            log.log.write_bytes(whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :])
            if at == len(whole) - 1:  # the line end: a line that was cut off
                assert not log_of(folder).files
            else:
                with pytest.raises(StateError, match=r"s.files, line \d: the log of files"):
                    log_of(folder)


def three_looks(folder: Path) -> FileLog:
    log = log_of(folder)
    for number in range(3):
        put(folder, f"{number}", number)
        log.look()
    return log


def test_a_last_line_that_was_cut_off_does_not_count(folder: Path) -> None:
    """What it names was not handed out; offsets that ask for more are refused by the reader."""
    log = three_looks(folder)
    whole = log.log.read_bytes()
    ends = [at + 1 for at in range(len(whole)) if whole[at : at + 1] == b"\n"]
    for size in range(len(whole)):
        log.log.write_bytes(whole[:size])
        kept = sum(end <= size for end in ends)
        again = log_of(folder)
        assert names(again) == names(log)[:kept]
        again.look()
        assert names(again) == names(log) == names(log_of(folder))


def test_lines_that_were_swapped_are_refused(folder: Path) -> None:
    log = three_looks(folder)
    one, two, three = log.log.read_text(encoding="utf-8").splitlines(keepends=True)
    for order in ([two, one, three], [one, three], [one, two, three, three]):
        log.log.write_text("".join(order), encoding="utf-8")
        with pytest.raises(StateError):
            log_of(folder)


def test_the_log_grows_by_what_is_new_and_is_put_together(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("thalweg.io.file_journal._COMPACTED_LINES", 4)
    log = log_of(folder)
    lines, written = [], 0
    for number in range(12):
        put(folder, f"{number:02}", number)
        before = log.log.read_bytes() if log.log.exists() else b""
        log.look()
        after = log.log.read_bytes()
        lines.append(after.count(b"\n"))
        written += after.startswith(before)
        assert names(log_of(folder)) == names(log)
    assert max(lines) == 4 and written == 10, "appended, and seldom replaced"


def test_a_look_that_finds_nothing_lists_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(folder, "one")
    (folder / "two").write_text("", encoding="utf-8")
    os.utime(folder, (1_000_000, 1_000_000))
    log = log_of(folder)
    assert log.look() == 1
    looked = log.log.read_bytes()
    monkeypatch.setattr(FilePlace, "listing", lambda self: pytest.fail("listed"))
    assert log.look() == 1 and log.log.read_bytes() == looked
    (folder / "two").write_text('{"ts": 1}\n', encoding="utf-8")
    os.utime(folder, (1_000_000, 1_000_000))
    assert log.look() == 2, "what was not whole is looked at again"


def calls_of_a_look(log: FileLog) -> int:
    """Function calls of a look, those into Arrow's entries of a listing left out."""
    calls = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        calls += event == "call" and "io/listing.py" not in frame.f_code.co_filename

    sys.setprofile(count)
    try:
        log.look()
    finally:
        sys.setprofile(None)
    return calls


def test_beside_the_listing_a_look_costs_what_is_new(folder: Path) -> None:
    """A folder of known files in which something changed that is no input is listed again; its
    files are compared in columns, not one by one."""
    for number in range(1_000):
        put(folder, f"{number:04}", number)
    log = log_of(folder)
    assert log.look() == 1_000
    log.look()
    for number in range(3):
        (folder / f".{number}").write_text("not yet", encoding="utf-8")
        assert calls_of_a_look(log) < 100
    put(folder, "0500", 7_000, text='{"ts": 1}\n{"ts": 2}\n')
    put(folder, "late", 7_001)
    (folder / "0700").unlink()
    assert log.look() == 1_001
    assert names(log)[-1] == "late" and list(log.passed) == ["0500"]


@given(st.data())
def test_runs_of_equal_names(data: st.DataObject) -> None:
    known = data.draw(st.lists(st.text("ab", max_size=3), unique=True))
    names = data.draw(st.permutations(known)) if data.draw(st.booleans()) else list(known)
    for name in data.draw(st.lists(st.text("cd", min_size=1, max_size=2), max_size=4)):
        names.insert(data.draw(st.integers(0, len(names))), name)
    names = names[data.draw(st.integers(0, 2)) :]
    covered: list[int] = []
    for here, there, run in equal_runs(names, known):
        assert names[here : here + run] == known[there : there + run] and run
        covered += range(here, here + run)
    assert len(covered) == len(set(covered))


# ------------------------------------------------------------------------------------------------
# the reader


def reader(folder: Path, **options: Any) -> FileReader:
    stream = spark.from_files(
        str(folder),
        time="ts",
        format="json",
        columns=pa.schema([("ts", pa.int64()), ("k", pa.string())]),
        **options,
    )
    assert isinstance(stream.node, Source)
    ingest = Ingest(targets_of(fragments_of(stream.node), [0], source=stream.node.name))
    log = str(folder.parent / "checkpoint" / "s.files")
    return FileReader(FileChunks(stream.node.feed, ingest, stream.node.columns, "events", log))


def chunks(
    mine: FileReader, start: dict[str, int], end: dict[str, int]
) -> list[tuple[Header, list[Any]]]:
    found = []
    for part in mine.partitions(start, end):
        for rows in mine.read(part):
            for row in rows.to_pylist():
                held = [] if row["blob"] is None else batch_of_blob(row["blob"]).payload.to_pylist()
                found.append((row["seq"], Header.from_json(row["header"]), held))
    return [(header, held) for _, header, held in sorted(found, key=lambda entry: entry[0])]


def test_every_file_is_read_once_in_order(folder: Path) -> None:
    for number, k in enumerate("abcde"):
        put(folder, k, number, f'{{"ts": {number}, "k": "{k}"}}\n')
    mine = reader(folder, files_per_batch=2)
    offset, seen = mine.initialOffset(), []
    for _ in range(3):
        after = mine.latestOffset(offset, mine.getDefaultReadLimit())
        seen += chunks(mine, offset, after)
        offset = after
    assert [row["k"] for _, held in seen for row in held] == list("abcde")
    assert mine.latestOffset(offset, ReadMaxFiles(2)) == offset == {"n": 5, "ended": 0}
    assert [header.newest for header, _ in seen] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("files", "tasks"), [(3, 1), (25, 2)])
def test_a_task_reads_enough_to_be_worth_starting(folder: Path, files: int, tasks: int) -> None:
    for number in range(files):
        put(folder, f"{number:02}", number, f'{{"ts": {number}, "k": "a"}}\n')
    mine = reader(folder, tasks=2)
    start = mine.initialOffset()
    end = mine.latestOffset(start, ReadAllAvailable())
    assert len(mine.partitions(start, end)) == tasks
    assert [header.newest for header, _ in chunks(mine, start, end)] == list(range(files))


def test_positions_follow_on_across_files(folder: Path) -> None:
    for number in range(3):
        put(folder, f"{number}", number, '{"ts": 1, "k": "a"}\n')
    mine = reader(folder)
    seen = chunks(
        mine, mine.initialOffset(), mine.latestOffset(mine.initialOffset(), ReadAllAvailable())
    )
    assert [header.begin for header, _ in seen] == [0, *(header.end for header, _ in seen[:-1])]


def test_available_now_ends_with_the_files_that_were_there(folder: Path) -> None:
    put(folder, "a", 1, '{"ts": 1, "k": "a"}\n')
    mine = reader(folder, finish=True)
    mine.prepareForTriggerAvailableNow()
    put(folder, "b", 2, '{"ts": 2, "k": "b"}\n')
    after = mine.latestOffset(mine.initialOffset(), ReadAllAvailable())
    assert after == {"n": 1, "ended": 1}
    seen = chunks(mine, mine.initialOffset(), after)
    assert [header.progress.cti for header, _ in seen] == [MIN_TIME, INFINITY]


def test_the_end_is_said_only_once(folder: Path) -> None:
    put(folder, "a", 1, '{"ts": 1, "k": "a"}\n')
    mine = reader(folder, finish=True)
    mine.prepareForTriggerAvailableNow()
    ended = mine.latestOffset(mine.initialOffset(), ReadAllAvailable())
    assert mine.latestOffset(ended, ReadAllAvailable()) == ended
    assert chunks(mine, ended, ended) == []


def test_a_restart_reads_the_same_files_again(folder: Path) -> None:
    for number in range(4):
        put(folder, f"{number}", number, f'{{"ts": {number}, "k": "a"}}\n')
    first = reader(folder)
    first.latestOffset(first.initialOffset(), ReadAllAvailable())
    put(folder, "earlier", -5, '{"ts": 9, "k": "a"}\n')
    one, three = {"n": 1, "ended": 0}, {"n": 3, "ended": 0}
    assert chunks(reader(folder), one, three) == chunks(first, one, three)


@pytest.mark.parametrize(("start", "end"), [(0, 3), (2, 1), (3, 4)])
def test_offsets_that_the_log_does_not_know_are_refused(folder: Path, start: int, end: int) -> None:
    put(folder, "a", 1)
    put(folder, "b", 1)
    first = reader(folder)
    first.latestOffset(first.initialOffset(), ReadAllAvailable())
    with pytest.raises((InputError, StateError), match="restore the whole checkpoint"):
        reader(folder).partitions({"n": start, "ended": 0}, {"n": end, "ended": 0})


def test_a_file_with_other_columns_is_refused_by_name(folder: Path) -> None:
    write(folder / "b", pa.table({"ts": [1], "k": [5]}), "parquet")
    write(folder / "a", pa.table({"ts": [1], "k": ["x"]}), "parquet")
    stream = spark.from_files(str(folder), time="ts")
    assert isinstance(stream.node, Source) and stream.schema == pa.schema([("k", pa.string())])
    times = EventColumns("ts")
    with pytest.raises(
        SchemaChangeError, match="file b: the column 'k' is int64, the source declared string"
    ):
        times.batch(read(folder / "b", "parquet"), stream.schema, "file b")
    with pytest.raises(SchemaChangeError, match="file c: there is no column 'k'"):
        times.batch(pa.table({"ts": [1]}), stream.schema, "file c")


# ------------------------------------------------------------------------------------------------
# declarations


def test_columns_are_taken_from_a_file_that_is_whole(folder: Path) -> None:
    write(folder / "b.parquet", TABLE, "parquet")
    (folder / "a.parquet.tmp").write_bytes(b"half")
    (folder / "a.parquet").write_bytes(b"half")
    assert spark.from_files(str(folder), time="ts").schema.names == ["k", "v"]


def test_without_a_file_columns_must_be_given(folder: Path) -> None:
    with pytest.raises(InputError, match="Give columns="):
        spark.from_files(str(folder), time="ts")
    assert spark.from_files(str(folder), time="ts", columns=TABLE.schema).schema.names == ["k", "v"]


def test_the_time_columns_must_be_there(folder: Path) -> None:
    for time, end in (("t", None), ("ts", "te")):
        with pytest.raises(UnknownColumnError):
            spark.from_files(str(folder), columns=TABLE.schema, time=time, end=end)
