"""The in-process engine: speed beside DuckDB in batch, state, growth, and the cost of a small
batch.

    elements_per_second   events (join: of both sides) that go through a query in a second; its
                          output is kept in memory
    ratio_to_duckdb       our elements per second / DuckDB's, with the fastest form of the query
                          that DuckDB was given
    peak_state            the largest state between two batches
    growth                time for all events / time for a tenth of them / 10; 1 is linear
    hop_growth            time with windows every second / time with windows every minute, same
                          size of window
    small_batch           one batch of ten rows through one operator (`source`: from an Arrow batch
                          into the engine)

Both sides read the same Arrow record batches; DuckDB may also read them as tables of its own,
loaded before the clock starts. Both leave the result in memory in columns. One engine is one
thread, beside what Arrow does with its own; DuckDB has `threads`. `cores` is how many cores a side
kept busy: on a machine that does other things too, the side with more threads loses more. There
`work_ratio`, DuckDB's processor seconds / ours, says more than the ratio of times. Before anything
is timed, all forms run once and must give the same rows.

DuckDB's join on the key alone compares every pair of a frequent key and takes minutes, so it is
given two forms that do not: `buckets` adds the time, in steps of the longest lifetime, to the key;
`ranges` puts the keys one after the other on one axis.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from statistics import median

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import thalweg as tw
from benchmarks._data import LATEST, MINUTE, SECOND, Events, make_events
from benchmarks._timing import measure
from thalweg.cli.bench import Emit, Value
from thalweg.graph import QueryGraph, build_graph
from thalweg.model.delta import Delta
from thalweg.operators.base import WrappedOperator
from thalweg.operators.consistency import Consistency

__all__ = ["OPERATORS", "run", "small_batch_us"]

SIZE, HOP = 10 * MINUTE, MINUTE
LONGEST = 240_000
"""Lifetimes in the join: with a thousand events a second and 10,000 keys, about as many pairs as
events."""
HOP_KEYS = 100
ROWS = 10

Feeds = Mapping[str, Sequence[pa.RecordBatch]]
Params = dict[str, Value]


@dataclass(frozen=True)
class Query:
    """One query on both sides. `forms` are DuckDB's, with `{data}` where the kind of table goes."""

    name: str
    stream: tw.Stream
    inputs: Mapping[str, Events]
    forms: Mapping[str, str]
    consistencies: tuple[str, ...] = ("final",)


def run(
    emit: Emit,
    events: int = 10_000_000,
    keys: int = 10_000,
    rate: int = 1_000,
    batch: int = 100_000,
    repeats: int = 3,
    threads: int = 2,
    pushes: int = 1_000,
) -> None:
    """`events` of `keys` keys at `rate` a second in batches of `batch` rows; `pushes` small batches
    for each operator."""
    for operator in OPERATORS:
        emit(
            "small_batch",
            small_batch_us(operator, pushes),
            "us",
            operator=operator,
            rows=ROWS,
            pushes=pushes,
        )
    for query in _queries(events, keys, rate):
        _compare(
            emit, query, batch, repeats, threads, {"events": events, "keys": keys, "rate": rate}
        )
    few = min(keys, HOP_KEYS)
    _grow_hops(
        emit,
        make_events(events, keys=few, rate=rate),
        batch,
        repeats,
        {"events": events, "keys": few, "rate": rate},
    )


def _source(name: str, value: str = "value") -> tw.Stream:
    return tw.source(name, {"key": "int64", value: "int64"}, disorder=LATEST, insert_only=True)


def _hopping(hop: int) -> tw.Stream:
    return (
        _source("events")
        .group_by("key")
        .hopping(SIZE, hop)
        .aggregate(n=tw.count(), total=tw.sum_("value"))
    )


def _queries(events: int, keys: int, rate: int) -> Iterator[Query]:
    one = {"events": make_events(events, keys=keys, rate=rate)}
    yield Query("filter", _source("events").where("value >= 500"), one, FILTER)
    yield Query("hopping", _hopping(HOP), one, HOPPING, ("final", "speculative"))
    left = make_events(
        events - events // 2, keys=keys, rate=max(rate // 2, 1), longest=LONGEST, seed=8
    )
    right = make_events(
        events // 2, keys=keys, rate=max(rate // 2, 1), longest=LONGEST, seed=9, value="other"
    )
    yield Query(
        "join", _source("l").join(_source("r", "other"), on="key"), {"l": left, "r": right}, JOIN
    )


# ------------------------------------------------------------------------------------------------
# DuckDB's side

FILTER = {"where": "SELECT _start, _end, key, value FROM events_{data} WHERE value >= 500"}

_RANGE = f"range({SIZE // HOP})"
_WINDOWS = f"""
    SELECT w * {HOP} AS _start, w * {HOP} + {SIZE} AS _end, key,
        sum(n)::BIGINT AS n, sum(total)::BIGINT AS total
    FROM moved GROUP BY w, key"""
_PANES = f"""
    panes AS (
        SELECT key, _start // {HOP} AS w, count(*) AS n, sum(value)::BIGINT AS total
        FROM events_{{data}} GROUP BY ALL
    )"""
HOPPING = {
    "panes_joined": f"""
    WITH {_PANES}, moved AS (SELECT key, w - h AS w, n, total FROM panes, {_RANGE} r(h))
    {_WINDOWS}""",
    "panes_unnested": f"""
    WITH {_PANES}, moved AS (SELECT key, w - unnest({_RANGE}) AS w, n, total FROM panes)
    {_WINDOWS}""",
    "naive": f"""
    SELECT w * {HOP} AS _start, w * {HOP} + {SIZE} AS _end, key,
        count(*) AS n, sum(value)::BIGINT AS total
    FROM (SELECT key, _start // {HOP} - h AS w, value FROM events_{{data}}, {_RANGE} r(h))
    GROUP BY w, key""",
}

_PAIR = """
    SELECT greatest(a._start, b._start) AS _start, least(a._end, b._end) AS _end,
        a.key, a.value, b.other"""
_AXIS = "SELECT *, key * 1_000_000_000_000 + _start AS s, key * 1_000_000_000_000 + _end AS e"
JOIN = {
    "buckets": f"""
    WITH a AS (SELECT *, _start // {LONGEST} AS at FROM l_{{data}}),
         b AS (
             SELECT *, _start // {LONGEST} + near AS at
             FROM r_{{data}}, (VALUES (-1), (0), (1)) v(near)
         )
    {_PAIR} FROM a JOIN b ON a.key = b.key AND a.at = b.at
        AND a._start < b._end AND b._start < a._end""",
    "ranges": f"""
    WITH a AS ({_AXIS} FROM l_{{data}}), b AS ({_AXIS} FROM r_{{data}})
    {_PAIR} FROM a JOIN b ON a.s < b.e AND b.s < a.e""",
}


def _peers(
    connection: duckdb.DuckDBPyConnection, query: Query, batch: int, threads: int
) -> dict[str, Callable[[], pa.Table]]:
    """DuckDB ready to run every form, over Arrow and over its own tables."""
    connection.execute(f"SET threads={threads}")
    connection.execute("SET preserve_insertion_order=false")
    for name, events in query.inputs.items():
        connection.register(f"{name}_arrow", events.chunked(batch))
        connection.execute(f"CREATE TABLE {name}_table AS SELECT * FROM {name}_arrow")

    def answer(sql: str) -> pa.Table:
        table: pa.Table = connection.sql(sql).to_arrow_table()
        return table

    return {
        f"{form} {data}": partial(answer, sql.format(data=data))
        for form, sql in query.forms.items()
        for data in ("arrow", "table")
    }


# ------------------------------------------------------------------------------------------------
# throughput


def _play(
    stream: tw.Stream,
    feeds: Feeds,
    consistency: str,
    see: Callable[[tw.Engine], None] | None = None,
) -> list[tw.Batch]:
    """Run a query to its end: the sources take turns, one batch each. `see` looks at the engine
    after each batch."""
    engine = tw.Engine(stream, consistency=consistency)
    out: list[tw.Batch] = []
    for turn in zip_longest(*feeds.values()):
        for name, batch in zip(feeds, turn, strict=True):
            if batch is not None:
                out += engine.push(name, batch)
                if see is not None:
                    see(engine)
    return out + engine.finish()


def _feeds(inputs: Mapping[str, Events], batch: int, share: int = 1) -> Feeds:
    return {
        name: events.first(len(events) // share).batches(batch) for name, events in inputs.items()
    }


def _compare(
    emit: Emit, query: Query, batch: int, repeats: int, threads: int, params: Params
) -> None:
    feeds, tenth = _feeds(query.inputs, batch), _feeds(query.inputs, batch, 10)
    events = sum(map(len, query.inputs.values()))
    with duckdb.connect() as connection:
        peers = _peers(connection, query, batch, threads)
        rows, peaks = _agree(query, feeds, peers)
        cases: dict[str, Callable[[], object]] = dict(peers)
        for consistency in query.consistencies:
            cases[consistency] = partial(_play, query.stream, feeds, consistency)
            cases[f"tenth {consistency}"] = partial(_play, query.stream, tenth, consistency)
        took = measure(cases, rounds=repeats, warm_ups=0)  # to agree was the warm-up
    speeds = {name: (events / took.median(name), round(took.cores(name), 2)) for name in cases}
    for name in peers:
        speed, cores = speeds[name]
        its: Params = {
            "query": query.name,
            "engine": "duckdb",
            **_form(name),
            "threads": threads,
            "cores": cores,
            **params,
        }
        emit("elements_per_second", speed, "1/s", **its)
    best = took.fastest(peers)
    for consistency in query.consistencies:
        speed, cores = speeds[consistency]
        own: Params = {"query": query.name, "consistency": consistency, "batch": batch, **params}
        ours: Params = {**own, "threads": 1, "arrow_threads": pa.cpu_count()}
        emit("elements_per_second", speed, "1/s", engine="thalweg", cores=cores, **ours)
        theirs: Params = {**_form(best), "duckdb_threads": threads, "duckdb_cores": speeds[best][1]}
        theirs |= {"work_ratio": round(took.work_ratio(best, consistency), 4), "rows_out": rows}
        emit("ratio_to_duckdb", took.ratio(best, consistency), "x", **ours, **theirs)
        emit("peak_state", peaks[consistency], "B", **own)
        emit("growth", took.ratio(consistency, f"tenth {consistency}") / 10, "x", **own)


def _form(peer: str) -> Params:
    form, data = peer.split()
    return {"form": form, "data": data}


def _agree(
    query: Query, feeds: Feeds, peers: Mapping[str, Callable[[], pa.Table]]
) -> tuple[int, dict[str, int]]:
    """Run everything once: how many rows each gives, and the largest state of the engine. Different
    answers are an error."""
    digests = {name: _digest_table(answer()) for name, answer in peers.items()}
    peaks: dict[str, int] = dict.fromkeys(query.consistencies, 0)

    def see(engine: tw.Engine, consistency: str) -> None:
        peaks[consistency] = max(peaks[consistency], engine.status().state.bytes)

    for consistency in query.consistencies:
        digests[consistency] = _digest(
            _play(query.stream, feeds, consistency, partial(see, consistency=consistency))
        )
    if len(set(digests.values())) > 1:
        raise RuntimeError(
            f"{query.name}: the answers (rows, sum of all numbers) differ: {digests}."
        )
    return digests.popitem()[1][0], peaks


def _grow_hops(emit: Emit, events: Events, batch: int, repeats: int, params: Params) -> None:
    feeds = _feeds({"events": events}, batch)
    for consistency in ("final", "speculative"):
        cases = {
            name: partial(_play, _hopping(hop), feeds, consistency)
            for name, hop in (("minute", MINUTE), ("second", SECOND))
        }
        took = measure(cases, rounds=repeats)
        both: Params = {f"seconds_by_{name}": round(took.median(name), 3) for name in cases}
        emit(
            "hop_growth",
            took.ratio("second", "minute"),
            "x",
            consistency=consistency,
            batch=batch,
            **params,
            **both,
        )


def _digest(batches: list[tw.Batch]) -> tuple[int, int]:
    """How many rows the final table has, and the sum of all their numbers."""
    rows, total = 0, 0
    for batch in batches:
        delta = Delta.of_batch(batch)
        rows += int(delta.weight.sum())
        for column in (
            delta.start,
            delta.end,
            *(column.to_numpy() for column in delta.payload.columns),
        ):
            total += int((column * delta.weight).sum())
    return rows, total


def _digest_table(table: pa.Table) -> tuple[int, int]:
    return table.num_rows, sum(pc.sum(column).as_py() or 0 for column in table.columns)


# ------------------------------------------------------------------------------------------------
# small batches


OPERATORS: dict[str, Callable[[tw.Stream, tw.Stream], tw.Stream]] = {
    "source": lambda a, _: a,
    "where": lambda a, _: a.where("v > 40"),
    "select": lambda a, _: a.select("k", w="v + 1"),
    "with_columns": lambda a, _: a.with_columns(w="v + 1"),
    "drop": lambda a, _: a.drop("v"),
    "rename": lambda a, _: a.rename(v="w"),
    "select_many": lambda a, _: a.select_many(repeat=2),
    "set_duration": lambda a, _: a.set_duration(20),
    "points": lambda a, _: a.points(),
    "alter_lifetime": lambda a, _: a.alter_lifetime(start="_start + 1", duration=20),
    "shift": lambda a, _: a.shift(5),
    "in_order": lambda a, _: a.in_order(),
    "extend": lambda a, _: a.extend(5),
    "clip_duration": lambda a, _: a.clip_duration(3),
    "clip_by": lambda a, b: a.clip_by(b, on="k"),
    "edges": lambda a, _: a.edges(on="k"),
    "point_at_end": lambda a, _: a.point_at_end(),
    "chop": lambda a, _: a.chop(4),
    "stitch": lambda a, _: a.stitch(),
    "hopping_lifetime": lambda a, _: a.hopping_lifetime(20, 10),
    "quantize": lambda a, _: a.quantize(20, 10),
    "session_lifetime": lambda a, _: a.group_by("k").session_lifetime(3),
    "union": lambda a, b: a.union(b),
    "join": lambda a, b: a.join(b, on="k"),
    "left_join": lambda a, b: a.left_join(b, on="k"),
    "right_join": lambda a, b: a.right_join(b, on="k"),
    "full_join": lambda a, b: a.full_join(b, on="k"),
    "semi_join": lambda a, b: a.semi_join(b, on="k"),
    "anti_join": lambda a, b: a.anti_join(b, on="k"),
    "window_join": lambda a, b: a.window_join(b, on="k", window=tw.band(before=5, after=5)),
    "asof_join": lambda a, b: a.asof_join(b, on="k", within=10),
    "sequence": lambda a, b: tw.sequence({"a": a, "b": b}, "k", mode="recent", within=10),
    "sequence_chronicle": lambda a, b: tw.sequence(
        {"a": a, "b": b}, "k", mode="chronicle", within=10
    ),
    "detect": lambda a, _: a.group_by("k").detect(
        tw.then(tw.event("v > 40", keep={"top": "v"}), tw.event("v < top")),
        within=10,
        registers={"top": "int64"},
    ),
    "describe": lambda a, _: a.describe(every=10),
    "distinct": lambda a, _: a.distinct(),
    "snapshot": lambda a, _: a.group_by("k").snapshot().aggregate(n=tw.count(), total=tw.sum_("v")),
    "tumbling": lambda a, _: (
        a.group_by("k").tumbling(10).aggregate(n=tw.count(), total=tw.sum_("v"))
    ),
    "hopping": lambda a, _: (
        a.group_by("k").hopping(20, 10).aggregate(n=tw.count(), total=tw.sum_("v"))
    ),
    "hopping_percentile": lambda a, _: (
        a.group_by("k").hopping(20, 10).aggregate(mid=tw.percentile("v", 0.5))
    ),
    "hopping_fill": lambda a, _: (
        a.group_by("k").hopping(20, 10).fill(range(4)).aggregate(n=tw.count(), total=tw.sum_("v"))
    ),
    "sliding": lambda a, _: (
        a.group_by("k").sliding(20, 10, over=tw.rows()).aggregate(n=tw.count(), total=tw.sum_("v"))
    ),
    "calendar": lambda a, _: a.group_by("k").calendar("day").aggregate(n=tw.count()),
    "landmark": lambda a, _: (
        a.group_by("k").landmark(10).aggregate(n=tw.count(), total=tw.sum_("v"))
    ),
    "slide_by_tuple": lambda a, _: a.slide_by_tuple(20).aggregate(n=tw.count(), total=tw.sum_("v")),
    "count_by_start": lambda a, _: a.group_by("k").count_by_start(3).apply("average", "v"),
    "count_by_end": lambda a, _: a.group_by("k").count_by_end(3).apply("average", "v"),
    "two_level": lambda a, _: (
        a.group_by("k").hopping(20, 10).two_level(16).aggregate(n=tw.count(), total=tw.sum_("v"))
    ),
    "number_rows": lambda a, _: a.number_rows(),
    "session": lambda a, _: a.group_by("k").session(3).aggregate(n=tw.count(), total=tw.sum_("v")),
    "top_k": lambda a, _: a.group_by("k").top_k(2, by="v"),
    "hopping_top_k": lambda a, _: a.group_by("k").hopping(20, 10).top_k(2, by="v"),
    "group_apply": lambda a, _: a.group_apply(
        "k", lambda group: group.tumbling(10).aggregate(n=tw.count(), total=tw.sum_("v"))
    ),
}
"""Every operator of the fluent API over two streams `(k, v)`; where one name stands for several
kernels, each of them."""


class _Timed(WrappedOperator):
    """An operator, and the seconds that were spent in it."""

    seconds = 0.0

    def process(self, port: int, batch: tw.Batch) -> tw.Batch:
        begin = time.perf_counter()
        answer = self.inner.process(port, batch)
        self.seconds += time.perf_counter() - begin
        return answer


def small_batch_us(operator: str, pushes: int) -> float:
    """Microseconds that one small batch spends behind its source, once state has settled: the
    median of means of 20 batches."""
    columns = {"k": "int64", "v": "int64"}
    a, b = (tw.source(name, columns, disorder=2 * ROWS, insert_only=True) for name in "ab")
    stream = OPERATORS[operator](a, b)
    if operator == "source":
        engine = tw.Engine(stream)
        costs = [_seconds(engine.push, "a", batch) for batch in _small_batches(pushes)]
    else:
        graph, _ = build_graph(stream.node, Consistency("speculative"))
        costs = list(_costs_behind_sources(graph, pushes))
    settled = costs[len(costs) // 4 :]
    return 1e6 * median(float(np.mean(settled[at : at + 20])) for at in range(0, len(settled), 20))


def _costs_behind_sources(graph: QueryGraph, pushes: int) -> Iterator[float]:
    """Seconds of each batch; two sources take turns."""
    sources = [_Timed(operator.kernel) for operator in graph.sources.values()]
    for operator, timed in zip(graph.sources.values(), sources, strict=True):
        operator.kernel = timed
    for rows in _small_batches(pushes // len(sources)):
        payload = pa.RecordBatch.from_arrays(rows.columns[2:], names=rows.schema.names[2:])
        for name, timed in zip(graph.sources, sources, strict=True):
            graph.offer(
                name, tw.Batch(payload, rows.column(0).to_numpy(), rows.column(1).to_numpy())
            )
            before = timed.seconds
            took = _seconds(graph.run)
            yield took - (timed.seconds - before)


def _seconds(call: Callable[..., object], *arguments: object) -> float:
    begin = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - begin


def _small_batches(count: int) -> Iterator[pa.RecordBatch]:
    """Batches of ten rows, each ten ticks after the one before it, out of order within."""
    rng = np.random.default_rng(7)
    for number in range(count):
        start = number * ROWS + rng.permutation(ROWS)
        arrays = [
            start,
            start + rng.integers(1, 8, ROWS),
            rng.integers(0, 4, ROWS),
            rng.integers(0, 100, ROWS),
        ]
        yield pa.RecordBatch.from_arrays(
            list(map(pa.array, arrays)), names=["_start", "_end", "k", "v"]
        )
