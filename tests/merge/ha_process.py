"""Processes of the high availability test. Each takes a line, works, and answers with a line:
`replica FOLDER NUMBER` runs the query and writes a log, `merge FOLDER` merges the logs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa

import thalweg as tw
from thalweg.io.element_log import ElementLog
from thalweg.io.whole_files import write_whole
from thalweg.merging.logged import LoggedMerge
from thalweg.model.batch import Batch
from thalweg.model.progress import Progress
from thalweg.model.time import INFINITY

EVENTS = tw.source("events", {"k": "string"})
QUERY = EVENTS.group_by("k").tumbling(100).aggregate(n=tw.count())
BATCHES, ROWS = 24, 40


def inputs() -> list[Batch]:
    """The input that every replica reads: disordered events with the strongest legal promises."""
    random = np.random.default_rng(3)
    start = np.cumsum(random.integers(0, 4, BATCHES * ROWS))
    order = np.argsort(start + random.integers(0, 60, len(start)), kind="stable")
    start = start[order]
    keys = [str(key) for key in random.integers(0, 6, len(start))]
    later = np.append(np.minimum.accumulate(start[::-1])[::-1], INFINITY)
    return [
        Batch(
            pa.RecordBatch.from_pydict({"k": keys[at : at + ROWS]}),
            start[at : at + ROWS],
            start[at : at + ROWS] + 1,
            progress=Progress(int(later[at + ROWS])),
        )
        for at in range(0, len(start), ROWS)
    ]


def answer(value: object) -> None:
    sys.stdout.write(f"{value}\n")
    sys.stdout.flush()


def replica(folder: Path, number: int) -> None:
    """Goes on from its own checkpoint. Replicas cut their input differently and so revise at other
    times."""
    size = number + 1
    log = ElementLog(folder / "log", run=f"replica {number}")
    checkpoint = folder / "checkpoint"
    engine, done = tw.Engine(QUERY), 0
    if checkpoint.exists():
        saved = checkpoint.read_bytes()
        done = int.from_bytes(saved[:8], "big")
        engine = tw.Engine.restore(QUERY, saved[8:])
    groups = [inputs()[at : at + size] for at in range(0, BATCHES, size)]
    for line in sys.stdin:
        for _ in range(int(line)):
            if done < len(groups):
                group = Batch.concat(groups[done], EVENTS.node.schema)
                log.write(done, Batch.concat(engine.push("events", group), QUERY.node.schema))
                done += 1
                if done % 3 == 0:
                    state = done.to_bytes(8, "big") + engine.snapshot()
                    write_whole(checkpoint, state)
        answer(done == len(groups))


def merge(folder: Path) -> None:
    merger = tw.Merger(QUERY.node.schema, groups=("k",))
    logged = LoggedMerge(folder, merger, snapshot_every=3)
    for line in sys.stdin:
        told = json.loads(line)
        known = logged.status().inputs
        attach = {
            name: (Path(path), since)
            for name, path, since in told.get("attach", [])
            if name not in known
        }
        gone = tuple(name for name in told.get("detach", []) if name in known)
        logged.step(attach=attach, detach=gone, most=2)
        answer(logged.status().cti)


if __name__ == "__main__":
    if sys.argv[1] == "replica":
        replica(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        merge(Path(sys.argv[2]))
