"""Spark runs with an archive of its classes, with one that is damaged, and writes one by itself."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.spark.test_class_archive import ended_program
from thalweg.spark.processes.class_archive import (
    SWITCH,
    archive_file,
    has_archive,
    note_file,
    refusal,
)

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.xdist_group("spark")]

STARTED = """
import thalweg.spark as ts
spark = ts.session("local[1]")
jvm = spark.sparkContext._jvm
said = jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
print([str(word) for word in said if "SharedArchiveFile" in str(word)], spark.range(3).count())
"""
PATIENCE_S = 600.0


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv(SWITCH, "auto")
    monkeypatch.delenv("SPARK_SUBMIT_OPTS", raising=False)  # the JVM of a user


@pytest.fixture
def broken_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Java that has a version and runs nothing."""
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text('#!/bin/sh\n[ "$1" = -version ] && echo \'version "17.0.1"\' >&2\nexit 1\n')
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))


def start() -> str:
    """What a program with a session says: whether it uses an archive, and a count."""
    command = [sys.executable, "-c", STARTED]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stderr == ""
    return done.stdout.strip()


def wait_for_archive() -> Path:
    file = archive_file()
    last = time.monotonic() + PATIENCE_S
    while not has_archive(file):
        assert time.monotonic() < last, "no archive was written"
        time.sleep(0.2)
    return file


def test_two_programs_leave_one_archive_which_the_next_one_uses_whatever_becomes_of_it() -> None:
    """Two first programs at once, one archive and nothing else in the folder; then a damaged one
    that a JVM refuses by itself, and one that was cut off, which is written again."""
    command = [sys.executable, "-c", STARTED]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for program in both:
        assert program.communicate()[0].strip() == "[] 3"
    file = wait_for_archive()
    assert file.stat().st_size > 10_000_000
    assert str(file) in start()

    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    note_file(file).write_text(str(len(whole) // 2))
    assert start().endswith("3"), "a JVM goes on without an archive that it cannot use"
    note_file(file).write_text(str(len(whole)))
    assert start() == "[] 3"
    assert str(wait_for_archive()) in start()
    left = {entry.name for entry in file.parent.iterdir() if entry.name.startswith("classes-")}
    assert left == {file.name, note_file(file).name, file.with_suffix(".lock").name}


@pytest.mark.usefixtures("broken_java")
def test_what_fails_in_the_background_is_noted_and_not_tried_again() -> None:
    said = ended_program()
    assert said.count("\n") == 1 and SWITCH in said, "one line"
    last = time.monotonic() + PATIENCE_S
    while not refusal(archive_file()):
        assert time.monotonic() < last, "nothing was noted"
        time.sleep(0.2)
    assert "no archive of classes was written" in refusal(archive_file())
    assert ended_program() == ""
