"""Patterns: `recent` beside DuckDB's ASOF JOIN on recorded quotes, and what chronicle costs an
event.

    throughput   rows of both streams a second. The recording of `examples/data/quotes.parquet`
                 (each quote of one connection with the latest one of the same symbol that came
                 before it over another) is played `times` times, one after the other. DuckDB joins
                 the whole table at once; `recent` takes it in batches, in the order in which it was
                 received, and revises its answers
    equal_rows   1: both have the same rows
    chronicle    events of one key, cases and products by turns: events a second, rows that were
                 looked at an event, and how much more an event costs with ten times as many (1:
                 linear)

Processor time throughout, so that other work on the machine counts little.
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import thalweg as tw
from thalweg.cli.bench import Emit
from thalweg.model.batch import Batch
from thalweg.model.progress import Progress
from thalweg.operators.patterns.chronicle import ChronicleKernel
from thalweg.plan.nodes import Chronicle, walk

__all__ = ["joined_by_duckdb", "joined_by_recent", "run", "two_connections"]

RECORDING = Path(__file__).parent.parent / "examples" / "data" / "quotes.parquet"
OWN = 3
"""The connection whose quotes come second."""

ASOF = """
SELECT b.symbol, a.bid AS before, b.bid AS after, epoch_us(a.ts) AS at_first, epoch_us(b.ts) AS at
FROM b ASOF JOIN a ON a.symbol = b.symbol AND a.ts < b.ts
"""


def two_connections(times: int = 1) -> tuple[pa.Table, pa.Table]:
    """Quotes over the other connections and over one, each time and symbol once: a tie has no
    latest quote. The recording is repeated, each time later."""
    rows = pq.read_table(RECORDING)
    ticks = rows.column("ts").cast(pa.int64()).to_numpy()
    span = int(ticks.max() - ticks.min()) + 1
    parts: tuple[list[pa.Table], list[pa.Table]] = ([], [])
    for turn in range(times):
        moved = pa.array(ticks + turn * span).cast(pa.timestamp("us", "UTC"))
        later = rows.set_column(0, "ts", moved)
        own = later.column("connection").to_numpy() == OWN
        for part, mask in zip(parts, (~own, own), strict=True):
            part.append(_each_time_once(later.filter(pa.array(mask))))
    first, second = (pa.concat_tables(part) for part in parts)
    return first, second


def _each_time_once(rows: pa.Table) -> pa.Table:
    numbered = rows.append_column("_at", pa.array(np.arange(rows.num_rows)))
    firsts = numbered.group_by(["symbol", "ts"]).aggregate([("_at", "min")])
    kept = np.sort(firsts.column("_at_min").to_numpy())
    return rows.take(pa.array(kept)).select(["ts", "symbol", "bid"])


def joined_by_recent(
    first: pa.Table, second: pa.Table, size: int = 10_000
) -> tuple[Counter[tuple[object, ...]], float]:
    """The rows of the pattern, and the processor seconds it took."""
    a, b = (tw.source(name, first.schema, time="ts", insert_only=True) for name in "ab")
    query = tw.sequence({"a": a, "b": b}, "symbol", mode="recent")
    engine = tw.Engine(query, consistency="final")
    feeds = {"a": first, "b": second}
    begin = time.process_time()
    out = []
    for at in range(0, max(first.num_rows, second.num_rows), size):
        for name, rows in feeds.items():
            if at < rows.num_rows:
                out += engine.push(name, rows.slice(at, size))
    out += engine.finish()
    seconds = time.process_time() - begin
    found: Counter[tuple[object, ...]] = Counter()
    for batch in out:
        columns = [
            batch.payload.column(n) for n in ("b_symbol", "a_bid", "b_bid", "a_time", "b_time")
        ]
        found.update(zip(*(column.to_pylist() for column in columns), strict=True))
    return found, seconds


def joined_by_duckdb(
    first: pa.Table, second: pa.Table
) -> tuple[Counter[tuple[object, ...]], float]:
    """The same by DuckDB, on one thread."""
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        connection.register("first_rows", first)
        connection.register("second_rows", second)
        connection.execute("CREATE TABLE a AS FROM first_rows")
        connection.execute("CREATE TABLE b AS FROM second_rows")
        begin = time.process_time()
        rows = connection.sql(ASOF).to_arrow_table()
        seconds = time.process_time() - begin
    return Counter(zip(*(column.to_pylist() for column in rows.columns), strict=True)), seconds


def run(emit: Emit, *, times: int = 200, events: int = 1_000_000, size: int = 5_000) -> None:
    first, second = two_connections(times)
    rows = first.num_rows + second.num_rows
    recent, own = joined_by_recent(first, second)
    asof, peer = joined_by_duckdb(first, second)
    emit("throughput", rows / own, "rows/s", engine="recent", rows=rows)
    emit("throughput", rows / peer, "rows/s", engine="DuckDB ASOF JOIN", rows=rows)
    emit("ratio", peer / own, "of DuckDB's")
    emit("equal_rows", float(recent == asof), "1: yes", rows=sum(asof.values()))
    tenth, _ = _chronicle(events // 10, size)
    seconds, looked_at = _chronicle(events, size)
    emit("chronicle", events / seconds, "events/s", events=events)
    emit("chronicle", looked_at / events, "rows looked at an event", events=events)
    emit("chronicle", seconds / tenth / 10, "growth", events=events)


def _chronicle(events: int, size: int) -> tuple[float, int]:
    """Processor seconds, and the rows that were looked at."""
    a, b = (tw.source(name, {"k": "int64"}) for name in "ab")
    query = tw.sequence({"a": a, "b": b}, "k", mode="chronicle", within=100)
    (node,) = [node for node in walk(query.node) if isinstance(node, Chronicle)]
    kernel = ChronicleKernel(node)
    begin = time.process_time()
    for first in range(0, events // 2, size):
        start = 2 * np.arange(first, min(first + size, events // 2))
        for port, side in enumerate((node.left, node.right)):
            columns = [pa.array(np.ones(len(start)), field.type) for field in side.schema]
            rows = pa.RecordBatch.from_arrays(columns, schema=side.schema)
            at = start + port
            promise = Progress(int(start[-1]) + 2)
            kernel.process(port, Batch(rows, at, at + (1 if port else 100), progress=promise))
    return time.process_time() - begin, kernel.rematched
