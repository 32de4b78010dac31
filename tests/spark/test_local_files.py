"""Files on a local disk, as the JVM writes them."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from thalweg.spark.jvm import local_files
from thalweg.spark.jvm.local_files import use_local_files


@pytest.fixture
def files(spark: SparkSession) -> Any:
    context = spark.sparkContext
    jvm: Any = context._jvm
    jsc: Any = context._jsc
    return jvm.org.apache.hadoop.fs.FileSystem.get(
        jvm.java.net.URI("file:///"), jsc.hadoopConfiguration()
    )


def at(spark: SparkSession, path: Path) -> Any:
    jvm: Any = spark.sparkContext._jvm
    return jvm.org.apache.hadoop.fs.Path(str(path))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_session_uses_ours(files: Any) -> None:
    assert files.getClass().getName() == "thalweg.LocalFiles"


def test_permissions_are_those_of_hadoop(spark: SparkSession, files: Any, tmp_path: Path) -> None:
    """What is created has the permissions that the umask leaves, and gets others when asked."""
    files.create(at(spark, tmp_path / "file"), True).close()
    files.mkdirs(at(spark, tmp_path / "folder"))
    assert (mode(tmp_path / "file"), mode(tmp_path / "folder")) == (0o644, 0o755)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]  # no checksums
    jvm: Any = spark.sparkContext._jvm
    for octal in ("600", "1777", "750"):
        asked = jvm.org.apache.hadoop.fs.permission.FsPermission(octal)
        files.setPermission(at(spark, tmp_path / "folder"), asked)
        assert mode(tmp_path / "folder") == int(octal, 8)


def test_a_file_system_that_the_user_chose_stays(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_files, "driver_class", None)  # would fail if it were called
    jsc: Any = spark.sparkContext._jsc
    jsc.hadoopConfiguration().set("fs.file.impl", "org.apache.hadoop.fs.LocalFileSystem")
    try:
        use_local_files(spark.sparkContext)
    finally:
        jsc.hadoopConfiguration().unset("fs.file.impl")


def test_without_a_compiler_files_have_no_checksums_either(
    spark: SparkSession, files: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise Py4JError("no Janino")

    monkeypatch.setattr(local_files, "driver_class", fails)
    files.setWriteChecksum(True)
    use_local_files(spark.sparkContext)
    files.create(at(spark, tmp_path / "file"), True).close()
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
