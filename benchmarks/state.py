"""How the time of a micro-batch follows state: the same input each time, ever more of it alive.

Every micro-batch brings the same number of rows, each for a (key, pane) pair of its own, into a
window that is long enough to keep them all. The time should follow what a micro-batch touches, not
what there is: `growth` is the time at the largest state over the time at the smallest.
`written_bytes` is what a micro-batch wrote to the state store.

Before that, in-process, every stateful kernel by itself (the cases of
`thalweg.testing.held_state`):

    kernel_batch     ten rows through the query and a snapshot of the kernel, with so many rows
                     held; processor time, the least median of three rounds
    kernel_growth    the time with the most rows held / with the fewest
    kernel_written   the share of the kernel's bytes that ten rows write, with the most rows held
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import thalweg as tw
from thalweg import spark as ts
from thalweg.cli.bench import Emit
from thalweg.shards.reports.query_figures import BatchFigures
from thalweg.spark.observed import observed_figures
from thalweg.testing.held_state import CASES, HeldState

SECOND = 1_000_000
HELD = (10_000, 100_000, 1_000_000)
CHECKPOINTS = (10_000, 100_000, 500_000, 1_000_000, 2_000_000, 5_000_000)


def run(
    emit: Emit,
    *,
    rows_per_batch: int = 1_000,
    keys: int = 1_000,
    largest: int = 5_000_000,
    around: int = 5,
    most_held: int = 1_000_000,
    on_spark: bool = True,
) -> None:
    """Grow the state in big steps without looking, and measure a few small micro-batches at each
    size. `most_held` limits the rows that each kernel holds in-process; 0: none is measured."""
    sizes = [size for size in HELD if size <= most_held]
    if sizes:
        for kernel, case in CASES.items():
            if case.holds_rows:
                _measure_kernel(emit, kernel, sizes)
    if on_spark:
        _measure_on_spark(emit, rows_per_batch, keys, largest, around)


def _measure_kernel(emit: Emit, kernel: str, sizes: list[int]) -> None:
    took = []
    for size in sizes:
        held = HeldState(kernel, size)
        took.append(_batch_seconds(held))
        emit("kernel_batch", 1e6 * took[-1], "us", kernel=kernel, held=held.rows())
        if size == sizes[-1]:
            held.written_share()
            held.push("a", 99)
            share = held.written_share()
            emit("kernel_written", share, "of bytes", kernel=kernel, held=held.rows())
    emit(
        "kernel_growth",
        took[-1] / took[0],
        "x",
        kernel=kernel,
        smallest=sizes[0],
        largest=sizes[-1],
    )


def _batch_seconds(held: HeldState, pushes: int = 11, rounds: int = 3) -> float:
    """Seconds of the processor for ten rows of the first source and a snapshot."""
    medians = []
    for turn in range(rounds):
        costs = []
        for push in range(pushes):
            begin = time.thread_time()
            held.push("a", turn * pushes + push)
            held.save()
            costs.append(time.thread_time() - begin)
        medians.append(median(costs))
    return min(medians)


def _measure_on_spark(
    emit: Emit, rows_per_batch: int, keys: int, largest: int, around: int
) -> None:
    spark = ts.session(spark__driver__memory="4g")
    folder = Path(tempfile.mkdtemp(prefix="thalweg-bench-"))
    try:
        (folder / "events").mkdir()
        sizes = [size for size in CHECKPOINTS if size <= largest]
        panes = largest // keys + 64 * around + 64
        marks = _write(folder / "events", sizes, rows_per_batch, keys, around)
        events = ts.from_files(
            str(folder / "events"),
            time="ts",
            disorder=0,
            late="drop",
            files_per_batch=1,
            name="events",
        )
        query = (
            events.group_by("key")
            .hopping(panes * SECOND, SECOND)
            .aggregate(n=tw.count(), total=tw.sum_("value"))
        )
        running = ts.start(
            query,
            to="noop",
            consistency="final",
            checkpoint=str(folder / "checkpoint"),
            trigger="available now",
            progress=False,
        )
        spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "1000")
        seconds: dict[int, float] = {}
        written: dict[int, int] = {}
        while True:
            ended = running.wait(0.5)
            for entry in running.query.recentProgress:
                seconds[entry.batchId] = entry.batchDuration / 1000
                written[entry.batchId] = (observed_figures(entry) or BatchFigures()).written
            if ended:
                break
        took = []
        for size, (first, last) in zip(sizes, marks, strict=True):
            took.append(median(seconds[batch] for batch in range(first, last)))
            emit("batch_seconds", took[-1], "s", live_entries=size, rows_per_batch=rows_per_batch)
            emit(
                "written_bytes",
                median(written[batch] for batch in range(first, last)),
                "B",
                live_entries=size,
                rows_per_batch=rows_per_batch,
            )
        emit("growth", took[-1] / took[0], "x", smallest=sizes[0], largest=sizes[-1])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _write(
    folder: Path, sizes: list[int], rows: int, keys: int, around: int
) -> list[tuple[int, int]]:
    """Files that fill the state up to each size, then small ones; which micro-batches are the small
    ones."""
    marks = []
    pane = number = alive = 0

    def file(panes: int) -> None:
        nonlocal pane, number, alive
        key = np.tile(np.arange(keys), panes)
        at = np.repeat(np.arange(pane, pane + panes), keys) * SECOND
        table = pa.table(
            {
                "ts": pa.array(at, pa.timestamp("us", "UTC")),
                "key": key,
                "value": np.ones(len(key), np.int64),
            }
        )
        pq.write_table(table, folder / f"{number:05}.parquet")
        pane, number, alive = pane + panes, number + 1, alive + panes * keys

    for _ in range(5):  # warm-up
        file(rows // keys)
    for size in sizes:
        while alive < size - around * rows:
            file(max(rows // keys, min(200, (size - around * rows - alive) // keys)))
        first = number
        for _ in range(around):
            file(rows // keys)
        marks.append((first, number))
    return marks
