"""Two-level aggregation at window ends: plain flush and in-order flush surge, slow and lazy flush
do not.

Q8-1 counts packets by source and destination every minute. The low level has a table of half, once
or twice the number of groups. Where the thesis looked for the highest rate without loss, we look at
the micro-batches: `surge` is the longest over the median, `rate` what the longest one allows: its
rows over its processor time. Every micro-batch is run several times and its fastest run counts.

Changed: it times the kernel of the low level and the packing of what leaves it, neither a whole
engine nor Spark, and no packets are lost here: the thesis measured loss on a live link.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa

import thalweg as tw
from benchmarks.baselines.iop_flush import InOrderTable
from benchmarks.repro import Line, draw_series, point
from benchmarks.repro.streams import SECOND
from thalweg.cli.bench import Value
from thalweg.model.batch import Batch
from thalweg.model.progress import Progress
from thalweg.operators.window.grid.pane_table import TablePanesKernel
from thalweg.plan.nodes.panes import Flush, Panes

TITLE = "Low-level count at window ends: the longest micro-batch"
GROUPS = (66_000, 130_000, 260_000, 520_000)
TABLES = {"1/2": 0.5, "1": 1.0, "2": 2.0}
WINDOW, WINDOWS, BATCHES = 60 * SECOND, 4, 20
ROUNDS = 5


def packets(groups: int) -> list[Batch]:
    """Twenty micro-batches a minute, two packets a minute for each group on average."""
    rng = np.random.default_rng(3)
    rows = groups * 2 // BATCHES
    made = []
    for number in range(WINDOWS * BATCHES):
        begin = number * WINDOW // BATCHES
        ts = np.sort(rng.integers(begin, begin + WINDOW // BATCHES, rows))
        group = rng.integers(0, groups, rows)
        payload = pa.RecordBatch.from_pydict(
            {"source": group % 1_000, "destination": group // 1_000}
        )
        made.append(Batch(payload, ts, ts + 1, progress=Progress(begin + WINDOW // BATCHES)))
    return made


def _panes(slots: int, flush: Flush) -> Panes:
    stream = tw.source("packets", {"source": "int64", "destination": "int64"}, insert_only=True)
    windows = (
        stream.group_by("source", "destination")
        .tumbling(WINDOW)
        .two_level(slots, flush=flush, every=160, late=2)
    )
    node = windows.aggregate(n=tw.count()).node.inputs[0]
    assert isinstance(node, Panes)
    return node


def _times(kernel: type[TablePanesKernel], node: Panes, batches: list[Batch]) -> list[float]:
    """Of each micro-batch the fastest of its runs."""
    best = [float("inf")] * len(batches)
    for _ in range(ROUNDS):
        table = kernel(node)
        gc.collect()
        gc.disable()
        for number, batch in enumerate(batches):
            begin = time.process_time()
            _packed(table.process(0, batch))
            best[number] = min(best[number], time.process_time() - begin)
        gc.enable()
    return best[BATCHES // 2 :]  # the first groups are new to everybody


def _packed(batch: Batch) -> pa.Buffer:
    """What leaves the low level travels to the high level."""
    sink = pa.BufferOutputStream()
    table = batch.to_table()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def series(scale: float) -> Iterator[Line]:
    kinds: dict[str, Flush] = {
        "lazy flush": "lazy",
        "slow flush": "slow",
        "plain flush": "at end",
        "in order": "slow",
    }
    for groups in GROUPS:
        many = max(int(groups * scale), 2_000)
        batches = packets(many)
        for label, share in TABLES.items():
            for name, flush in kinds.items():
                kernel = InOrderTable if name == "in order" else TablePanesKernel
                times = _times(kernel, _panes(int(many * share), flush), batches)
                facts: dict[str, Value] = {"groups": many, "table": label, "rows": len(batches[0])}
                series_name = f"{name}, table {label}"
                yield point(
                    "8-7", series_name, groups, "surge", max(times) / median(times), "x", **facts
                )
                yield point(
                    "8-7",
                    series_name,
                    groups,
                    "rate",
                    len(batches[0]) / max(times),
                    "rows/s",
                    **facts,
                )


def draw(lines: Iterable[Line], path: Path) -> None:
    draw_series(lines, path, title=TITLE, x="groups", log_x=True)
