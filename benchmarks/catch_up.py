"""A replica that is ten minutes behind: how long it takes to catch up, with feedback and without.

Ten minutes of files wait. The merge in front has answered them through other replicas: it has
promised the start of the earliest window that is open at their end. Rows that end a window and a
hop before that are not wanted. Without feedback the replica works on every row.

    catch_up   seconds until all input is answered, in-process (processor time) and on Spark (wall)
    gain       without feedback / with it, medians of runs in turns
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import thalweg as tw
from thalweg import spark
from thalweg.cli.bench import Emit
from thalweg.cli.ha_replica import FileSource
from thalweg.plan.nodes import Source, find
from thalweg.shards.sources.event_files import skips_unwanted

SECOND = 1_000_000
FILES = 60
"""Of ten seconds each."""
SETTLED = FILES * 10 * SECOND - 70 * SECOND
"""Ten seconds of disorder and a window of a minute before the end."""


def run(emit: Emit, *, scale: float = 1.0, rounds: int = 3, on_spark: bool = True) -> None:
    """Measure both engines, with and without feedback in turns."""
    rows = max(int(20_000 * scale), 200)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        _write(place / "in", rows)
        settled = place / "settled.json"
        settled.write_text(json.dumps({"cti": SETTLED}), encoding="utf-8")
        engines = {"in-process": _in_process, **({"spark": _on_spark} if on_spark else {})}
        for engine, catch_up in engines.items():
            taken: dict[str, list[float]] = {"without": [], "with": []}
            for number in range(rounds):
                for name, seconds in taken.items():
                    told = settled if name == "with" else None
                    seconds.append(catch_up(place, told, f"{name}-{number}"))
            for name, seconds in taken.items():
                emit(
                    "catch_up",
                    median(seconds),
                    "s",
                    engine=engine,
                    feedback=name,
                    rows=rows * FILES,
                )
            gain = median(taken["without"]) / median(taken["with"])
            emit("gain", gain, "x", engine=engine, rows=rows * FILES)


def _write(folder: Path, rows: int) -> None:
    folder.mkdir()
    random = np.random.default_rng(3)
    for number in range(FILES):
        ts = (number * 10 * SECOND + np.sort(random.integers(0, 10 * SECOND, rows))).astype(
            np.int64
        )
        keys = random.integers(0, 1_000, rows)
        table = pa.table({"ts": ts, "k": keys, "v": random.integers(0, 100, rows)})
        pq.write_table(table, folder / f"{number:04d}.parquet")


def _query(place: Path) -> tw.Stream:
    events = spark.from_files(
        str(place / "in"),
        time="ts",
        disorder="10 s",
        late="drop",
        name="events",
        finish=True,
        files_per_batch=6,
    )
    return events.group_by("k").hopping("1 min", "10 s").aggregate(n=tw.count(), s=tw.sum_("v"))


def _in_process(place: Path, settled: Path | None, name: str) -> float:
    """The loop of a replica of `thalweg ha --in-process`, without its logs."""
    [node] = find(_query(place).node, Source)
    source = FileSource(node, place / name)
    engine = tw.Engine(_query(place))
    begin = time.process_time()
    source.log.look()
    for number in range(len(source.log.files)):
        if settled is not None:
            engine.skip_before(int(json.loads(settled.read_bytes())["cti"]))
        for batch in source.batch(number, engine.unwanted_before("events")):
            engine.push("events", batch)
    engine.finish()
    return time.process_time() - begin


def _on_spark(place: Path, settled: Path | None, name: str) -> float:
    query = _query(place)
    told = query if settled is None else skips_unwanted(query, settled)
    begin = time.perf_counter()
    running = spark.start(
        told,
        to="elements",
        path=str(place / f"log-{name}"),
        checkpoint=str(place / f"checkpoint-{name}"),
        trigger="available now",
        progress=False,
    )
    running.wait()
    return time.perf_counter() - begin
