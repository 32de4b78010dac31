"""The engine: pushed and pulled, in any batches, stopped and restored, and after a failure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import chain, count, islice
from math import nan
from typing import Any

import pyarrow as pa
import pytest

import thalweg as tw
from thalweg.errors import EvaluationError, LateEventError, PlanError, StateError
from thalweg.model import (
    INFINITY,
    Adjust,
    Batch,
    Cti,
    Element,
    Insert,
    adjust,
    assert_sound,
    cti,
    insert,
    point,
)
from thalweg.testing import assert_same_table, oracle

COLUMNS = {"k": "string", "v": "int64"}
A, B = tw.source("a", COLUMNS), tw.source("b", COLUMNS)
QUERY = A.union(B).group_by("k").hopping(8, 4).aggregate(n=tw.count(), v=tw.sum_("v"))


def row(k: str, v: int, start: int, end: int | None = None) -> Insert:
    return insert({"k": k, "v": v}, start, end)


LEFT: list[Element] = [
    row("x", 1, 5, 9),
    row("y", 2, 3, 20),
    cti(2),
    row("x", 3, 2, 4),
    adjust({"k": "y", "v": 2}, 3, 20, 11),
    cti(8),
    row("x", 4, 12, 13),
    adjust({"k": "y", "v": 2}, 3, 11, 15),
]
RIGHT: list[Element] = [row("y", 5, 1, 2), cti(4), row("x", 6, 9, 10), cti(9)]
INPUTS = {"a": LEFT, "b": RIGHT}
STEPS = [
    (name, element)
    for pair in zip(LEFT, RIGHT, strict=False)
    for name, element in zip(INPUTS, pair, strict=True)
]
STEPS += [("a", element) for element in LEFT[len(RIGHT) :]]


def play(engine: tw.Engine, steps: list[tuple[str, Element]]) -> list[Batch]:
    return [batch for name, element in steps for batch in engine.push(name, element)]


def expected(query: tw.Stream) -> list[tw.model.Row]:
    return oracle(query.node, {name: tw.cht(elements) for name, elements in INPUTS.items()})


def values(stream: Iterator[Element] | list[Element]) -> list[Element]:
    return [element for element in stream if not isinstance(element, Cti)]


def unordered(batches: list[tw.Batch]) -> list[str]:
    """What one step answers; the order of groups within an answer is free."""
    return sorted(map(repr, values(tw.elements_of(batches))))


# ------------------------------------------------------------------------------------------------
# push and pull


def test_pushing_and_pulling_give_the_same_table() -> None:
    engine = tw.Engine(QUERY)
    pushed = play(engine, STEPS) + engine.finish()
    assert_same_table(expected(QUERY), tw.cht(tw.elements_of(pushed), QUERY.schema))
    assert_same_table(expected(QUERY), tw.table(QUERY, INPUTS))


@pytest.mark.parametrize("size", [None, 1, 2, 3])
def test_batches_of_any_size_give_the_same_table_and_are_sound(size: int | None) -> None:
    batches = list(tw.run(QUERY, INPUTS, batch_size=size))
    assert_sound(batches)
    assert_same_table(expected(QUERY), tw.cht(tw.elements_of(batches), QUERY.schema))


def test_one_push_of_many_elements_is_cut_at_its_ctis() -> None:
    together, apart = tw.Engine(A), tw.Engine(A)
    assert list(tw.elements_of(together.push("a", LEFT))) == LEFT
    parts = [LEFT[:3], LEFT[3:6], LEFT[6:]]
    assert (
        list(tw.elements_of(chain.from_iterable(apart.push("a", part) for part in parts))) == LEFT
    )
    assert together.status().batches == apart.status().batches == 3


def test_elements_batches_and_arrow_tables_are_the_same_input() -> None:
    rows = [row("x", 1, 5, 9), row("y", 2, 3, 20)]
    batch = tw.Engine(A).push("a", rows)[0]
    exchange, plain = batch.to_table(), batch.to_table().drop_columns(["_kind", "_new_end"])
    for feed in (rows, iter(rows), batch, [batch], exchange, plain, plain.to_batches()[0]):
        assert list(tw.elements_of(tw.Engine(A).push("a", feed))) == rows


def test_pulling_is_lazy() -> None:
    endless = chain.from_iterable([row("x", 1, time, time + 1), cti(time)] for time in count())
    first = islice(tw.elements_of(tw.run(A, {"a": endless})), 4)
    assert list(first) == [row("x", 1, 0, 1), cti(0), row("x", 1, 1, 2), cti(1)]


def test_pulling_lets_sources_take_turns() -> None:
    seen = values(
        list(
            tw.elements_of(
                tw.run(
                    A.union(B),
                    {"a": [row("a", 1, 0), cti(0), row("a", 2, 1)], "b": [row("b", 1, 0), cti(0)]},
                )
            )
        )
    )
    assert [e.payload["k"] for e in seen if isinstance(e, Insert)] == ["a", "b", "a"]


def test_pulling_needs_every_source() -> None:
    with pytest.raises(PlanError, match="no input for the source 'b'"):
        list(tw.run(QUERY, {"a": LEFT}))


def test_pulling_without_finish_leaves_the_end_open() -> None:
    batches = list(tw.run(A, {"a": LEFT}, finish=False))
    assert list(tw.elements_of(batches)) == LEFT
    assert list(tw.elements_of(tw.run(A, {"a": LEFT}))) == [*LEFT, cti(None)]
    assert tw.changes(A, {"a": LEFT}) == LEFT


def test_after_the_end_everything_is_late() -> None:
    engine = tw.Engine(A)
    engine.finish()
    with pytest.raises(LateEventError, match="source 'a', batch 1, row 0"):
        engine.push("a", row("x", 1, 5, 9))


# ------------------------------------------------------------------------------------------------
# status and clock


def test_status_counts_what_went_through() -> None:
    engine = tw.Engine(A.union(B).tumbling(4).aggregate(n=tw.count()), clock=count().__next__)
    engine.push("a", [row("x", 1, 1, 2), row("x", 1, 9, 10), row("x", 1, 2, 3)])
    engine.push("b", cti(6))
    engine.push("a", [row("x", 1, 3, 4), cti(6)])
    status = engine.status()
    assert (
        status.batches,
        status.elements_in,
        status.elements_out,
        status.adjusts_out,
        status.late,
    ) == (3, 4, 3, 1, 0)
    assert status.progress.cti == 4 and status.state.rows > 0


def test_a_restored_engine_knows_what_was_promised() -> None:
    query = tw.source("s", {"day": "date32", "v": "int64"}, group_ctis="day")
    engine = tw.Engine(query)
    engine.push("s", [cti(3), cti(9, {"day": date(2020, 1, 1)})])
    restored = tw.Engine.restore(query, engine.snapshot())
    assert restored.status().progress == engine.status().progress
    assert (
        restored.push("s", cti(9, {"day": date(2020, 1, 1)})) == []
    )  # a promise that was made is not made again


def test_busy_time_is_read_from_the_clock_it_is_given() -> None:
    ticks = iter([10.0, 10.5, 20.0, 21.0])
    engine = tw.Engine(A, clock=ticks.__next__)
    engine.push("a", row("x", 1, 1))
    engine.push("a", row("x", 1, 2))
    assert engine.status().busy_seconds == 1.5


def test_engine_knows_its_columns_and_sources() -> None:
    engine = tw.Engine(QUERY)
    assert engine.schema.names == ["k", "n", "v"]
    assert {name: schema.names for name, schema in engine.sources.items()} == {
        "a": ["k", "v"],
        "b": ["k", "v"],
    }


# ------------------------------------------------------------------------------------------------
# stop and restore

STATEFUL = {
    "hopping": QUERY,
    "snapshot": A.union(B).group_by("k").snapshot().aggregate(v=tw.max_("v")),
    "session": A.union(B).session(3).aggregate(n=tw.count()),
    "join": A.full_join(B, on="k"),
    "edges": A.union(B).edges("k"),
    "top_k": A.union(B).top_k(1, by="v"),
}


@pytest.mark.parametrize("consistency", ["speculative", "eager", "final"])
@pytest.mark.parametrize("query", STATEFUL.values(), ids=STATEFUL.keys())
def test_stopped_and_restored_anywhere_equals_uninterrupted(
    query: tw.Stream, consistency: str
) -> None:
    engine = tw.Engine(query, consistency=consistency)
    whole = [unordered(engine.push(name, element)) for name, element in STEPS]
    rest = unordered(engine.finish())
    for stop in range(len(STEPS) + 1):
        first = tw.Engine(query, consistency=consistency)
        play(first, STEPS[:stop])
        second = tw.Engine.restore(query, first.snapshot(), consistency=consistency)
        assert second.snapshot() == first.snapshot()
        assert [unordered(second.push(name, element)) for name, element in STEPS[stop:]] == whole[
            stop:
        ]
        assert unordered(second.finish()) == rest


def test_a_snapshot_does_not_follow_the_engine_it_was_taken_from() -> None:
    engine = tw.Engine(QUERY)
    play(engine, STEPS[:5])
    early = engine.snapshot()
    play(engine, STEPS[5:])
    assert tw.Engine.restore(QUERY, early).snapshot() == early != engine.snapshot()


@pytest.mark.parametrize(
    ("query", "options"),
    [
        (A.union(B).group_by("k").hopping(8, 2).aggregate(n=tw.count(), v=tw.sum_("v")), {}),
        (A.group_by("k").hopping(8, 4).aggregate(n=tw.count(), v=tw.sum_("v")), {}),
        (QUERY, {"consistency": "final"}),
        (QUERY, {"hold": 5}),
        (
            tw.source("a", COLUMNS, late="drop")
            .union(B)
            .group_by("k")
            .hopping(8, 4)
            .aggregate(n=tw.count(), v=tw.sum_("v")),
            {},
        ),
        (
            tw.source("a", COLUMNS, insert_only=True)
            .union(B)
            .group_by("k")
            .hopping(8, 4)
            .aggregate(n=tw.count(), v=tw.sum_("v")),
            {},
        ),
    ],
    ids=[
        "another window",
        "another source",
        "another consistency",
        "another hold",
        "another late policy",
        "another fact",
    ],
)
def test_a_snapshot_of_another_query_is_refused(query: tw.Stream, options: dict[str, Any]) -> None:
    with pytest.raises(
        StateError,
        match="the snapshot belongs to another query, or to this one with another consistency",
    ):
        tw.Engine.restore(query, tw.Engine(QUERY).snapshot(), **options)


def test_a_query_written_anew_takes_the_snapshot_of_its_twin() -> None:
    twin = (
        tw.source("a", COLUMNS)
        .union(tw.source("b", COLUMNS))
        .group_by("k")
        .hopping(8, 4)
        .aggregate(n=tw.count(), v=tw.sum_("v"))
    )
    engine = tw.Engine(QUERY)
    play(engine, STEPS[:6])
    assert tw.Engine.restore(twin, engine.snapshot()).snapshot() == engine.snapshot()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda whole: b"",
        lambda whole: b"nonsense",
        lambda whole: whole[:60],
        lambda whole: whole[:-40],
    ],
)
def test_bytes_that_are_no_snapshot_are_refused(spoil: Any) -> None:
    with pytest.raises(StateError, match="these bytes are no snapshot"):
        tw.Engine.restore(QUERY, spoil(tw.Engine(QUERY).snapshot()))


def test_a_snapshot_of_an_older_version_is_refused() -> None:
    older = tw.Engine(QUERY).snapshot().replace(b"thalweg-snapshot-5", b"thalweg-snapshot-1")
    with pytest.raises(StateError, match=r"written by an older version.*start it anew"):
        tw.Engine.restore(QUERY, older)


KEYS: list[tuple[Any, Any]] = [
    ("string", "x"),
    ("int64", None),
    ("float64", nan),
    ("date32", date(2020, 1, 1)),
    ("binary", b"x"),
    (pa.timestamp("us"), datetime(2020, 1, 1)),
    (pa.timestamp("us", "Europe/Berlin"), datetime(2020, 1, 1, tzinfo=UTC)),
    (pa.decimal128(5, 2), Decimal("1.50")),
]


@pytest.mark.parametrize(("kind", "value"), KEYS, ids=[str(kind) for kind, _ in KEYS])
def test_promises_of_groups_of_any_type_survive_a_restart(kind: Any, value: Any) -> None:
    query = tw.source("s", {"k": kind}, group_ctis="k")
    engine = tw.Engine(query)
    engine.push("s", cti(5, {"k": value}))
    restored = tw.Engine.restore(query, engine.snapshot())
    with pytest.raises(LateEventError, match="before the promise 5"):
        restored.push("s", point({"k": value}, 4))


@pytest.mark.parametrize(("kind", "value"), KEYS, ids=[str(kind) for kind, _ in KEYS])
def test_partitions_of_any_type_survive_a_restart(kind: Any, value: Any) -> None:
    query = tw.source("s", {"k": kind}, partition="k", disorder=5)
    engine = tw.Engine(query)
    engine.push("s", point({"k": value}, 10))
    restored = tw.Engine.restore(query, engine.snapshot())
    with pytest.raises(LateEventError, match="before the promise 5"):
        restored.push("s", point({"k": value}, 4))


# ------------------------------------------------------------------------------------------------
# after a failure

FRAGILE = A.select("k", number="cast(k as int)").tumbling(10).aggregate(n=tw.sum_("number"))


def failed() -> tw.Engine:
    engine = tw.Engine(FRAGILE)
    engine.push("a", row("1", 0, 1, 2))
    with pytest.raises(EvaluationError, match="row 0"):
        engine.push("a", row("one", 0, 2, 3))
    return engine


def test_an_engine_that_failed_inside_refuses_to_go_on() -> None:
    engine = failed()
    uses: list[Callable[[], list[Batch]]] = [
        lambda: engine.push("a", row("2", 0, 3, 4)),
        engine.finish,
    ]
    for use in uses:
        with pytest.raises(
            StateError, match=r"the query failed earlier .* go on from its last snapshot"
        ) as caught:
            use()
        assert isinstance(caught.value.__cause__, EvaluationError)


def test_an_engine_that_failed_inside_gives_no_snapshot() -> None:
    # The source has taken the batch and the operators behind it have not: going on from there would
    # lose a row.
    with pytest.raises(StateError):
        failed().snapshot()


def test_after_a_failure_the_last_snapshot_goes_on() -> None:
    engine = tw.Engine(FRAGILE)
    engine.push("a", row("1", 0, 1, 2))
    kept = engine.snapshot()
    with pytest.raises(EvaluationError):
        engine.push("a", row("one", 0, 2, 3))
    restored = tw.Engine.restore(FRAGILE, kept)
    out = restored.push("a", [row("2", 0, 3, 4), Cti(INFINITY)])
    assert values(tw.elements_of(out)) == [insert({"n": 3}, 0, 10)]
    assert not any(isinstance(element, Adjust) for element in tw.elements_of(out))
