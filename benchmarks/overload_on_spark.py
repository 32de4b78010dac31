"""Staleness on Spark at ten times what can be served: update queues, and what one would do without.

A sender gives frames of rows of many keys, ten a second. Whoever gets the answers takes `cost`
seconds for each row, the same for all ways (the sink waits, as for a call to somewhere else), so 1
/ cost rows a second can be served at most. The ways:

    thalweg          a receiver conflates; each micro-batch gets what it can digest in time
    newest per key   Spark reads all rows and takes the newest of each key in each micro-batch
    append           Spark reads all rows in order, as many files at a time as two seconds can serve
    random shedding  the sender leaves out rows at random, as many as cannot be served

Staleness is that of the definition, for all ways from the same two records: when each row was sent,
and which rows the sink had when it returned. It is sampled every second; `in the middle` is over
ten seconds after the half of the time, `at the end` over the last ten. Time begins after a few
micro-batches, so that nobody pays for the start, and is the same for all ways, as is the rate at
which rows are offered (both are reported). Each way runs in a process of its own.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks._own_process import call
from benchmarks._spark_peer import peer_session
from thalweg import spark as ts
from thalweg.cli.bench import Emit, Value
from thalweg.freshness._arrays import Floats, Ints
from thalweg.freshness.receiver_client import ReceiverClient
from thalweg.freshness.receiver_process import stop_receiver
from thalweg.freshness.simulation import zipf_shares

__all__ = ["Record", "measure", "measure_ways", "staleness_at"]

Way = Literal["thalweg", "newest per key", "append", "random shedding"]
WAYS: tuple[Way, ...] = ("thalweg", "newest per key", "append", "random shedding")
FRAMES = 10
"""Frames a second."""
KEPT = 0.95
"""Of what can be served, random shedding keeps this share."""
FRESHNESS = "4 s"
_REPORTS = "spark.sql.streaming.numRecentProgressUpdates"
_WARM_UP = 5
COLUMNS = pa.schema({"key": pa.int64(), "number": pa.int64(), "at": pa.int64()})


def measure_ways(
    emit: Emit,
    *,
    keys: int,
    load: float,
    cost: float,
    seconds: float,
    skews: Sequence[float] = (0.0, 0.9),
) -> None:
    """Each way under overload, and ours without."""
    for skew in skews:
        found: dict[Way, dict[str, float]] = {}
        runs: list[tuple[Way, float]] = [*((way, load) for way in WAYS), ("thalweg", 1.0)]
        for way, its_load in runs:
            told = call(
                "benchmarks.overload_on_spark:measure",
                way=way,
                keys=keys,
                skew=skew,
                rate=its_load / cost,
                cost=cost,
                seconds=seconds,
            )
            params: dict[str, Value] = {"way": way, "keys": keys, "zipf": skew, "load": its_load}
            for metric, value in told.items():
                emit(f"on Spark: {metric}", value, UNITS[metric], **params)
            if its_load == load:
                found[way] = told
            else:
                ratio = found[way]["micro-batch"] / told["micro-batch"]
                emit("on Spark: micro-batch over that at load 1", ratio, "x", keys=keys, zipf=skew)
        for way, figures in found.items():
            grown = figures["p99 at the end"] / max(figures["p99 in the middle"], 1e-9)
            emit("on Spark: p99 at the end over the middle", grown, "x", way=way, zipf=skew)
        ours = found["thalweg"]
        for way in WAYS[1:]:
            facts: dict[str, Value] = {"way": way, "keys": keys, "zipf": skew, "load": load}
            for metric in ("p99 at the end", "average", "rows that reached Spark"):
                emit(
                    f"on Spark: {metric}, theirs over ours",
                    found[way][metric] / ours[metric],
                    "x",
                    **facts,
                )


UNITS = {
    "p99 in the middle": "s",
    "p99 at the end": "s",
    "average": "s",
    "rows that reached Spark": "rows",
    "rows sent": "rows",
    "offered": "rows/s",
    "ran": "s",
    "rows served": "rows",
    "micro-batch": "s",
}


@dataclass
class Record:
    """What was sent and what was served, with times."""

    sent_at: list[float] = field(default_factory=list)
    sent: list[Ints] = field(default_factory=list)
    """The keys of each frame; rows are numbered through."""
    served_at: list[float] = field(default_factory=list)
    served: list[Ints] = field(default_factory=list)
    """The numbers of the rows that the sink had."""


def measure(
    way: Way, keys: int, skew: float, rate: float, cost: float, seconds: float
) -> dict[str, float]:
    """One way, in this process."""
    place = Path(tempfile.mkdtemp(prefix="thalweg-bench-"))
    record = Record()
    random = np.random.default_rng(0)
    edges = np.cumsum(zipf_shares(keys, skew))
    frame_rows = max(1, round(rate / FRAMES))
    keep = min(1.0, KEPT / (rate * cost)) if way == "random shedding" else 1.0

    def sink(answer: Any, _batch: int) -> None:
        if way == "newest per key":
            answer = (
                answer.groupBy("key")
                .agg({"number": "max"})
                .withColumnRenamed("max(number)", "number")
            )
        numbers = answer.select("number").toArrow().column("number").to_numpy()
        time.sleep(len(numbers) * cost)
        record.served_at.append(time.monotonic())
        record.served.append(numbers)

    started = _begin(way, place, sink, rows_a_second=1 / cost, frame_rows=frame_rows)
    query = started.query
    number = 0

    def frame(rows: int) -> None:
        """A frame of random keys; all of its rows were sent, also those that shedding left out."""
        nonlocal number
        cells = np.searchsorted(edges, random.random(rows)).clip(max=keys - 1)
        numbers = np.arange(number, number + rows)
        number += rows
        kept = random.random(rows) < keep
        record.sent.append(cells)
        record.sent_at.append(time.monotonic())
        started.send(cells[kept], numbers[kept])

    try:
        frame(100)
        _wait(lambda: len(record.served) > 0, query)
        _warm_up(frame, record, query)
        begin = time.monotonic()
        sender = threading.Thread(
            target=_pace, args=(frame, frame_rows, begin, seconds), daemon=True
        )
        sender.start()
        sender.join()
        end = time.monotonic()  # a sender that could not keep up has run longer, which is reported
        reports = [entry for entry in query.recentProgress if entry.numInputRows]
        reached = started.reached() or sum(entry.numInputRows for entry in reports)
    finally:
        query.stop()
        started.stop()
        shutil.rmtree(place, ignore_errors=True)
    return {
        **_figures(record, keys, begin, end, reports),
        "rows that reached Spark": float(reached),
    }


def _warm_up(frame: Callable[[int], None], record: Record, query: Any) -> None:
    """A few micro-batches of some hundred rows."""
    for _ in range(_WARM_UP):
        before = len(record.served)
        frame(500)
        _wait(lambda seen=before: len(record.served) > seen, query)  # type: ignore[misc]


def _wait(done: Callable[[], bool], query: Any) -> None:
    limit = time.monotonic() + 300
    while not done():
        if not query.isActive or time.monotonic() > limit:
            raise RuntimeError(f"nothing was served: {query.exception()}")
        time.sleep(0.05)


def _pace(frame: Callable[[int], None], rows: int, begin: float, seconds: float) -> None:
    for number in range(int(seconds * FRAMES)):
        time.sleep(max(0.0, begin + number / FRAMES - time.monotonic()))
        frame(rows)


@dataclass(frozen=True)
class _Started:
    """A running query, how rows are sent to it, how what was started besides is ended, and the rows
    that have reached Spark, 0 if its own count is right."""

    query: Any
    send: Callable[[Ints, Ints], None]
    stop: Callable[[], object] = lambda: None
    reached: Callable[[], int] = lambda: 0


def _begin(
    way: Way,
    place: Path,
    sink: Callable[[Any, int], None],
    *,
    rows_a_second: float,
    frame_rows: int,
) -> _Started:
    checkpoint = str(place / "checkpoint")
    if way == "thalweg":
        folder = place / "queue"
        rows = ts.from_receiver(str(folder), COLUMNS, time="at", disorder=0, name="rows")
        query = rows.update_key("key", freshness=FRESHNESS).where("number >= 0")
        spark = ts.session(spark__driver__memory="2g")
        spark.conf.set(_REPORTS, 10_000)
        running = ts.start(query, to=sink, consistency="eager", checkpoint=checkpoint, spark=spark)
        clients: list[ReceiverClient] = []

        def client() -> ReceiverClient:
            if not clients:
                clients.append(ReceiverClient.of(folder))
            return clients[0]

        def offer(cells: Ints, numbers: Ints) -> None:
            client().offer(pa.record_batch([cells, numbers, numbers], schema=COLUMNS))

        return _Started(  # what Spark counts are packed chunks of rows
            running.query,
            offer,
            lambda: stop_receiver(folder),
            lambda: int(client().status()["taken"]),
        )
    inbox = place / "rows"
    inbox.mkdir()
    files = 0

    def write(cells: Ints, numbers: Ints) -> None:
        nonlocal files
        pq.write_table(pa.table([cells, numbers, numbers], schema=COLUMNS), place / "next")
        files += 1
        (place / "next").rename(inbox / f"{files:06}.parquet")

    peer = peer_session("default", "2g")
    peer.conf.set(_REPORTS, 10_000)
    reader = peer.readStream.schema("key long, number long, at long")
    if way == "append":
        reader = reader.option("maxFilesPerTrigger", max(1, round(2 * rows_a_second / frame_rows)))
    started = (
        reader.parquet(str(inbox))
        .writeStream.foreachBatch(sink)
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime="0 seconds")
        .start()
    )
    return _Started(started, write)


def _figures(
    record: Record, keys: int, begin: float, end: float, reports: list[Any]
) -> dict[str, float]:
    moments = np.arange(begin + 1, end, 1.0)
    stale = staleness_at(record, keys, moments)
    half = len(moments) // 2
    middle, last = stale[half : half + 10], stale[-10:]
    taken = [entry for entry in reports if entry.numInputRows]
    timed = taken[_WARM_UP + 1 :] or taken[-1:]
    sent = [rows for rows, at in zip(record.sent, record.sent_at, strict=True) if at >= begin]
    served = [
        len(rows) for rows, at in zip(record.served, record.served_at, strict=True) if at > begin
    ]
    return {
        "p99 in the middle": float(np.percentile(middle, 99)),
        "p99 at the end": float(np.percentile(last, 99)),
        "average": float(last.mean()),
        "rows sent": float(sum(len(frame) for frame in record.sent)),
        "offered": sum(map(len, sent)) / (end - begin),
        "ran": end - begin,
        "rows served": float(sum(served)),
        "micro-batch": float(np.median([entry.batchDuration for entry in timed])) / 1000,
    }


def staleness_at(record: Record, keys: int, moments: Floats) -> Floats:
    """Of each key at each moment: the age of its oldest row that neither it nor a younger one of
    its key was served."""
    cells = np.concatenate(record.sent)
    sent_at = np.repeat(record.sent_at, [len(frame) for frame in record.sent])
    order = np.argsort(cells, kind="stable")
    following = np.full(len(cells) + 1, len(cells))
    same = cells[order[:-1]] == cells[order[1:]]
    following[order[:-1][same]] = order[1:][same]
    pending = np.full(keys, len(cells))
    pending[cells[order[::-1]]] = order[::-1]
    ages = np.append(sent_at, np.inf)
    stale = np.empty((len(moments), keys))
    done = 0
    for at, moment in enumerate(moments):
        while done < len(record.served) and record.served_at[done] <= moment:
            rows = np.sort(record.served[done])
            following_rows = following[rows]
            owners = cells[rows]
            newer = following_rows > pending[owners]
            pending[owners[newer]] = following_rows[newer]
            done += 1
        stale[at] = np.maximum(moment - ages[pending], 0.0)
    return stale
