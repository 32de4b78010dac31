"""A query through Spark Connect, in a process of its own: one process cannot have both kinds of
sessions. Prints a JSON object: what was answered, and what was refused."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import thalweg as tw
from thalweg import spark as tws
from thalweg.errors import ThalwegError


def main(folder: Path) -> None:
    session = SparkSession.builder.remote("local[2]").getOrCreate()
    before = dict(session.conf.getAll)
    told: dict[str, object] = {}

    def query(size: int) -> tw.Stream:
        rows = tws.from_files(str(folder / "in"), time="ts", disorder=0, name="in")
        return rows.group_by("k").tumbling(size).aggregate(n=tw.count())

    def refused(action: object) -> str:
        try:
            action()  # type: ignore[operator]
        except ThalwegError as reason:
            return str(reason)
        return "nothing was refused"

    def answers() -> list[list[object]]:
        checkpoint = str(folder / "checkpoint")
        frame = tws.frame(query(10), checkpoint=checkpoint, spark=session)
        writer = frame.writeStream.format("parquet").option("checkpointLocation", checkpoint)
        running = writer.option("path", str(folder / "out")).trigger(availableNow=True).start()
        running.awaitTermination()
        told["batches"] = len(running.recentProgress)
        table = pq.read_table(folder / "out").to_pylist()
        return sorted([row["_start"], row["k"], row["n"]] for row in table)

    _write(folder, 0, [1, 2, 13, 25])
    told["start"] = refused(lambda: tws.start(query(10), spark=session))
    told["first"] = answers()
    _write(folder, 1, [31, 45])
    told["again"] = answers()
    told["changed"] = refused(
        lambda: tws.frame(query(20), checkpoint=str(folder / "checkpoint"), spark=session)
    )
    told["unchanged"] = dict(session.conf.getAll) == before
    sys.stdout.write(json.dumps(told) + "\n")
    session.stop()


def _write(folder: Path, number: int, times: list[int]) -> None:
    (folder / "in").mkdir(exist_ok=True)
    keys = ["ab"[time % 2] for time in times]
    pq.write_table(pa.table({"ts": times, "k": keys}), folder / "in" / f"{number}.parquet")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
