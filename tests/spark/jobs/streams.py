"""Two streams that arrive as files, the queries over them, and what the answers must be in the
end."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import cloudpickle as untyped

import thalweg as tw
from thalweg import spark as ts
from thalweg.model.cht import Row
from thalweg.udm import aggregate

__all__ = ["CONSISTENCY", "Arrivals", "answers", "expected", "query", "run"]

EVENTS = pa.schema([("ts", pa.int64()), ("key", pa.string()), ("value", pa.int64())])
RATES = pa.schema(
    [("since", pa.int64()), ("till", pa.int64()), ("key", pa.string()), ("rate", pa.int64())]
)
DISORDER = 200
SPAN = 1000
"""How much time one file covers."""
KEYS = 7
CONSISTENCY = {
    "windows": "speculative",
    "priced": "final",
    "spread": "speculative",
    "swing": "speculative",
    "visits": "final",
    "large": "speculative",
}

cloudpickle: Any = untyped
# Spark's workers do not know the folder of the tests: what it defines travels with the query.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


@aggregate(
    "jobs.swing",
    inputs={"value": "int64"},
    output="int64",
    takes="values",
)
class Swing:
    """The largest value less the smallest."""

    def compute(self, values: Sequence[int]) -> int:
        return max(values) - min(values)


def query(folder: Path, name: str, *, finish: bool = True) -> tw.Stream:
    """`windows`: a sliding count and sum; `priced`: these joined with rates; `spread`: those by
    rate, over a second exchange; `swing`: a user's aggregate over sliding windows; `visits`:
    sessions of the distinct keys and values; `large`: some of the events, which needs no state."""
    facts: dict[str, Any] = {"files_per_batch": 1, "finish": finish}
    events = ts.from_files(
        str(folder / "events"), time="ts", columns=EVENTS, disorder=DISORDER, name="events", **facts
    )
    rates = ts.from_files(
        str(folder / "rates"),
        time="since",
        end="till",
        columns=RATES,
        disorder=0,
        name="rates",
        **facts,
    )
    windows = (
        events.group_by("key").hopping(300, 100).aggregate(n=tw.count(), total=tw.sum_("value"))
    )
    priced = windows.join(rates, on="key")
    spread = priced.group_by("rate").tumbling(500).aggregate(rows=tw.count(), best=tw.max_("total"))
    swing = events.group_by("key").hopping(250, 50).apply("jobs.swing", "value")
    visits = events.distinct().group_by("key").session(30)
    large = events.where("value >= 50").select("key", twice="value * 2")
    return {
        "windows": windows,
        "priced": priced,
        "spread": spread,
        "swing": swing,
        "visits": visits.aggregate(n=tw.count(), mean=tw.avg("value"), most=tw.max_("value")),
        "large": large,
    }[name]


class Arrivals:
    """Files that are ready, and that arrive one after the other by being renamed into their
    folder."""

    def __init__(
        self,
        folder: Path,
        files: int,
        seed: int,
        *,
        rows: int = 200,
        read: tuple[str, ...] = ("events", "rates"),
    ) -> None:
        """`read` are the streams that the queries read: only their files bring a micro-batch."""
        self.folder, self.read = folder, read
        self._ready = folder / "ready"
        random = np.random.default_rng(seed)
        for name in ("events", "rates"):
            (self._ready / name).mkdir(parents=True)
            (folder / name).mkdir()
        for number in range(files):
            pq.write_table(
                _events(random, number, rows), self._ready / "events" / f"{number:05}.parquet"
            )
            pq.write_table(_rates(random, number), self._ready / "rates" / f"{number:05}.parquet")
        self._arrived = dict.fromkeys(read, 0)
        self.files = files

    @property
    def left(self) -> int:
        return sum(self.files - count for count in self._arrived.values())

    def arrive(self, name: str, count: int = 1) -> None:
        """The next files of one stream."""
        for _ in range(min(count, self.files - self._arrived[name])):
            file = f"{self._arrived[name]:05}.parquet"
            (self._ready / name / file).rename(self.folder / name / file)
            self._arrived[name] += 1

    def arrive_somewhere(self, random: Random) -> None:
        self.arrive(random.choice(self.read))

    def arrive_all(self) -> None:
        for name in self._arrived:
            self.arrive(name, self.files)


def _events(random: np.random.Generator, number: int, rows: int) -> pa.Table:
    times = random.integers(number * SPAN, (number + 1) * SPAN, rows) + random.integers(
        -DISORDER // 4, DISORDER // 4, rows
    )
    times.sort()
    # Neighbours swap places within the disorder that the source declares, also with the file before
    # and after.
    times = times[
        np.argsort(times + random.integers(-DISORDER // 4, DISORDER // 4, rows), kind="stable")
    ]
    keys = [f"k{key}" for key in random.integers(0, KEYS, rows)]
    return pa.table(
        {"ts": times, "key": keys, "value": random.integers(0, 100, rows)}, schema=EVENTS
    )


def _rates(random: np.random.Generator, number: int) -> pa.Table:
    count = 8
    since = np.sort(random.integers(number * SPAN, (number + 1) * SPAN, count))
    till = [
        None if lasts == 0 else int(start + lasts)
        for start, lasts in zip(since, random.integers(0, 900, count), strict=True)
    ]
    keys = [f"k{key}" for key in random.integers(0, KEYS, count)]
    return pa.table(
        {"since": since, "till": till, "key": keys, "rate": random.integers(0, 5, count)},
        schema=RATES,
    )


def expected(folder: Path, name: str) -> list[Row]:
    """The final table of a query over all the files, from an uninterrupted run in this process."""
    inputs = {"events": tw.events(pq.read_table(folder / "events"), "ts")}
    if name in ("priced", "spread"):
        inputs["rates"] = tw.events(pq.read_table(folder / "rates"), "since", "till")
    return list(tw.table(query(folder, name), inputs))


def run(
    folder: Path, asked: tw.Stream | None = None, *, finish: bool = True, **options: Any
) -> None:
    """All the files that are there through the query `windows`, or another one, and the folder's
    one checkpoint."""
    given: dict[str, Any] = {"trigger": "available now", "buckets": 2}
    if "to" not in options:
        given |= {"to": "parquet", "path": str(folder / "answers" / "windows")}
    ts.start(
        asked or query(folder, "windows", finish=finish),
        checkpoint=str(folder / "checkpoint"),
        **{**given, **options},
    ).wait()


def answers(folder: Path, name: str) -> list[Row]:
    """The table that the change log of a query says, all its micro-batches in order. Each must be
    there, and whole."""
    written = folder / "answers" / name
    numbers = sorted(int(path.name.removeprefix("batch=")) for path in written.glob("batch=*"))
    assert numbers == list(range(len(numbers)))
    return tw.cht(
        (change for number in numbers for change in _changes(written / f"batch={number}")),
        query(folder, name).schema,
    )


def _changes(batch: Path) -> Iterator[tw.Element]:
    assert (batch / "_SUCCESS").exists(), f"{batch.name} is not whole"
    for part in sorted(batch.glob("part-*.parquet")):
        for row in pq.ParquetFile(part).read().to_pylist():
            kind, start, end, new_end = (
                row.pop(column) for column in ("_kind", "_start", "_end", "_new_end")
            )
            if kind == "insert":
                yield tw.insert(row, start, end)
            else:
                yield tw.adjust(row, start, end, new_end)
