"""Feedback: rows that end at t or later are the same with and without it, at any moment, and no
promise is broken."""

from __future__ import annotations

from random import Random

import pytest

import thalweg as tw
from thalweg.errors import LateEventError
from thalweg.graph.graph_operator import GraphOperator
from thalweg.model import (
    MIN_TIME,
    Batch,
    Element,
    Row,
    batches_of,
    elements_of,
    first_violation_in_batches,
    rows_of_table,
    table_of_batches,
)
from thalweg.testing.held_state import CASES, SCHEMA, SPAN

COLUMNS = {"k": "string", "v": "int64"}
A = tw.source("a", COLUMNS, insert_only=True)
B = tw.source("b", COLUMNS, insert_only=True)
ADJUSTED = tw.source("a", COLUMNS)
POINTS = A.points()
GROUPS = tw.source("a", COLUMNS, insert_only=True, group_ctis="k")
LATE = tw.source("a", COLUMNS, insert_only=True, disorder=6, late="drop")


def counts(stream: tw.Stream) -> tw.Stream:
    return stream.group_by("k").tumbling(10).aggregate(n=tw.count(), s=tw.sum_("v"))


QUERIES = {
    "where": A.where("v > 1"),
    "lifetimes": A.clip_duration(4).set_duration(7),
    "select": A.select(k="k", w="v + 1").where("w > 2"),
    "union": A.union(B),
    "join": A.join(B, on="k"),
    "tumbling": counts(A.where("v > 0")),
    "hopping": A.group_by("k").hopping(12, 4).aggregate(n=tw.count()),
    "top": A.hopping(8, 4).top_k(2, by="v"),
    "rows of windows": A.group_by("k").hopping(12, 4).aggregate(mid=tw.percentile("v", 0.5)),
    "largest": POINTS.group_by("k").hopping(12, 4).aggregate(most=tw.max_("v")),
    "largest, adaptive": POINTS.sliding(12, 4).using("adaptive").aggregate(most=tw.max_("v")),
    "largest, panes": POINTS.sliding(12, 4).using("panes").aggregate(most=tw.max_("v")),
    "two windows": counts(A).union(
        A.group_by("k").hopping(20, 10).aggregate(n=tw.count(), s=tw.sum_("v"))
    ),
    "two level": A.group_by("k").tumbling(4).two_level(2).aggregate(n=tw.count()),
    "module": A.group_by("k").hopping(12, 4).apply("median", "v"),
    "module in panes": A.group_by("k").hopping(12, 4).apply("average", "v"),
    "slide by tuple": A.slide_by_tuple(9).aggregate(n=tw.count(), s=tw.sum_("v")),
    "slide by tuple, bins": A.slide_by_tuple(9)
    .using("bins")
    .aggregate(n=tw.count(), s=tw.sum_("v")),
    "slide by tuple, groups": A.group_by("k")
    .slide_by_tuple(9, partition_by="k")
    .aggregate(n=tw.count()),
    "module by tuple": A.slide_by_tuple(9).apply("median", "v"),
    "promised groups": counts(GROUPS),
    "fork": counts(A).union(counts(A.where("v > 1"))),
    "semi": A.semi_join(B, on="k"),
    "snapshot": A.group_by("k").snapshot().aggregate(n=tw.count()),
    "adjusts": ADJUSTED.where("v > 1"),
    "late": counts(LATE),
}


def elements(random: Random, *, adjusts: bool, groups: bool) -> list[Element]:
    """Points and longer rows in disorder, with promises that they keep, for groups too."""
    rows: list[tuple[int, tw.Insert]] = []
    for _ in range(40):
        start = random.randint(0, 60)
        row = tw.insert(
            {"k": random.choice("xyz"), "v": random.randint(0, 4)},
            start,
            start + random.choice([1, 3, 15]),
        )
        rows.append((start + random.randint(0, 12), row))
    rows.sort(key=lambda row: row[0])
    said: list[Element] = []
    for at, (_, row) in enumerate(rows):
        said.append(row)
        later = [other.start for _, other in rows[at + 1 :]]
        if adjusts and random.random() < 0.3:
            said.append(tw.adjust(row.payload, row.start, row.end, row.end + 9))
        elif random.random() < 0.2:
            said.append(tw.cti(min(later, default=None)))
        elif groups and random.random() < 0.4:
            key = random.choice("xyz")
            own = [r.start for _, r in rows[at + 1 :] if r.payload["k"] == key]
            said.append(tw.cti(min(own, default=None), {"k": key}))
    return said


def table(out: list[Batch], query: tw.Stream) -> list[Row]:
    return rows_of_table(table_of_batches(out, query.node.schema))


def wanted(rows: list[Row], time: int) -> list[Row]:
    return [row for row in rows if row[1] >= time]


@pytest.mark.parametrize("consistency", ["speculative", "final", "eager"])
@pytest.mark.parametrize("name", QUERIES)
def test_what_is_wanted_is_the_same_at_any_moment(name: str, consistency: str) -> None:
    query = QUERIES[name]
    skipped = 0
    for seed in range(12):
        random = Random(f"{name}/{seed}")
        plain, told = (tw.Engine(query, consistency=consistency) for _ in range(2))
        feeds = {
            source: elements(random, adjusts=name == "adjusts", groups=name == "promised groups")
            for source in plain.sources
        }
        outs: tuple[list[Batch], list[Batch]] = ([], [])
        bound = -100
        while any(feeds.values()):
            source = random.choice([s for s, rest in feeds.items() if rest])
            size = random.randint(1, 6)
            step, feeds[source] = feeds[source][:size], feeds[source][size:]
            schema = plain.sources[source]
            for engine, out in zip((plain, told), outs, strict=True):
                for batch in batches_of(step, schema):
                    out += engine.push(source, batch)
            tables = [table(out, query) for out in outs]
            assert wanted(tables[0], bound) == wanted(tables[1], bound)
            assert promised(outs[0]) == promised(outs[1]), "promises go on"
            if random.random() < 0.3:
                bound = max(bound, random.randint(0, 80))
                told.skip_before(bound)
                assert wanted(tables[0], bound) == wanted(tables[1], bound)
            if (
                name != "two level" and random.random() < 0.1
            ):  # what was said before a restart need not be said again
                skipped += told.skipped
                told = tw.Engine.restore(query, told.snapshot(), consistency=consistency)
        # an element that breaks a promise breaks it for good: one look at the end finds all
        assert first_violation_in_batches(outs[1]) is None
        skipped += told.skipped
        assert not plain.skipped
    says_nothing = name in ("semi", "snapshot", "adjusts")
    assert bool(skipped) != says_nothing


def promised(out: list[Batch]) -> int:
    return max((batch.progress.cti for batch in out), default=MIN_TIME)


def test_a_join_drops_the_rows_that_nobody_wants() -> None:
    plain, told = (tw.Engine(QUERIES["join"]) for _ in range(2))
    left = [tw.insert({"k": "x", "v": at}, at, at + 5) for at in range(100)]
    right = [tw.insert({"k": "x", "v": at}, at, at + 5) for at in range(60, 100)]
    for engine in (plain, told):
        engine.push("a", left)
    told.skip_before(80)
    assert (held(plain), held(told)) == (100, 25)  # those that end at 80 or later
    outs = [engine.push("b", right) for engine in (plain, told)]
    query = QUERIES["join"]
    tables = [table(out, query) for out in outs]
    assert wanted(tables[0], 80) == wanted(tables[1], 80)
    assert held(told) == 25 + 25 and told.skipped == 15


def held(engine: tw.Engine) -> int:
    """Rows in the state of the join."""
    sizes = engine.state_size()
    return sum(size.rows for name, size in sizes.items() if "join" in name)


def test_what_is_skipped_is_counted_and_not_late() -> None:
    engine = tw.Engine(LATE)
    engine.push("a", tw.point({"k": "x", "v": 1}, 100))
    engine.skip_before(50)
    engine.push("a", tw.point({"k": "x", "v": 1}, 20))
    assert engine.skipped == 1 and engine.status().late == 0
    engine.push("a", tw.point({"k": "x", "v": 1}, 60))
    assert engine.skipped == 1 and engine.status().late == 1


def test_a_merge_tells_the_plan_that_is_behind_what_it_need_not_do() -> None:
    """The first plan has answered when the second is run: it has nothing left to do."""
    merged = tw.merge(counts(A.where("v > 0")), counts(A.where("v >= 1")))
    engine = tw.Engine(merged)
    rows = [tw.point({"k": "x", "v": 2}, at) for at in range(100)]
    out = engine.push("a", [*rows, tw.cti(95)])
    out += engine.push("a", [rows[97], tw.cti(None)])
    assert tw.cht(elements_of(out)) == list(tw.table(counts(A), {"a": [*rows, rows[97]]}))


def test_a_refused_batch_names_its_row_and_leaves_no_trace() -> None:
    engine = tw.Engine(tw.source("a", COLUMNS, insert_only=True))
    engine.push("a", tw.cti(50))
    engine.skip_before(40)
    early, late = tw.point({"k": "x", "v": 1}, 10), tw.point({"k": "x", "v": 1}, 45)
    with pytest.raises(LateEventError, match="row 2"):
        engine.push("a", [early, early, late])
    assert not engine.skipped
    with pytest.raises(LateEventError):
        engine.push("a", [early, tw.cti(60), late])  # two batches
    assert not engine.skipped


WINDOWED = {
    "HoppingAggregateKernel",
    "BucketAggregateKernel",
    "HoppingRowsAggregateKernel",
    "HoppingTopKKernel",
    "PromisedGroupsKernel",
    "TablePanesKernel",
    "DeferredKernel",
    "CombinePanesKernel",
    "CombineMergedPanesKernel",
    "WindowEngine, calendar",
    "WindowEngine, slide by tuple",
    "BinsAggregateKernel",
    "GridApplyKernel",
    "PanedApplyKernel",
}
"""The cases with windows that feedback reaches; those of other windows depend on rows of any
age."""


ONE_WINDOW = ("WindowEngine, calendar", "TablePanesKernel")
"""A day of microseconds, and a window over everything: none ends before the time."""

ROWS = [
    tw.insert({"k": at % 40, "v": at % 97}, at * SPAN // 2_000, at * SPAN // 2_000 + 1 + at % 50)
    for at in range(2_000)
]


def of_case(name: str) -> tw.Engine:
    """The query of a case over streams without adjusts, with rows over the whole time."""
    case = CASES[name]
    declared = {**case.declared, "insert_only": True}
    a, b = (tw.source(source, SCHEMA, **declared) for source in "ab")  # type: ignore[arg-type]
    engine = tw.Engine(case.build(a, b), consistency=case.consistency)
    if name in WINDOWED:
        for source in engine.sources:
            engine.push(source, ROWS)
    return engine


def windows(engine: tw.Engine) -> list[GraphOperator]:
    """The operators in which a row may be a part of answers that end after it."""
    every = engine._graph.operators
    return [found for found in every if found.kernel.reach and not found.kernel.row_by_row]


def windows_held(engine: tw.Engine) -> tuple[int, int]:
    """Rows and bytes in the state of the windows."""
    sizes = [operator.kernel.state_size() for operator in windows(engine)]
    return sum(size.rows for size in sizes), sum(size.bytes for size in sizes)


def test_every_window_that_feedback_reaches_is_known() -> None:
    engines = {name: of_case(name) for name in CASES}
    for engine in engines.values():
        engine.skip_before(0)
    assert {
        name
        for name, engine in engines.items()
        if any(operator.unwanted is not None for operator in windows(engine))
    } == WINDOWED


@pytest.mark.parametrize("time", [50_000, 50_007])
@pytest.mark.parametrize("name", sorted(WINDOWED))
def test_windows_hold_no_more_than_after_a_promise(name: str, time: int) -> None:
    """Windows that end at t or before are closed by the CTI t; after feedback nobody wants them."""
    promised, told = of_case(name), of_case(name)
    before = windows_held(told)
    for source in promised.sources:
        promised.push(source, tw.cti(time))
    told.skip_before(time + 1)
    assert windows_held(told)[0] <= windows_held(promised)[0] <= before[0]
    assert windows_held(told)[1] <= windows_held(promised)[1]
    if name not in ONE_WINDOW:
        assert windows_held(told)[0] < 0.7 * before[0]
