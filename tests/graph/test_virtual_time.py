"""What strategies do to latency and memory, in virtual time and exactly."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest

import thalweg as tw
from thalweg.graph import QueryGraph, build_graph
from thalweg.graph.auto import average_burst, tune
from thalweg.graph.chain import Work, measured, place_breaks, steepest
from thalweg.model import Batch
from thalweg.operators.consistency import Consistency
from thalweg.stream import Stream
from thalweg.testing import step
from thalweg.testing.virtual_time import Arrival, VirtualRun


def graph_of(stream: Stream) -> QueryGraph:
    graph, _ = build_graph(stream.node, Consistency("speculative"), rewrite=False)
    graph.split()
    return graph


def two_operators() -> QueryGraph:
    return graph_of(tw.source("s", {"arrived": "float64"}).where("arrived >= 0").shift(1))


def burst(size: int, time: float = 0.0) -> list[Arrival]:
    schema = pa.schema([("arrived", pa.float64())])
    return [
        Arrival(time, "s", step("s", tw.point({"arrived": time}, number)).batch(schema))
        for number in range(size)
    ]


def mean_latency(run: VirtualRun) -> float:
    late: list[float] = [
        time - arrived
        for time, batch in run.output
        for arrived in batch.payload.column("arrived").to_pylist()
    ]
    return sum(late) / len(late)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 10, 33, 100])
def test_mean_latency_of_a_burst(size: int) -> None:
    """Two operators of cost c: (n + 1) c depth-first, (1.5 n + 0.5) c breadth-first."""
    cost = 2.0
    found: dict[str, float] = {}
    for strategy, k in [("depth-first", None), ("breadth-first", None), ("k-batching", 1)]:
        run = VirtualRun(two_operators(), burst(size), {"where-1": cost, "shift-1": cost})
        run.graph.use(strategy, k=k)
        run.run()
        found[strategy] = mean_latency(run)
    assert found["depth-first"] == (size + 1) * cost
    assert found["breadth-first"] == (1.5 * size + 0.5) * cost
    assert found["k-batching"] == found["depth-first"]


@pytest.mark.parametrize("k", [2, 3, 7, 24])
def test_k_batching_lies_between(k: int) -> None:
    size, cost = 24, 1.0
    run = VirtualRun(two_operators(), burst(size), {"where-1": cost, "shift-1": cost})
    run.graph.use("k-batching", k=k)
    run.run()
    # Rows of a slice leave together, at its end: later by (k - 1) / 2 than one by one.
    one_by_one = mean_latency(run) - cost * _mean_wait(size, k)
    assert (size + 1) * cost <= one_by_one <= (1.5 * size + 0.5) * cost
    if k == size:
        assert one_by_one == (1.5 * size + 0.5) * cost


def _mean_wait(size: int, k: int) -> float:
    """How much earlier rows would leave the last operator if they left it one by one."""
    waits = [
        min(k, size - begin) - 1 - place
        for begin in range(0, size, k)
        for place in range(min(k, size - begin))
    ]
    return sum(waits) / size


# ----------------------------------------------------------------------------------------------
# memory


def narrowing(*widths: int) -> Stream:
    """A path of selects, each of which keeps some columns."""
    stream = tw.source("s", {f"c{number}": "int64" for number in range(widths[0])})
    for width in widths[1:]:
        stream = stream.select(**{f"c{number}": f"c{number}" for number in range(width)})
    return stream


def one_row(width: int) -> Batch:
    schema = pa.schema([(f"c{number}", pa.int64()) for number in range(width)])
    return step("s", tw.point(dict.fromkeys(schema.names, 1), 0)).batch(schema)


def test_break_points_hold_a_fifth_where_depth_first_holds_half() -> None:
    """One row a tick, two operators of one tick each, the first keeps a fifth of a row's bytes."""
    ticks = 200
    held = {}
    tables = {}
    for strategy in ("depth-first", "breaks"):
        graph = graph_of(narrowing(5, 1, 1))
        if strategy == "breaks":
            works = {"select-1": Work(1.0, 0.2), "select-2": Work(1.0, 1.0)}
            assert place_breaks(graph, works | {"source-1": Work(0, 1)}) == [
                ("select-1", "select-2")
            ]
        arrivals = [Arrival(float(at), "s", one_row(5)) for at in range(ticks)]
        run = VirtualRun(graph, arrivals, {"select-1": 1.0, "select-2": 1.0})
        run.run(until=ticks)
        held[strategy] = run.held() / one_row(5).payload.nbytes
        run.arrivals = []
        run.run()
        tables[strategy] = sum(len(batch) for _, batch in run.output)
    assert held["depth-first"] == pytest.approx(ticks / 2, rel=0.05)
    assert held["breaks"] == pytest.approx(ticks / 5, rel=0.05)
    assert tables["depth-first"] == tables["breaks"]


@pytest.mark.parametrize("seed", range(3))
def test_break_points_never_hold_more(seed: int) -> None:
    """Five operators of drawn costs and selectivities, rows in bursts: bytes held over time."""
    random = Random(seed)
    widths = [32, *sorted((random.randint(1, 32) for _ in range(5)), reverse=True)]
    costs = {f"select-{number}": float(random.randint(1, 6)) for number in range(1, 6)}
    times = np.cumsum([random.expovariate(0.02) for _ in range(8)])
    arrivals = [
        Arrival(float(time), "s", one_row(32))
        for time in times
        for _ in range(random.randint(1, 9))
    ]
    held = {}
    for strategy in ("depth-first", "breadth-first", "breaks"):
        graph = graph_of(narrowing(*widths))
        if strategy == "breaks":
            works = {
                name: Work(cost, widths[number + 1] / widths[number])
                for number, (name, cost) in enumerate(costs.items())
            }
            place_breaks(graph, works | {"source-1": Work(0, 1)})
        else:
            graph.use(strategy)
        run = VirtualRun(graph, arrivals, costs)
        total, before = 0.0, 0.0
        for now in run.steps():
            total += run.held() * (now - before)
            before = now
        held[strategy] = total
    assert held["breaks"] <= min(held["depth-first"], held["breadth-first"]) * 1.0001


def test_steepest_joins_operators_that_fall_together() -> None:
    parts = steepest([Work(2, 1.0), Work(1, 0.1), Work(5, 0.5)])
    assert [(part.begin, part.end) for part in parts] == [(0, 2), (2, 3)]
    assert parts[0].slope > parts[1].slope


# ----------------------------------------------------------------------------------------------
# auto


def test_auto_says_what_it_chose_and_why() -> None:
    graph = graph_of(narrowing(8, 2, 2))
    tune(graph, 0.0)
    assert "auto: nothing measured yet" in graph.table()
    graph.offer("s", one_row(8))
    graph.run()
    (choice,) = tune(graph, average_burst(graph))
    assert choice.strategy == "depth-first" and "1.0 batches wait" in choice.reason
    assert [row.name for row in graph.state] == ["source-1", "select-1+select-2"]
    for _ in range(20):
        graph.offer("s", one_row(8))
    graph.run()
    (choice,) = tune(graph, 20.0)
    assert (choice.strategy, choice.k) == ("k-batching", 4_096)
    assert "taken together" in graph.table()


def test_auto_sets_break_points_where_bytes_fall() -> None:
    graph = graph_of(narrowing(32, 1, 1))
    schema = pa.schema([(f"c{number}", pa.int64()) for number in range(32)])
    many = Batch(
        pa.RecordBatch.from_arrays([pa.array(np.arange(1000))] * 32, schema=schema),
        np.arange(1000),
        np.arange(1000) + 1,
    )
    graph.offer("s", many)
    graph.run()
    assert measured(graph)["select-1"].keeps < 0.2
    for operator, seconds in zip(graph.operators, (0.0, 1.0, 1.0), strict=True):
        operator.seconds = seconds  # what a clock said
    (choice,) = tune(graph, 9.0)
    assert choice.breaks and graph.breaks == [("select-1", "select-2")]
    assert "bytes fall" in graph.table()
