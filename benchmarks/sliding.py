"""Sliding count and sum per key on Spark: ours, Spark's own windows, and DuckDB in batch, over the
same Parquet files.

Each engine runs in a process of its own, warm, on the same cores, and writes typed rows to a sink
that throws them away; Spark's own has as many partitions as cores and the better of its two state
stores. Its speed is rows over the median time of a micro-batch, those of the warm-up left out.

The size of a micro-batch suits engines differently. A short search finds the best for each
(`batch_search`), and the better of Spark's state stores. `ratio_to_spark` comes twice: with
`sizes="equal"` both have micro-batches of `batch_rows` (Spark's own fewer above RANGE/SLIDE 10,
where it copies each row for every window), with `sizes="best"` each has its own best size.

Small micro-batches, of `small_batch_rows`, are measured at RANGE/SLIDE 10 with `sizes="small"`, in
turns by processes that stay warm.

It ends within `minutes`: a measurement gets its share of the time that is left. Other consistencies
and a DataFrame of Spark's as the source are `-o variants=final,speculative,foreign`, and take
longer; `summed_in` says where its rows became sums, and `foreign_in_python` has all of them go to
Python. `-o parts=small` and `-o parts=large` measure one half alone; `-o parts=foreign` the
DataFrame in micro-batches of `batch_rows` at RANGE/SLIDE 10, in turns by processes that stay warm,
of which the first rounds do not count: a JVM compiles what it runs for some hundred micro-batches.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

import thalweg as tw
from benchmarks._data import LATEST, SECOND, make_events
from benchmarks._own_process import OwnProcess, call
from benchmarks._spark_peer import STORES, Store, durations, has_session, peer_session
from benchmarks._turns import OURS, store_of, take_turns
from thalweg import spark as ts
from thalweg.cli.bench import Emit

RANGE_S = 600
FILE_ROWS = 500_000
SEARCHED = (1_000_000, 4_000_000, 10_000_000)
"""Sizes of a micro-batch that the search tries."""
SEARCH_RATIO = 10
COPIES = 40_000_000
"""Spark's own copies a row for each of its windows. It gets so few rows that it makes at most this
many copies in a micro-batch."""
START_UNITS, SHORTEST_S = 2, 6.0
"""What starting a process and warming it up takes, in measurements; the least time of one."""
DUCKDB_FILES = 40
"""DuckDB takes its rows in one batch of so many files."""
VARIANTS = {
    "final": ("own", "final"),
    "speculative": ("own", "speculative"),
    "foreign": ("foreign", "final"),
    "foreign_in_python": ("foreign", "final"),
}
"""Ours: the source, and the consistency. A foreign source is a DataFrame of Spark's, whose rows are
summed up in the JVM, or all handed over to Python."""
SUMMED_IN = {"foreign": "the JVM", "foreign_in_python": "Python"}


def run(
    emit: Emit,
    *,
    rows: int = 60_000_000,
    batch_rows: int = 4_000_000,
    batches: int = 6,
    warm_up: int = 2,
    rate: int = 10_000,
    keys: str = "10000",
    ratios: str = "1,10,60",
    minutes: float = 14.0,
    variants: str = "final",
    small_batch_rows: int = 100_000,
    rounds: int = 2,
    parts: str = "small,large",
) -> None:
    """Every combination of keys and RANGE/SLIDE, within `minutes` of time. A measurement takes
    `batches` micro-batches or its share of what is left, whichever is less."""
    counts, wanted = [int(k) for k in str(keys).split(",")], variants.split(",")
    began = monotonic()
    if "small" in parts.split(","):
        _compare_in_turns(emit, InTurns(counts[0], rate, small_batch_rows, rounds=rounds))
    for count in counts if "foreign" in parts.split(",") else ():
        _compare_in_turns(emit, InTurns.foreign(count, rate, batch_rows, rows // batch_rows))
    if "large" not in parts.split(","):
        return
    compared = [int(ratio) for ratio in str(ratios).split(",")]
    clock = Timetable(
        minutes * 60 - (monotonic() - began), len(counts) * _units(len(compared), len(wanted))
    )
    for count in counts:
        folder = Path(tempfile.mkdtemp(prefix="thalweg-bench-"))
        try:
            _write(folder, count, rows, rate)
            plan = Plan(str(folder), batches, warm_up, clock)
            best, store = _search_all(emit, plan, keys=count)
            _compare(emit, plan, count, compared, batch_rows, best, store, wanted)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


class Timetable:
    """Divides the time that is left evenly over the measurements that are left; starting a process
    counts as some of them."""

    def __init__(self, seconds: float, units: int) -> None:
        self._end, self._units = monotonic() + seconds, units

    def share(self, trials: int) -> float:
        """Seconds for each of the next trials, which one process makes."""
        left = max(self._end - monotonic(), 0.0) / max(self._units, 1)
        self._units -= trials + START_UNITS
        return max(left, SHORTEST_S)


def _units(ratios: int, variants: int) -> int:
    """Measurements and starts of processes for one number of keys."""
    searches, compared = 1 + len(STORES), 2 * ratios
    tried = len(SEARCHED) + len(STORES) * len(_searched_by_spark())
    return tried + searches * START_UNITS + (1 + variants) * (compared + START_UNITS)


def _searched_by_spark() -> tuple[int, ...]:
    return tuple(size for size in SEARCHED if size * SEARCH_RATIO <= COPIES)


@dataclass(frozen=True)
class Plan:
    folder: str
    batches: int
    warm_up: int
    clock: Timetable

    def measure(self, function: str, trials: list[list[int]], **more: str) -> list[float]:
        """Rows a second of each trial, (rows in a micro-batch, RANGE/SLIDE), in one new process."""
        speeds: list[float] = call(
            f"benchmarks.sliding:{function}",
            folder=self.folder,
            trials=trials,
            batches=self.batches,
            warm_up=self.warm_up,
            budget_s=self.clock.share(len(trials)),
            **more,
        )
        return speeds


def _search_all(emit: Emit, plan: Plan, *, keys: int) -> tuple[dict[str, int], Store]:
    """The size of a micro-batch that suits each engine best, and the better of Spark's stores."""
    speeds: dict[str, dict[int, float]] = {}
    for name in ("", *STORES):
        tried = _searched_by_spark() if name else SEARCHED
        trials = [[size, SEARCH_RATIO] for size in tried]
        more, function = ({"store": name}, "measure_spark") if name else ({}, "measure_ours")
        speeds[name] = dict(zip(tried, plan.measure(function, trials, **more), strict=True))
        facts = {"engine": "spark", "store": name} if name else {"engine": "thalweg"}
        for size, speed in speeds[name].items():
            emit("batch_search", speed, "1/s", keys=keys, rows_per_batch=size, **facts)
    better = max(STORES, key=lambda store: max(speeds[store].values()))
    sizes = {
        engine: max(speeds[name], key=speeds[name].__getitem__)
        for engine, name in (("thalweg", ""), ("spark", better))
    }
    return sizes, better


@dataclass(frozen=True)
class InTurns:
    """A comparison at `SEARCH_RATIO`; as it is, of micro-batches so small that fixed costs
    decide."""

    keys: int
    rate: int
    size: int
    batches: int = 24
    warm_up: int = 6
    """Micro-batches that are left out each time."""
    budget_s: float = 12.0
    """The most seconds for all of them."""
    rounds: int = 2
    warm_rounds: int = 0
    variant: str = "final"
    sizes: str = "small"

    @classmethod
    def foreign(cls, keys: int, rate: int, size: int, batches: int) -> InTurns:
        """Large micro-batches of a DataFrame of Spark's."""
        told: dict[str, Any] = {"budget_s": 60.0, "rounds": 3, "warm_rounds": 3}
        return cls(keys, rate, size, batches, variant="foreign", sizes="equal", **told)

    @property
    def file_rows(self) -> int:
        return min(self.size, FILE_ROWS)

    @property
    def facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {
            "sizes": self.sizes,
            "rows_per_batch": self.size,
            "keys": self.keys,
            "range_over_slide": SEARCH_RATIO,
            "rounds": self.rounds,
        }
        if self.variant in SUMMED_IN:
            facts |= {"source": VARIANTS[self.variant][0], "summed_in": SUMMED_IN[self.variant]}
        return facts


def _compare_in_turns(emit: Emit, case: InTurns) -> None:
    folder = Path(tempfile.mkdtemp(prefix="thalweg-bench-"))

    def measure(process: OwnProcess, engine: str) -> dict[str, Any]:
        told: dict[str, Any] = {
            "folder": str(folder),
            "trials": [[case.size, SEARCH_RATIO]],
            "batches": case.batches,
            "warm_up": case.warm_up,
            "budget_s": case.budget_s,
            "file_rows": case.file_rows,
        }
        if engine == OURS:
            told |= {"variant": case.variant}
            (speed,) = process.call("benchmarks.sliding:measure_ours", **told)
        else:
            store = store_of(engine)
            (speed,) = process.call("benchmarks.sliding:measure_spark", store=store, **told)
        return {"rows_per_s": speed}

    def seconds(found: dict[str, Any]) -> float:
        return 1 / float(found["rows_per_s"])

    try:
        _write(folder, case.keys, case.batches * case.size, case.rate, case.file_rows)
        turns = take_turns(measure, seconds, case.rounds, warm_rounds=case.warm_rounds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for engine in (OURS, turns.theirs):
        speed = median(found["rows_per_s"] for found in turns.of(engine))
        emit("rows_per_s", speed, "1/s", engine=engine, **case.facts)
    emit("ratio_to_spark", turns.ratio(seconds), "x", **case.facts)


def _compare(
    emit: Emit,
    plan: Plan,
    keys: int,
    ratios: list[int],
    batch_rows: int,
    best: dict[str, int],
    store: Store,
    variants: list[str],
) -> None:
    cases = [(name, ratio) for ratio in ratios for name in ("equal", "best")]
    fewer = {ratio: min(batch_rows, COPIES // ratio) for ratio in ratios}
    sizes = {
        "spark": {"equal": batch_rows, "best": best["spark"]},
        "thalweg": {"equal": batch_rows, "best": best["thalweg"]},
    }
    theirs_at = [[min(sizes["spark"][name], fewer[ratio]), ratio] for name, ratio in cases]
    theirs = dict(zip(cases, plan.measure("measure_spark", theirs_at, store=store), strict=True))
    for (name, ratio), (size, _) in zip(cases, theirs_at, strict=True):
        emit(
            "rows_per_s",
            theirs[name, ratio],
            "1/s",
            engine="spark",
            store=store,
            sizes=name,
            rows_per_batch=size,
            keys=keys,
            range_over_slide=ratio,
        )
    batch = {ratio: _duckdb(Path(plan.folder), ratio) for ratio in ratios}
    for ratio, speed in batch.items():
        emit("rows_per_s", speed, "1/s", engine="duckdb", keys=keys, range_over_slide=ratio)
    for variant in variants:
        source, consistency = VARIANTS[variant]
        ours_at = [[sizes["thalweg"][name], ratio] for name, ratio in cases]
        ours = plan.measure("measure_ours", ours_at, variant=variant)
        for (name, ratio), (size, _), speed in zip(cases, ours_at, ours, strict=True):
            facts: dict[str, int | str] = {
                "source": source,
                "consistency": consistency,
                "sizes": name,
                "keys": keys,
                "range_over_slide": ratio,
            }
            if variant in SUMMED_IN:
                facts["summed_in"] = SUMMED_IN[variant]
            emit("rows_per_s", speed, "1/s", engine="thalweg", rows_per_batch=size, **facts)
            emit("ratio_to_spark", speed / theirs[name, ratio], "x", **facts)
            emit("ratio_to_duckdb", speed / batch[ratio], "x", **facts)


# ------------------------------------------------------------------------------------------ input


def _write(folder: Path, keys: int, rows: int, rate: int, file_rows: int = FILE_ROWS) -> None:
    """Files of equal size, in order of arrival, each later than the one before by its length."""
    for number in range(rows // file_rows):
        table = make_events(file_rows, keys=keys, rate=rate, seed=number).table
        start = table.column("_start").to_numpy() + number * (file_rows * SECOND // rate)
        times = pa.array(start).cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
        table = pa.table({"ts": times, "key": table.column("key"), "value": table.column("value")})
        pq.write_table(table, folder / f"{number:05}.parquet", row_group_size=file_rows)


# ---------------------------------------------------------------- in processes of their own


def measure_ours(
    folder: str,
    trials: list[tuple[int, int]],
    batches: int,
    warm_up: int,
    budget_s: float,
    variant: str = "final",
    file_rows: int = FILE_ROWS,
) -> list[float]:
    """Rows a second for each (rows in a micro-batch, RANGE/SLIDE)."""
    is_warm = has_session()
    spark = ts.session(spark__driver__memory="6g")
    source, consistency = VARIANTS[variant]
    if variant == "foreign_in_python":
        from thalweg.spark import preparing
        from thalweg.spark.sources import frame_feed

        for module in (frame_feed, preparing):
            sums: Any = module
            sums.summing_of = lambda *_: "the measurement asks for it"
    facts: dict[str, Any] = {"time": "ts", "disorder": LATEST, "late": "drop", "name": "events"}

    def seconds(size: int, ratio: int, most: int) -> list[float]:
        files = max(size // file_rows, 1)
        if source == "own":
            events = ts.from_files(folder, files_per_batch=files, **facts)
        else:
            events = ts.from_spark(_stream(spark, folder, files), **facts)
        query = _query(events, ratio)

        def begin(checkpoint: str) -> Any:
            running = ts.start(
                query,
                to="noop",
                consistency=consistency,
                trigger="available now",
                checkpoint=checkpoint,
                progress=False,
            )
            if variant in SUMMED_IN and f"in {SUMMED_IN[variant]}" not in running.explain():
                raise RuntimeError(f"{variant}: {running.explain().splitlines()[-1]}")
            return running.query

        return durations(begin, batches=most, budget_s=budget_s)

    if not is_warm:
        seconds(SEARCHED[0], 1, 3)  # the first query of a process is no measure of any engine
    return [
        _speed(folder, size, seconds(size, ratio, batches), warm_up, file_rows)
        for size, ratio in trials
    ]


def measure_spark(
    folder: str,
    trials: list[tuple[int, int]],
    batches: int,
    warm_up: int,
    budget_s: float,
    store: Store = "rocksdb",
    file_rows: int = FILE_ROWS,
) -> list[float]:
    """Rows a second of Spark's own windows for each (rows in a micro-batch, RANGE/SLIDE)."""
    is_warm = has_session()
    spark = peer_session(store)
    from pyspark.sql import functions as f

    def seconds(size: int, ratio: int, most: int) -> list[float]:
        rows = _stream(spark, folder, max(size // file_rows, 1))
        rows = rows.withWatermark("ts", "60 seconds")
        slide = () if ratio == 1 else (f"{RANGE_S // ratio} seconds",)
        window = f.window("ts", f"{RANGE_S} seconds", *slide)
        answer = rows.groupBy(window, "key").agg(
            f.count("*").alias("n"), f.sum("value").alias("total")
        )
        return durations(
            lambda checkpoint: (
                answer.writeStream.format("noop")
                .outputMode("append")
                .option("checkpointLocation", checkpoint)
                .trigger(availableNow=True)
                .start()
            ),
            batches=most,
            budget_s=budget_s,
        )

    if not is_warm:
        seconds(SEARCHED[0], 1, 3)
    return [
        _speed(folder, size, seconds(size, ratio, batches), warm_up, file_rows)
        for size, ratio in trials
    ]


def _speed(folder: str, size: int, seconds: list[float], warm_up: int, file_rows: int) -> float:
    """Rows a second; a micro-batch has no more files than there are."""
    files = min(max(size // file_rows, 1), len(list(Path(folder).iterdir())))
    used = seconds[warm_up:] if len(seconds) > warm_up + 1 else seconds[len(seconds) // 2 :]
    return files * file_rows / median(used)


def _query(events: tw.Stream, ratio: int) -> tw.Stream:
    windows = events.group_by("key").hopping(f"{RANGE_S} s", f"{RANGE_S // ratio} s")
    return windows.aggregate(n=tw.count(), total=tw.sum_("value"))


def _stream(spark: Any, folder: str, files: int) -> Any:
    reader = spark.readStream.schema("ts timestamp, key long, value long")
    return reader.option("maxFilesPerTrigger", files).parquet(folder)


def _duckdb(folder: Path, ratio: int) -> float:
    """Batch, paned: sums by pane and key, then each window adds its panes by running sums over the
    panes of a key."""
    slide = RANGE_S * 1_000_000 // ratio
    connection = duckdb.connect()
    connection.sql("SET threads=2")
    paths = sorted(map(str, folder.iterdir()))[:DUCKDB_FILES]
    rows = f"read_parquet({paths})"
    total = connection.sql(f"SELECT count(*) FROM {rows}").fetchall()[0][0]
    panes = f"""
        CREATE OR REPLACE TABLE panes AS
        SELECT epoch_us(ts) // {slide} AS pane, key, count(*) AS n, sum(value) AS total
        FROM {rows} GROUP BY ALL"""
    naive = f"""
        CREATE OR REPLACE TABLE answer AS
        SELECT pane + w AS k, key, sum(n) AS n, sum(total) AS total
        FROM panes, range({ratio}) AS r(w) GROUP BY ALL"""
    framed = f"""
        CREATE OR REPLACE TABLE answer AS
        WITH edges AS (
            SELECT pane AS k, key, n, total FROM panes
            UNION ALL SELECT pane + {ratio}, key, -n, -total FROM panes
        ), steps AS (SELECT k, key, sum(n) AS n, sum(total) AS total FROM edges GROUP BY ALL),
        running AS (
            SELECT key, k, lead(k) OVER w AS upto, sum(n) OVER w AS n, sum(total) OVER w AS total
            FROM steps WINDOW w AS (PARTITION BY key ORDER BY k)
        )
        SELECT key, unnest(range(k, upto)) AS k, n, total FROM running WHERE n > 0"""
    best = float("inf")
    for second in (naive, framed) if ratio <= 60 else (framed,):
        for _ in range(2):
            began = monotonic()
            connection.sql(panes)
            connection.sql(second)
            best = min(best, monotonic() - began)
    connection.close()
    return float(total / best)
