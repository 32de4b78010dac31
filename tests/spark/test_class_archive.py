"""The archive of Spark's classes: where it lies, when it is used, and when one is written
unasked."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from thalweg.cli.quicken import quicken
from thalweg.io.locks import unlock_file
from thalweg.spark.processes.archive_building import write_archive
from thalweg.spark.processes.class_archive import (
    OPTIONS,
    RETRY_S,
    SWITCH,
    archive_file,
    archive_options,
    has_archive,
    note_file,
    refusal,
)

PROGRAM = """
import logging
logging.basicConfig(level="INFO")
from thalweg.spark.processes.archive_building import build_after_exit
build_after_exit()
"""
"""What a session does that finds no archive."""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv(SWITCH, "auto")


def put_archive(content: bytes, size: int) -> None:
    archive_file().parent.mkdir(parents=True, exist_ok=True)
    archive_file().write_bytes(content)
    note_file(archive_file()).write_text(str(size))


def ended_program() -> str:
    """What a program says that ends after it was to leave an archive behind."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM], check=True, capture_output=True, text=True
    )
    assert not done.stdout
    return done.stderr


def test_an_archive_is_used_where_there_is_one() -> None:
    assert archive_options() == {}
    put_archive(b"classes", 7)
    assert str(archive_file()) in archive_options()[OPTIONS]
    assert CliRunner().invoke(quicken, ["--undo"]).exit_code == 0
    assert archive_options() == {}


@pytest.mark.parametrize("size", [6, 8])
def test_one_that_was_cut_off_counts_as_none(size: int) -> None:
    put_archive(b"classes", size)
    assert not has_archive(archive_file()) and archive_options() == {}


def test_the_switch_keeps_sessions_from_using_and_from_making_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put_archive(b"classes", 7)
    monkeypatch.setenv(SWITCH, "off")
    assert archive_options() == {}
    CliRunner().invoke(quicken, ["--undo"])
    assert ended_program() == ""


def test_every_java_has_an_archive_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = archive_file()
    other = tmp_path / "java" / "bin" / "java"
    other.parent.mkdir(parents=True)
    other.touch()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    assert archive_file() != here


def test_what_failed_is_not_tried_again_for_a_day() -> None:
    note = note_file(archive_file())
    note.parent.mkdir(parents=True)
    note.write_text("failed: this Java makes none")
    assert refusal(archive_file()) == "this Java makes none"
    assert ended_program() == ""
    then = time.time() - RETRY_S - 1
    os.utime(note, (then, then))
    assert refusal(archive_file()) == ""


def test_a_home_that_cannot_be_written_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("no folder")
    assert ended_program() == ""
    assert archive_options() == {}


def test_of_two_that_write_at_once_one_steps_back() -> None:
    lock = archive_file().with_suffix(".lock")
    script = (
        "import sys; from pathlib import Path; from thalweg.io.locks import lock_file;"
        f"print(lock_file(Path({str(lock)!r})), flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline().strip() == "True"
        assert write_archive(unasked=True) is None
        other.communicate()
    unlock_file(lock)
