"""Packets on several links, out of order, for queries and for DuckDB: the same rows both ways."""

from __future__ import annotations

from collections.abc import Mapping

import duckdb
import numpy as np
import pyarrow as pa

import thalweg as tw
from thalweg.model.batch import Batch
from thalweg.model.cht import Row, rows_of_table, table_of_batches
from thalweg.plan.nodes import Source, walk
from thalweg.shards.local_engine import DividedEngine

SECOND = 1_000_000
MINUTE = 60 * SECOND
SPAN = 14 * MINUTE
DISORDER = 90 * SECOND
LINKS = (
    "M",
    "Main",
    "Main1",
    "Main2",
    "Control",
    "M1",
    "M2",
    "A",
    "B",
    "C",
    "D",
    "packets",
    "S0",
    "S1",
)
COLUMNS = {
    "srcIP": "string",
    "srcPort": "int64",
    "destIP": "string",
    "destPort": "int64",
    "len": "int64",
    "length": "int64",
    "flags": "string",
    "row_num": "int64",
}


def make_link(name: str, count: int = 90) -> pa.Table:
    """Packets in order of arrival: `ts` is when they were sent, up to a minute before. No two were
    sent at one time."""
    rng = np.random.default_rng(sum(map(ord, name)))
    sent = np.sort(rng.choice(SPAN // 1000, count, replace=False)) * 1000
    arrival = np.argsort(sent + rng.integers(0, 60 * SECOND, count), kind="stable")
    addresses = np.array(["202.101.0.0", "202.101.0.1", "202.101.0.2"])
    length = rng.integers(40, 1500, count)
    columns = {
        "ts": sent,
        "srcIP": addresses[rng.choice(3, count, p=[0.7, 0.27, 0.03])],
        "srcPort": rng.integers(1, 3, count),
        "destIP": addresses[rng.integers(0, 3, count)],
        "destPort": rng.integers(1, 3, count),
        "len": length,
        "length": length,
        "flags": np.array(["SYN", "SYN_ACK", "ACK"])[rng.integers(0, 3, count)],
    }
    arrived = {key: values[arrival] for key, values in columns.items()}
    return pa.table({**arrived, "row_num": np.arange(1, count + 1)})


def links() -> dict[str, pa.Table]:
    """A few packets on each link, and more than a thousand on the one whose queries ask for the
    last thousand."""
    return {name: make_link(name, {"Control": 9, "Main": 1_200}.get(name, 90)) for name in LINKS}


def streams() -> dict[str, tw.Stream]:
    return {name: tw.source(name, COLUMNS, disorder=DISORDER) for name in LINKS}


def answers(
    query: tw.Stream,
    tables: Mapping[str, pa.Table],
    *,
    consistency: str = "speculative",
    batch: int = 31,
) -> list[Row]:
    """The final table of a query that is fed the packets as they arrive, a few at a time."""
    names = [node.name for node in _sources(query)]
    feeds = {
        name: [
            tw.events(tables[name].slice(at, batch), start="ts")
            for at in range(0, tables[name].num_rows, batch)
        ]
        for name in names
    }
    return list(tw.table(query, feeds, consistency=consistency))


def answers_divided(
    query: tw.Stream, tables: Mapping[str, pa.Table], *, batch: int = 200
) -> list[Row]:
    """The same, with the query cut into fragments and buckets as it is on Spark."""
    engine = DividedEngine(query)
    out: list[Batch] = []
    for name in [node.name for node in _sources(query)]:
        for at in range(0, tables[name].num_rows, batch):
            out += engine.push(name, tw.events(tables[name].slice(at, batch), start="ts"))
    out += engine.finish()
    return rows_of_table(table_of_batches(out, query.schema))


def _sources(query: tw.Stream) -> list[Source]:
    return [node for node in walk(query.node) if isinstance(node, Source)]


def ask_duckdb(query: str, tables: Mapping[str, pa.Table]) -> list[Row]:
    """Rows (start, end, payload) of a query whose first two columns are the lifetime."""
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        found = connection.sql(query)
        names = found.columns[2:]
        return [
            (row[0], row[1], dict(zip(names, row[2:], strict=True))) for row in found.fetchall()
        ]
