"""An archive of the classes that Spark loads: with it, a JVM maps them into memory instead of
reading, checking and linking each anew, which is a third of the work of its start.

Every session that starts a JVM uses the archive for its Java and its PySpark, if there is one
(`archive_building` writes it). Another Java or PySpark has an archive of another name, and a JVM
that finds that one does not fit goes on without it. A note beside the archive has its size, so that
one that was cut off counts as none; or the reason why none could be written.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import time
from pathlib import Path

import pyspark

from thalweg.spark.processes.spark_home import home_path

__all__ = [
    "FAILED",
    "OPTIONS",
    "QUIET",
    "SWITCH",
    "archive_file",
    "archive_options",
    "has_archive",
    "is_switched_off",
    "note_file",
    "refusal",
]

OPTIONS = "spark.driver.defaultJavaOptions"
SWITCH = "THALWEG_CLASS_ARCHIVE"
"""The environment variable that, set to `off`, keeps sessions from making and using archives."""
QUIET = "-Xlog:disable -Xlog:all=error:stderr"
FAILED = "failed: "
RETRY_S = 24 * 3600
"""After so long it is tried again to write an archive that could not be written."""


def is_switched_off() -> bool:
    return os.environ.get(SWITCH, "").strip().lower() in {"off", "0", "no", "false"}


def archive_file() -> Path:
    """Where the archive for this Java and this PySpark is kept."""
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home) / "bin" / "java") if home else shutil.which("java") or "java"
    java = Path(command).resolve()
    spark = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    facts = (
        java,
        _changed(java),
        pyspark.__version__,
        home_path() or spark,
        _changed(spark / "jars"),  # an archive does not fit jars that were installed again
    )
    name = hashlib.sha256(" ".join(map(str, facts)).encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "thalweg" / f"classes-{name}.jsa"


def _changed(path: Path) -> int:
    return path.stat().st_mtime_ns if path.exists() else 0


def note_file(archive: Path) -> Path:
    """The note about an archive: its size, or why there is none."""
    return archive.with_suffix(".note")


def _note(archive: Path) -> str:
    try:
        return note_file(archive).read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def has_archive(archive: Path) -> bool:
    """Whether an archive is there and whole."""
    try:
        return _note(archive) == str(archive.stat().st_size)
    except OSError:
        return False


def refusal(archive: Path) -> str:
    """Why an attempt to write an archive failed during the last days; empty: none did."""
    note = _note(archive)
    if not note.startswith(FAILED) or time.time() - _changed(note_file(archive)) / 1e9 > RETRY_S:
        return ""
    return note.removeprefix(FAILED)


def archive_options() -> dict[str, str]:
    """The JVM options of a session that uses the archive; none where there is no archive."""
    file = archive_file()
    if is_switched_off() or not has_archive(file):
        return {}
    with contextlib.suppress(OSError):  # a home that cannot be written
        os.utime(file)  # archives that were not used for long are removed
    return {OPTIONS: f"-XX:SharedArchiveFile={file} -Xshare:auto {QUIET}"}
