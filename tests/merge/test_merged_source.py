"""A merge at the source of a query: inputs join and leave while it runs, in every bucket at
once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

import thalweg as tw
from tests.merge.scenarios import Scenario
from tests.merge.test_scenarios import CASES
from thalweg.errors import PlanError, StateError
from thalweg.merging import MergeRegistry
from thalweg.model import INFINITY, Batch, Element, Row, batches_of, elements_of
from thalweg.operators.merging.named_inputs import InputChange, MergeStep
from thalweg.plan.merging import Level
from thalweg.plan.nodes import MergedSource
from thalweg.shards.local_engine import DividedEngine
from thalweg.stream import Stream
from thalweg.testing import REPLICA_SCHEMA

EMPTY = Batch.empty(REPLICA_SCHEMA)


@dataclass
class DividedScenario(Scenario):
    """The same scenarios, through the divided engine: steps are gathered into micro-batches."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.query = Stream(MergedSource("merged", REPLICA_SCHEMA, **self.options))
        self.engine = DividedEngine(self.query)
        self.steps: list[tuple[MergeStep, Batch]] = []

    def attach(self, since: int | None = None) -> None:
        super().attach(since)
        name = list(self.waiting)[-1]
        self.steps.append((MergeStep(name, InputChange.JOINS, since), EMPTY))

    def push(self, name: str) -> None:
        step = self.waiting[name].pop(0)
        [batch] = batches_of(step, REPLICA_SCHEMA)
        self.merger.push(name, batch)  # who may lead is asked of a merge in one piece
        self.steps.append((MergeStep(name), batch))
        if self.random.random() < 0.5:
            self.run()

    def detach(self, name: str) -> None:
        del self.waiting[name]
        self.merger.detach(name)
        self.steps.append((MergeStep(name, InputChange.LEAVES), EMPTY))

    def restart(self) -> None:
        """A kill between two micro-batches: state is what the last one wrote."""
        self.run()
        self.engine = DividedEngine.restore(self.query, self.engine.snapshot())

    def run(self) -> None:
        steps, self.steps = self.steps, []
        out = self.engine.push_step("merged", *steps)
        elements = list(elements_of(out))
        said = [(step, list(elements_of([batch]))) for step, batch in steps]
        self.trace.append(f"{said} -> {elements}")
        try:
            self.output.play(elements)
        except ValueError as reason:
            raise AssertionError(self.report(str(reason))) from reason
        shown = Counter((p["k"], start) for start, _, p in self.output.prefix.rows)
        if self.by_group and max(shown.values(), default=1) > 1:
            raise AssertionError(self.report("two versions of one answer"))

    def finish(self, expected: list[Row]) -> None:
        self.run()
        super().finish(expected)


@pytest.mark.parametrize(("level", "by_group"), CASES)
def test_the_table_is_the_reference_in_any_number_of_buckets(
    level: Level, *, by_group: bool
) -> None:
    for seed in range(6):
        DividedScenario(seed, level, by_group).play()


@pytest.mark.slow
@pytest.mark.parametrize(("level", "by_group"), CASES)
def test_many_divided_scenarios(level: Level, *, by_group: bool) -> None:
    for seed in range(6, 500):
        DividedScenario(seed, level, by_group).play()


def test_a_query_over_a_merge_is_a_query_over_its_table() -> None:
    merged = Stream(MergedSource("merged", REPLICA_SCHEMA, groups=("k",)))
    engine = DividedEngine(merged.group_by("v").tumbling(10).aggregate(n=tw.count()))
    rows: list[Element] = [tw.insert({"k": k, "v": 1}, at, at + 1) for at, k in enumerate("abcdef")]
    [some, rest] = (list(batches_of(r, REPLICA_SCHEMA)) for r in (rows[:4], [*rows, tw.cti(None)]))
    out = engine.push_step("merged", (MergeStep("one", InputChange.JOINS), some[0]))
    out += engine.push_step(
        "merged",
        (MergeStep("two", InputChange.JOINS), rest[0]),
        (MergeStep("one", InputChange.LEAVES), EMPTY),
    )
    assert tw.cht(elements_of(out)) == [(0, 10, {"v": 1, "n": 6})]
    assert out[-1].progress.cti == INFINITY


def test_a_batch_of_an_input_that_never_joined_is_refused() -> None:
    engine = DividedEngine(Stream(MergedSource("merged", REPLICA_SCHEMA)))
    with pytest.raises(StateError, match="'one', which never joined"):
        engine.push_step("merged", (MergeStep("one"), EMPTY))


def test_buckets_are_chosen_by_what_identifies_a_row() -> None:
    def keys(**options: object) -> list[str]:
        columns = tw.source("s", {"k": "string", "x": "double"}).node.schema
        merged = MergedSource("m", columns, **options)  # type: ignore[arg-type]
        return [str(key) for key in merged.keys]

    assert keys() == ["k", "x"]
    assert keys(tolerance=0.1) == ["k"]
    assert keys(groups=("k",)) == ["k"]


def test_the_registry_refuses_what_makes_no_sense(tmp_path: Path) -> None:
    one, two = MergeRegistry(tmp_path), MergeRegistry(tmp_path)
    one.attach("a", tmp_path / "a")
    with pytest.raises(PlanError, match="there is an input 'a' already"):
        two.attach("a", tmp_path / "b")
    two.attach("b", tmp_path / "b", since=7)
    with pytest.raises(PlanError, match="There are: a, b"):
        one.detach("c")
    one.detach("a")
    two.attach("a", tmp_path / "again")
    assert one.entries() == two.entries() and len(one.entries()) == 4
    assert list(one.inputs()) == ["b", "a"]
    (tmp_path / "000000000004.json").write_text("{")
    with pytest.raises(StateError, match="is damaged"):
        one.entries()


def test_in_process_engines_refuse_a_merge_of_logs() -> None:
    with pytest.raises(PlanError, match=r"LoggedMerge"):
        tw.Engine(Stream(MergedSource("merged", REPLICA_SCHEMA)))


def test_a_divided_merge_says_what_it_waits_for_and_who_leads() -> None:
    engine = DividedEngine(Stream(MergedSource("merged", REPLICA_SCHEMA)))
    [batch] = batches_of([tw.insert({"k": "a", "v": 1}, 3, 5), tw.cti(4)], REPLICA_SCHEMA)
    engine.push_step("merged", (MergeStep("one", InputChange.JOINS), batch))
    assert "one has promised 4" in str(engine.why())
    for report in engine.reports():
        assert report.merged["merged"]["leader"] == "one"
