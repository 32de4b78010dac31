"""A driver script: queries over files that keep arriving, each with a checkpoint and answers in
Parquet under one folder.

Start it again and it goes on. It ends by itself when the trigger is `available now`, and with an
error when a query fails.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.spark.jobs.streams import CONSISTENCY, query
from thalweg import spark as ts
from thalweg.errors import ThalwegError


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--queries", default="windows,priced")
    parser.add_argument("--consistency")
    parser.add_argument("--trigger", default="at once")
    parser.add_argument("--master")
    parser.add_argument("--buckets", type=int, default=2)
    asked = parser.parse_args()
    folder: Path = asked.folder
    spark = ts.session(asked.master)
    running = [
        ts.start(
            query(folder, name),
            to="parquet",
            path=str(folder / "answers" / name),
            checkpoint=str(folder / "checkpoints" / name),
            consistency=asked.consistency or CONSISTENCY[name],
            trigger=asked.trigger,
            buckets=asked.buckets,
        )
        for name in asked.queries.split(",")
    ]
    (folder / "running").touch()
    try:
        # each is waited for, also behind one that runs, so that none fails unseen
        while any([not each.wait(0.5) for each in running]):  # noqa: C419
            pass
    except ThalwegError as reason:
        sys.stderr.write(f"{type(reason).__name__}: {reason}\n")
        return 3
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
