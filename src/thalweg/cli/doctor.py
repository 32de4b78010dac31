"""`thalweg doctor`: checks that everything a query needs is installed, and what to do if not.

Each check is a function that returns a `Finding`. Requirements of Spark alone are notes, not
failures, where Spark is not installed.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import click

__all__ = ["CHECKS", "Finding", "State", "doctor", "examine"]

_EXTRAS = {
    "sql-shell": ("rich", "prompt_toolkit"),
    "plot": ("matplotlib",),
    "sketches": ("datasketches",),
    "polars": ("polars",),
    "pandas": ("pandas",),
}
_GIB = 2**30


class State(StrEnum):
    OK = "ok"
    NOTE = "note"
    """Something optional is absent."""
    WRONG = "wrong"


_SHOWN = {State.OK: "ok   ", State.NOTE: "note ", State.WRONG: "WRONG"}


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found."""

    what: str
    state: State
    found: str
    advice: str = ""

    def line(self) -> str:
        mark = _SHOWN[self.state]
        tail = f" {self.advice}" if self.advice else ""
        return f"{mark}  {self.what:<16} {self.found}{tail}"


def _has_spark() -> bool:
    return importlib.util.find_spec("pyspark") is not None


def _python() -> Finding:
    return Finding("python", State.OK, f"{platform.python_version()} at {sys.executable}")


def _core() -> Finding:
    names = ("thalweg", "numpy", "pyarrow", "sqlglot", "click")
    return Finding("packages", State.OK, ", ".join(f"{name} {version(name)}" for name in names))


def _extras() -> Finding:
    missing = [
        extra
        for extra, packages in _EXTRAS.items()
        if any(importlib.util.find_spec(package) is None for package in packages)
    ]
    if not missing:
        return Finding("extras", State.OK, "all of them")
    advice = f"pip install 'thalweg[{','.join(missing)}]' brings them."
    return Finding("extras", State.NOTE, f"without {', '.join(missing)};", advice)


def _spark() -> Finding:
    if not _has_spark():
        return Finding(
            "spark",
            State.NOTE,
            "PySpark is not installed; queries run in-process.",
            "pip install 'thalweg[spark]' brings it.",
        )
    return Finding("spark", State.OK, f"PySpark {version('pyspark')}")


def _java() -> Finding:
    if not _has_spark():
        return Finding("java", State.NOTE, "not looked for; only Spark needs it.")
    from thalweg.spark.processes.java import OLDEST, find_java

    found = find_java()
    if found is None:
        return Finding(
            "java",
            State.WRONG,
            f"no Java {OLDEST} or newer was found.",
            "Install one and set JAVA_HOME, or pip install 'thalweg[java]'.",
        )
    place = "on PATH" if found.home is None else f"at {found.home}"
    return Finding("java", State.OK, f"Java {found.version} {place}")


def _class_archive() -> Finding:
    what = "class archive"
    if not _has_spark():
        return Finding(what, State.NOTE, "not looked for; only Spark uses it.")
    from thalweg.spark.processes.class_archive import (
        SWITCH,
        archive_file,
        has_archive,
        is_switched_off,
        refusal,
    )

    file = archive_file()
    if is_switched_off():
        return Finding(what, State.NOTE, f"neither made nor used: {SWITCH}=off.")
    if has_archive(file):
        return Finding(what, State.OK, f"{file.stat().st_size / 1e6:,.0f} MB at {file}")
    if why := refusal(file):
        return Finding(what, State.NOTE, why, "thalweg quicken tries again.")
    return Finding(
        what,
        State.NOTE,
        "none yet; the next program that starts Spark leaves one behind,",
        "thalweg quicken makes it now: Spark starts faster with it.",
    )


def _workers() -> Finding:
    if not _has_spark():
        return Finding("workers", State.NOTE, "not looked at; only Spark has them.")
    chosen = os.environ.get("PYSPARK_PYTHON")
    if chosen is None or shutil.which(chosen) == sys.executable or chosen == sys.executable:
        return Finding("workers", State.OK, "run the Python of this process")
    if shutil.which(chosen) is None:
        return Finding(
            "workers",
            State.WRONG,
            f"PYSPARK_PYTHON={chosen} does not exist.",
            "Unset it, or name another.",
        )
    return Finding(
        "workers",
        State.NOTE,
        f"run PYSPARK_PYTHON={chosen}, another Python than this one;",
        "it needs the same packages and version.",
    )


def _memory() -> Finding:
    try:
        pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return Finding("memory", State.NOTE, "its size cannot be read here.")
    found = f"{pages / _GIB:.1f} GiB, {os.cpu_count()} cores"
    if pages < 2 * _GIB and _has_spark():
        return Finding("memory", State.WRONG, found, "Spark with its workers needs 2 GiB or more.")
    return Finding("memory", State.OK, found)


def _ports() -> Finding:
    try:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
    except OSError as reason:
        return Finding(
            "ports",
            State.WRONG,
            f"no port of 127.0.0.1 can be had: {reason}.",
            "Spark's processes connect to each other there.",
        )
    return Finding("ports", State.OK, f"127.0.0.1 can be bound (tried {port})")


def _folders() -> Finding:
    for folder in (tempfile.gettempdir(), str(Path.cwd())):
        try:
            with tempfile.NamedTemporaryFile(dir=folder):
                pass
        except OSError as reason:
            state = State.WRONG if folder == tempfile.gettempdir() else State.NOTE
            return Finding(
                "folders", state, f"{folder} cannot be written: {reason.strerror}.", "Set TMPDIR."
            )
    free = shutil.disk_usage(tempfile.gettempdir()).free / _GIB
    return Finding(
        "folders", State.OK, f"the temporary and this folder can be written, {free:.1f} GiB free"
    )


def _zones() -> Finding:
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        pc.hour(pa.scalar(0, pa.timestamp("us", "Europe/Berlin")))
    except pa.ArrowInvalid:
        return Finding(
            "time zones", State.WRONG, "the system has no time zone database.", "Install tzdata."
        )
    return Finding(
        "time zones",
        State.OK,
        f"known; times without a zone are read as UTC (TZ={os.environ.get('TZ', 'unset')})",
    )


def _connectors() -> Finding:
    if not _has_spark():
        return Finding("connectors", State.NOTE, "not looked at; only Spark has them.")
    arguments = os.environ.get("PYSPARK_SUBMIT_ARGS", "")
    try:
        spark = version("pyspark")
    except PackageNotFoundError:  # pragma: no cover - looked for above
        spark = ""
    if "--packages" in arguments or "--jars" in arguments:
        return Finding("connectors", State.OK, arguments)
    return Finding(
        "connectors",
        State.NOTE,
        "none is named (files and DataFrames need none);",
        f"Kafka: --packages org.apache.spark:spark-sql-kafka-0-10_2.13:{spark}.",
    )


CHECKS: tuple[Callable[[], Finding], ...] = (
    _python,
    _core,
    _extras,
    _spark,
    _java,
    _class_archive,
    _workers,
    _memory,
    _ports,
    _folders,
    _zones,
    _connectors,
)


def examine() -> Iterator[Finding]:
    """All checks, one after the other; a check that fails is a finding itself."""
    for check in CHECKS:
        try:
            yield check()
        except Exception as reason:  # a doctor names the trouble and goes on
            yield Finding(
                check.__name__.lstrip("_"), State.WRONG, f"{type(reason).__name__}: {reason}."
            )


@click.command
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def doctor(*, as_json: bool) -> None:
    """Check that what queries need is there: Python, Java, Spark; say what to do where not."""
    findings = list(examine())
    for finding in findings:
        click.echo(json.dumps(asdict(finding)) if as_json else finding.line())
    if any(finding.state == State.WRONG for finding in findings):
        sys.exit(1)
