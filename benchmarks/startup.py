"""From process start to the first answer: ours on Spark, and a plain PySpark query of the same
kind.

Both read the same Parquet file and count rows per key and minute in a streaming query. Each run is
a new process; the clock runs from before it starts until the first rows of its answer reach the
sink. They take turns. `cpu_seconds` is the work of all processes that a run started, which a busy
machine changes less than the time. `quickened` is a run with the archive of classes that `thalweg
quicken` writes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks._data import make_events
from benchmarks._process_work import work_below
from thalweg.cli.bench import Emit

OURS = """
import sys
import thalweg as tw
from thalweg import spark as ts
folder = sys.argv[1]
events = ts.from_files(folder, time="ts", disorder="1 min", late="drop", name="events")
query = events.group_by("key").tumbling("1 min").aggregate(n=tw.count())
def first(rows, batch):
    if rows.count():
        print("first answer", flush=True)
running = ts.start(query, to=first, trigger="available now", progress=False)
running.wait()
"""

PLAIN = """
import os, sys
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
from pyspark.sql import SparkSession, functions as f
builder = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false")
spark = builder.config("spark.sql.shuffle.partitions", str(os.cpu_count())).getOrCreate()
rows = spark.readStream.schema("ts timestamp, key long, value long").parquet(sys.argv[1])
answer = rows.groupBy(f.window("ts", "1 minute"), "key").count()
def first(rows, batch):
    if rows.count():
        print("first answer", flush=True)
query = answer.writeStream.foreachBatch(first).outputMode("update").trigger(availableNow=True).start()
query.awaitTermination()
"""


def run(emit: Emit, *, rounds: int = 5, rows: int = 100_000, quickened: bool = True) -> None:
    """Take turns, `rounds` times each."""
    cases = {"thalweg": OURS, "spark": PLAIN, **({"thalweg, quickened": OURS} if quickened else {})}
    took: dict[str, list[float]] = {name: [] for name in cases}
    work: dict[str, list[float]] = {name: [] for name in cases}
    with tempfile.TemporaryDirectory(prefix="thalweg-bench-") as place:
        folder = Path(place) / "events"
        folder.mkdir()
        table = make_events(rows, keys=100).table
        times = table.column("_start").cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
        pq.write_table(
            pa.table({"ts": times, "key": table.column("key"), "value": table.column("value")}),
            folder / "0.parquet",
        )
        caches = {name: {"XDG_CACHE_HOME": str(Path(place) / "none")} for name in cases}
        if quickened:
            caches["thalweg, quickened"] = {"XDG_CACHE_HOME": str(Path(place) / "archive")}
            command = [sys.executable, "-m", "thalweg", "quicken"]
            subprocess.run(
                command,
                check=True,
                capture_output=True,
                env=os.environ | caches["thalweg, quickened"],
            )
        for _ in range(rounds):
            for name, script in cases.items():
                seconds, cpu = _run(script, str(folder), caches[name])
                took[name].append(seconds)
                work[name].append(cpu)
    for name in cases:
        emit("seconds_to_first_answer", median(took[name]), "s", engine=name, rounds=rounds)
        emit("cpu_seconds", median(work[name]), "s", engine=name, rounds=rounds)
        if name != "spark":
            for unit, found in (("ratio_to_spark", took), ("cpu_ratio_to_spark", work)):
                ratios = (a / b for a, b in zip(found[name], found["spark"], strict=True))
                emit(unit, median(ratios), "x", engine=name, rounds=rounds)


def _run(script: str, folder: str, cache: dict[str, str]) -> tuple[float, float]:
    """Seconds to the first answer, and of work until then."""
    began = time.monotonic()
    answered = threading.Event()
    with subprocess.Popen(
        [sys.executable, "-c", script, folder],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | cache,
    ) as process:

        def listen() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("first answer"):
                    answered.set()

        threading.Thread(target=listen, daemon=True).start()
        work: dict[int, float] = {}
        while not answered.wait(0.05) and process.poll() is None:
            work |= work_below(process.pid)
        took = time.monotonic() - began
        process.wait()
    if not answered.is_set():
        raise RuntimeError(f"the query ended with code {process.returncode} and no answer")
    return took, sum(work.values())
