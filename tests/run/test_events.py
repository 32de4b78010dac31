"""Event classes and promises of one group: what the lifetimes of events mean, and how ordinary
tables become events."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

import thalweg as tw
from thalweg.model import (
    INFINITY,
    Cti,
    Element,
    adjust,
    assert_sound,
    cti,
    first_violation,
    insert,
    point,
    remove,
)

COLUMNS = {"k": "string", "v": "int64"}
SAMPLES = tw.source("s", COLUMNS)
EDGES = SAMPLES.edges("k")


def sample(k: str, v: int, start: int) -> tw.Insert:
    """The end of a sample does not matter; a point is how it arrives."""
    return point({"k": k, "v": v}, start)


def pushed(engine: tw.Engine, *elements: Element) -> list[Element]:
    return list(tw.elements_of(engine.push("s", elements)))


def spans(query: tw.Stream, *elements: Element) -> list[tuple[int, int, int]]:
    return [(start, end, payload["v"]) for start, end, payload in tw.table(query, {"s": elements})]


# ------------------------------------------------------------------------------------------------
# points and intervals


def test_a_point_lasts_one_tick() -> None:
    assert point({"v": 1}, 5) == insert({"v": 1}, 5, 6)
    assert spans(SAMPLES.points(), insert({"k": "a", "v": 1}, 5, 90)) == [(5, 6, 1)]


def test_an_interval_lasts_as_long_as_it_says_or_without_end() -> None:
    assert spans(SAMPLES, insert({"k": "a", "v": 1}, 5, 9), insert({"k": "a", "v": 2}, 5)) == [
        (5, 9, 1),
        (5, INFINITY, 2),
    ]


def test_two_points_meet_only_at_the_same_instant() -> None:
    other = tw.source("o", {"k": "string", "w": "int64"})
    points = {"s": [sample("a", 1, 5), sample("a", 2, 6)], "o": [point({"k": "a", "w": 7}, 6)]}
    assert tw.table(SAMPLES.join(other, on="k"), points) == [(6, 7, {"k": "a", "v": 2, "w": 7})]


# ------------------------------------------------------------------------------------------------
# edge events


def test_an_edge_event_lasts_until_the_next_sample_of_its_key() -> None:
    signal = [sample("a", 1, 0), sample("b", 7, 3), sample("a", 2, 5), sample("a", 3, 9)]
    assert spans(EDGES, *signal) == [(0, 5, 1), (3, INFINITY, 7), (5, 9, 2), (9, INFINITY, 3)]


def test_without_a_key_every_sample_ends_the_one_before() -> None:
    assert spans(SAMPLES.edges(), sample("a", 1, 0), sample("b", 7, 3)) == [
        (0, 3, 1),
        (3, INFINITY, 7),
    ]


def test_a_sample_is_cut_when_the_next_one_arrives() -> None:
    engine = tw.Engine(EDGES)
    first, second = {"k": "a", "v": 1}, {"k": "a", "v": 2}
    assert pushed(engine, sample("a", 1, 0)) == [insert(first, 0)]
    assert sorted(map(repr, pushed(engine, sample("a", 2, 5)))) == sorted(
        map(repr, [insert(second, 5), adjust(first, 0, None, 5)])
    )


def test_a_late_sample_cuts_again() -> None:
    engine = tw.Engine(EDGES)
    out = pushed(engine, sample("a", 1, 0), sample("a", 3, 9))
    late = pushed(engine, sample("a", 2, 4))
    assert adjust({"k": "a", "v": 1}, 0, 9, 4) in late
    assert [(start, end) for start, end, _ in tw.cht([*out, *late])] == [
        (0, 4),
        (4, 9),
        (9, INFINITY),
    ]


def test_a_sample_that_is_taken_back_gives_its_time_to_the_one_before() -> None:
    assert spans(
        EDGES,
        sample("a", 1, 0),
        sample("a", 2, 4),
        sample("a", 3, 9),
        remove({"k": "a", "v": 2}, 4, 5),
    ) == [
        (0, 9, 1),
        (9, INFINITY, 3),
    ]


def test_samples_of_one_instant_end_together() -> None:
    assert spans(EDGES, sample("a", 1, 0), sample("a", 2, 0), sample("a", 3, 6)) == [
        (0, 6, 1),
        (0, 6, 2),
        (6, INFINITY, 3),
    ]


def test_a_sample_without_a_key_is_never_cut() -> None:
    nobody = [point({"k": None, "v": 1}, 0), point({"k": None, "v": 2}, 4)]
    assert spans(EDGES, *nobody) == [(0, INFINITY, 1), (4, INFINITY, 2)]


def test_a_cti_settles_samples_that_were_cut_before_it() -> None:
    engine = tw.Engine(EDGES, consistency="final")
    assert pushed(engine, sample("a", 1, 0), sample("a", 2, 4), cti(5)) == [
        insert({"k": "a", "v": 1}, 0, 4),
        cti(4),
    ]


# ------------------------------------------------------------------------------------------------
# promises of one group

GROUPED = tw.source("s", COLUMNS, group_ctis="k")
COUNTED = GROUPED.group_by("k").snapshot().aggregate(n=tw.count())


def test_a_promise_for_one_group_makes_its_answers_final() -> None:
    engine = tw.Engine(COUNTED, consistency="final")
    assert pushed(engine, insert({"k": "a", "v": 1}, 1, 4), insert({"k": "b", "v": 1}, 2, 6)) == []
    assert pushed(engine, cti(10, {"k": "a"})) == [
        insert({"k": "a", "n": 1}, 1, 4),
        cti(10, {"k": "a"}),
    ]
    # The other group is still open: an event before 10 is welcome there.
    assert [
        e for e in pushed(engine, insert({"k": "b", "v": 1}, 3, 6)) if not isinstance(e, Cti)
    ] == []
    assert [e for e in pushed(engine, cti(10)) if not isinstance(e, Cti)] == [
        insert({"k": "b", "n": 1}, 2, 3),
        insert({"k": "b", "n": 2}, 3, 6),
    ]


@pytest.mark.parametrize("consistency", ["speculative", "eager", "final"])
def test_promises_of_groups_are_kept_in_the_output(consistency: str) -> None:
    arriving = [
        insert({"k": "a", "v": 1}, 1, 4),
        cti(5, {"k": "a"}),
        insert({"k": "b", "v": 1}, 2),
        insert({"k": "a", "v": 1}, 5, 8),
        cti(9, {"k": "a"}),
        adjust({"k": "b", "v": 1}, 2, None, 3),
        cti(4),
        insert({"k": "a", "v": 2}, 9, 12),
    ]
    for query in (
        GROUPED,
        COUNTED,
        GROUPED.edges("k"),
        GROUPED.group_by("k").tumbling(4).aggregate(n=tw.count()),
    ):
        engine = tw.Engine(query, consistency=consistency)
        batches = [
            batch for element in arriving for batch in engine.push("s", element)
        ] + engine.finish()
        assert_sound(batches)
        assert first_violation(tw.elements_of(batches)) is None
        assert tw.cht(tw.elements_of(batches), query.schema) == tw.table(query, {"s": arriving})


def test_a_promise_for_a_group_that_was_never_seen_is_taken() -> None:
    assert pushed(tw.Engine(GROUPED), cti(9, {"k": "z"})) == [cti(9, {"k": "z"})]


def test_the_common_promise_swallows_those_of_groups() -> None:
    engine = tw.Engine(GROUPED)
    assert pushed(engine, cti(5, {"k": "a"}), cti(9)) == [cti(5, {"k": "a"}), cti(9)]
    assert engine.status().progress.scoped == {}


def test_partitions_make_promises_each_by_its_own_clock() -> None:
    engine = tw.Engine(tw.source("s", COLUMNS, partition="k", disorder=2))
    assert pushed(engine, sample("a", 1, 20))[1:] == [cti(18, {"k": "a"})]
    # b is far behind a and not late; a is held to what its own clock has promised.
    assert cti(1, {"k": "b"}) in pushed(engine, sample("b", 1, 3))
    with pytest.raises(tw.ThalwegError, match="before the promise 18"):
        engine.push("s", sample("a", 1, 17))


def test_a_low_watermark_is_the_common_promise_of_partitions() -> None:
    engine = tw.Engine(
        tw.source("s", COLUMNS, partition="k", disorder=2, low_watermark=(5, 10), late="drop")
    )
    pushed(engine, sample("b", 1, 3))
    assert cti(10) in pushed(engine, sample("a", 1, 22))  # 22 - 10, down to a multiple of 5
    pushed(engine, sample("b", 2, 9), sample("b", 3, 11))
    assert engine.late("s").column("v").to_pylist() == [2]


# ------------------------------------------------------------------------------------------- events
# from ordinary tables


def test_events_are_points_unless_they_have_an_end_or_a_duration() -> None:
    table = pa.table({"t": [3, 4], "u": [9, None], "v": [1, 2]})
    assert tw.events(table, "t").select(["_start", "_end"]).to_pydict() == {
        "_start": [3, 4],
        "_end": [4, 5],
    }
    assert tw.events(table, "t", duration=10).column("_end").to_pylist() == [13, 14]
    assert tw.events(table, "t", "u").to_pydict() == {
        "_start": [3, 4],
        "_end": [9, INFINITY],
        "v": [1, 2],
    }


def test_events_keep_their_time_columns_when_asked() -> None:
    assert tw.events(pa.table({"t": [3], "v": [1]}), "t", keep_times=True).schema.names == [
        "_start",
        "_end",
        "t",
        "v",
    ]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_timestamps_stay_timestamps_in_microseconds(unit: str) -> None:
    moments = pa.array([datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC)], pa.timestamp(unit, "UTC"))
    made = tw.events(pa.table({"t": moments}), "t", duration="1 s")
    assert made.schema.field("_start").type == pa.timestamp("us", "UTC")
    assert made.to_pydict() == {
        "_start": [datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC)],
        "_end": [datetime(1970, 1, 1, 0, 0, 3, tzinfo=UTC)],
    }


def test_a_float_end_that_is_null_is_infinite_too() -> None:
    table = pa.table({"t": [3, 4], "u": [9.0, None]})
    assert tw.events(table, "t", "u").column("_end").to_pylist() == [9, INFINITY]


def test_a_table_of_events_is_pushed_as_it_is() -> None:
    visits = pa.table({"page": ["a", "b", "a"], "at": [1, 12, 4]})
    query = (
        tw.source("visits", {"page": "string"})
        .group_by("page")
        .tumbling(10)
        .aggregate(n=tw.count())
    )
    assert tw.table(query, {"visits": tw.events(visits, "at")}) == [
        (0, 10, {"page": "a", "n": 2}),
        (10, 20, {"page": "b", "n": 1}),
    ]


def test_samples_from_a_table_become_a_signal() -> None:
    readings = tw.events(pa.table({"at": [9, 0, 5], "k": ["a", "a", "a"], "v": [3, 1, 2]}), "at")
    assert [row[:2] for row in tw.table(EDGES, {"s": readings})] == [(0, 5), (5, 9), (9, INFINITY)]


@pytest.mark.parametrize("kind", ["int32", "int64", "uint32", "uint64"])
@pytest.mark.parametrize(
    "query",
    [SAMPLES.snapshot().aggregate(n=tw.count()), SAMPLES.hopping(8, 4).aggregate(n=tw.count())],
)
def test_ticks_of_any_integer_type_are_the_same_ticks(query: tw.Stream, kind: str) -> None:
    late = (
        2**31 - 4
    )  # near the end of the smallest type, where its own arithmetic would wrap around
    table = pa.table(
        {
            "_start": pa.array([3, late], kind),
            "_end": pa.array([5, late + 2], kind),
            "k": ["a", "b"],
            "v": [1, 2],
        }
    )
    rows = [insert({"k": "a", "v": 1}, 3, 5), insert({"k": "b", "v": 2}, late, late + 2)]
    assert tw.table(query, {"s": [table, sample("a", 3, 4)]}) == tw.table(
        query, {"s": [*rows, sample("a", 3, 4)]}
    )
