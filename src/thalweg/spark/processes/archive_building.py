"""Writes the archive of Spark's classes: for `thalweg quicken`, and by itself after the first
program of a Java and a PySpark.

A session that starts a JVM and finds no archive leaves a process behind when its program ends: its
own Python and JVM, at the lowest priority, which load the classes that most queries load and write
the archive. The program itself does nothing more and waits for nothing. Several programs that
end at once leave one archive, since the process that writes holds a lock; the archive gets its name
when it is whole. Where it cannot be written (a home that is read only, a full disk), nothing
happens; where this Java makes none, a note says so and it is not tried again for a day.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from thalweg.errors import ThalwegError
from thalweg.io.locks import lock_file, unlock_file
from thalweg.spark.processes.class_archive import (
    FAILED,
    OPTIONS,
    QUIET,
    SWITCH,
    archive_file,
    has_archive,
    is_switched_off,
    note_file,
    refusal,
)
from thalweg.spark.processes.java import require_java

__all__ = ["build_after_exit", "build_in_background", "remove_archive", "write_archive"]

ROOM = 1 << 30
"""Free bytes of a disk below which nothing is written unasked; an archive has some 200 MB."""
KEPT_S = 60 * 24 * 3600
"""Archives that no session has used for so long are removed when another is written."""
PATIENCE_S = 300.0
LONGEST_S = 1800.0
"""On a machine that is always busy an archive may take long; after so many seconds it is given
up."""
_BACKGROUND = (
    "from thalweg.spark.processes import archive_building\narchive_building.build_in_background()"
)
_REGISTERED: list[int] = []


def build_after_exit() -> None:
    """Leave a process behind when this program ends that writes the archive, if there is none."""
    if os.getpid() in _REGISTERED or not _is_wanted():
        return
    _REGISTERED.append(os.getpid())
    atexit.register(_begin, os.getpid())


def _is_wanted() -> bool:
    if is_switched_off() or getattr(sys, "frozen", False) or not sys.executable:
        return False
    file = archive_file()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        roomy = shutil.disk_usage(file.parent).free > ROOM
    except OSError:
        return False
    return roomy and os.access(file.parent, os.W_OK) and not (has_archive(file) or refusal(file))


def _begin(program: int) -> None:
    if os.getpid() != program or not _is_wanted():  # a fork runs what its parent registered
        return
    folder = archive_file().parent
    unset = ("PYSPARK_SUBMIT_ARGS", "THALWEG_SPARK_LOG")
    with contextlib.suppress(OSError):
        builder = subprocess.Popen(
            [sys.executable, "-c", _BACKGROUND],
            cwd=folder,
            env={name: value for name, value in os.environ.items() if name not in unset},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # it outlives the terminal
        )
        builder.returncode = 0  # it is not waited for
        logging.getLogger(__name__).info(
            "in the background, on idle processor time, an archive of Spark's classes is written to"
            " %s, once, so that Spark starts faster from now on; %s=off prevents it",
            folder,
            SWITCH,
        )


def build_in_background() -> None:
    """Write the archive at the lowest priority; failures are noted beside it."""
    _step_back()
    file = archive_file()
    try:
        write_archive(unasked=True)
    except ThalwegError as reason:
        with contextlib.suppress(OSError):
            note_file(file).write_text(f"{FAILED}{reason}", encoding="utf-8")
    except (OSError, subprocess.TimeoutExpired):
        pass  # there is no place for it, or the machine has no time: another program may try


def _step_back() -> None:
    """Run at the lowest priority, and as the first process to be killed when memory is short."""
    with contextlib.suppress(OSError):
        os.nice(19)
    with contextlib.suppress(OSError, AttributeError):  # Linux alone has it
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    # Linux divides time between terminals first, where the value of a process has no effect.
    for file, value in (("autogroup", "19"), ("oom_score_adj", "1000")):
        with contextlib.suppress(OSError):
            Path("/proc/self", file).write_text(value, encoding="ascii")


def write_archive(*, unasked: bool = False) -> Path | None:
    """Run a small query in a process of its own, whose JVM leaves the classes that it loaded.

    A requested archive is written again even if there is one; otherwise none is written while
    another process writes it.
    """
    require_java()
    file = archive_file()
    lock = file.with_suffix(".lock")
    if not lock_file(lock, patience_s=0.0 if unasked else PATIENCE_S):
        if unasked:
            return None
        raise ThalwegError(f"another process has been writing {file} for {PATIENCE_S:.0f} s.")
    try:
        if unasked and has_archive(file):
            return file
        _remove_leftovers(file)
        with tempfile.TemporaryDirectory(dir=file.parent, prefix=f"{file.stem}-") as folder:
            written = _written(Path(folder))
            note_file(file).write_text(str(written.stat().st_size), encoding="utf-8")
            written.replace(file)
    finally:
        unlock_file(lock)
    return file


def _written(folder: Path) -> Path:
    """A whole archive in a folder, on the disk."""
    archive = folder / "classes.jsa"
    script = (
        "from thalweg.spark.processes import archive_building\n"
        f"archive_building._load({str(folder)!r}, {str(archive)!r})"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | {SWITCH: "off", "TMPDIR": str(folder)},
        timeout=LONGEST_S,
    )
    if done.returncode or not archive.exists():
        last_line = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise ThalwegError(
            f"no archive of classes was written: {' '.join(last_line) or 'this Java makes none'}. "
            "Spark works without one."
        )
    with archive.open("rb+") as opened:
        os.fsync(opened.fileno())
    return archive


def _remove_leftovers(file: Path) -> None:
    """Remove files of interrupted attempts, and archives that were not used for long."""
    for folder in file.parent.glob(f"{file.stem}-*"):
        shutil.rmtree(folder, ignore_errors=True)
    for other in file.parent.glob("classes-*.jsa"):
        with contextlib.suppress(OSError):
            if time.time() - other.stat().st_mtime > KEPT_S:
                remove_archive(other)


def remove_archive(file: Path) -> None:
    for part in (file, note_file(file)):
        part.unlink(missing_ok=True)


def _load(folder: str, archive: str) -> None:
    """Load what most queries load, and let the JVM write it down when it ends."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyspark import SparkContext

    from thalweg.plan.aggregates import count, sum_
    from thalweg.spark.session import session
    from thalweg.spark.sources.streams import from_files
    from thalweg.spark.starting import start

    spark = session(
        "local[2]", **{OPTIONS.replace(".", "__"): f"-XX:ArchiveClassesAtExit={archive} {QUIET}"}
    )
    place = Path(folder) / "events"
    place.mkdir()
    times = pa.array([0, 61_000_000], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"ts": times, "k": ["a", "b"], "v": [1, 2]}), place / "0.parquet")
    events = from_files(str(place), time="ts", disorder="1 min", late="drop", name="events")
    counts = events.group_by("k").tumbling("1 min").aggregate(n=count(), s=sum_("v"))
    sinks: tuple[Any, ...] = (
        (counts, {"to": "parquet", "path": str(Path(folder) / "answers")}),
        (counts, {"to": lambda rows, _: rows.count()}),
        (events.where("v > 1"), {"to": "memory"}),
    )
    for number, (query, sink) in enumerate(sinks):
        checkpoint = str(Path(folder) / f"checkpoint-{number}")
        options: dict[str, Any] = {"trigger": "available now", "progress": False}
        start(query, checkpoint=checkpoint, **sink, **options).wait()
    spark.stop()
    jvm: Any = SparkContext._gateway
    jvm.proc.stdin.close()  # the JVM ends with its input
    jvm.proc.wait()
