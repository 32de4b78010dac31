"""The window engine: what a batch writes, what a promise for one group closes and frees."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from random import Random

import numpy as np
import pyarrow as pa
import pytest

import thalweg as tw
from thalweg.model.batch import Batch
from thalweg.model.rows import Rows
from thalweg.operators.window.assigners.assigner import Assigner
from thalweg.operators.window.engine import WindowEngine
from thalweg.shards.local_engine import DividedEngine
from thalweg.stream import Stream
from thalweg.testing import EngineType, assert_physically_independent
from thalweg.windows import SlidingTime
from thalweg.windows.specification import rank, rows

COLUMNS = {"k": "int64", "v": "int64"}

WINDOWS: dict[str, Callable[[Stream], Stream]] = {
    "session": lambda s: s.group_by("k").session(50).aggregate(n=tw.count(), x=tw.sum_("v")),
    "landmark": lambda s: s.group_by("k").landmark(100).aggregate(n=tw.count(), x=tw.sum_("v")),
    "slide by tuple": lambda s: s.slide_by_tuple(500, partition_by="k").aggregate(n=tw.count()),
    "slide by rank": lambda s: s.slide_by_tuple(
        500, every=2, order=rank("ts"), partition_by="k"
    ).aggregate(n=tw.count()),
    "rank": lambda s: s.sliding(8, 4, over=rank("ts"), partition_by="k").aggregate(n=tw.count()),
    "rows": lambda s: s.sliding(8, 4, over=rows(), partition_by="k").aggregate(x=tw.sum_("v")),
    "landmark over rank": lambda s: s.landmark(4, over=rank("ts"), partition_by="k").aggregate(
        n=tw.count()
    ),
    "count by start": lambda s: s.group_by("k").count_by_start(4).aggregate(x=tw.sum_("v")),
    "a kind of one's own": lambda s: (
        s.group_by("k").windows(SlidingTime(500, 250)).aggregate(n=tw.count())
    ),
}

GRIDS: dict[str, Callable[[Stream], Stream]] = {
    "tumbling sums": lambda s: s.group_by("k").tumbling(20).aggregate(n=tw.count()),
    "hopping sums": lambda s: s.group_by("k").hopping(40, 10).aggregate(n=tw.count()),
    "hopping rows": lambda s: (
        s.group_by("k").hopping(40, 10).aggregate(p=tw.percentile("v", 0.5), n=tw.count())
    ),
    "hopping top": lambda s: s.group_by("k").tumbling(20).top_k(1, by="v"),
    "by panes": lambda s: s.group_by("k").sliding(40, 10).aggregate(n=tw.count(), m=tw.max_("v")),
}


def batch_of(random: np.random.Generator, low: int, high: int, count: int, groups: int) -> Batch:
    start = np.sort(random.integers(low, high, count))
    columns = {"k": random.integers(0, groups, count), "v": random.integers(0, 100, count)}
    return Batch(pa.RecordBatch.from_pydict(columns), start, start + 1)


def slices_of(engine: tw.Engine) -> dict[tuple[str, str], Rows]:
    return {
        (operator, name): rows
        for operator, slices in engine._graph.snapshot().items()
        for name, rows in slices.items()
        if operator.startswith(("window", "wid"))
    }


WITHOUT_GROUPS: dict[str, Callable[[Stream], Stream]] = {
    "from the first row": lambda s: s.sliding(500, 250, origin=None).aggregate(n=tw.count()),
}
"""Windows that no promise for one group closes."""


def kinds_of_assigners(base: type[Assigner] = Assigner) -> set[str]:
    """Every assigner of the package, by name."""
    found = set() if inspect.isabstract(base) else {base.__name__}
    return found.union(*map(kinds_of_assigners, base.__subclasses__()))


def test_every_assigner_has_a_window_here() -> None:
    found = set()
    for build in [*WINDOWS.values(), *WITHOUT_GROUPS.values()]:
        engine = tw.Engine(build(tw.source("s", COLUMNS)))
        kernels = [operator.kernel for operator in engine._graph.operators]
        found |= {type(k._assigner).__name__ for k in kernels if isinstance(k, WindowEngine)}
    in_tests = {"NeighboursAssigner"}
    assert kinds_of_assigners() - in_tests == found


@pytest.mark.parametrize("name", [*WINDOWS, *WITHOUT_GROUPS])
def test_a_small_batch_writes_little_of_a_large_state(name: str) -> None:
    """200,000 rows are held; ten that touch one time range write less than 5% of the bytes."""
    query = (WINDOWS | WITHOUT_GROUPS)[name](tw.source("s", COLUMNS))
    engine = tw.Engine(query, consistency="final")
    random = np.random.default_rng(7)
    for turn in range(10):
        low = turn * 20_000
        engine.push("s", batch_of(random, low, low + 20_000, 20_000, 500))
    before = slices_of(engine)
    engine.push("s", batch_of(random, 199_000, 199_050, 10, 500))
    after = slices_of(engine)
    held = sum(rows.nbytes for rows in after.values())
    written = sum(rows.nbytes for at, rows in after.items() if before.get(at) is not rows)
    assert held > 2_000_000
    assert written < 0.05 * held


@pytest.mark.parametrize("end", [tw.INFINITY, 900])
@pytest.mark.parametrize("name", [*WINDOWS, *GRIDS])
def test_groups_that_have_ended_leave_nothing(name: str, end: int) -> None:
    """400 groups, each ended by a CTI of its own."""
    if end == 900 and name in (
        "landmark",
        "landmark over rank",
        "rank",
        "rows",
        "slide by rank",
        "count by start",
    ):
        return  # what a later row of the group would need is kept until the group has ended
    query = (WINDOWS | GRIDS)[name](tw.source("s", COLUMNS, insert_only=True))
    engine = tw.Engine(query, consistency="final")
    answers = 0
    for group in range(400):
        events = [tw.point({"k": group, "v": at}, at * 10) for at in range(8)]
        engine.push("s", events)
        out = engine.push("s", tw.cti(end, {"k": group}))
        answers += sum(isinstance(one, tw.Insert) for one in tw.elements_of(out))
        if group == 200:
            engine = tw.Engine.restore(query, engine.snapshot(), consistency="final")
    sizes = {at: size for at, size in engine.state_size().items() if at.startswith(("wi", "top"))}
    assert sizes and all(size.rows == 0 for size in sizes.values())
    assert answers >= 400


@pytest.mark.parametrize("name", [*WINDOWS, *GRIDS])
def test_a_group_is_closed_by_its_own_promise(name: str) -> None:
    """What a promise for one group closes leaves, and no more of the group is held than of one
    that the common promise has passed."""
    query = (WINDOWS | GRIDS)[name](tw.source("s", COLUMNS, insert_only=True))
    events = [tw.point({"k": 1, "v": at}, at * 20 + at // 10 * 100) for at in range(300)]
    held, out = [], []
    for promise in (tw.cti(5_000, {"k": 1}), tw.cti(5_000)):
        engine = tw.Engine(query, consistency="final")
        engine.push("s", events)
        found = list(tw.elements_of(engine.push("s", promise)))
        out.append(sorted(one.start for one in found if isinstance(one, tw.Insert)))
        held.append(engine.state_size())
    assert out[0] == out[1] and out[0]
    if name in WINDOWS:  # a grid has answers ready that wait
        (operator,) = (at for at in held[1] if at.startswith("wi"))
        assert held[0][operator].rows <= held[1][operator].rows


@pytest.mark.parametrize("name", [*WINDOWS, *GRIDS])
@pytest.mark.parametrize("engine", [tw.Engine, DividedEngine])
def test_law_with_promises_for_groups(name: str, engine: EngineType) -> None:
    if name == "rows":
        pytest.skip("arrival decides about the answer")
    random = Random(name)
    source = tw.source("s", COLUMNS, group_ctis="k", insert_only=name == "by panes")
    inputs = {
        "s": [
            (start := random.randrange(900), start + random.randrange(1, 9), {"k": at % 3, "v": at})
            for at in range(14)
        ]
    }
    query = (WINDOWS | GRIDS)[name](source).node
    for level in ("speculative", "final"):
        assert_physically_independent(query, inputs, forms=2, engine=engine, consistency=level)
