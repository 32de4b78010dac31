"""Files and records as people have them: nothing is lost or made up in silence."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import thalweg as tw
from thalweg.errors import InputError, PlanError, StateError, TypeMismatchError
from thalweg.io.discovery import discover
from thalweg.io.events import events
from thalweg.io.file_log import FileLog
from thalweg.io.file_notes import note_repair
from thalweg.io.files import FileForm, read_file
from thalweg.io.listing import FilePlace
from thalweg.shards.sources.source_feed import name_sources
from thalweg.spark.sources.feed import feeds_of
from thalweg.spark.sources.streams import from_files

COLUMNS = pa.schema([("ts", pa.int64()), ("key", pa.string()), ("val", pa.int64())])
CSV = "ts,key,val\n1,a,10\n2,ä,20"
ROWS = [{"ts": 1, "key": "a", "val": 10}, {"ts": 2, "key": "ä", "val": 20}]
JSON = '{"ts": 1, "key": "a", "val": 10}\n{"ts": 2, "key": "ä", "val": 20}'


def rows_of(folder: Path, format_: str, schema: pa.Schema | None = COLUMNS) -> list[object]:
    """All rows that a source would read, through its log."""
    place = FilePlace(str(folder))
    log = FileLog(place, format_, folder.parent / "log" / "s.files", settle_us=0)
    log.look()
    tables = [
        table
        for found in log.files
        for table in read_file(place, found.name, FileForm(format_, schema), found=found)
    ]
    return [row for table in tables for row in table.to_pylist()]


def packets(folder: Path) -> Path:
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"ts": [1], "v": [1]}), folder / "0.parquet")
    return folder


def test_two_folders_of_one_name_are_two_sources(tmp_path: Path) -> None:
    eu, us = packets(tmp_path / "eu" / "packets"), packets(tmp_path / "us" / "packets")
    both = from_files(str(eu), time="ts").union(from_files(str(us), time="ts"))
    feeds = feeds_of(name_sources(both.node))
    assert list(feeds) == ["eu/packets", "us/packets"]
    folders = [feed.folder for feed in feeds.values()]  # type: ignore[attr-defined]
    assert folders == [str(eu), str(us)]


def test_one_folder_twice_is_one_source(tmp_path: Path) -> None:
    folder = packets(tmp_path / "packets")
    both = from_files(str(folder), time="ts").union(from_files(str(folder), time="ts"))
    assert list(feeds_of(name_sources(both.node))) == ["packets"]


def test_a_name_that_was_given_twice_is_refused(tmp_path: Path) -> None:
    eu, us = packets(tmp_path / "eu"), packets(tmp_path / "us")
    both = from_files(str(eu), time="ts", name="p").union(from_files(str(us), time="ts", name="p"))
    with pytest.raises(PlanError, match="two sources of this query are called 'p'"):
        name_sources(both.node)


@pytest.mark.parametrize(
    "data",
    [
        CSV.encode(),
        f"{CSV}\n".encode(),
        CSV.replace("\n", "\r").encode(),
        CSV.replace("\n", "\r\n").encode(),
        CSV.encode("utf-16"),
        CSV.encode("utf-16-le"),
        CSV.encode("utf-8-sig"),
        gzip.compress(CSV.encode()),
        gzip.compress(CSV.encode("utf-16")),
        bytes(pa.compress(CSV.encode(), "zstd", asbytes=True)),
    ],
    ids=["cut", "lf", "cr", "crlf", "utf-16", "no mark", "mark", "gzip", "gzip utf-16", "zstd"],
)
def test_csv_as_people_have_it(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.csv").write_bytes(data)
    assert rows_of(tmp_path / "in", "csv") == ROWS


@pytest.mark.parametrize(
    "data",
    [
        JSON.encode(),
        JSON.replace("\n", "\r").encode(),
        JSON.encode("utf-16"),
        gzip.compress(JSON.encode()),
    ],
    ids=["cut", "cr", "utf-16", "gzip"],
)
def test_json_as_people_have_it(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.json").write_bytes(data)
    assert rows_of(tmp_path / "in", "json") == ROWS


def test_gzip_that_was_cut_off_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.csv.gz").write_bytes(gzip.compress(CSV.encode() * 100)[:-20])
    with pytest.raises(InputError, match=r"the file 0.csv.gz cannot be read as csv: .*cut off"):
        rows_of(tmp_path / "in", "csv")


def test_the_same_bytes_are_read_again(tmp_path: Path) -> None:
    """What was appended after a file was noted is not read when its batch runs again."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.csv").write_text(f"{CSV}\n", encoding="utf-8")
    assert rows_of(tmp_path / "in", "csv") == ROWS
    with (tmp_path / "in" / "0.csv").open("a", encoding="utf-8") as file:
        file.write("3,c,30\n")
    assert rows_of(tmp_path / "in", "csv") == ROWS


def test_a_file_that_was_repaired_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for text in (f"{CSV}x\n", f"{CSV}\n", f"{CSV}\n3,c,30\n"):
        (tmp_path / "in" / "0.csv").write_text(text, encoding="utf-8")
        if "x" in text:
            with pytest.raises(InputError, match=r"the file 0.csv cannot be read"):
                rows_of(tmp_path / "in", "csv")
    assert rows_of(tmp_path / "in", "csv") == [*ROWS, {"ts": 3, "key": "c", "val": 30}]


@pytest.mark.parametrize("text", ["NA", "NULL", "null", "nan", "N/A", "#N/A", "NaN", "None"])
def test_words_are_texts_and_only_nothing_is_null(text: str) -> None:
    feed = tw.records(f"ts,key,val\n1,{text},\n2,,5\n", COLUMNS, time="ts", format="csv")
    rows = [row for table in feed for row in table.to_pylist()]
    assert [(row["key"], row["val"]) for row in rows] == [(text, None), (None, 5)]


def test_words_that_stand_for_null_can_be_named() -> None:
    feed = tw.records("ts,key,val\n1,NA,NA\n", COLUMNS, time="ts", format="csv", nulls=["", "NA"])
    assert [(r["key"], r["val"]) for table in feed for r in table.to_pylist()] == [(None, None)]


def test_a_quoted_line_end_makes_no_record() -> None:
    text = 'ts,key,val\n1,"a\n7,fake,700\nb",10\n2,b,x\n3,c,30\n'
    feed = tw.records(text, COLUMNS, time="ts", format="csv", bad="skip")
    rows = [(r["_start"], r["key"], r["val"]) for table in feed for r in table.to_pylist()]
    assert rows == [(1, "a\n7,fake,700\nb", 10), (3, "c", 30)]
    assert feed.letters.take().select(["line", "text"]).to_pylist() == [
        {"line": 5, "text": "2,b,x"}
    ]


def test_an_unclosed_quote_takes_no_rows_from_what_follows() -> None:
    text = 'ts,key,val\n1,a,10\n2,"b,x\n3,c,30\n'
    feed = tw.records(text, COLUMNS, time="ts", format="csv", bad="skip")
    assert [r["key"] for table in feed for r in table.to_pylist()] == ["a"]
    assert [letter["line"] for letter in feed.letters.take().to_pylist()] == [3]


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "0.csv").write_text(f"{CSV}\n", encoding="utf-8")
    (tmp_path / "in" / "1.csv").symlink_to(tmp_path / "secret" / "0.csv")
    (tmp_path / "in" / "more").symlink_to(tmp_path / "secret")
    (tmp_path / "in" / "loop").symlink_to(tmp_path / "in")
    log = FileLog(FilePlace(str(tmp_path / "in")), "csv", tmp_path / "log" / "s.files", 0)
    assert log.look() == 0
    assert set(log.passed) | set(log.place.passed) == {"1.csv", "more", "loop"}


def test_a_name_that_is_not_utf8_is_passed_over_and_told(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    Path(os.fsdecode(os.fsencode(tmp_path / "in") + b"/x\xff.csv")).write_text("ts\n1\n")
    (tmp_path / "in" / "0.csv").write_text(f"{CSV}\n", encoding="utf-8")
    assert rows_of(tmp_path / "in", "csv") == ROWS
    place = FilePlace(str(tmp_path / "in"))
    assert len(list(place.listing())) == 1
    assert place.passed == {"x\\xff.csv": "its name is not UTF-8; rename it"}


def test_two_processes_do_not_share_a_log(tmp_path: Path) -> None:
    import subprocess
    import sys

    script = (
        "import sys; from pathlib import Path; from thalweg.io.locks import lock_file;"
        "print(lock_file(Path(sys.argv[1])), flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "s.lock")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        (tmp_path / "in").mkdir()
        (tmp_path / "in" / "0.csv").write_text(f"{CSV}\n", encoding="utf-8")
        log = FileLog(FilePlace(str(tmp_path / "in")), "csv", tmp_path / "s.files", 0)
        log.patience_s = 0.0
        with pytest.raises(StateError, match="another query is running with this checkpoint"):
            log.look()
        other.communicate("")
    assert log.look() == 1, "a lock goes with its process"


# ------------------------------------------------------------------------------------------------
# what is there, before anything runs


def test_every_cause_has_its_own_sentence(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "b.csv").write_text("x\n1\n")
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "a.parquet").write_bytes(b"PAR1half")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "a.parquet").write_bytes(b"PAR1nonsensePAR1")
    (tmp_path / "mixed").mkdir()
    (tmp_path / "mixed" / "a.parquet").write_bytes(b"PAR1")
    (tmp_path / "mixed" / "b.csv").write_text("x\n1\n")
    causes = {
        "none": "there is no file or folder",
        "empty": "there are no files",
        "other": "there is no json file; what is there: 1 csv",
        "half": "no parquet file there is whole; a.parquet: its end is missing",
        "bad": "the file a.parquet cannot be read as parquet",
        "mixed": "b.csv is csv, a.parquet is parquet; say which is meant",
    }
    for name, said in causes.items():
        with pytest.raises(InputError, match=said):
            discover(str(tmp_path / name), format="json" if name == "other" else None)


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("2026-03-01T12:00:00", 1772366400_000000),
        ("2026-03-01 12:00:00.25", 1772366400_250000),
        ("2026-03-01T12:00:00Z", 1772366400_000000),
        ("2026-03-01T12:00:00.123456+02:00", 1772359200_123456),
        ("2026-03-01T12:00+0200", 1772359200_000000),
        ("2026-03-01", 1772323200_000000),
    ],
)
@pytest.mark.parametrize("format_", ["csv", "json"])
def test_iso_times_are_times(text: str, micros: int, format_: str, tmp_path: Path) -> None:
    record = f'{{"ts": "{text}", "v": 1}}\n' if format_ == "json" else f"ts,v\n{text},1\n"
    (tmp_path / f"a.{format_}").write_text(record)
    found = discover(str(tmp_path), times=("ts",))
    (table,) = found.read()
    assert events(table, "ts").column("_start").to_pylist() == [micros]


def test_a_time_that_is_none_is_refused_on_the_line_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("ts,v\nyesterday,1\n")
    with pytest.raises(TypeMismatchError, match="'ts' is string, which is no time") as caught:
        from_files(str(tmp_path), time="ts")
    assert caught.value.file == __file__


def test_one_file_globs_and_partitions(tmp_path: Path) -> None:
    for day in (1, 2):
        (tmp_path / f"day={day}").mkdir()
        (tmp_path / f"day={day}" / "a.csv.gz").write_bytes(gzip.compress(f"ts,v\n{day},5".encode()))
        (tmp_path / f"day={day}" / "b.json").write_text('{"ts": 9}')
    wanted = [{"ts": 1, "v": 5, "day": 1}, {"ts": 2, "v": 5, "day": 2}]

    def rows(text: str, **options: Any) -> list[object]:
        return [row for t in discover(text, **options).read() for row in t.to_pylist()]

    assert rows(str(tmp_path), format="csv") == wanted
    assert rows(f"{tmp_path}/*/*.csv.gz") == wanted
    assert rows(f"{tmp_path.as_uri()}/**/a.*") == wanted
    assert rows(str(tmp_path / "day=1" / "a.csv.gz")) == [{"ts": 1, "v": 5}]


def _parquet(path: Path, *values: int) -> None:
    pq.write_table(pa.table({"ts": list(values), "val": list(values)}), path)


def test_a_parquet_file_that_was_replaced_is_told_of_and_one_that_was_repaired_is_not(
    tmp_path: Path,
) -> None:
    folder, log_file = tmp_path / "in", tmp_path / "log" / "s.files"
    folder.mkdir()
    _parquet(folder / "a.parquet", 1)
    (folder / "b.parquet").write_bytes((folder / "a.parquet").read_bytes()[40:])  # damaged

    def log() -> FileLog:
        return FileLog(FilePlace(str(folder)), "parquet", log_file, 0)

    known = log()
    assert known.look() == 2
    _parquet(folder / "b.parquet", 1, 2, 3)
    again = log()
    again.look(since=0)
    assert not again.passed  # neither was read yet
    for number, found in enumerate(again.files):
        note_repair(log_file, number, found, again.place)
    assert again.look(since=2) == 2 and not again.passed  # b was read as it is now
    _parquet(folder / "a.parquet", 7, 8)
    _parquet(folder / "b.parquet", 9, 9, 9, 9)
    for looking in (again, log()):
        looking.look(since=2)
        assert set(looking.passed) == {"a.parquet", "b.parquet"}
        assert "replaced after it was read" in looking.passed["a.parquet"]
