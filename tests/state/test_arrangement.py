"""An arrangement against a list of rows: whatever is added, taken away, purged, written and read
back, it finds what the list holds."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from thalweg.errors import UnknownRowError
from thalweg.model.delta import Delta
from thalweg.model.hashing import hash_rows
from thalweg.model.rows import Codes, Rows
from thalweg.model.time import INFINITY, MIN_TIME
from thalweg.state import Arrangement, Slices
from thalweg.state import arrangement as module

SCHEMA = pa.schema([("k", pa.int64()), ("_start", pa.string())])
"""A payload column may have the name of a column that the store writes itself."""

Held = tuple[int, int, int, str]
"""Group, start, end, text."""


def number(rows: Rows) -> Codes:
    found: Codes = rows.column(0).to_numpy()
    return found


def hashed(rows: Rows) -> Codes:
    return (hash_rows([rows.column(0)], rows.num_rows) >> np.uint64(2)).astype(np.int64)


def delta_of(rows: list[Held], weight: int) -> Delta:
    payload = pa.RecordBatch.from_arrays(
        [pa.array([r[0] for r in rows], pa.int64()), pa.array([r[3] for r in rows], pa.string())],
        schema=SCHEMA,
    )
    start, end = (np.array([row[at] for row in rows], np.int64) for at in (1, 2))
    return Delta(payload, start, end, np.full(len(rows), weight))


class Model:
    """The arrangement and the list, changed together."""

    def __init__(self, *, by_hash: bool) -> None:
        self.group_of = hashed if by_hash else number
        self.by_hash = by_hash
        self.held = self._new()
        self.rows: list[Held] = []
        self.purged = MIN_TIME
        self.before: Slices = {}

    def _new(self) -> Arrangement:
        return Arrangement(SCHEMA, self.group_of, marks=1, hashed=self.by_hash, what="test")

    def apply(self, rows: list[Held], weight: int) -> None:
        delta = delta_of(rows, weight)
        self.held.apply(delta, self.group_of(delta.payload), (delta.start * 2,))
        for row in rows:
            self.rows.append(row) if weight > 0 else self.rows.remove(row)

    def check(self, random: Random) -> None:
        groups = np.array([random.randint(0, 9) for _ in range(random.choice([1, 5]))])
        since = np.array([max(self.purged, random.randint(-5, 4000)) for _ in groups])
        until = since + np.array([random.choice([1, 50, 10**6]) for _ in groups])
        rows = pa.RecordBatch.from_arrays(
            [pa.array(groups), pa.array([""] * len(groups))], schema=SCHEMA
        )
        probes = self.group_of(rows)
        hits = self.held.find(probes, since, until)
        found: Counter[tuple[int, Held]] = Counter()
        columns = (hits.owner, hits.start, hits.end, hits.weight, hits.mark(0))
        for values, owner, start, end, weight, mark in zip(
            hits.payload().to_pylist(), *(column.tolist() for column in columns), strict=True
        ):
            found[owner, (values["k"], start, end, values["_start"])] += weight
            assert mark == 2 * start
        wanted = Counter(
            (at, row)
            for at, (group, low, high) in enumerate(zip(groups, since, until, strict=True))
            for row in self.rows
            if row[0] == group and row[2] > low and row[1] < high
        )
        assert found == wanted
        latest = self.held.last_end_before(probes, since)
        for group, time, end in zip(groups, since, latest, strict=True):
            ends = [row[2] for row in self.rows if row[0] == group and row[2] < time]
            assert end == max(ends, default=MIN_TIME) or end <= self.purged
        alive = [row[1] for row in self.rows if row[2] > self.purged]
        assert self.held.first() == min(alive, default=INFINITY)

    def restart(self) -> None:
        slices = self.held.snapshot("a")
        again = self._new()
        again.restore("a", {**slices, "b/tail": slices[next(iter(slices))]} if slices else {})
        again.purge(self.purged)
        self.held = again


@pytest.mark.parametrize("by_hash", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_it_holds_what_a_list_holds(
    seed: int, by_hash: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_TAIL", 16)
    monkeypatch.setattr(module, "_BULK", 3)
    random, model = Random(seed), Model(by_hash=by_hash)
    for _ in range(60):
        clock = max(model.purged, 0)
        lasts = random.choice([1, 30, 3000, INFINITY])
        many = [
            (
                random.randint(0, 9),
                start := clock + random.randint(0, 200),
                INFINITY if lasts == INFINITY else start + random.randint(1, lasts),
                random.choice("xy"),
            )
            for _ in range(random.choice([1, 3, 40]))
        ]
        model.apply(many, 1)
        alive = [row for row in model.rows if row[2] > model.purged]
        if alive and random.random() < 0.6:
            model.apply(random.sample(alive, min(len(alive), random.choice([1, 4, 20]))), -1)
        if random.random() < 0.3:
            model.purged = clock + random.randint(0, 150)
            model.held.purge(model.purged)
            model.rows = [row for row in model.rows if row[2] > model.purged]
        if random.random() < 0.3:
            model.restart()
        model.check(random)
    model.held.purge(INFINITY)
    assert model.held.is_empty() and model.held.size().rows == 0 and not model.held.snapshot("a")


def test_a_row_that_is_not_there_cannot_be_taken_away() -> None:
    model = Model(by_hash=False)
    model.apply([(1, 0, 5, "x")], 1)
    with pytest.raises(UnknownRowError, match="test: adjust of a row that was never inserted"):
        model.held.apply(delta_of([(1, 0, 5, "y")], -1), np.array([1]), (np.array([0]),))


def rows_of(count: int, spread: int, first: int = 0) -> list[Held]:
    return [
        (at % 100, first + at * spread // count, first + at * spread // count + 50, "x")
        for at in range(count)
    ]


def written(before: Slices, after: Slices) -> int:
    return sum(
        rows.num_rows
        for name, rows in after.items()
        if name not in before or before[name] is not rows
    )


def test_a_small_change_writes_little() -> None:
    model = Model(by_hash=False)
    held = rows_of(20_000, 10_000)
    model.apply(held, 1)
    before = model.held.snapshot("a")
    for turn in range(20):
        model.apply(rows_of(10, 10, first=9_000), 1)
        model.held.apply(
            delta_of(held[turn * 10 : turn * 10 + 10], -1),
            np.array([r[0] for r in held[turn * 10 : turn * 10 + 10]]),
        )
        after = model.held.snapshot("a")
        assert written(before, after) < 1_000
        before = after


def test_a_promise_drops_slots_and_rewrites_no_other() -> None:
    model = Model(by_hash=False)
    model.apply(rows_of(20_000, 10_000), 1)
    before = model.held.snapshot("a")
    model.held.purge(5_000)
    after = model.held.snapshot("a")
    assert len(after) < len(before)
    assert written(before, after) < 1_500
