"""The state table: the tables of the document, and changes while rows are in the graph."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

import thalweg as tw
from thalweg.errors import PlanError
from thalweg.graph import QueryGraph, build_graph
from thalweg.graph.graph_operator import GraphOperator
from thalweg.graph.trace import Trace
from thalweg.io.feeds import batches_from
from thalweg.model import Batch
from thalweg.operators.base import Operator
from thalweg.operators.consistency import Consistency
from thalweg.stream import Stream
from thalweg.testing import step

SCHEMA = pa.schema([("v", pa.int64())])


class Pass(Operator):
    """What comes in goes out."""

    def __init__(self, ports: int = 1) -> None:
        self.schema, self.ports = SCHEMA, ports

    def process(self, port: int, batch: Batch) -> Batch:
        return batch


def path_of_the_document() -> QueryGraph:
    select = GraphOperator("σ", Pass())
    first = GraphOperator("Σ1", Pass(), before=[select])
    second = GraphOperator("Σ2", Pass(), before=[first])
    return QueryGraph([select, first, second], {"s": select}, second)


def test_table_1_a_single_path() -> None:
    assert path_of_the_document().state.entries() == [
        ("σ", "-", "Σ1", "DFS-Source"),
        ("Σ1", "σ", "Σ2", "DFS-NOS"),
        ("Σ2", "Σ1", "-", "DFS-Sink"),
    ]


def test_table_2_a_break_point() -> None:
    graph = path_of_the_document()
    graph.set_break("Σ1", "Σ2")
    assert graph.state.entries() == [
        ("σ", "-", "Σ1", "DFS-Source"),
        ("Σ1", "σ", "-", "DFS-Sink"),
        ("Σ2", "-", "-", "DFS-Source-Sink"),
    ]
    graph.remove_break("Σ1", "Σ2")
    assert graph.state.entries() == path_of_the_document().state.entries()


def test_table_3_a_fork() -> None:
    """The document writes Σ for both consumers."""
    select = GraphOperator("σ", Pass())
    first, second = (GraphOperator(name, Pass(), before=[select]) for name in ("Σ1", "Σ2"))
    graph = QueryGraph([select, first, second], {"s": select}, {"one": first, "two": second})
    assert graph.state.entries() == [
        ("σ", "-", "fork", "DFS-Source"),
        ("fork", "σ", "Σ1", "DFS-Fork"),
        ("fork", "σ", "Σ2", "DFS-Fork"),
        ("Σ1", "fork", "-", "DFS-Sink"),
        ("Σ2", "fork", "-", "DFS-Sink"),
    ]
    assert graph.table().splitlines()[:2] == [
        "state  pred  succ  transition",
        "σ      -     fork  DFS-Source",
    ]
    graph.offer("s", rows(1))
    graph.run()
    assert [len(batch) for name in ("one", "two") for batch in graph.taken(name)] == [1, 1]


def test_a_strategy_is_one_entry() -> None:
    graph = path_of_the_document()
    graph.state.set_rule("Σ1", "breadth-first")
    assert [row.label for row in graph.state] == ["DFS-Source", "BFS-NOS", "DFS-Sink"]
    graph.state.set_rule("Σ2", "k-batching", 8)
    assert graph.state["Σ2"].label == "DFS(8)-Sink"


def rows(*values: int) -> Batch:
    return step("s", *(tw.point({"v": value}, at) for at, value in enumerate(values))).batch(SCHEMA)


def order_of_work(graph: QueryGraph) -> str:
    with Trace(graph, clock=lambda: 0.0) as trace:
        graph.run()
    return " ".join(visit.operator for visit in trace.visits)


@pytest.mark.parametrize(
    ("strategy", "k", "order"),
    [
        ("depth-first", None, "Σ1 Σ2 Σ1 Σ2 Σ1 Σ2"),
        ("breadth-first", None, "Σ1 Σ1 Σ1 Σ2 Σ2 Σ2"),
        ("round-robin", None, "Σ1 Σ1 Σ1 Σ2 Σ2 Σ2"),
        ("k-batching", 1, "Σ1 Σ2 Σ1 Σ2 Σ1 Σ2"),
    ],
)
def test_the_order_of_work(strategy: str, k: int | None, order: str) -> None:
    graph = path_of_the_document()
    graph.use(strategy, k=k)
    for value in range(3):
        graph.offer("s", rows(value))
    assert order_of_work(graph) == order


def test_k_batching_takes_at_most_k_elements() -> None:
    graph = path_of_the_document()
    graph.use("k-batching", k=2)
    graph.offer("s", rows(1, 2, 3, 4, 5))
    with Trace(graph, clock=lambda: 0.0) as trace:
        graph.run()
    assert [len(visit.taken) for visit in trace.visits if visit.operator == "Σ1"] == [2, 2, 1]


def test_a_break_point_keeps_its_rows_when_it_is_set_and_removed() -> None:
    graph = path_of_the_document()
    graph.offer("s", rows(1))
    graph.run(steps=2)
    graph.set_break("Σ1", "Σ2")
    assert graph.waiting == 1
    graph.remove_break("Σ1", "Σ2")
    assert graph.waiting == 1
    assert sum(map(len, graph.run())) == 1


def test_round_robin_breaks_a_graph_into_paths() -> None:
    a, b = tw.source("a", {"v": "int64"}), tw.source("b", {"v": "int64"})
    graph, _ = build_graph(a.where("v > 0").union(b).node, Consistency("speculative"))
    with pytest.raises(PlanError, match="round-robin runs on paths: union-1 has 2 predecessors"):
        graph.state.set_rule("union-1", "round-robin")
    graph.use("round-robin")
    assert {row.label for row in graph.state} == {"RR-Source", "RR-Sink", "RR-Source-Sink"}
    assert graph.components() == [["source-1", "where-1", "source-2", "union-1"]]


def test_components_are_scheduled_apart() -> None:
    one, two = GraphOperator("one", Pass()), GraphOperator("two", Pass())
    graph = QueryGraph([one, two], {"a": one, "b": two}, {"x": one, "y": two})
    assert graph.components() == [["one"], ["two"]]


def test_names_that_do_not_exist() -> None:
    graph = path_of_the_document()
    with pytest.raises(PlanError, match="no arc leads from σ to Σ2"):
        graph.set_break("σ", "Σ2")
    with pytest.raises(PlanError, match="no break point between σ and Σ1"):
        graph.remove_break("σ", "Σ1")
    with pytest.raises(PlanError, match="the strategy must be one of"):
        graph.use("depth-frist")
    with pytest.raises(PlanError, match="the graph has no operator"):
        graph.use("depth-first", among=["Σ3"])


def test_a_trace_says_who_saw_a_row() -> None:
    stream: Stream = tw.source("s", {"v": "int64"}).where("v > 1").select(w="v * 2")
    graph, _ = build_graph(stream.node, Consistency("speculative"))
    with Trace(graph, clock=lambda: 0.0) as trace:
        graph.offer("s", rows(1, 2, 3))
        graph.run()
    assert [visit.operator for visit in trace.of(v=1)] == ["where-1"]
    assert [visit.operator for visit in trace.of(v=2)] == ["where-1", "select-1"]
    assert "Insert(payload={'w': 4}" in str(list(trace.of(v=2))[-1])
    assert not any("Recorder" in type(s.kernel).__name__ for s in graph.operators)


SIGNALS: dict[str, tuple[Callable[[tw.Stream], tw.Stream], int]] = {
    "one stream": (lambda a: a.edges("k"), 1),
    "two views of one stream": (lambda a: a.set_duration(None).clip_by(a, "k"), 2),
}
"""Streams that are cut by their own starts, and how many inputs that takes."""


@pytest.mark.parametrize("signal", SIGNALS)
@pytest.mark.parametrize("strategy", ["depth-first", "breadth-first", "k-batching"])
def test_a_stream_that_clips_itself_is_cut_as_it_comes(strategy: str, signal: str) -> None:
    """The starts go ahead of the rows, at each push: no row is passed on whole and cut
    afterwards."""
    query, inputs = SIGNALS[signal]
    a = tw.source("a", {"k": "int64"}, insert_only=True)
    graph, _ = build_graph(query(a).node, Consistency("eager"))
    graph.use(strategy, k=100 if strategy == "k-batching" else None)
    clip = next(name for name in graph.figures() if name.startswith("clip_by"))
    for push in range(5):
        rows = [tw.point({"k": time % 2}, time) for time in range(20 * push, 20 * push + 20)]
        graph.offer("a", next(iter(batches_from(rows, a.schema, "a"))))
        graph.run()
    figures = graph.figures()[clip]
    # Only the last row of each key, which has no end yet, is cut by the next push.
    assert (figures.rows_in, figures.retractions) == (inputs * 5 * 20, 4 * 2)
