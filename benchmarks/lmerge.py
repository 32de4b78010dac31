"""LMerge: throughput, bytes held and adjusts of every level and baseline.

Output and input elements a second of processor time, bytes held, adjusts: 2 to 10 inputs, payloads
of 16 and 1,000 bytes, batches of 1, 100 and 10,000, in order, in-process. A merge that cannot take
the stream (R0 to R2 need order) is given one it can.

`gain` compares R3+ with the best form of sorting and dropping duplicates that does the same work:
it takes adjusts and answers as rows come. Two streams, each input with a disorder of its own: the
document's (`disordered`, 10,000 live rows) and counts that are revised (`revised`, a few dozen live
rows, where sorting all of them anew costs little).

`gain in step` compares R3+ with the form of sorting that has least to do (`sort and drop`): no
adjusts, no input fails, and a row goes out when the slowest input has promised. The inputs are
equal copies that send in turn, so that both give the same table at the same time; `waited` is how
long rows wait, in seconds of the data, when each input is a batch behind the one before. Every line
says which inputs its merge takes (`takes`) and when it answers (`answers`).

With `engine="spark"` the logs of replicas are merged by one query (`spark.merge_logs`) in a session
that has run one before; seconds are those of the clock from its start to its end, which for a few
rows is what starting and ending a query takes. The baselines are not operators of a plan, and do
not run there.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import get_args

import pyarrow as pa

from benchmarks.repro.merge_streams import (
    DELIVERS,
    MERGES,
    SCHEMA,
    forms,
    make_merge,
    play,
    waited,
)
from benchmarks.repro.revised_counts import COUNTS, revised_counts
from thalweg import spark
from thalweg.cli.bench import Emit
from thalweg.io.element_log import ElementLog
from thalweg.merging import MergeRegistry
from thalweg.model.batch import Batch
from thalweg.plan.merging import Level

CASES = [(1, 400), (100, 20_000), (10_000, 100_000)]
"""Rows in a batch, and rows of the stream."""

_ROUNDS = 5

ON_SPARK: list[tuple[Level, int, int, int, int]] = [
    *((level, 4, 16, 10_000, 400_000) for level in get_args(Level)),
    ("R3", 2, 16, 10_000, 400_000),
    ("R3", 10, 16, 10_000, 200_000),
    ("R3", 4, 1_000, 10_000, 40_000),
    ("R3", 4, 16, 100, 8_000),
    ("R3", 4, 16, 1, 80),
]
"""Level, inputs, bytes of a payload, rows in a batch, rows of the stream."""


def run(emit: Emit, *, scale: float = 1.0, on_spark: bool = True) -> None:
    """Measure every merge in turn on the same stream."""
    _against_sorting(emit, scale)
    _in_step(emit, scale)
    if on_spark:
        _merged_on_spark(emit, scale)
    for bytes_ in (16, 1_000):
        for batch, full in CASES:
            count = max(int(full * scale * (1.0 if bytes_ == 16 else 0.2)), 2 * batch)
            for inputs in (2, 4, 10):
                streams = forms(count, inputs, bytes_=bytes_, stable=1 / batch, live=10_000)
                for name in MERGES:
                    result = play(make_merge(name, SCHEMA, inputs), streams)
                    params = {
                        "merge": name,
                        "inputs": inputs,
                        "payload": bytes_,
                        "batch": batch,
                        "rows": count,
                        **_delivers(name),
                    }
                    emit("input", result.input_rate, "elements/s", **params)
                    emit("output", result.output_rate, "elements/s", **params)
                    emit("held", result.most_bytes, "B", **params)
                    emit("adjusts", result.adjusts, "elements", **params)


def _against_sorting(emit: Emit, scale: float) -> None:
    inputs, count = 10, max(int(20_000 * scale), 1_000)
    revised = [revised_counts(count, 0.2, form=form) for form in range(inputs)]
    cases: list[tuple[str, int, pa.Schema, list[list[Batch]]]] = [
        ("revised", 100, COUNTS.node.schema, [_in_batches(stream, 100) for stream in revised])
    ]
    for batch, rows in ((100, 30_000), (1_000, 50_000), (10_000, 100_000)):
        size = max(int(rows * scale), 2 * batch)
        options = {"bytes_": 16, "disorder": 0.2, "stable": 1 / batch, "live": 10_000}
        streams = forms(size, inputs, same=False, **options)  # type: ignore[arg-type]
        cases.append(("disordered", batch, SCHEMA, streams))
    for stream, batch, schema, streams in cases:
        rates = {}
        for name in ("R3+", "R4", "sort and drop, as it goes"):
            result = play(make_merge(name, schema, inputs), streams)
            params = {"merge": name, "inputs": inputs, "stream": stream, "batch": batch}
            params |= _delivers(name)
            emit("input", result.input_rate, "elements/s", **params)
            emit("adjusts", result.adjusts, "elements", **params)
            rates[name] = result.input_rate
        gain = rates["R3+"] / rates["sort and drop, as it goes"]
        emit("gain", gain, "x", inputs=inputs, stream=stream, batch=batch)


def _in_step(emit: Emit, scale: float) -> None:
    inputs, batch, names = 10, 10_000, ("R3+", "sort and drop")
    for bytes_, rows in ((16, 100_000), (1_000, 40_000)):
        count = max(int(rows * scale), 2 * batch)
        streams = forms(count, inputs, bytes_=bytes_, stable=1 / batch, live=10_000)
        rates = dict.fromkeys(names, 0.0)
        for _ in range(_ROUNDS):  # in turns, and the best of each: other work only ever slows down
            for name in names:
                run = play(make_merge(name, SCHEMA, inputs), streams)
                rates[name] = max(rates[name], run.input_rate)
        where: dict[str, int | str] = {
            "inputs": inputs,
            "stream": "in step",
            "payload": bytes_,
            "batch": batch,
        }
        for name in names:
            params = {"merge": name} | where | _delivers(name)
            emit("input", rates[name], "elements/s", **params)
            wait = waited(make_merge(name, SCHEMA, inputs), streams, lag=1)
            emit("waited", wait, "s of data", **params)
        emit("gain in step", rates["R3+"] / rates["sort and drop"], "x", **where)


def _delivers(name: str) -> dict[str, int | str]:
    takes, answers = DELIVERS[name]
    return {"takes": takes, "answers": answers}


def _in_batches(stream: list[Batch], size: int) -> list[Batch]:
    """The same elements and promises in larger batches."""
    groups = [stream[at : at + size] for at in range(0, len(stream), size)]
    return [Batch.concat(group, group[0].schema) for group in groups]


def _merged_on_spark(emit: Emit, scale: float) -> None:
    _seconds_on_spark("R3", forms(1_000, 2, bytes_=16, stable=0.01))  # the session starts
    for level, inputs, bytes_, batch, full in ON_SPARK:
        count = max(int(full * scale), 2 * batch)
        streams = forms(count, inputs, bytes_=bytes_, stable=1 / batch, live=10_000)
        seconds = _seconds_on_spark(level, streams)
        params = {
            "merge": "R3+" if level == "R3" else level,
            "inputs": inputs,
            "payload": bytes_,
            "batch": batch,
            "rows": count,
            "engine": "spark",
        }
        emit("input", count * inputs / seconds, "elements/s", **params)


def _seconds_on_spark(level: Level, streams: list[list[Batch]]) -> float:
    """From the start of a query that merges logs which are there to its end."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        registry = MergeRegistry(place / "registry")
        for at, stream in enumerate(streams):
            log = ElementLog(place / f"log-{at}", run=str(at))
            for batch in stream:
                log.append(batch)
            registry.attach(str(at), place / f"log-{at}")
        merged = spark.merge_logs(str(place / "registry"), columns=SCHEMA, level=level)
        begin = time.perf_counter()
        running = spark.start(
            merged,
            to="elements",
            path=str(place / "out"),
            checkpoint=str(place / "checkpoint"),
            trigger="available now",
            progress=False,
        )
        running.wait()
        return time.perf_counter() - begin
