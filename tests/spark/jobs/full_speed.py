"""A driver script: sliding sums of made-up events as fast as they go. Every few seconds it collects
the garbage of the JVM, and appends the micro-batches so far and the bytes still in use to a
file."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import thalweg as tw
from thalweg import spark as ts

EVERY_S = 5.0


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    # The heap has its size from the start; whether its pages were ever touched is no growth.
    os.environ["JAVA_TOOL_OPTIONS"] = "-XX:+AlwaysPreTouch"
    spark = ts.session("local[2]")
    events = ts.from_generator(
        rate=50_000, keys=1_000, latest="10 s", partitions=2, ticks_per_batch=10, name="events"
    )
    windows = events.group_by("key").hopping("1 min", "10 s")
    query = windows.aggregate(n=tw.count(), total=tw.sum_("value"))
    running = ts.start(query, to="noop", checkpoint=str(folder / "checkpoint"), progress=False)
    jvm: Any = spark.sparkContext._jvm
    memory = jvm.java.lang.management.ManagementFactory.getMemoryMXBean()
    with (folder / "memory").open("a", encoding="utf-8") as lines:
        while not running.wait(EVERY_S):
            memory.gc()
            held = memory.getHeapMemoryUsage().getUsed()
            lines.write(json.dumps({"batches": running.status().batches, "heap": held}) + "\n")
            lines.flush()


if __name__ == "__main__":
    main()
