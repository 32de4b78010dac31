"""Spark runs with an archive of its classes, and with a file that is none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from thalweg.cli.quicken import quicken
from thalweg.spark.class_archive import archive_file

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.xdist_group("spark")]

STARTED = """
import thalweg.spark as ts
spark = ts.session("local[1]")
jvm = spark.sparkContext._jvm
said = jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
print([str(word) for word in said if "SharedArchiveFile" in str(word)], spark.range(3).count())
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.parametrize("damage", [False, True])
def test_spark_starts_with_an_archive_and_with_one_that_is_cut_off(damage: bool) -> None:
    if damage:
        archive_file().parent.mkdir(parents=True)
        archive_file().write_bytes(b"no archive")
    else:
        done = CliRunner().invoke(quicken)
        assert done.exit_code == 0, done.output
        assert archive_file().stat().st_size > 10_000_000
    found = subprocess.run(
        [sys.executable, "-c", STARTED], check=True, capture_output=True, text=True
    )
    assert str(archive_file()) in found.stdout and found.stdout.strip().endswith("3")
