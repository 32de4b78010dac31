"""An engine that is stopped at random steps: it changes strategies and break points there, and
leaves rows on arcs between two pushes and across restarts."""

from __future__ import annotations

from random import Random

from thalweg.graph import QueryGraph, build_graph
from thalweg.graph.enhanced import enhance
from thalweg.graph.rules import STRATEGIES
from thalweg.model import INFINITY, Batch, Progress
from thalweg.operators.consistency import Consistency
from thalweg.plan.nodes import Node
from thalweg.run.snapshots import pack, unpack


class SteppingEngine:
    """Drives a query graph by random numbers of steps."""

    seed = 0
    checks = True

    def __init__(self, query: Node, *, consistency: str) -> None:
        self.graph: QueryGraph
        self.graph, _ = build_graph(query, Consistency(consistency))
        enhance(self.graph)
        self.random = Random(self.seed)
        self.restarted = False

    def push(self, source_name: str, batch: Batch) -> list[Batch]:
        self.graph.offer(source_name, batch)
        out: list[Batch] = []
        for _ in range(self.random.randint(0, 6)):
            self._change_something()
            out += self.graph.run(steps=self.random.randint(0, 5))
        return out

    def finish(self) -> list[Batch]:
        for name, operator in self.graph.sources.items():
            self.graph.offer(name, Batch.empty(operator.kernel.schema, Progress(INFINITY)))
        out = self.graph.run(steps=3)
        self._change_something()
        out += self.graph.run()
        self._check_nothing_waits()
        return out

    def snapshot(self) -> bytes:
        return pack(self.graph.snapshot(), "law")

    @classmethod
    def restore(cls, query: Node, snapshot: bytes, *, consistency: str) -> SteppingEngine:
        engine = cls(query, consistency=consistency)
        engine.graph.restore(unpack(snapshot, "law"))
        engine.restarted = True
        return engine

    def _change_something(self) -> None:
        graph, random = self.graph, self.random
        names = [row.name for row in graph.state]
        move = random.randrange(5)
        if move == 0:
            strategy = random.choice(list(STRATEGIES))
            k = random.randint(1, 4) if strategy == "k-batching" else None
            graph.use(strategy, k=k, among=random.choice([None, random.sample(names, 1)]))
        elif move == 1:
            row = graph.state[random.choice(names)]
            if row.succ:
                graph.set_break(row.name, random.choice(row.succ).name)
        elif move == 2 and graph.breaks:
            graph.remove_break(*random.choice(graph.breaks))
        elif move == 3:
            graph.fuse()
        else:
            graph.prefer({name: random.random() for name in names} if random.random() < 0.5 else {})

    def _check_nothing_waits(self) -> None:
        graph = self.graph
        assert graph.waiting == 0
        assert all(operator.output.size() == 0 for operator in graph.operators)
        if self.restarted:
            return
        for operator in graph.operators:  # every consumer saw every row once
            if operator.before:
                assert operator.elements_in == sum(s.elements_out for s in operator.before)
