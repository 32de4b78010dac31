"""Where an example runs: in this process, or with `--spark` on Spark. The query is the same."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import thalweg as tw
from thalweg.model.answers import Answers

__all__ = ["DATA", "answers", "on_spark", "read"]

DATA = Path(__file__).parent / "data"


def on_spark(description: str | None) -> bool:
    """Whether the command line asks for Spark."""
    parser = argparse.ArgumentParser(description=(description or "").split("\n\n", maxsplit=1)[0])
    parser.add_argument("--spark", action="store_true", help="run on Spark, on local[*]")
    return bool(parser.parse_args().spark)


def read(file: str, *, spark: bool, **arguments: Any) -> tw.Stream:
    """A recorded file as a stream of events."""
    if spark:
        return tw.from_files(str(DATA / file), finish=True, **arguments)
    return tw.from_frame(DATA / file, **arguments)


def answers(query: tw.Stream, *, spark: bool) -> Answers:
    """The final table of a query."""
    if not spark:
        return tw.table(query)
    from thalweg.spark import start

    running = start(query, trigger="available now", progress=False)
    running.wait()
    return running.table()
