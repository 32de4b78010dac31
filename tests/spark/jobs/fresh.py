"""A driver script: a query over a receiver, which the script starts if none runs. Start it again
and it goes on."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from thalweg import spark as ts
from thalweg.errors import ThalwegError
from thalweg.stream import Stream

COLUMNS = {"symbol": "string", "price": "int64", "at": "int64"}
FRESHNESS = "1 s"


def quotes(folder: Path, schedule: str = "in-place") -> Stream:
    rows = ts.from_receiver(str(folder / "queue"), COLUMNS, time="at", disorder=0, name="quotes")
    return rows.update_key("symbol", schedule=schedule, freshness=FRESHNESS).where("price >= 0")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--trigger", default="at once")
    asked = parser.parse_args()
    folder: Path = asked.folder
    ts.session("local[2]")
    running = ts.start(
        quotes(folder),
        to="parquet",
        path=str(folder / "answers"),
        checkpoint=str(folder / "checkpoint"),
        trigger=asked.trigger,
        buckets=2,
    )
    try:
        running.wait()
    except ThalwegError as reason:
        sys.stderr.write(f"{type(reason).__name__}: {reason}\n")
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
