"""Policies of a source at work: in-process, row by row, and in the fragments of a divided query, by
summaries of chunks."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import thalweg as tw
from thalweg.errors import EstimateWarning, LateEventError, PlanError
from thalweg.model import MIN_TIME, Batch, Element, Row, cht
from thalweg.plan.nodes import Source
from thalweg.plan.usefulness import useful_grids
from thalweg.shards.local_engine import DividedEngine
from thalweg.spark.sources.ticker import period_of
from thalweg.testing import FakeClock

COLUMNS = {"k": "string", "v": "int64"}
SECOND = 1_000_000


def source(name: str = "s", **facts: Any) -> tw.Stream:
    return tw.source(name, COLUMNS, **{"insert_only": True, "late": "drop", **facts})


def at(time: int, k: str = "a") -> Element:
    return tw.point({"k": k, "v": time}, time)


def ctis(out: list[Batch]) -> list[int]:
    return [
        element.time
        for element in tw.elements_of(out)
        if isinstance(element, tw.Cti) and element.scope is None
    ]


def arrival(random: Random, size: int, late: int) -> list[Element]:
    """Rows in blocks that come backwards: each is overtaken by fewer than `late` others."""
    order = sorted(range(size), key=lambda number: (number // late, -number))
    return [at(number * 10, random.choice("abc")) for number in order]


# ------------------------------------------------------------------------------------------------
# observed rows


def test_at_most_n_rows_late() -> None:
    engine = tw.Engine(source(progress=tw.late_by_rows(1)))
    assert list(tw.elements_of(engine.push("s", [at(5), at(9), at(7), at(12), at(3)]))) == [
        at(5),
        at(9),
        at(7),
        at(12),
        tw.cti(12),
    ]
    assert engine.late("s").column("_promise").to_pylist() == [9]
    strict = tw.Engine(source(progress=tw.late_by_rows(0), late="error"))
    with pytest.raises(LateEventError):
        strict.push("s", [at(5), at(4)])


@pytest.mark.filterwarnings("ignore::thalweg.errors.EstimateWarning")
@pytest.mark.parametrize(
    "policy",
    [tw.late_by_rows(7), tw.late_by("80 us"), (tw.late_by_rows(11), tw.estimated(0.5, warmup=1))],
)
def test_nothing_depends_on_batches_or_restarts(policy: Any) -> None:
    random = Random(str(policy))
    query = source(progress=policy).group_by("k").tumbling(100).aggregate(n=tw.count())
    elements = arrival(random, 400, 12)
    whole = tw.Engine(query)
    told = whole.push("s", elements)
    cut = tw.Engine(query)
    parts: list[Batch] = []
    begin = 0
    while begin < len(elements):
        end = begin + random.choice([1, 3, 50])
        parts += cut.push("s", elements[begin:end])
        cut = tw.Engine.restore(query, cut.snapshot())
        begin = end
    assert whole.status().progress == cut.status().progress
    assert whole.late_count("s") == cut.late_count("s")
    assert table(told + whole.finish()) == table(parts + cut.finish())


def table(out: list[Batch]) -> list[Row]:
    return sorted(cht(tw.elements_of(out)), key=repr)


@pytest.mark.parametrize("policy", [tw.late_by_rows(12), tw.estimated(1.0, warmup=1)])
@pytest.mark.parametrize("keyed", [True, False])
def test_a_divided_query_promises_no_more_and_answers_the_same(policy: Any, keyed: bool) -> None:
    random = Random(str(policy))
    grouped = source(progress=policy).group_by("k") if keyed else source(progress=policy)
    query = grouped.tumbling(100).aggregate(n=tw.count())
    elements = arrival(random, 1_200, 12)
    one, many = tw.Engine(query), DividedEngine(query)
    told: list[Batch] = []
    for begin in range(0, len(elements), 100):
        one.push("s", elements[begin : begin + 100])
        told += many.push("s", elements[begin : begin + 100])
        assert told[-1].progress.cti <= one.status().progress.cti
    assert told[-1].progress.cti > 8_000
    told += many.finish()
    assert table(told) == sorted(tw.table(query, {"s": elements}), key=repr)


def test_policies_per_partition() -> None:
    engine = tw.Engine(source(partition="k", progress=tw.late_by_rows(1)))
    out = engine.push("s", [at(5), at(50, "b"), at(6), at(60, "b"), at(7), at(55, "b"), at(1)])
    assert [element for element in tw.elements_of(out) if isinstance(element, tw.Cti)] == [
        tw.cti(7, {"k": "a"}),
        tw.cti(60, {"k": "b"}),
    ]
    assert engine.late_count("s") == 1


def test_an_estimate_that_reality_breaks_is_told() -> None:
    engine = tw.Engine(source(progress=tw.estimated(0.99, warmup=256)))
    engine.push("s", [at(number) for number in range(1_024)])
    with pytest.warns(EstimateWarning, match="Disorder has grown"):
        engine.push("s", [at(1_024 + number - 50 * (number % 5)) for number in range(300)])
    assert len(engine.status().warnings) == 1
    assert "Disorder has grown" in str(engine.why())


def test_promises_are_no_finer_than_the_smallest_hop_that_reads_the_source() -> None:
    stream = source(disorder=0)
    both = (
        stream.tumbling(20)
        .aggregate(n=tw.count())
        .union(stream.hopping(30, 8).aggregate(n=tw.count()))
    )
    assert useful_grids(both.node) == {"s": (2, 0)}
    assert useful_grids(stream.shift(3).tumbling(20).aggregate(n=tw.count()).node) == {
        "s": (20, 17)
    }
    assert useful_grids(stream.join(stream.tumbling(20).aggregate(n=tw.count())).node) == {}
    query = stream.tumbling(20).aggregate(n=tw.count())
    engine = tw.Engine(query)
    seen = []
    for time in range(0, 60, 3):
        engine.push("s", at(time))
        seen.append(engine._graph.ingress("s").progress.cti)
    assert set(seen) - {MIN_TIME} == {0, 20, 40}
    assert engine.status().operators["window_aggregate-1"].batches == 20


def test_a_promise_that_says_nothing_new_goes_nowhere() -> None:
    query = source().where("v > 100").tumbling(10).aggregate(n=tw.count())
    engine = tw.Engine(query)
    for time in (10, 10, 10):
        engine.push("s", tw.cti(time))
    assert [
        engine.status().operators[name].batches
        for name in ("source-1", "where-1", "window_aggregate-1")
    ] == [3, 0, 1], "it goes past the filter"


# ------------------------------------------------------------------------------------------------
# clocks


def fast_and_silent(**facts: Any) -> tw.Stream:
    fast, silent = source("fast", progress=tw.ordered()), source("silent", **facts)
    return fast.union(silent).tumbling("1 s").aggregate(n=tw.count())


def test_a_silent_source_holds_an_ordered_union_back_for_ever() -> None:
    engine = tw.Engine(fast_and_silent(progress=tw.ordered()), now=FakeClock())
    for second in range(1, 30):
        assert engine.push("fast", at(second * SECOND)) == [] or second
    assert engine.status().progress.cti == MIN_TIME
    (wait,) = engine.why(0).waits
    assert (wait.source, wait.operator, wait.needs) == ("silent", "union-1", SECOND)


def test_a_timer_lets_a_silent_source_promise_the_clock_minus_its_lag() -> None:
    clock = FakeClock()
    engine = tw.Engine(
        fast_and_silent(progress=[tw.ordered(), tw.timer("2 s", every="1 s")]), now=clock
    )
    promised = []
    for second in range(1, 10):
        clock.advance("1 s")
        engine.push("fast", at(second * SECOND))
        promised.append(engine.status().progress.cti // SECOND)
    assert promised[2:] == [1, 2, 3, 4, 5, 6, 7]
    clock.advance("5 s")
    assert ctis(engine.tick()) == [9 * SECOND], "the fast one is silent now, and has no timer"
    assert engine.tick() == [], "nothing twice"


def test_rows_end_a_lull_and_what_they_break_is_late() -> None:
    clock = FakeClock()
    engine = tw.Engine(source(progress=tw.timer("2 s")), now=clock)
    engine.push("s", at(0))
    clock.advance("1 s")
    assert engine.tick() == []
    clock.advance("4 s")
    assert ctis(engine.tick()) == [3 * SECOND]
    engine.push("s", [at(2 * SECOND), at(4 * SECOND)])
    assert engine.late_count("s") == 1
    clock.advance("1 s")
    assert engine.tick() == [], "it has just spoken"


def test_on_demand_a_source_is_asked_when_it_alone_is_waited_for() -> None:
    clock = FakeClock(100 * SECOND)
    engine = tw.Engine(fast_and_silent(progress=[tw.ordered(), tw.on_demand("2 s")]), now=clock)
    engine.push("silent", at(98 * SECOND))
    assert engine.status().progress.cti == MIN_TIME, (
        "the fast one is waited for too, and cannot be asked"
    )
    out = engine.push("fast", at(99 * SECOND))
    assert ctis(out)[-1] == 98 * SECOND


def test_a_timer_sends_a_half_full_batch_ahead() -> None:
    clock = FakeClock()

    def rows() -> Any:
        for number in range(6):
            clock.advance("1 s")
            yield at(number * SECOND, "slow")

    query = (
        source("a")
        .union(source("b", progress=tw.timer("1 s", every="1 s")))
        .tumbling("1 s")
        .aggregate(n=tw.count())
    )
    sizes = [
        len(batch)
        for batch in tw.run(query, {"a": rows(), "b": []}, batch_size=100, now=clock, finish=False)
    ]
    assert sizes, "a batch of a hundred was not waited for"


def test_a_divided_query_reads_the_clock_from_its_ticker() -> None:
    clock = FakeClock()
    query = fast_and_silent(progress=[tw.ordered(), tw.timer("2 s", every="1 s")])
    engine = DividedEngine(query, clock=lambda: clock() / SECOND)
    promised = []
    for second in range(1, 10):
        clock.advance("1 s")
        out = engine.push("fast", at(second * SECOND)) + engine.tick()
        promised.append(max(ctis(out), default=-SECOND) // SECOND)
    assert promised[3:] == [2, 3, 4, 5, 6, 7]
    restored = DividedEngine.restore(query, engine.snapshot())
    assert restored.why().waits


def test_mistakes() -> None:
    with pytest.raises(PlanError, match="progress= takes"):
        source(progress="1 min")
    with pytest.raises(PlanError, match="twice"):
        source(progress=[tw.late_by_rows(1), tw.late_by_rows(2)])
    with pytest.raises(PlanError, match="say the same"):
        source(disorder=5, progress=tw.late_by(5))
    with pytest.raises(PlanError, match="share of all rows"):
        tw.estimated(99)
    with pytest.raises(PlanError, match="0 or more"):
        tw.late_by_rows(-1)
    shown = source(
        progress=[tw.late_by_rows(3), tw.estimated(0.99), tw.timer("1 s")],
        quarantine=tw.quarantine(5, key="k"),
    ).explain()
    assert "at most 3 rows late, late as 0.99 of the rows so far, the clock minus 1000000" in shown
    assert "quarantine: clocks within 5 of 2 of k" in shown


def test_how_often_a_source_is_told_the_time() -> None:
    policies = {
        "none": source(),
        "timer": source(progress=tw.timer("4 s")),
        "asked": source(progress=[tw.timer("4 s"), tw.on_demand("4 s")]),
        "judged": source(quarantine=tw.quarantine("1 h")),
        "by keys": source(quarantine=tw.quarantine("1 h", key="k")),
    }
    told = {
        name: period_of(stream.node.ingress)
        for name, stream in policies.items()
        if isinstance(stream.node, Source)
    }
    assert told == {
        "none": None,
        "timer": SECOND,
        "asked": 200_000,
        "judged": SECOND,
        "by keys": None,
    }
