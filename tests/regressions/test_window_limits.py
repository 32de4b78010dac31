"""Windows at the edges: extreme times, bad clocks, huge windows, tables that must flush, modules
that forget, and state that follows what a batch touches."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

import thalweg as tw
from thalweg import adjust, cti, insert, point
from thalweg.errors import PlanError, WindowError, WindowWarning
from thalweg.model import INFINITY, Element
from thalweg.model.batch import Batch
from thalweg.model.progress import Progress
from thalweg.operators.consistency import Consistency
from thalweg.operators.registry import kernel_for
from thalweg.testing import oracle

VALUE = {"v": "int64"}


@pytest.mark.parametrize("at", [2**61, -(2**61), 2**61 - 1, -(2**61) - 1, 2**62 - 10, 10 - 2**62])
@pytest.mark.parametrize("call", [tw.count(), tw.percentile("v", 0.5)], ids=str)
def test_windows_at_extreme_times(at: int, call: tw.AggregateCall) -> None:
    query = tw.source("s", VALUE).tumbling(1).aggregate(x=call)
    found = tw.table(query, {"s": [point({"v": 1}, at)]})
    assert found == [(at, at + 1, {"x": 1})]


@pytest.mark.parametrize("at", [-(2**60), -(2**61), 10 - 2**62, 0, 2**60])
def test_a_row_without_an_end_at_extreme_times(at: int) -> None:
    query = tw.source("s", VALUE).hopping(7, 1, offset=7).aggregate(x=tw.max_("v"))
    engine = tw.Engine(query, consistency="final")
    out = engine.push("s", [insert({"v": 1}, at + 8), cti(at + 15)])
    out += engine.push("s", adjust({"v": 1}, at + 8, INFINITY, at + 15)) + engine.finish()
    expected = [(start, start + 7, {"x": 1}) for start in range(at + 2, at + 15)]
    assert tw.cht(tw.elements_of(out)) == expected


@pytest.mark.parametrize("consistency", ["speculative", "eager", "final"])
def test_windows_by_count_of_ends_of_many_groups(consistency: str) -> None:
    """So many groups are looked up at once, up to the end of time when the input ends."""
    count = np.arange(15_000)
    rows = pa.RecordBatch.from_pydict({"k": count % 5_000, "v": count})
    query = tw.source("s", {"k": "int64", **VALUE}).group_by("k").count_by_end(1)
    engine = tw.Engine(query.apply("average", "v"), consistency=consistency)
    out = [*engine.push("s", Batch(rows, count % 7, count + 10)), *engine.finish()]
    assert len(tw.cht(tw.elements_of(out))) == len(count)


@pytest.mark.parametrize("strategy", ["panes", "wid", "adaptive", "rows"])
def test_a_row_with_a_bad_clock_costs_what_a_row_costs(strategy: str) -> None:
    events = tw.source("s", VALUE, insert_only=True).sliding("10 s", "1 s")
    query = events.using(strategy).aggregate(most=tw.max_("v"))
    now, year = 1_700_000_000_000_000, 365 * 86_400_000_000
    rows = [
        point({"v": at}, start) for at, start in enumerate((now, now - year, now - 60_000_000, 1))
    ]
    engine = tw.Engine(query)
    engine.push("s", rows[:1])
    tracemalloc.start()
    engine.push("s", rows[1:])
    engine.finish()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10_000_000
    wanted = oracle(query.node, {"s": [(row.start, row.end, row.payload) for row in rows]})
    assert tw.table(query, {"s": rows}) == wanted


def test_a_window_that_a_row_is_in_too_often_is_refused() -> None:
    with pytest.raises(WindowError, match=r"1,000,000,000,000 windows.*larger hop"):
        tw.source("s", VALUE).hopping(10**12, 1)


def test_a_lazy_table_sends_what_is_overdue_without_promises() -> None:
    windows = tw.source("s", {"k": "int64"}).group_by("k").tumbling(10)
    engine = tw.Engine(windows.two_level(64, flush="lazy", late=2).aggregate(n=tw.count()))
    engine.push("s", [point({"k": 1}, 2)])
    out: list[Element] = []
    for window in range(1, 6):
        out += tw.elements_of(engine.push("s", [point({"k": 2}, 10 * window + 2)]))
    assert tw.insert({"k": 1, "n": 1}, 0, 10) in out


def test_time_bound_modules_are_refused_over_count_windows() -> None:
    windows = tw.source("s", {"kind": "string"}).count_by_start(3)
    settings = {"first": "A", "second": "B", "within": 10}
    with pytest.raises(PlanError, match="count window"):
        windows.apply("followed_by", "kind", params=settings)
    query = windows.apply("followed_by", "kind", params=settings, stamp="keep")
    rows = [point({"kind": kind}, at) for kind, at in (("A", 1), ("B", 3), ("C", 10))]
    whole = tw.table(query, {"s": rows})
    assert whole == tw.table(query, {"s": [*rows[:2], cti(5), rows[2]]}) and len(whole) == 1


@pytest.mark.parametrize("module", ["average", "time_weighted_average"])
@pytest.mark.parametrize("odd", [math.nan, math.inf, 1e17])
def test_modules_forget_what_was_taken_back(module: str, odd: float) -> None:
    query = tw.source("s", {"v": "double"}).tumbling(10).apply(module, "v")
    engine = tw.Engine(query)
    out = engine.push("s", [tw.insert({"v": 0.5}, 0, 10), tw.insert({"v": odd}, 0, 10), cti(0)])
    out += engine.push("s", [tw.point({"v": 0.5}, 15)])
    out += engine.push("s", [tw.remove({"v": odd}, 0, 10)])
    first = [
        row
        for row in tw.elements_of(out + engine.finish())
        if isinstance(row, tw.Insert) and row.start == 0
    ][-1]
    assert list(first.payload.values()) == [0.5]


@pytest.mark.parametrize("name", ["percentile", "top_k", "sum"])
def test_a_small_batch_writes_what_it_touches(name: str) -> None:
    windows = tw.source("s", {"k": "int64", "v": "int64"}).group_by("k").hopping(1_000, 1_000)
    if name == "sum":
        windows = tw.source("s", {"k": "int64", "v": "int64"}).group_by("k").hopping(1_000, 10)
    query = {
        "percentile": lambda: windows.aggregate(x=tw.percentile("v", 0.5)),
        "top_k": lambda: windows.top_k(2, by="v"),
        "sum": lambda: windows.aggregate(x=tw.sum_("v")),
    }[name]()
    kernel, random = kernel_for(query.node, Consistency()), np.random.default_rng(1)

    def push(rows: int, low: int, high: int) -> None:
        start = np.sort(random.integers(low, high, rows))
        columns = [pa.array(random.integers(0, 500, rows)) for _ in range(2)]
        payload = pa.RecordBatch.from_arrays(columns, names=["k", "v"])
        kernel.process(0, Batch(payload, start, start + 1, progress=Progress(0)))

    for part in range(10):
        push(20_000, part * 90, part * 90 + 90)
    kept = kernel.snapshot()
    before = {id(rows) for rows in kept.values()}
    push(10, 890, 900)
    written = sum(rows.nbytes for rows in kernel.snapshot().values() if id(rows) not in before)
    assert written < 0.05 * sum(rows.nbytes for rows in kept.values())


@pytest.mark.parametrize("module", ["mode", "average"])
def test_rows_between_two_windows_are_not_held_after_the_end(module: str) -> None:
    """Windows of 2 every 7: at 20 a row is in none, and no window closes with the end."""
    stream = tw.source("s", {"v": "int64"}, insert_only=True)
    engine = tw.Engine(stream.hopping(2, 7).apply(module, "v"), consistency="eager")
    engine.push("s", [tw.insert({"v": 1}, 0, 5), tw.cti(20)])
    engine.push("s", [tw.insert({"v": 2}, 20, 21)])
    engine.finish()
    assert not any(size.rows for size in engine.state_size().values())


@pytest.mark.parametrize("consistency", ["eager", "speculative", "final"])
def test_a_row_between_two_windows_may_still_be_taken_back(consistency: str) -> None:
    """Windows of 3 from the first row, 53, a new one every 15: 240 is in none, and not settled."""
    with pytest.warns(WindowWarning, match="tuples between two windows"):
        windows = tw.source("s", VALUE).sliding(3, 15, origin=None)
    engine = tw.Engine(windows.aggregate(n=tw.count()), consistency=consistency)
    out = engine.push("s", [point({"v": 1}, 53), point({"v": 7}, 240), cti(236)])
    out += engine.push("s", [tw.remove({"v": 7}, 240, 241), point({"v": 2}, 247)])
    table = tw.cht(list(tw.elements_of(out + engine.finish())))
    assert table == [(245, 248, {"n": 1})]
