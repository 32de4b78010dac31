"""Promises on demand: who is asked and when, and the arcs along which promises go."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import thalweg as tw
from thalweg.graph import build_graph
from thalweg.graph.enhanced import enhance, promise_arcs
from thalweg.model import Batch, Progress
from thalweg.operators.consistency import Consistency
from thalweg.run import Engine
from thalweg.stream import Stream
from thalweg.testing import FakeClock

SECOND = 1_000_000
COLUMNS = {"v": "int64"}


def source(name: str, *, behind: str = "0 s") -> Stream:
    return tw.source(
        name, COLUMNS, progress=[tw.ordered(), tw.on_demand(behind)], insert_only=True, late="drop"
    )


def at(seconds: float) -> tw.Insert:
    return tw.point({"v": 1}, int(seconds * SECOND))


def counts(stream: Stream) -> Stream:
    return stream.tumbling("1 s").aggregate(n=tw.count())


class Asked:
    """How often the sources of an engine were asked."""

    def __init__(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.times = 0
        for name in engine.sources:
            kernel = engine._graph.ingress(name)
            monkeypatch.setattr(kernel, "demand", self._counting(kernel.demand))

    def _counting(self, demand: Callable[[int], Batch | None]) -> Callable[[int], Batch | None]:
        def counted(now: int) -> Batch | None:
            self.times += 1
            return demand(now)

        return counted


def final(out: list[Batch]) -> int:
    return max((batch.progress.cti for batch in out), default=-1)


def test_a_silent_source_is_asked_when_its_answer_releases_a_window(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = FakeClock(0)
    engine = Engine(counts(source("fast").union(source("silent"))), now=clock)
    asked = Asked(engine, monkeypatch)
    clock.advance("500 ms")
    assert not engine.push("fast", at(0.5))
    assert asked.times == 0, "the window is not over: no answer would help"
    clock.advance("600 ms")
    out = engine.push("fast", at(1.1))
    assert [e.payload for e in tw.elements_of(out) if isinstance(e, tw.Insert)] == [{"n": 1}]
    assert asked.times == 1
    assert final(out) >= SECOND


def test_nobody_waits_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock(0)
    query = counts(source("fast").where("v > 1").union(source("silent")))
    engine = Engine(query, now=clock)
    asked = Asked(engine, monkeypatch)
    for number in range(100):
        clock.advance("1 s")
        engine.push("fast", at(number))  # the filter drops it
        engine.tick()
    assert asked.times == 0


def test_where_another_source_cannot_be_asked_none_is(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock(0)
    mute = tw.source("mute", COLUMNS, insert_only=True)
    engine = Engine(counts(source("fast").union(source("silent")).union(mute)), now=clock)
    asked = Asked(engine, monkeypatch)
    for number in range(10):
        clock.advance("1 s")
        engine.push("fast", at(number))
    assert asked.times == 0


def test_thirty_two_inputs_are_asked_once_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock(0)
    union = source("s0")
    for number in range(1, 32):
        union = union.union(source(f"s{number}"))
    engine = Engine(counts(union), now=clock)
    asked = Asked(engine, monkeypatch)
    answers = 0
    for number in range(400):
        clock.advance("10 ms")
        out = engine.push("s0", at(number / 100))
        answers += sum(len(batch) for batch in out)
    assert answers == 4
    assert asked.times <= 32 * 4


@pytest.mark.parametrize("moved", [-7, 0, 7])
def test_a_promise_is_moved_by_the_operators_it_passes(moved: int) -> None:
    a, b = (tw.source(name, COLUMNS, insert_only=True) for name in "ab")
    query = a.where("v > 0").shift(moved).union(b).tumbling(10).aggregate(n=tw.count())
    graph, _ = build_graph(query.node, Consistency("speculative"))
    enhance(graph)
    for name, time in (("a", 50), ("b", 90)):
        schema = graph.sources[name].kernel.schema
        graph.offer(name, Batch.empty(schema, Progress(time)))
    out = graph.run()
    assert final(out) == (50 + moved) // 10 * 10
    passed = [s for s in graph.operators if s.id.startswith(("where", "shift"))]
    assert [operator.batches for operator in passed] == [0] * len(passed)
    assert all(operator.passed.cti > 0 for operator in passed), "reports know of the promise"


def test_the_arcs_of_the_enhanced_graph() -> None:
    a, b = (tw.source(name, COLUMNS, insert_only=True) for name in "ab")
    query = a.where("v > 0").union(b).where("v > 1").tumbling(10).aggregate(n=tw.count())
    graph, _ = build_graph(query.node, Consistency("speculative"), rewrite=False)
    assert [str(arc) for arc in promise_arcs(graph)] == [
        "source-1 -> union-1, port 0 past where-1",
        "union-1 -> window_aggregate-1, port 0 past where-2",
    ]


def test_promises_of_a_fork_reach_every_reader() -> None:
    a = tw.source("a", COLUMNS, insert_only=True).where("v > 0")
    both = a.join(a.where("v > 1"), "v")
    graph, _ = build_graph(both.node, Consistency("speculative"))
    enhance(graph)
    graph.offer("a", Batch.empty(graph.sources["a"].kernel.schema, Progress(50)))
    assert final(graph.run()) == 50
