"""Update queues: speed of enqueue and dequeue, and staleness at ten times what can be served.

Speed is measured in processor time of one core. Staleness comes from virtual time: micro-batches of
a hundredth of the keys are served one after the other, each row at a cost of one, while ten times
as many updates arrive. It is given as a share of a round, the time to serve every key once, over
the last third of the run; p99 over keys and moments. Beside the schedules: an append queue, and an
append queue behind random shedding. `overload_on_spark` measures it on Spark, in real time.
"""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.baselines.naive_memory import NaiveMemory
from thalweg.cli.bench import Emit, Value
from thalweg.freshness._arrays import Floats, Ints
from thalweg.freshness.durable_queue import DurableQueue
from thalweg.freshness.key_queue import KeyQueue
from thalweg.freshness.newest_windows import NewestWindows
from thalweg.freshness.pages import PagedMemory, PagePool
from thalweg.freshness.rates import CostMonitor
from thalweg.freshness.schedules import SCHEDULES, make_schedule
from thalweg.freshness.simulation import zipf_shares
from thalweg.freshness.update_queue import PAGE_LOCATIONS, UpdateQueue
from thalweg.freshness.window_marks import UpdateWindow

BATCH = 10_000
LOAD = 10
KEPT = 0.95


def run(
    emit: Emit,
    *,
    keys: int = 1_000_000,
    stale_keys: int = 100_000,
    rounds: int = 3,
    spark_seconds: float = 70.0,
    spark_cost: float = 0.00005,
    zipf: float = -1.0,
    in_process: bool = True,
) -> None:
    """`spark_seconds` is how long each way runs on Spark, 0 for not at all; `spark_cost` what a row
    takes there, in seconds; `zipf` the one skew of keys there, both unless told. Without
    `in_process` only that is measured."""
    if in_process:
        _measure_in_process(emit, keys, stale_keys, rounds)
    if spark_seconds:
        from benchmarks.overload_on_spark import measure_ways

        skews = (0.0, 0.9) if zipf < 0 else (zipf,)
        measure_ways(
            emit, keys=stale_keys, load=LOAD, cost=spark_cost, seconds=spark_seconds, skews=skews
        )


def _measure_in_process(emit: Emit, keys: int, stale_keys: int, rounds: int) -> None:
    for text in (False, True):
        for name in SCHEDULES if not text else ("gain",):
            _measure_speed(emit, name, keys, text=text)
    for rule in ("lazy", "eager", "auto"):
        _measure_windows(emit, rule, min(keys, 20_000))
    _measure_log(emit, min(keys, 100_000))
    for skew in (0.0, 0.9):
        _measure_staleness(emit, stale_keys, skew, rounds)


# ---------------------------------------------------------------------------------------- speed


def _measure_speed(emit: Emit, schedule: str, keys: int, *, text: bool) -> None:
    kind = "text" if text else "integers"
    schema = pa.schema({"key": pa.string() if text else pa.int64(), "value": pa.float64()})
    queue = UpdateQueue(schema, key="key", schedule=schedule, capacity=2**31, text_bytes=16)
    random = np.random.default_rng(0)
    names = np.array([f"key{number:08d}" for number in range(keys)]) if text else None

    def rows(cells: Ints) -> pa.RecordBatch:
        column = pa.array(cells * 7_919) if names is None else pa.array(names[cells])
        return pa.record_batch([column, pa.array(random.random(len(cells)))], schema=schema)

    clock = 0
    for begin in range(0, keys, BATCH):
        clock += 1
        queue.enqueue(rows(np.arange(begin, min(begin + BATCH, keys))), now=clock)
    batches = [rows(random.integers(0, keys, BATCH)) for _ in range(100)]
    for batch in batches[:20]:
        queue.dequeue(BATCH, now=clock)
        clock += 1
        queue.enqueue(batch, now=clock)
    gc.collect()
    begin_ns = time.process_time_ns()
    for batch in batches:
        clock += 1
        queue.enqueue(batch, now=clock)
    seconds = (time.process_time_ns() - begin_ns) / 1e9
    params: dict[str, Value] = {"schedule": schedule, "keys": keys, "kind": kind}
    emit("enqueue", len(batches) * BATCH / seconds, "updates/s", **params)
    if text:
        return
    emit("waiting", queue.keys.waiting(), "keys", **params)
    for name, took in (
        ("dequeue decision", _dequeue_times(queue, clock)),
        ("reading the clock", _clock_times()),  # in every decision's figure
    ):
        emit(f"{name} p50", float(np.percentile(took, 50)) / 1e3, "us", **params)
        emit(f"{name} p99", float(np.percentile(took, 99)) / 1e3, "us", **params)
    _emit_bytes(emit, queue, keys, clock, params)


def _emit_bytes(
    emit: Emit, queue: UpdateQueue, keys: int, clock: int, params: dict[str, Value]
) -> None:
    """With all keys waiting and with a tenth of them. The naive manager keeps the locations of all
    keys it has seen: beside ours, as many pages as they take when every key waits."""
    queue.enqueue(_every_key(keys, queue.schema), now=clock + 10**6)
    naive = NaiveMemory(keys)
    naive.arrive(np.arange(keys))
    value = queue.page_bytes / PAGE_LOCATIONS
    for share, waiting in (("all", 1.0), ("a tenth", 0.1)):
        queue.dequeue(queue.keys.waiting() - int(keys * waiting), now=clock + 10**6)
        ours = queue.nbytes / keys
        held = naive.held * value + queue.nbytes - queue.keys.memory.pages * queue.page_bytes
        emit(f"bytes a key, {share} waiting", ours, "B", **params)
        emit(f"bytes a key, {share} waiting, naive", held / keys, "B", **params)


def _every_key(keys: int, schema: pa.Schema) -> pa.RecordBatch:
    return pa.record_batch(
        [pa.array(np.arange(keys) * 7_919), pa.array(np.zeros(keys))], schema=schema
    )


def _dequeue_times(queue: UpdateQueue, clock: int, count: int = 20_000) -> Ints:
    """Nanoseconds of this thread for choosing a key and taking it out."""
    keys, tick = queue.keys, time.thread_time_ns
    took = np.empty(count, np.int64)
    for number in range(count):
        begin = tick()
        keys.take_one(clock + number)
        took[number] = tick() - begin
    return took


def _clock_times(count: int = 20_000) -> Ints:
    tick = time.thread_time_ns
    took = np.empty(count, np.int64)
    for number in range(count):
        begin = tick()
        took[number] = tick() - begin
    return took


def _measure_windows(emit: Emit, rule: str, keys: int) -> None:
    """Rows of windows: eight rows a window, half of them shared with the next."""
    schema = pa.schema({"key": pa.int64(), "value": pa.float64()})
    window = UpdateWindow(8, 4)
    queue = NewestWindows(
        schema, ("key",), window, rule, make_schedule("gain"), capacity=2**30, text_bytes=16
    )
    random = np.random.default_rng(0)
    times = np.zeros(keys, np.int64)
    took = {"windows: enqueue": 0, "windows: serve": 0}
    rows = 60
    for number in range(rows):
        cells = random.permutation(keys)[:BATCH]
        times[cells] += 1
        batch = pa.record_batch([pa.array(cells), pa.array(random.random(BATCH))], schema=schema)
        begin = time.process_time_ns()
        queue.enqueue(batch, times[cells], now=number)
        middle = time.process_time_ns()
        queue.deliver(queue.serve(BATCH // 10, now=number), now=number)
        if number >= rows // 2:
            took["windows: enqueue"] += middle - begin
            took["windows: serve"] += time.process_time_ns() - middle
    for name, spent in took.items():
        count = rows // 2 * (BATCH if name.endswith("enqueue") else BATCH // 10)
        emit(name, count / spent * 1e9, "rows/s", rule=rule, keys=keys)


def _measure_log(emit: Emit, keys: int) -> None:
    """With the log on disk, made durable after every ten batches; waiting for the disk counts, so
    the clock is that of the wall."""
    schema = pa.schema({"key": pa.int64(), "value": pa.float64()})
    random = np.random.default_rng(0)
    batches = [
        pa.record_batch(
            [pa.array(random.integers(0, keys, BATCH)), pa.array(random.random(BATCH))],
            schema=schema,
        )
        for _ in range(100)
    ]
    with tempfile.TemporaryDirectory() as folder:
        queue = DurableQueue(Path(folder), schema, "key")
        queue.enqueue(batches[0], now=0)
        queue.sync()
        begin, worked = time.perf_counter(), time.process_time()
        for number, batch in enumerate(batches):
            queue.enqueue(batch, now=number)
            if number % 10 == 9:
                queue.sync()
        seconds, worked = time.perf_counter() - begin, time.process_time() - worked
        queue.close()
    emit("enqueue with log", len(batches) * BATCH / seconds, "updates/s", keys=keys)
    emit("enqueue with log, processor time", len(batches) * BATCH / worked, "updates/s", keys=keys)


# ------------------------------------------------------------------------------------ staleness


def _measure_staleness(emit: Emit, keys: int, skew: float, rounds: int) -> None:
    served = max(1, keys // 100)
    steps = 100 * rounds
    random = np.random.default_rng(1)
    shares = zipf_shares(keys, skew)
    arriving = LOAD * served
    rows = np.searchsorted(np.cumsum(shares), random.random(steps * arriving)).clip(max=keys - 1)
    for name in SCHEDULES:
        samples = _serve(name, rows, keys, served, steps)
        _emit_stale(emit, name, samples, keys, skew)
    for name, keep in (("append", 1.0), ("random shedding", KEPT / LOAD)):
        samples = _append(rows, keys, served, steps, keep, random)
        _emit_stale(emit, name, samples, keys, skew)


def _emit_stale(emit: Emit, name: str, samples: Iterator[Floats], keys: int, skew: float) -> None:
    every = np.concatenate(list(samples)) / keys
    params: dict[str, Value] = {"schedule": name, "keys": keys, "zipf": skew, "load": LOAD}
    emit("staleness average", float(every.mean()), "rounds", **params)
    emit("staleness p99", float(np.percentile(every, 99)), "rounds", **params)


def _is_sampled(step: int, steps: int) -> bool:
    return step >= 2 * steps // 3 and step % 5 == 0


def _serve(name: str, rows: Ints, keys: int, served: int, steps: int) -> Iterator[Floats]:
    queue = KeyQueue(
        PagedMemory(PagePool(-(-keys // 256), 256)),
        {"": make_schedule(name)},
        costs=CostMonitor(first=1.0),
    )
    queue.grow(keys)
    arriving = LOAD * served
    cells = np.empty(0, np.int64)
    for step in range(steps):
        now = step * served
        queue.deliver(cells, now)
        cells, _ = queue.take(served, now)
        times = now + np.arange(1, arriving + 1) // LOAD
        queue.arrive(rows[step * arriving : (step + 1) * arriving], times)
        if _is_sampled(step, steps):
            yield queue.application_staleness(now + served).astype(np.float64)


def _append(
    rows: Ints, keys: int, served: int, steps: int, keep: float, random: np.random.Generator
) -> Iterator[Floats]:
    """All updates, or those that are kept, in order. The oldest update that is not reflected is the
    one after the newest delivered of its key, shed or not."""
    arriving = LOAD * served
    order = np.argsort(rows, kind="stable")
    following = np.full(len(rows), len(rows))
    same = rows[order[:-1]] == rows[order[1:]]
    following[order[:-1][same]] = order[1:][same]
    pending = np.full(keys, len(rows))
    pending[rows[order[::-1]]] = order[::-1]
    line = np.flatnonzero(random.random(len(rows)) < keep)
    times = (np.arange(len(rows)) + 1) // LOAD
    done, in_process = 0, line[:0]
    for step in range(steps):
        pending[rows[in_process]] = following[in_process]
        arrived = int(np.searchsorted(line, step * arriving))
        in_process = line[done : min(done + served, arrived)]
        done += len(in_process)
        if _is_sampled(step, steps):
            now, seen = (step + 1) * served, (step + 1) * arriving
            waits = pending < seen
            yield np.where(waits, now - times[np.minimum(pending, len(rows) - 1)], 0).astype(
                np.float64
            )
