"""Golden answers over recorded data: the same whatever the arrival order and the batch cuts.

The answers were computed independently with DuckDB (golden.sql beside the data). Each query runs
over the rows in emission order, in event order, and under 20 random permutations with random batch
cuts.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import thalweg as tw
from thalweg.model import table_of_batches

PERMUTATIONS = 20
MINUTE = 60_000_000
FOREVER = "forever"

Orders = Iterator[tuple[str, dict[str, list[pa.Table]]]]


@dataclass(frozen=True)
class Case:
    """A query over recorded events: how to read them, what to ask, and what the golden answer is
    made of."""

    golden: tuple[str, str]
    events: Callable[[Path], dict[str, tuple[pa.Table, str]]]
    """Per source a table of events and the column that gives emission order."""
    query: Callable[[dict[str, tw.Stream]], tw.Stream]
    answer: Callable[[pa.Table], Any]


def points(
    path: Path, start: str, columns: list[str], emission: str, **options: Any
) -> tuple[pa.Table, str]:
    table = pq.read_table(path)
    if (
        "duration_us" in columns
    ):  # the golden query counts an http request at the very end of its connection
        table = table.append_column("stop_us", pc.add(table["end_us"], 1)).append_column(
            "duration_us", table["end_us"]
        )
    if options.get("where") is not None:
        table = table.filter(options["where"])
    if pa.types.is_timestamp(table.schema.field(start).type):
        table = table.set_column(
            table.schema.names.index(start),
            start,
            table[start].cast(pa.timestamp("us", "UTC")).cast(pa.int64()),
        )
    if emission != start:
        table = table.append_column("_emission", table[emission])
    else:
        table = table.append_column("_emission", table[start])
    made = tw.events(table, start, options.get("end"), keep_times=True)
    keep = ["_start", "_end", *columns, "_emission"]
    return made.select(keep), "_emission"


def sorted_digest(table: pa.Table, names: list[str]) -> str:
    ordered = table.sort_by(
        [(name, "ascending") for name in names if name in ("w", "src_ip", "origin", "order_id")]
    )
    rows = zip(*(ordered[name].to_pylist() for name in names), strict=True)
    return hashlib.md5("|".join(":".join(map(str, row)) for row in rows).encode()).hexdigest()


def windowed(table: pa.Table, size: int) -> pa.Table:
    return table.append_column("w", pa.array(table["_start"].to_numpy() // size))


def total(column: pa.ChunkedArray) -> int:
    return int(pc.sum(column).as_py())


def zeek(root: Path) -> Path:
    return root / "zeek_conn" / "conn.parquet"


CASES = [
    Case(
        ("zeek_conn", "tumbling_5min_by_start"),
        lambda root: {"conn": points(zeek(root), "start_us", ["len"], "seq")},
        lambda s: s["conn"].tumbling("5 min").aggregate(n=tw.count(), b=tw.sum_("len")),
        lambda t: [
            len(t),
            total(t["n"]),
            total(t["b"]),
            sorted_digest(windowed(t, 5 * MINUTE), ["w", "n", "b"]),
        ],
    ),
    Case(
        ("zeek_conn", "tumbling_1min_by_start_src"),
        lambda root: {"conn": points(zeek(root), "start_us", ["src_ip", "len"], "seq")},
        lambda s: (
            s["conn"].group_by("src_ip").tumbling("1 min").aggregate(n=tw.count(), b=tw.sum_("len"))
        ),
        lambda t: [
            len(t),
            total(t["n"]),
            total(t["b"]),
            sorted_digest(windowed(t, MINUTE), ["w", "src_ip", "n", "b"]),
        ],
    ),
    Case(
        ("zeek_conn", "max_concurrent_half_open"),
        lambda root: {
            "conn": points(
                zeek(root),
                "start_us",
                ["proto"],
                "seq",
                end="end_us",
                where=pc.field("end_us") > pc.field("start_us"),
            )
        },
        lambda s: s["conn"].snapshot().aggregate(n=tw.count()),
        lambda t: pc.max(t["n"]).as_py(),
    ),
    Case(
        ("zeek_conn", "conn_http_join_on_uid"),
        lambda root: {
            "conn": points(zeek(root), "start_us", ["uid"], "seq"),
            "http": points(root / "zeek_conn" / "http.parquet", "ts_us", ["uid"], "seq"),
        },
        lambda s: (
            s["conn"]
            .set_duration(FOREVER)
            .join(s["http"].set_duration(FOREVER), on="uid", endless=("left", "right"))
        ),
        len,
    ),
    Case(
        ("zeek_conn", "http_ts_inside_conn_interval"),
        lambda root: {
            "conn": points(zeek(root), "start_us", ["uid", "duration_us"], "seq", end="stop_us"),
            "http": points(root / "zeek_conn" / "http.parquet", "ts_us", ["uid"], "seq"),
        },
        lambda s: s["conn"].join(s["http"], on="uid"),
        len,
    ),
    Case(
        ("nyc_flights", "tumbling_1h_by_dep_origin"),
        lambda root: {
            "flights": points(
                root / "nyc_flights" / "flights.parquet",
                "dep_utc",
                ["origin"],
                "arr_utc",
                where=pc.field("status") == "arrived",
            )
        },
        lambda s: s["flights"].group_by("origin").tumbling("1 h").aggregate(n=tw.count()),
        lambda t: [
            len(t),
            total(t["n"]),
            sorted_digest(windowed(t, 60 * MINUTE), ["w", "origin", "n"]),
        ],
    ),
    Case(
        ("nyc_flights", "weather_join"),
        lambda root: {
            "flights": points(
                root / "nyc_flights" / "flights.parquet", "sched_dep_utc", ["origin"], "file_seq"
            ),
            "weather": points(
                root / "nyc_flights" / "weather.parquet", "ts_utc", ["origin"], "ts_utc"
            ),
        },
        lambda s: s["flights"].join(s["weather"].set_duration("1 h"), on="origin"),
        len,
    ),
    Case(
        ("nyc_flights", "max_airborne"),
        lambda root: {
            "flights": points(
                root / "nyc_flights" / "flights.parquet",
                "dep_utc",
                ["origin"],
                "arr_utc",
                end="arr_utc",
                where=pc.field("status") == "arrived",
            )
        },
        lambda s: s["flights"].snapshot().aggregate(n=tw.count()),
        lambda t: pc.max(t["n"]).as_py(),
    ),
    Case(
        ("bitstamp_orders", "order_lifetimes"),
        lambda root: {
            "orders": points(
                root / "bitstamp_orders" / "orders.parquet",
                "emit_ms",
                ["order_id", "action"],
                "seq",
            )
        },
        lambda s: (
            s["orders"]
            .group_by("order_id")
            .tumbling(86_400_000 * 40_000)
            .aggregate(
                first=tw.min_("_start", where="action = 'created'"),
                last=tw.max_("_start", where="action = 'deleted'"),
            )
            .where("first is not null and last is not null")
        ),
        lambda t: [
            len(t),
            total(t["last"]) - total(t["first"]),
            sorted_digest(t, ["order_id", "first", "last"]),
        ],
    ),
    Case(
        ("bitstamp_orders", "live_at_end"),
        lambda root: {
            "orders": points(
                root / "bitstamp_orders" / "orders.parquet",
                "emit_ms",
                ["order_id", "action"],
                "seq",
            )
        },
        lambda s: (
            s["orders"]
            .group_by("order_id")
            .tumbling(86_400_000 * 40_000)
            .aggregate(gone=tw.count(where="action = 'deleted'"))
            .where("gone = 0")
        ),
        len,
    ),
    Case(
        ("bitstamp_orders", "tumbling_1min_by_emit"),
        lambda root: {
            "orders": points(
                root / "bitstamp_orders" / "orders.parquet", "emit_ms", ["order_id"], "seq"
            )
        },
        lambda s: s["orders"].tumbling(60_000).aggregate(n=tw.count()),
        lambda t: [len(t), sorted_digest(windowed(t, 60_000), ["w", "n"])],
    ),
    Case(
        ("exchange_replicas", "distinct_payloads_by_venue"),
        lambda root: {
            "feeds": points(
                root / "exchange_replicas" / "feeds.parquet",
                "event_us",
                ["venue", "payload_id", "kind"],
                "seq",
            )
        },
        lambda s: (
            s["feeds"]
            .where("not starts_with(kind, 'snapshot')")
            .select("venue", "payload_id")
            .alter_lifetime(start="0", duration=1)
            .distinct()
        ),
        lambda t: sorted(
            [v["values"], v["counts"]] for v in pc.value_counts(t["venue"]).to_pylist()
        ),
    ),
    Case(
        ("exchange_replicas", "physical_rows_by_venue"),
        lambda root: {
            "feeds": points(
                root / "exchange_replicas" / "feeds.parquet", "event_us", ["venue", "kind"], "seq"
            )
        },
        lambda s: (
            s["feeds"]
            .where("not starts_with(kind, 'snapshot')")
            .group_by("venue")
            .tumbling("40000 days")
            .aggregate(n=tw.count())
        ),
        lambda t: sorted([r["venue"], r["n"]] for r in t.to_pylist()),
    ),
    Case(
        ("market_l2", "final_levels_size_gt0"),
        lambda root: {
            "quotes": points(
                root / "market_l2" / "l2_quotes.parquet",
                "event_us",
                ["venue", "symbol", "side", "price", "size", "seq"],
                "seq",
            )
        },
        lambda s: (
            s["quotes"]
            .where("side in ('bid', 'ask')")
            .group_by("venue", "symbol", "side", "price")
            .tumbling("40000 days")
            .aggregate(size=tw.arg_max("size", by="seq"))
            .where("size > 0")
        ),
        len,
    ),
    Case(
        ("market_l2", "peak_updates_per_100ms"),
        lambda root: {
            "quotes": points(root / "market_l2" / "l2_quotes.parquet", "recv_us", ["venue"], "seq")
        },
        lambda s: s["quotes"].group_by("venue").tumbling("100 ms").aggregate(n=tw.count()),
        lambda t: sorted(
            [r["venue"], r["n_max"]]
            for r in t.group_by("venue").aggregate([("n", "max")]).to_pylist()
        ),
    ),
]


def arrivals(tables: dict[str, tuple[pa.Table, str]]) -> Orders:
    """The rows in emission order, in event order, and in random orders; cut into a few batches
    each."""

    def cut(table: pa.Table, order: np.ndarray[Any, Any], cuts: int) -> list[pa.Table]:
        shuffled = table.drop_columns(["_emission"]).take(pa.array(order))
        edges = np.linspace(0, len(table), cuts + 1).astype(int)
        return [shuffled.slice(a, b - a) for a, b in itertools.pairwise(edges)]

    yield (
        "emission",
        {n: cut(t, np.argsort(t[e].to_numpy(), kind="stable"), 7) for n, (t, e) in tables.items()},
    )
    yield (
        "event",
        {
            n: cut(t, np.argsort(t["_start"].to_numpy(), kind="stable"), 3)
            for n, (t, _) in tables.items()
        },
    )
    for seed in range(PERMUTATIONS):
        rng = np.random.default_rng(seed)
        yield (
            f"permutation {seed}",
            {
                n: cut(t, rng.permutation(len(t)), int(rng.integers(1, 6)))
                for n, (t, _) in tables.items()
            },
        )


def streams(tables: dict[str, tuple[pa.Table, str]]) -> dict[str, tw.Stream]:
    found = {}
    for name, (table, _) in tables.items():
        payload = table.drop_columns(["_start", "_end", "_emission"]).schema
        found[name] = tw.source(
            name, pa.schema([pa.field(f.name, f.type) for f in payload]), insert_only=True
        )
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(case.golden))
def test_golden_answers_do_not_depend_on_arrival(case: Case, recorded: Path) -> None:
    golden = json.loads((recorded / "golden.json").read_text())[case.golden[0]][case.golden[1]]
    tables = case.events(recorded)
    query = case.query(streams(tables))
    for name, feeds in arrivals(tables):
        answer = case.answer(
            table_of_batches(list(tw.run(query, feeds, consistency="final")), query.schema)
        )
        assert answer == golden, f"arrival order: {name}"


LATE_SHARES = {
    ("zeek_conn/conn.parquet", "start_us", "seq", 1): [37.07, 33.06, 22.63, 6.21, 0.178, 0.114, 0],
    ("bitstamp_orders/orders.parquet", "exchange_ms", "seq", 1000): [
        39.38,
        36.97,
        21.59,
        6.51,
        1.20,
        0.41,
        0.18,
    ],
    ("nyc_flights/flights.parquet", "dep_utc", "arr_utc", 1): [
        90.01,
        90.01,
        90.01,
        89.48,
        85.35,
        63.39,
        31.42,
    ],
}
DELAYS_S = [0, 1, 10, 60, 600, 3600, 7200]


@pytest.mark.parametrize("recording", LATE_SHARES, ids=lambda r: r[0].split("/")[0])
@pytest.mark.parametrize("delay", range(len(DELAYS_S)), ids=lambda i: f"{DELAYS_S[i]}s")
def test_late_counts_are_exact(
    recording: tuple[str, str, str, int], delay: int, recorded: Path
) -> None:
    path, start, emission, scale = recording
    where = pc.field("status") == "arrived" if path.startswith("nyc") else None
    table, by = points(recorded / path, start, [emission], emission, where=where)
    table = table.take(pa.array(np.argsort(table[by].to_numpy(), kind="stable")))
    ticks = DELAYS_S[delay] * 1_000_000 // scale
    payload = table.select([emission]).schema
    events = tw.source("events", payload, late="side", disorder=ticks, insert_only=True)
    taken: list[int] = []
    engine = tw.Engine(events, on_late=lambda _, rows: taken.append(len(rows)))
    feed = table.select(["_start", "_end", emission])
    for begin in range(0, len(feed), 9_973):
        engine.push("events", feed.slice(begin, 9_973))
    starts = table["_start"].to_numpy()
    newest = np.concatenate([starts[:1], np.maximum.accumulate(starts)[:-1]])
    assert engine.late_count("events") == int((starts < newest - ticks).sum())
    expected = LATE_SHARES[recording][delay]
    # The published share of zeek_conn at 10 min, 0.178, is 188 rows: 0.17750 %, rounded twice. Half
    # a unit and a hair of the last digit.
    decimals = len(str(expected).partition(".")[2])
    assert abs(100 * engine.late_count("events") / len(table) - expected) <= 0.505 * 10**-decimals
    assert sum(taken) == engine.late_count("events")
