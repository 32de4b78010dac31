"""One table: the answer does not depend on the strategy, on k, on when either changes, on break
points, nor on where a graph is stopped; and nothing is left on an arc."""

from __future__ import annotations

from random import Random

import pytest

import thalweg as tw
from tests.graph.plans import PLANS, plan
from tests.graph.stepping import SteppingEngine
from thalweg.graph import build_graph
from thalweg.io.feeds import Feed
from thalweg.model import Batch, Row
from thalweg.operators.consistency import Consistency
from thalweg.plan.nodes import Node, Source, walk
from thalweg.run import Engine
from thalweg.shards.local_engine import DividedEngine
from thalweg.testing import assert_physically_independent, forms_of, logical_inputs, step
from thalweg.testing.forms import Restart

FAST, LONG = 300, 5_000
SEEDS_PER_PLAN = 4


def rows(random: Random, count: int = 6) -> list[Row]:
    made: list[Row] = []
    for _ in range(count):
        start = random.randint(0, 12)
        payload = {"k": random.randint(0, 2), "v": random.randint(-1, 4)}
        made.append((start, start + random.randint(1, 6), payload))
    return made


def inputs(query: Node, random: Random) -> dict[str, list[Row]]:
    return {node.name: rows(random) for node in walk(query) if isinstance(node, Source)}


def check(name: str, forms: int, seed: int) -> None:
    query = plan(name).node
    given = inputs(query, Random(f"{name}/{seed}"))

    class Seeded(SteppingEngine):
        pass

    Seeded.seed = seed
    assert_physically_independent(query, given, forms=forms, seed=seed, engine=Seeded)


@pytest.mark.parametrize("name", PLANS)
def test_the_table_is_the_same_under_every_strategy(name: str) -> None:
    for seed in range(SEEDS_PER_PLAN):
        # Each form is played at three levels of consistency.
        check(name, FAST // len(PLANS) // SEEDS_PER_PLAN // 3 + 1, seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANS)
def test_the_table_is_the_same_under_every_strategy_long(name: str) -> None:
    for seed in range(100, 100 + SEEDS_PER_PLAN * 10):
        check(name, LONG // len(PLANS) // SEEDS_PER_PLAN // 10 // 3 + 1, seed)


@pytest.mark.parametrize("name", PLANS)
def test_nothing_waits_after_a_push(name: str) -> None:
    """In-process: what a push leaves is in the operators, so a restart after any push loses
    nothing."""
    query = plan(name).node
    for seed in range(3):
        logicals = logical_inputs(query, dict(inputs(query, Random(seed))))
        for form in forms_of(logicals, 5, seed):
            engine = Engine(query)
            for part in form.steps:
                if not isinstance(part, Restart):
                    engine.push(part.source, part.batch(engine.sources[part.source]))
                    assert engine._graph.waiting == 0


class RestartedAfterEveryPush:
    """An engine that is stopped and restored after each push."""

    def __init__(self, query: Node, *, consistency: str) -> None:
        self.query, self.consistency = query, consistency
        self.engine = Engine(query, consistency=consistency)

    def push(self, source_name: str, batch: Batch) -> list[Batch]:
        out = self.engine.push(source_name, batch)
        self.engine = Engine.restore(
            self.query, self.engine.snapshot(), consistency=self.consistency
        )
        return out

    def finish(self) -> list[Batch]:
        return self.engine.finish()

    def snapshot(self) -> bytes:
        return self.engine.snapshot()

    @classmethod
    def restore(cls, query: Node, snapshot: bytes, *, consistency: str) -> RestartedAfterEveryPush:
        again = cls(query, consistency=consistency)
        again.engine = Engine.restore(query, snapshot, consistency=consistency)
        return again


@pytest.mark.parametrize("name", PLANS)
def test_a_restart_after_every_push_loses_nothing(name: str) -> None:
    query = plan(name).node
    given = inputs(query, Random(name))
    assert_physically_independent(query, given, forms=4, engine=RestartedAfterEveryPush)


@pytest.mark.parametrize("name", PLANS)
def test_nothing_waits_in_a_bucket_after_a_micro_batch(name: str) -> None:
    query = plan(name).node
    given = inputs(query, Random(name))
    assert_physically_independent(query, given, forms=3, engine=DrainedBuckets)


class DrainedBuckets(DividedEngine):
    """A divided query that looks into its buckets after every push."""

    def push(self, source_name: str, feed: Feed) -> list[Batch]:
        out = super().push(source_name, feed)
        assert all(not runner._graph.waiting for runner in self._runners())
        return out


def test_a_row_that_finds_no_partner_is_answered_at_once() -> None:
    """The plan divides and meets again; control used to end on one branch with the row left on
    another, where no snapshot had it."""
    query = plan("left join of one source").node
    engine = Engine(query)
    assert [len(batch) for batch in engine.push("a", _one_row(query))] == [1]
    restored = Engine.restore(query, engine.snapshot())
    assert sum(len(batch) for batch in restored.finish()) == 0


def _one_row(query: Node) -> Batch:
    schema = next(node.schema for node in walk(query) if isinstance(node, Source))
    return step("a", tw.insert({"k": 1, "v": 1}, 1, 9)).batch(schema)


def test_deep_plans_run() -> None:
    source = tw.source("a", {"k": "int64", "v": "int64"})
    chain = union = source
    for number in range(10_000):
        chain = chain.where(f"v > {-number}")
    for _ in range(1_000):
        union = union.union(source)
    (answer,) = Engine(chain).push("a", _one_row(chain.node))
    assert len(answer) == 1
    assert sum(map(len, Engine(union).push("a", _one_row(union.node)))) == 1_001


def test_rows_on_arcs_are_state() -> None:
    query = plan("forks of forks").node
    graph, _ = build_graph(query, Consistency("speculative"))
    graph.offer("a", _one_row(query))
    graph.run(steps=2)
    assert graph.waiting
    again, _ = build_graph(query, Consistency("speculative"))
    again.restore(graph.snapshot())
    assert again.waiting == graph.waiting
    assert sum(map(len, again.run())) == sum(map(len, graph.run())) == 3
