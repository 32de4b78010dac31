"""From process start to the first answer: ours on Spark, and a plain PySpark query of the same
kind.

Both read the same Parquet file and count rows per key and minute in a streaming query. Each run is
a new process; the clock runs from before it starts until the first rows of its answer reach the
sink. They take turns.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks._data import make_events
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
spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
rows = spark.readStream.schema("ts timestamp, key long, value long").parquet(sys.argv[1])
answer = rows.groupBy(f.window("ts", "1 minute"), "key").count()
def first(rows, batch):
    if rows.count():
        print("first answer", flush=True)
query = answer.writeStream.foreachBatch(first).outputMode("update").trigger(availableNow=True).start()
query.awaitTermination()
"""


def run(emit: Emit, *, rounds: int = 5, rows: int = 100_000) -> None:
    """Take turns, `rounds` times each."""
    took: dict[str, list[float]] = {"thalweg": [], "spark": []}
    with tempfile.TemporaryDirectory(prefix="thalweg-bench-") as folder:
        table = make_events(rows, keys=100).table
        times = table.column("_start").cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
        pq.write_table(
            pa.table({"ts": times, "key": table.column("key"), "value": table.column("value")}),
            Path(folder) / "0.parquet",
        )
        for _ in range(rounds):
            for name, script in (("thalweg", OURS), ("spark", PLAIN)):
                took[name].append(_seconds(script, folder))
    for name, seconds in took.items():
        emit("seconds_to_first_answer", median(seconds), "s", engine=name, rounds=rounds)
    emit(
        "ratio_to_spark",
        median(a / b for a, b in zip(took["thalweg"], took["spark"], strict=True)),
        "x",
        rounds=rounds,
    )


def _seconds(script: str, folder: str) -> float:
    began = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-c", script, folder],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("first answer"):
                took = time.monotonic() - began
                process.wait()
                return took
    raise RuntimeError(f"the query ended with code {process.returncode} and no answer")
