"""An archive of the classes that Spark loads: with it, a JVM maps them into memory instead of
reading, checking and linking each anew, which is a third of the work of its start.

`thalweg quicken` writes one for the Java and the PySpark that are here. Every session that starts a
JVM uses it while it fits; one for another Java or PySpark has another name, and a JVM that finds
that it does not fit goes on without it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyspark
from pyspark import SparkContext

from thalweg.errors import ThalwegError
from thalweg.spark.java import require_java
from thalweg.spark.spark_home import home_path

__all__ = ["OPTIONS", "archive_file", "archive_options", "write_archive"]

OPTIONS = "spark.driver.defaultJavaOptions"
_QUIET = "-Xlog:disable -Xlog:all=error:stderr"


def archive_file() -> Path:
    """Where the archive for this Java and this PySpark is kept."""
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home) / "bin" / "java") if home else shutil.which("java") or "java"
    java = Path(command).resolve()
    changed = java.stat().st_mtime_ns if java.exists() else 0
    known = f"{java} {changed} {pyspark.__version__} {home_path() or pyspark.__file__}"
    name = hashlib.sha256(known.encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "thalweg" / f"classes-{name}.jsa"


def archive_options() -> dict[str, str]:
    """What a session that starts a JVM says to use the archive; nothing where there is none."""
    file = archive_file()
    if not file.exists():
        return {}
    return {OPTIONS: f"-XX:SharedArchiveFile={file} -Xshare:auto {_QUIET}"}


def write_archive() -> Path:
    """Run a small query in a process of its own, whose JVM leaves the classes that it loaded."""
    require_java()
    file = archive_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        written = Path(folder) / "classes.jsa"
        script = (
            f"from thalweg.spark.class_archive import _load; _load({folder!r}, {str(written)!r})"
        )
        done = subprocess.run(
            [sys.executable, "-c", script], check=False, capture_output=True, text=True
        )
        if done.returncode or not written.exists():
            said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
            raise ThalwegError(
                f"no archive of classes was written: {' '.join(said) or 'this Java makes none'}. Spark works without one."
            )
        written.replace(file)
    return file


def _load(folder: str, archive: str) -> None:
    """Load what most queries load, and let the JVM write it down when it ends."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from thalweg.plan.aggregates import count, sum_
    from thalweg.spark.session import session
    from thalweg.spark.starting import start
    from thalweg.spark.streams import from_files

    spark = session(
        "local[2]", **{OPTIONS.replace(".", "__"): f"-XX:ArchiveClassesAtExit={archive} {_QUIET}"}
    )
    place = Path(folder) / "events"
    place.mkdir()
    times = pa.array([0, 61_000_000], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"ts": times, "k": ["a", "b"], "v": [1, 2]}), place / "0.parquet")
    events = from_files(str(place), time="ts", disorder="1 min", late="drop", name="events")
    counts = events.group_by("k").tumbling("1 min").aggregate(n=count(), s=sum_("v"))
    for number, query in enumerate((counts, events.where("v > 1"))):
        out = str(Path(folder) / f"answers-{number}")
        checkpoint = str(Path(folder) / f"checkpoint-{number}")
        options: dict[str, Any] = {"trigger": "available now", "progress": False}
        start(query, to="parquet", path=out, checkpoint=checkpoint, **options).wait()
    spark.stop()
    jvm: Any = SparkContext._gateway
    jvm.proc.stdin.close()  # the JVM ends with its input
    jvm.proc.wait()
