"""Windows: many at once over one stream, slide by tuple, and what each kind keeps.

    rows_per_second     1 to 80 windows of different sizes over one stream, as one query, of sums in
                        micro-batches of a million rows, and of sums and of the largest value in
                        small ones, a second each, for more than twice the longest window; each
                        window costs a fixed time a batch, so that small batches feel it more.
                        `slowdown`: the rate with one over the rate with all
    seconds, growth     slide by tuple over a million tuples; growth: time for all / time for a
                        tenth / 10, 1 is linear in tuples and output
    peak_state, bound   the largest state of each kind in rows, and what it may be: the rows that
                        windows which are not settled need
    unit_cost           what the cost functions of `plan.strategies` rest on: nanoseconds for a
                        tuple or a pane

Processor time throughout, so that other work on the machine counts little.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
import pyarrow as pa

import thalweg as tw
from benchmarks._data import SECOND
from thalweg.cli.bench import Emit, Value
from thalweg.model.batch import Batch
from thalweg.model.progress import Progress
from thalweg.stream import WindowedStream

__all__ = ["run"]

RATE = 10_000
KEYS = 100


def _batches(count: int, size: int, *, rate: int = RATE, seed: int = 5) -> Iterator[Batch]:
    rng = np.random.default_rng(seed)
    for begin in range(0, count, size):
        rows = min(size, count - begin)
        ts = (begin + np.arange(rows)) * SECOND // rate
        payload = pa.RecordBatch.from_pydict(
            {"key": rng.integers(0, KEYS, rows), "value": rng.integers(0, 1_000, rows)}
        )
        yield Batch(payload, ts, ts + 1, progress=Progress(int(ts[-1]) + 1))


def _stream() -> tw.Stream:
    return tw.source("s", {"key": "int64", "value": "int64"}, insert_only=True)


def _play(
    query: tw.Stream, batches: list[Batch], *, consistency: str = "final"
) -> tuple[float, int, int]:
    """Processor seconds, rows that came out, and the largest state of anything but the source in
    rows."""
    engine = tw.Engine(query, consistency=consistency)
    largest = out = 0
    seconds = 0.0
    for batch in batches:
        begin = time.process_time()
        out += sum(map(len, engine.push("s", batch)))
        seconds += time.process_time() - begin
        largest = max(
            largest,
            sum(
                size.rows
                for name, size in engine.state_size().items()
                if not name.startswith("source")
            ),
        )
    return seconds, out, largest


def _several(count: int, of: str) -> tw.Stream:
    """So many windows of 1 s, 2 s, 3 s, ... over one stream."""
    stream = _stream() if of == "sums" else _stream().points()
    events = stream.group_by("key")
    sizes = [(1 + number) * SECOND for number in range(count)]
    calls = {"sums": tw.sum_("value"), "largest": tw.max_("value")}
    queries = [
        events.tumbling(size)
        .aggregate(n=tw.count(), answer=calls[of])
        .with_columns(window=str(size))
        for size in sizes
    ]
    return queries[0].union(*queries[1:]) if len(queries) > 1 else queries[0]


def run(emit: Emit, rows: int = 4_000_000, batch: int = 1_000_000, most: int = 80) -> None:
    _concurrent(emit, rows, batch, most)
    for of in ("sums", "largest"):
        _concurrent(emit, rows, rows // 200, most, of, rate=rows // 200)
    _slide_by_tuple(emit, min(rows, 1_000_000))
    _memory(emit, min(rows, 200_000))
    _unit_costs(emit, min(rows, 300_000))


def _concurrent(
    emit: Emit, rows: int, batch: int, most: int, of: str = "sums", rate: int = 10 * RATE
) -> None:
    batches = list(_batches(rows, batch, rate=rate))
    rates = {}
    for count in [number for number in (1, 2, 5, 10, 20, 40, 80) if number <= most]:
        query = _several(count, of)
        seconds = min(_play(query, batches)[0] for _ in range(3))
        rates[count] = rows / seconds
        asked: dict[str, Value] = {"windows": count, "of": of, "batch": batch}
        emit("rows_per_second", rates[count], "rows/s", **asked, rows=rows)
    emit("slowdown", rates[1] / rates[max(rates)], "x", windows=max(rates), of=of, batch=batch)


def _slide_by_tuple(emit: Emit, rows: int) -> None:
    kinds: dict[str, Callable[[tw.Stream], WindowedStream]] = {
        "every tuple": lambda s: s.slide_by_tuple("100 ms"),
        "every 5th by arrival": lambda s: s.slide_by_tuple("100 ms", every=5, order=tw.rows()),
        "every 5th by time": lambda s: s.slide_by_tuple("100 ms", every=5, order=tw.rank("ts")),
    }
    for (name, windows), strategy in product(kinds.items(), ("rows", "bins")):
        query = windows(_stream()).using(strategy).aggregate(most=tw.max_("value"), n=tw.count())
        few = list(_batches(rows // 10, 20_000))
        many = list(_batches(rows, 20_000))
        short = min(_play(query, few)[0] for _ in range(3))
        long, out, largest = _play(query, many)
        asked: dict[str, Value] = {"query": f"slide by tuple, {name}", "strategy": strategy}
        emit("seconds", long, "s", **asked, rows=rows, answers=out)
        emit("growth", long / short / 10, "x", **asked, rows=rows)
        emit(
            "peak_state",
            largest,
            "rows",
            **asked,
            bound=(1 if strategy == "rows" else 2) * (RATE // 10 + 20_000),
        )


def _memory(emit: Emit, rows: int) -> None:
    stream = _stream()
    second = RATE
    kinds: dict[str, tuple[tw.Stream, int]] = {
        "sliding, differential": (
            stream.group_by("key").sliding("10 s", "1 s").aggregate(n=tw.count()),
            KEYS * (10 + 2) * 2,
        ),
        "sliding, panes": (
            stream.group_by("key").sliding("10 s", "1 s").aggregate(n=tw.max_("value")),
            KEYS * (10 + 2),
        ),
        "sliding, exact percentile": (
            stream.sliding("2 s", "1 s").aggregate(n=tw.percentile("value", 0.5)),
            3 * second,
        ),
        "over rows": (
            stream.sliding(1_000, 10, over=tw.rows()).aggregate(n=tw.max_("value")),
            1_000 + 20,
        ),
        "over rows, partitioned": (
            stream.sliding(100, 10, over=tw.rows(), partition_by="key").aggregate(
                n=tw.max_("value")
            ),
            KEYS * 112,
        ),
        "over rank": (
            stream.sliding(1_000, 10, over=tw.rank("ts")).aggregate(n=tw.max_("value")),
            1_000 + 20,
        ),
        "landmark": (
            stream.group_by("key").landmark("1 s").aggregate(n=tw.max_("value")),
            KEYS * 3,
        ),
        "slide by tuple": (stream.slide_by_tuple("1 s").aggregate(n=tw.max_("value")), second + 1),
    }
    batches = list(_batches(rows, 20_000))
    for name, (query, bound) in kinds.items():
        _, _, largest = _play(query, batches)
        emit("peak_state", largest, "rows", query=name, bound=bound)


def _unit_costs(emit: Emit, rows: int) -> None:
    """One tuple into a pane and into a window, one pane into a window: from runs that differ in
    just that."""
    batches = list(_batches(rows, 100_000))
    stream = _stream()

    def seconds(strategy: str, size: int, slide: int) -> float:
        query = stream.sliding(size, slide).using(strategy).aggregate(most=tw.max_("value"))
        return min(_play(query, batches)[0] for _ in range(3))

    bare = min(_play(stream, batches)[0] for _ in range(3))
    pane = SECOND // 10
    one, ten = seconds("wid", pane, pane), seconds("wid", 10 * pane, pane)
    panes = seconds("panes", 10 * pane, pane)
    windows = rows / RATE * 10
    emit("unit_cost", (ten - one) / (9 * rows) * 1e9, "ns", of="tuple in window")
    emit("unit_cost", (seconds("panes", pane, pane) - bare) / rows * 1e9, "ns", of="tuple in pane")
    emit(
        "unit_cost",
        max(panes - seconds("panes", pane, pane), 0.0) / (9 * windows) * 1e9,
        "ns",
        of="pane in window",
    )
