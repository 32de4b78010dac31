"""A driver script: a window over a DataFrame whose rows are summed up in the JVM, on any master. It
prints where they were summed, and the totals of the answers."""

from __future__ import annotations

import sys
from pathlib import Path

import thalweg as tw
from thalweg import spark as ts


def main() -> int:
    folder, master = sys.argv[1:]
    spark = ts.session(master)
    rows = str(Path(folder) / "in")
    spark.range(3000).selectExpr("id AS ts", "id % 7 AS k", "id AS v").repartition(4).write.parquet(
        rows
    )
    frame = spark.readStream.schema("ts long, k long, v long").parquet(rows)
    events = ts.from_spark(frame, time="ts", disorder=2000, late="drop", name="events")
    windows = events.where("v <> 5").group_by("k").tumbling(500)
    running = ts.start(
        windows.aggregate(n=tw.count(), s=tw.sum_("v")), trigger="available now", progress=False
    )
    running.wait()
    answers = [payload for _, _, payload in running.table()]
    totals = [len(answers), *(sum(row[name] for row in answers) for name in ("n", "s"))]
    sys.stdout.write(f"{running.explain().splitlines()[-1]}\ntotals: {totals}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
