"""The wait before a first answer: ours on Spark, and a plain PySpark query of the same kind.

Both read the same Parquet file and count rows per key and minute in a streaming query. Each run is
a new process; the clock runs from before it starts until the first rows of its answer reach the
sink (`seconds_to_first_answer`). Then a second query is started in the same session, over other
windows; its clock runs from before it is written down until its first rows are there
(`seconds_to_second_answer`). `thalweg demo` runs in the same rounds: until its first line, and
until it has the first answer. They take turns; a ratio is the median of the ratios of the rounds.

Ours begins without an archive of Spark's classes, as it is installed: that is `first_start`, a
single run, which leaves a process behind that writes the archive. The rounds begin when it has
ended (`archive`: what it took), and are what a user has from then on. `-o installed=True` measures
runs without an archive in the rounds as well. `cpu_seconds` is the work of all processes that a run
started, which a busy machine changes less than the time.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks._data import make_events
from benchmarks._process_work import work_below
from thalweg.cli.bench import Emit

OURS = """
import sys
import time
import thalweg as tw
from thalweg import spark as ts
folder = sys.argv[1]
events = ts.from_files(folder, time="ts", disorder="1 min", late="drop", name="events")
def told(what):
    def sink(rows, batch):
        if rows.count():
            print(what, time.monotonic() - began, flush=True)
    return sink
began = time.monotonic()
query = events.group_by("key").tumbling("1 min").aggregate(n=tw.count())
ts.start(query, to=told("first answer"), trigger="available now", progress=False).wait()
began = time.monotonic()
query = events.group_by("key").tumbling("30 s").aggregate(total=tw.sum_("value"))
ts.start(query, to=told("second answer"), trigger="available now", progress=False).wait()
"""

PLAIN = """
import os, sys
import time
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
from pyspark.sql import SparkSession, functions as f
builder = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false")
spark = builder.config("spark.sql.shuffle.partitions", str(os.cpu_count())).getOrCreate()
rows = spark.readStream.schema("ts timestamp, key long, value long").parquet(sys.argv[1])
def told(what):
    def sink(rows, batch):
        if rows.count():
            print(what, time.monotonic() - began, flush=True)
    return sink
def start(answer, sink):
    writer = answer.writeStream.foreachBatch(sink).outputMode("update").trigger(availableNow=True)
    writer.start().awaitTermination()
began = time.monotonic()
start(rows.groupBy(f.window("ts", "1 minute"), "key").count(), told("first answer"))
began = time.monotonic()
start(rows.groupBy(f.window("ts", "30 seconds"), "key").sum("value"), told("second answer"))
"""

SWITCH = "THALWEG_CLASS_ARCHIVE"
PATIENCE_S = 300.0
DEMO_ANSWER = "Micro-batch 1 "
"""How the demo's line begins that comes with the first answer."""


def run(
    emit: Emit,
    *,
    rounds: int = 5,
    rows: int = 100_000,
    installed: bool = False,
    demo: bool = True,
) -> None:
    """Take turns, `rounds` times each; about six minutes in all as it is."""
    with tempfile.TemporaryDirectory(prefix="thalweg-bench-") as place:
        folder = _write(Path(place), rows)
        cache = {"XDG_CACHE_HOME": str(Path(place) / "cache"), "TMPDIR": place}
        as_installed = {**cache, SWITCH: "off"}
        with_archive = {**cache, SWITCH: "auto"}
        cases: dict[str, Callable[[], dict[str, float]]] = {
            "spark": lambda: _measure(PLAIN, folder, as_installed),
            "thalweg": lambda: _measure(OURS, folder, with_archive),
        }
        cases["spark"]()  # the first start of all reads Spark itself from the disk
        first = cases["thalweg"]()
        _emit_archive(emit, Path(cache["XDG_CACHE_HOME"]))
        if installed:
            cases["thalweg, as installed"] = lambda: _measure(OURS, folder, as_installed)
        if demo:
            cases["demo"] = lambda: _measure_demo(with_archive)
        found: dict[str, list[dict[str, float]]] = {name: [] for name in cases}
        for number in range(rounds):
            for name in list(cases)[:: -1 if number % 2 else 1]:
                found[name].append(cases[name]())
    peer = found["spark"]
    _emit_first(emit, first, peer)
    for name, measured in found.items():
        for figure in measured[0]:
            seconds = [one[figure] for one in measured]
            emit(figure, median(seconds), "s", engine=name, rounds=rounds)
            if name != "spark" and figure in peer[0]:
                ratios = (a / b[figure] for a, b in zip(seconds, peer, strict=True))
                emit(f"{figure}_ratio", median(ratios), "x", engine=name, rounds=rounds)
    if demo:
        pairs = zip(found["demo"], found["thalweg"], strict=True)
        longer = (
            one["seconds_to_first_answer"] / two["seconds_to_first_answer"] for one, two in pairs
        )
        emit("demo_to_start_ratio", median(longer), "x", rounds=rounds)


def _write(place: Path, rows: int) -> str:
    folder = place / "events"
    folder.mkdir()
    table = make_events(rows, keys=100).table
    times = table.column("_start").cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
    pq.write_table(
        pa.table({"ts": times, "key": table.column("key"), "value": table.column("value")}),
        folder / "0.parquet",
    )
    return str(folder)


def _emit_archive(emit: Emit, cache: Path) -> None:
    """Wait for the process that the first start left behind."""
    began = time.monotonic()
    while not (written := list(cache.glob("thalweg/classes-*.jsa"))):
        if time.monotonic() - began > PATIENCE_S:
            notes = [note.read_text() for note in cache.glob("thalweg/classes-*.note")]
            raise RuntimeError(f"no archive of classes was written. {' '.join(notes)}")
        time.sleep(0.2)
    emit("archive", time.monotonic() - began, "s", bytes=written[0].stat().st_size)


def _emit_first(emit: Emit, first: dict[str, float], peer: list[dict[str, float]]) -> None:
    """The first start, beside the median of plain PySpark."""
    for figure in ("seconds_to_first_answer", "cpu_seconds"):
        theirs = median(one[figure] for one in peer)
        emit("first_start", first[figure], "s", figure=figure)
        emit("first_start_ratio", first[figure] / theirs, "x", figure=figure)


def _measure(script: str, folder: str, settings: dict[str, str]) -> dict[str, float]:
    """Seconds to the first answer and of work until then; seconds to the second answer."""
    lines, cpu = _listen([sys.executable, "-c", script, folder], settings, until="first answer")
    first = next(at for at, line in lines if line.startswith("first answer"))
    second = next(line for _, line in lines if line.startswith("second answer"))
    return {
        "seconds_to_first_answer": first,
        "cpu_seconds": cpu,
        "seconds_to_second_answer": float(second.split()[-1]),
    }


def _measure_demo(settings: dict[str, str]) -> dict[str, float]:
    """Seconds to the first line and to the first answer of the demo."""
    command = [sys.executable, "-m", "thalweg", "demo"]
    lines, cpu = _listen(command, settings, until=DEMO_ANSWER, ends=True)
    first = next(at for at, line in lines if line.startswith(DEMO_ANSWER))
    return {
        "seconds_to_first_line": lines[0][0],
        "seconds_to_first_answer": first,
        "cpu_seconds": cpu,
    }


def _listen(
    command: list[str], settings: dict[str, str], *, until: str, ends: bool = False
) -> tuple[list[tuple[float, str]], float]:
    """The lines of a program with their times, and the seconds of work of all its processes until
    one of them begins as `until` says; the program ends by itself, or there (`ends`)."""
    lines: list[tuple[float, str]] = []
    answered = threading.Event()
    began = time.monotonic()
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | settings,
    ) as process:

        def listen() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                lines.append((time.monotonic() - began, line))
                if line.startswith(until):
                    answered.set()

        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        work: dict[int, float] = {}
        while not answered.wait(0.05) and process.poll() is None:
            work |= work_below(process.pid)
        if ends:
            process.terminate()
        process.wait()
        listener.join()
    if not answered.is_set():
        raise RuntimeError(f"the program ended with code {process.returncode} and no answer")
    return lines, sum(work.values())
