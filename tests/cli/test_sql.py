"""`thalweg sql` in-process: files in, answers out; the shell does what is typed into it."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from rich.console import Console

from thalweg.cli import main
from thalweg.cli.sql import Player, play
from thalweg.cli.sql_run import Job
from thalweg.cli.sql_script import Script
from thalweg.cli.sql_shell import Shell, Words, prompt
from thalweg.cli.sql_sources import parse_source

SECOND = 1_000_000
BY_MINUTE = (
    "SELECT src, count(*) AS n, sum(len) AS bytes [RANGE TUMBLING 1 minute, WA ts] FROM Main GROUP "
    "BY src"
)
EXPECTED = [
    (0, "a", 1, 100),
    (0, "b", 1, 50),
    (60, "a", 1, 80),
    (60, "b", 1, 70),
    (120, "a", 1, 60),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two files of packets; the second begins before the first has ended."""
    place = tmp_path / "packets"
    place.mkdir()
    table = pa.table(
        {"ts": [2, 7, 95, 130, 61], "src": list("abaab"), "len": [100, 50, 80, 60, 70]}
    )
    seconds = pa.array(
        [second * SECOND for second in table["ts"].to_pylist()], pa.timestamp("us", "UTC")
    )
    table = table.set_column(0, "ts", seconds)
    pq.write_table(table.slice(0, 3), place / "0.parquet")
    pq.write_table(table.slice(3), place / "1.parquet")
    return place


def call(*args: str) -> Result:
    return CliRunner().invoke(main, ["sql", *args])


def answers(text: str) -> list[tuple[int, str, int, int]]:
    rows = [json.loads(line) for line in text.splitlines()]
    return sorted((_seconds(row["_start"]), row["src"], row["n"], row["bytes"]) for row in rows)


def _seconds(time: str | int) -> int:
    """Whole times are microseconds, timestamps are text."""
    if isinstance(time, int):
        return time // SECOND
    return int(datetime.fromisoformat(time).replace(tzinfo=UTC).timestamp())


def test_a_query_over_files_prints_its_table(folder: Path) -> None:
    done = call("-e", BY_MINUTE, "--source", f"Main={folder} disorder='2 min'", "--in-process")
    assert done.exit_code == 0, done.output
    assert "1970-01-01 00:01:00" in done.output
    assert "5 answers; 5 rows read" in done.output


def test_a_query_in_a_file_gives_json(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "q.sql").write_text(f"-- by minute\n{BY_MINUTE};\n", encoding="utf-8")
    done = call(
        str(tmp_path / "q.sql"),
        "-s",
        f"Main={folder} disorder='2 min' time=ts",
        "--in-process",
        "--json",
    )
    assert done.exit_code == 0, done.output
    assert answers(done.output) == EXPECTED


def test_files_of_other_formats(folder: Path, tmp_path: Path) -> None:
    table = pq.read_table(folder)
    table = table.set_column(0, "ts", pa.array(table["ts"].cast(pa.int64())))
    (tmp_path / "csv").mkdir()
    pyarrow.csv.write_csv(table, tmp_path / "csv" / "0.csv")
    (tmp_path / "json").mkdir()
    lines = "".join(f"{json.dumps(row)}\n" for row in table.to_pylist())
    (tmp_path / "json" / "0.jsonl").write_text(lines, encoding="utf-8")
    with (
        pa.OSFile(str(tmp_path / "0.arrow"), "wb") as file,
        pa.ipc.new_file(file, table.schema) as writer,
    ):
        writer.write_table(table)
    for place in ("csv", "json", "0.arrow"):
        done = call(
            "-e",
            BY_MINUTE,
            "-s",
            f"Main={tmp_path / place} disorder='2 min'",
            "--in-process",
            "--json",
        )
        assert answers(done.output) == EXPECTED, done.output


def test_answers_go_to_files(folder: Path, tmp_path: Path) -> None:
    source = f"Main={folder} disorder='2 min'"
    for format_ in ("parquet", "csv", "json"):
        done = call(
            "-e",
            BY_MINUTE,
            "-s",
            source,
            "--in-process",
            "--sink",
            f"{format_}:{tmp_path / format_}",
            "--output",
            "final",
        )
        assert done.exit_code == 0, done.output
    found = pq.read_table(tmp_path / "parquet" / "answers.parquet")
    assert found.column_names == ["_start", "_end", "src", "n", "bytes"]
    assert (
        found.num_rows
        == len((tmp_path / "json" / "answers.json").read_text(encoding="utf-8").splitlines())
        == 5
    )
    assert pyarrow.csv.read_csv(tmp_path / "csv" / "answers.csv").num_rows == 5
    call("-e", BY_MINUTE, "-s", source, "--in-process", "--sink", f"parquet:{tmp_path / 'changes'}")
    assert pq.read_table(tmp_path / "changes" / "answers.parquet").column_names[:4] == [
        "_kind",
        "_start",
        "_end",
        "_new_end",
    ]


def test_parameters_and_explain(folder: Path) -> None:
    query = "SELECT count(*) AS n [RANGE n, SLIDE n, WA ts] FROM Main WHERE len > :least"
    done = call(
        "-e",
        query,
        "-s",
        f"Main={folder}",
        "--in-process",
        "--explain",
        "-p",
        "n=30 seconds",
        "-p",
        "least=60",
    )
    assert "tumbling(30 s)" in done.output
    assert "len > 60" in done.output


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ["-e", "SELECT srcc FROM Main"],
            "SQL, line 1, column 8: unknown column 'srcc'. Did you mean 'src'?",
        ),
        (["-e", BY_MINUTE, "--sink", "excel:x"], "write show, noop, parquet:PATH"),
        (["-e", BY_MINUTE, "--follow"], "--follow goes on with new files, which Spark does"),
        (["-e", BY_MINUTE, "--output", "upserts"], "--output upserts is for Spark"),
        (["-e", BY_MINUTE, "-s", "Main"], "write NAME=FOLDER"),
        (
            ["-e", BY_MINUTE, "-s", "Main=x disoder=1"],
            "unknown option 'disoder'. Did you mean 'disorder'?",
        ),
        (["-e", BY_MINUTE, "-s", "Main=generator rate=many"], "rate is a number; got 'many'"),
        (["-e", BY_MINUTE, "-p", "n"], "write NAME=VALUE"),
    ],
)
def test_mistakes_are_messages_not_tracebacks(args: list[str], message: str, folder: Path) -> None:
    done = call("-s", f"Main={folder}", "--in-process", *args)
    assert done.exit_code != 0
    assert message in done.output
    assert "Traceback" not in done.output


def test_the_time_must_be_known(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1], "b": [2]}), tmp_path / "0.parquet")
    assert (
        "which column is the time? Say time=, one of a, b."
        in call("-e", "SELECT a FROM M", "-s", f"M={tmp_path}", "--in-process").output
    )
    assert (
        "there is no file or folder"
        in call("-e", "SELECT a FROM M", "-s", f"M={tmp_path / 'none'}", "--in-process").output
    )


# ------------------------------------------------------------------------------------------------
# shell


def typed(job: Job, *lines: str | type[BaseException]) -> tuple[str, Shell]:
    """What the shell prints for what is typed into it."""
    out = io.StringIO()
    player = Player(Script(job), in_process=job.in_process)
    shell = Shell(player, Console(file=out, width=200))
    remaining: Iterator[str | type[BaseException]] = iter(lines)

    def read(_: str) -> str:
        line = next(remaining, EOFError)
        if not isinstance(line, str):
            raise line
        return line

    shell.run(read)
    return out.getvalue(), shell


def test_shell_runs_queries_of_several_lines_and_shows_mistakes(folder: Path) -> None:
    job = Job([parse_source(f"Main={folder} disorder='2 min'")], in_process=True)
    shown, _ = typed(
        job,
        "",
        "SELECT src, len",
        "FROM Main",
        "WHERE len > 75;",
        "SELECT nix FROM Main;",
        "\\d",
        "\\help",
    )
    assert "2 answers; 5 rows read" in shown
    assert "unknown column 'nix'" in shown
    assert "Main (src string, len int64), time ts" in shown
    assert "\\source NAME=PLACE" in shown


def test_shell_commands(folder: Path) -> None:
    shown, shell = typed(
        Job([], in_process=True),
        "\\d",
        f"\\source Main={folder} disorder='2 min'",
        "\\set n=30 seconds",
        "\\explain SELECT count(*) AS n [RANGE n, SLIDE n, WA ts] FROM Main",
        "SELECT len",
        KeyboardInterrupt,
        "\\source nonsense",
        "\\q",
        "never read",
    )
    assert "no streams" in shown
    assert "tumbling(30 s)" in shown
    assert "write NAME=FOLDER" in shown
    assert [place.name for place in shell.job.places] == ["Main"]


def test_answers_change_on_a_terminal(folder: Path) -> None:
    out = io.StringIO()
    job = Job([parse_source(f"Main={folder} disorder='2 min'")], in_process=True)
    play(
        job,
        job.query(BY_MINUTE),
        Console(file=out, force_terminal=True, width=120),
        most=3,
    )
    assert "the last 3 of 5 answers" in out.getvalue()
    assert out.getvalue().count("bytes") > 1  # drawn anew as answers came


def test_lines_are_edited_and_remembered(folder: Path, tmp_path: Path) -> None:
    job = Job([parse_source(f"Main={folder}")], in_process=True)
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        read = prompt(lambda: job, history=tmp_path / "of" / "queries")
        keys.send_text("SELECT 1;\n")
        assert read("sql> ") == "SELECT 1;"
    assert "+SELECT 1;" in (tmp_path / "of" / "queries").read_text(encoding="utf-8")


def test_completion_knows_words_streams_and_columns(folder: Path) -> None:
    job = Job([parse_source(f"Main={folder}")], in_process=True)
    complete = Words(lambda: job)

    def offers(text: str) -> list[str]:
        return [found.text for found in complete.get_completions(Document(text), CompleteEvent())]

    assert "Main" in offers("SELECT len FROM Ma")
    assert "len" in offers("SELECT le")
    assert "SELECT" in offers("SEL") and "select" in offers("sel")
    assert "TUMBLE(" in offers("TUM")
    assert offers("SELECT ") == []
