"""Memory, latency and execution time of WID, buffering and AdaptWID over skewed groups.

Q6-7 sums packet sizes by source over one second, one stream. Q6-8 counts packets by source over the
last ten seconds, every second, over the union of two main links (20,000 packets a second each, five
times what the thesis had) and a control link that is nearly empty and behind. In every ten seconds
small groups have one packet, medium ones 15 and large ones 300 on average; the small ones hold 1,
3, 5, 7 or 9 % of the packets, the medium ones 20 %. Memory is the largest state of the operator;
latency the processor time from a punctuation to its answers.

Changed: links are synthetic and denser, as said above; latency is processor time, not time by the
clock on the wall.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import mean, median

import numpy as np
import pyarrow as pa

import thalweg as tw
from benchmarks.repro import Line, draw_series, point
from benchmarks.repro.streams import SECOND, Numbers
from thalweg.cli.bench import Value
from thalweg.model.batch import Batch
from thalweg.model.progress import Progress

TITLE = "WID and AdaptWID over groups of skewed sizes"
SMALL = (1, 3, 5, 7, 9)
RATE, CONTROL_BEHIND = 40_000, SECOND // 2
ROUNDS = 3


def packets(seconds: int, small: int, seed: int = 1) -> tuple[Numbers, Numbers, Numbers]:
    """Times, sources and sizes, in the order of time."""
    rng = np.random.default_rng(seed)
    ts, source = [], []
    number = 0
    for begin in range(0, seconds, 10):
        count = RATE * min(10, seconds - begin)
        shares = {1: small / 100, 15: 0.2, 300: 0.8 - small / 100}
        ids = []
        for size, share in shares.items():
            groups = max(int(count * share / size), 1)
            ids.append(
                number + rng.integers(0, groups, int(count * share))
                if size > 1
                else number + np.arange(int(count * share))
            )
            number += groups if size > 1 else int(count * share)
        mine = rng.permutation(np.concatenate(ids))
        source.append(mine)
        ts.append(
            np.sort(rng.integers(begin * SECOND, min(begin + 10, seconds) * SECOND, len(mine)))
        )
    times, sources = np.concatenate(ts), np.concatenate(source)
    return times, sources, rng.integers(40, 1_500, len(times))


def batches(seconds: int, small: int, *, behind: int) -> list[Batch]:
    """A punctuation a second; with `behind`, one packet in a thousand is of the control link and
    comes so much later."""
    ts, source, size = packets(seconds, small)
    arrives = ts + np.where(np.random.default_rng(2).random(len(ts)) < 0.001, behind, 0)
    order = np.argsort(arrives, kind="stable")
    ts, arrives = ts[order], arrives[order]
    rows = pa.RecordBatch.from_pydict({"source": source[order], "size": size[order]})
    cuts = np.searchsorted(
        arrives, np.arange(SECOND, (seconds + 1) * SECOND, SECOND) + behind
    ).tolist()
    found = []
    for second, (begin, end) in enumerate(zip([0, *cuts], cuts, strict=False), 1):
        found.append(Batch(rows.slice(begin, end - begin), ts[begin:end], ts[begin:end] + 1))
        found.append(Batch.empty(rows.schema, Progress(second * SECOND)))
    return found


def _run(query: tw.Stream, fed: list[Batch]) -> tuple[float, float, float]:
    """Largest state in bytes, mean latency in seconds, seconds in all."""
    engine = tw.Engine(query, consistency="final")
    largest, waits = 0, []
    total = 0.0
    for batch in fed:
        begin = time.process_time()
        engine.push("packets", batch)
        took = time.process_time() - begin
        total += took
        if not len(batch):
            waits.append(took)
        largest = max(
            largest,
            next(
                size.bytes
                for name, size in engine.state_size().items()
                if name.startswith("window_aggregate")
            ),
        )
    return float(largest), mean(waits), total


def series(scale: float) -> Iterator[Line]:
    seconds = max(int(30 * scale), 12)
    stream = tw.source("packets", {"source": "int64", "size": "int64"}, insert_only=True)
    queries = {
        "Q6-7": (
            stream.group_by("source").sliding("1 s"),
            {"total": tw.sum_("size")},
            0,
            ("wid", "adaptive"),
        ),
        "Q6-8": (
            stream.group_by("source").sliding("10 s", "1 s"),
            {"n": tw.count()},
            CONTROL_BEHIND,
            ("wid", "adaptive", "lazy"),
        ),
    }
    for number, small in enumerate(SMALL, 1):
        for query, (windows, calls, behind, strategies) in queries.items():
            fed = batches(seconds, small, behind=behind)
            for strategy in strategies:
                way = "rows" if strategy == "lazy" else strategy
                asked = windows.using(way).aggregate(calls)
                runs = [_run(asked, fed) for _ in range(ROUNDS)]
                name = {"wid": "WID", "adaptive": "AdaptWID", "lazy": "buffering"}[strategy]
                facts: dict[str, Value] = {"dataset": f"DS{number}", "small_percent": small}
                yield point(
                    "6-19",
                    f"{query} {name}",
                    f"DS{number}",
                    "memory",
                    max(run[0] for run in runs),
                    "B",
                    **facts,
                )
                yield point(
                    "6-19",
                    f"{query} {name}",
                    f"DS{number}",
                    "latency",
                    median(run[1] for run in runs) * 1000,
                    "ms",
                    **facts,
                )
                yield point(
                    "6-19",
                    f"{query} {name}",
                    f"DS{number}",
                    "execution time",
                    median(run[2] for run in runs),
                    "s",
                    **facts,
                )


def draw(lines: Iterable[Line], path: Path) -> None:
    draw_series(lines, path, title=TITLE, x="data set")
