"""Two plans that take turns at being slow, merged without and with feedback.

Both plans select by a function of X that has the same value in both. One computes it the long way
for small X, the other for large X, and X changes between small and large every 10,000 to 30,000
elements. Each plan has a clock of its own that runs while it works (processor time, no sleeping);
the plan whose clock is behind works next, as if each had a processor. A run ends when the merge
has promised the end.

Alone, each plan pays for its slow half. Merged, the run is as long as the better of the two: both
do all the work. With feedback the plan that is behind skips what the merge has settled, so that the
elements of a stretch are worked on by the plan that is quick there.

How slow the slow way is decides how much there is to gain, and the document does not say it. It
does say that a plan alone takes 163 to 176 s and the run with feedback 34 s. If feedback left
nothing but quick work, all elements take 34 s the quick way, and a plan alone takes 5 times as long
as that: `DOCUMENT`. An element the quick way then takes 170 us; here it takes `QUICK_US`, so that
runs are shorter and the work still outweighs what the engine itself does for an element. Both ways
are made as long as they must be for that, by measuring them on this machine. The gain is shown over
a range of ratios; it cannot be more than the ratio itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from time import process_time

import numpy as np
import pyarrow as pa

import thalweg as tw
from benchmarks.repro import Line, draw_series, point
from thalweg.model.batch import Batch
from thalweg.model.progress import Progress
from thalweg.model.rows import Bools, Codes
from thalweg.model.time import INFINITY
from thalweg.udm.decorators import function

TITLE = "Two plans that take turns at being slow: alone, merged, merged with feedback"
ELEMENTS = 200_000
BATCH = 500
LIMIT = 200
DOCUMENT = 5.0
"""A plan alone / all elements the quick way: 170 s / 34 s."""
RATIOS = (2.0, DOCUMENT, 10.0, 20.0)
QUICK_US = 10.0
_PROBE = 50
"""Rounds of a detour with which its length is measured."""


class Detour:
    """How often the two ways go back and forth."""

    quick = 0
    slow = 0


SCHEMA = pa.schema([("x", pa.int64()), ("id", pa.int64())])


def keeps(x: pa.Array, slow: Bools) -> pa.Array:
    """The selection, by a hash of X; where `slow` says so, X makes a long detour first."""
    value = x.to_numpy()
    value = _wander(value, Detour.quick)
    if Detour.slow and slow.any():
        value[slow] = _wander(value[slow], Detour.slow)
    return pa.array((value * np.int64(2654435761)) % np.int64(7) < 6)


def _wander(value: Codes, rounds: int) -> Codes:
    """The same numbers, after so many rounds of work."""
    hard = value + 2.0
    for _ in range(rounds):
        hard = np.power(np.power(hard, 1.1), 1 / 1.1)
    same: Codes = np.rint(hard - 2.0).astype(np.int64)
    return same


def plans() -> dict[str, tw.Stream]:
    """Two queries that mean the same."""
    source = tw.source("events", SCHEMA, insert_only=True)
    return {
        "UDF0": source.where(tw.call("lmerge_9_small", tw.col("x"))),
        "UDF1": source.where(tw.call("lmerge_9_large", tw.col("x"))),
    }


@function("lmerge_9_small", inputs=["int64"], output="bool", vectorised=True)
def keeps_slow_for_small(x: pa.Array) -> pa.Array:
    return keeps(x, x.to_numpy() < LIMIT)


@function("lmerge_9_large", inputs=["int64"], output="bool", vectorised=True)
def keeps_slow_for_large(x: pa.Array) -> pa.Array:
    return keeps(x, x.to_numpy() >= LIMIT)


def batches(count: int, seed: int = 9) -> list[Batch]:
    """Points in order; X is small and large in turns."""
    random = np.random.default_rng(seed)
    x = np.empty(count, np.int64)
    begin, small = 0, True
    while begin < count:
        end = min(count, begin + int(random.integers(10_000, 30_001) * count / ELEMENTS) + 1)
        x[begin:end] = random.integers(0, LIMIT, end - begin) + (0 if small else LIMIT)
        begin, small = end, not small
    made = []
    for at in range(0, count, BATCH):
        time = np.arange(at, min(at + BATCH, count), dtype=np.int64)
        payload = pa.RecordBatch.from_arrays([pa.array(x[time]), pa.array(time)], schema=SCHEMA)
        last = at + BATCH >= count
        progress = Progress(INFINITY if last else int(time[-1]) + 1)
        made.append(Batch(payload, time, time + 1, progress=progress))
    return made


class Plan:
    """A plan at work, with the processor time it has taken."""

    def __init__(self, query: tw.Stream, feed: list[Batch]) -> None:
        self.engine, self._feed, self._at = tw.Engine(query), feed, 0
        self.clock = 0.0

    @property
    def done(self) -> bool:
        return self._at == len(self._feed)

    def step(self) -> list[Batch]:
        begin = process_time()
        out = self.engine.push("events", self._feed[self._at])
        self.clock += process_time() - begin
        self._at += 1
        return out


def alone(query: tw.Stream, feed: list[Batch]) -> tuple[float, int]:
    """Seconds, and rows of the answer."""
    plan, rows = Plan(query, feed), 0
    while not plan.done:
        rows += sum(map(len, plan.step()))
    return plan.clock, rows


def merged(queries: Iterable[tw.Stream], feed: list[Batch], *, feedback: bool) -> tuple[float, int]:
    """Seconds until the merge has promised the end, and rows of the answer."""
    running = {f"plan {at}": Plan(query, feed) for at, query in enumerate(queries)}
    merger, rows = tw.Merger(SCHEMA), 0
    for name in running:
        merger.attach(name)
    while True:
        name = min(
            (n for n, plan in running.items() if not plan.done), key=lambda n: running[n].clock
        )
        plan = running[name]
        if feedback:
            plan.engine.skip_before(merger.cti)
        for batch in plan.step():
            rows += sum(map(len, merger.push(name, batch)))
        if merger.cti == INFINITY:
            return plan.clock, rows


def set_quick(feed: list[Batch]) -> None:
    """Make the quick way take its time."""
    Detour.quick, Detour.slow = _PROBE, 0
    rows = sum(map(len, feed))
    each = min(alone(plans()["UDF0"], feed)[0] for _ in range(2)) / _PROBE / rows * 1e6
    Detour.quick = max(1, round(QUICK_US / each))


def set_slow(ratio: float) -> None:
    """Make the slow way as long as it must be for a plan, whose elements take it half of the time,
    to take `ratio` times as long as without it."""
    Detour.slow = round(2 * (ratio - 1) * Detour.quick)


def series(scale: float) -> Iterator[Line]:
    count = max(20_000, int(ELEMENTS * scale))
    feed, queries = batches(count), plans()
    set_quick(feed[: max(1, len(feed) // 10)])
    for ratio in RATIOS:
        set_slow(ratio)
        found = {name: alone(query, feed) for name, query in queries.items()}
        for name, feedback in (("LMerge", False), ("LMerge with feedback", True)):
            found[name] = merged(queries.values(), feed, feedback=feedback)
        rows = {answer for _, answer in found.values()}
        if len(rows) != 1:
            raise AssertionError(f"the plans do not mean the same: {found}")
        for name, (seconds, _) in found.items():
            yield point(
                "lmerge-9", name, ratio, "time to completion", seconds, "s of processor time"
            )
        better = min(found["UDF0"][0], found["UDF1"][0])
        for name in ("LMerge", "LMerge with feedback"):
            gain = better / found[name][0]
            yield point("lmerge-9", name, ratio, "times as fast as the better plan", gain, "x")


def draw(lines: Iterable[Line], path: Path) -> None:
    times = [one for one in lines if one.metric == "time to completion"]
    draw_series(times, path, title=TITLE, x="a plan alone / all elements the quick way", log_x=True)
