"""The archive of Spark's classes: where it lies, and when it is used."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from thalweg.cli.quicken import quicken
from thalweg.spark.class_archive import OPTIONS, archive_file, archive_options


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_an_archive_is_used_where_there_is_one() -> None:
    assert archive_options() == {}
    archive_file().parent.mkdir(parents=True)
    archive_file().touch()
    assert str(archive_file()) in archive_options()[OPTIONS]
    assert CliRunner().invoke(quicken, ["--undo"]).exit_code == 0
    assert archive_options() == {}


def test_every_java_has_an_archive_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = archive_file()
    other = tmp_path / "java" / "bin" / "java"
    other.parent.mkdir(parents=True)
    other.touch()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    assert archive_file() != here
