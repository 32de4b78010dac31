"""Answers: early, revised, final. When each leaves under `speculative`, `eager`, `final` and
`hold`, and what never differs.

With the watermark m = max(latest CTI, largest start seen) and the CTI c, an answer that ends at e
leaves when

    speculative   e <= m                 hold d        e <= max(c, m - d)
    eager         at once                final         e <= c   (e < c where the end may still move)
"""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

import pytest

import thalweg as tw
from thalweg.errors import PlanError
from thalweg.model import (
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
    remove,
)
from thalweg.testing import assert_same_table, oracle

EVENTS = tw.source("s", {"k": "int64", "v": "int64"})
TUMBLING = EVENTS.tumbling(10).aggregate(n=tw.count(), v=tw.max_("v"))
COUNTED = EVENTS.tumbling(10).aggregate(n=tw.count())
X = {"k": 0, "v": 1}


def pushed(engine: tw.Engine, *elements: Element) -> list[Element]:
    """What comes out at once, without the promises."""
    return [e for e in tw.elements_of(engine.push("s", elements)) if not isinstance(e, Cti)]


def n(count: int, start: int) -> Insert:
    return insert({"n": count}, start, start + 10)


# ------------------------------------------------------------------------------------------------
# speculative


def test_speculative_is_silent_about_windows_beyond_the_watermark() -> None:
    engine = tw.Engine(COUNTED)
    assert pushed(engine, insert(X, 2, 35)) == []  # in four windows; the watermark is 2
    assert pushed(engine, point(X, 9)) == []
    assert pushed(engine, point(X, 10)) == [n(2, 0)]  # the watermark has reached the end of [0, 10)
    assert pushed(engine, point(X, 25)) == [n(2, 10)]


def test_speculative_answers_at_a_cti_that_passes_the_watermark() -> None:
    engine = tw.Engine(COUNTED)
    assert pushed(engine, point(X, 2)) == []
    assert pushed(engine, cti(9)) == []
    assert pushed(engine, cti(10)) == [n(1, 0)]


def test_speculative_revises_what_a_late_event_changes() -> None:
    engine = tw.Engine(COUNTED)
    assert pushed(engine, point(X, 2), point(X, 12)) == [n(1, 0)]
    assert pushed(engine, point(X, 7)) == [adjust({"n": 1}, 0, 10, 0), n(2, 0)]
    assert pushed(engine, remove(X, 7, 8)) == [adjust({"n": 2}, 0, 10, 0), n(1, 0)]


def test_a_window_that_becomes_empty_is_taken_back() -> None:
    engine = tw.Engine(COUNTED)
    assert pushed(engine, point(X, 2), point(X, 12)) == [n(1, 0)]
    assert pushed(engine, remove(X, 2, 3)) == [remove({"n": 1}, 0, 10)]


def test_an_answer_that_did_not_change_is_not_given_again() -> None:
    engine = tw.Engine(EVENTS.tumbling(10).aggregate(v=tw.max_("v")))
    assert pushed(engine, point({"k": 0, "v": 5}, 2), point(X, 12)) == [insert({"v": 5}, 0, 10)]
    assert pushed(engine, point({"k": 0, "v": 3}, 4)) == []
    assert pushed(engine, cti(10)) == []
    assert [e for e in tw.elements_of(engine.finish()) if isinstance(e, Insert)] == [
        insert({"v": 1}, 10, 20)
    ]


def test_a_change_that_is_undone_in_the_same_batch_is_silent() -> None:
    engine = tw.Engine(COUNTED)
    pushed(engine, point(X, 2), point(X, 12))
    assert pushed(engine, point(X, 3), remove(X, 3, 4)) == []


def test_an_end_that_moves_within_its_window_is_silent() -> None:
    engine = tw.Engine(COUNTED)
    pushed(engine, insert(X, 2, 5), point(X, 12))
    assert pushed(engine, adjust(X, 2, 5, 9)) == []


# ------------------------------------------------------------------------------------------------
# eager


def test_eager_answers_open_windows_at_once() -> None:
    engine = tw.Engine(COUNTED, consistency="eager")
    assert pushed(engine, point(X, 2)) == [n(1, 0)]
    assert pushed(engine, point(X, 4)) == [adjust({"n": 1}, 0, 10, 0), n(2, 0)]


def test_eager_answers_once_a_batch() -> None:
    engine = tw.Engine(COUNTED, consistency="eager")
    assert pushed(engine, *(point(X, time) for time in range(8))) == [n(8, 0)]
    assert pushed(engine, *(point(X, time) for time in range(8))) == [
        adjust({"n": 8}, 0, 10, 0),
        n(16, 0),
    ]


def test_eager_snapshots_are_revised_by_their_ends() -> None:
    engine = tw.Engine(EVENTS.snapshot().aggregate(n=tw.count()), consistency="eager")
    assert pushed(engine, insert(X, 2)) == [insert({"n": 1}, 2)]
    assert pushed(engine, adjust(X, 2, None, 6)) == [adjust({"n": 1}, 2, None, 6)]


# ------------------------------------------------------------------------------------------------
# final


def test_final_waits_for_the_cti() -> None:
    engine = tw.Engine(COUNTED, consistency="final")
    assert pushed(engine, point(X, 2), point(X, 30)) == []
    assert pushed(engine, cti(9)) == []
    assert pushed(engine, point(X, 9), cti(10)) == [n(2, 0)]
    assert pushed(engine, cti(50)) == [n(1, 30)]


def test_final_waits_one_tick_longer_where_the_end_may_still_move() -> None:
    engine = tw.Engine(EVENTS.snapshot().aggregate(n=tw.count()), consistency="final")
    assert pushed(engine, insert(X, 2, 8), cti(8)) == []
    assert pushed(engine, adjust(X, 2, 8, 9), cti(9)) == []
    assert pushed(engine, cti(10)) == [insert({"n": 1}, 2, 9)]


def test_final_holds_rows_of_operators_that_revise_by_nature() -> None:
    engine = tw.Engine(EVENTS.edges("k"), consistency="final")
    assert pushed(engine, point(X, 1), point(X, 9), cti(9)) == []
    assert pushed(engine, point(X, 9), cti(10)) == [insert(X, 1, 9)]


# ------------------------------------------------------------------------------------------------
# hold


def test_hold_answers_that_long_after_the_watermark() -> None:
    engine = tw.Engine(COUNTED, hold=5)
    assert pushed(engine, point(X, 2), point(X, 14)) == []
    assert pushed(engine, point(X, 9)) == []  # 14 - 5 < 10: the late event costs no revision
    assert pushed(engine, point(X, 15)) == [n(2, 0)]


def test_hold_does_not_wait_when_a_cti_covers_the_answer() -> None:
    engine = tw.Engine(COUNTED, hold=1_000)
    assert pushed(engine, point(X, 2), cti(10)) == [n(1, 0)]


def test_hold_takes_durations_and_belongs_to_speculative() -> None:
    assert pushed(tw.Engine(COUNTED, hold="5 us"), point(X, 2), point(X, 15)) == [n(1, 0)]
    with pytest.raises(PlanError, match="hold"):
        tw.Engine(COUNTED, consistency="final", hold=5)
    with pytest.raises(PlanError, match="hold"):
        tw.Engine(COUNTED, hold=-1)
    with pytest.raises(PlanError, match="consistency must be one of"):
        tw.Engine(COUNTED, consistency="exact")


# ------------------------------------------------------------------------------------------------
# what never differs

QUERIES = {
    "source": EVENTS,
    "tumbling": TUMBLING,
    "hopping by key": EVENTS.group_by("k").hopping(12, 4).aggregate(n=tw.count()),
    "snapshot": EVENTS.group_by("k").snapshot().aggregate(n=tw.count()),
    "session": EVENTS.group_by("k").session(4).aggregate(n=tw.count()),
    "top_k": EVENTS.top_k(1, by="v"),
    "edges": EVENTS.edges("k"),
    "anti join": EVENTS.anti_join(EVENTS.shift(3), on="k"),
    "window over a window": (
        EVENTS.tumbling(5).aggregate(n=tw.count()).session(8).aggregate(n=tw.sum_("n"))
    ),
}
WAYS: dict[str, dict[str, Any]] = {
    "eager": {"consistency": "eager"},
    "speculative": {"consistency": "speculative"},
    "hold 0": {"hold": 0},
    "hold 4": {"hold": 4},
    "hold 30": {"hold": 30},
    "final": {"consistency": "final"},
}
DISORDER = 15


def disordered(size: int = 50) -> list[Element]:
    """Rows up to 15 ticks late, some of which change their end or vanish, and CTIs that allow for
    it."""
    random, made = Random(7), list[Element]()
    for now in range(size):
        start = now + DISORDER - random.randint(0, DISORDER)
        row = insert(
            {"k": random.randrange(2), "v": random.randrange(5)},
            start,
            start + random.randint(1, 12),
        )
        made.append(row)
        if random.random() < 0.25:
            made.append(
                adjust(row.payload, row.start, row.end, random.choice([start, row.end + 3]))
            )
        if now % 10 == 9:
            made.append(cti(now))
    return made


@cache
def output(name: str, way: str) -> tuple[Batch, ...]:
    """Everything that comes out when two elements at a time go in."""
    engine, arriving = tw.Engine(QUERIES[name], **WAYS[way]), disordered()
    out = [
        batch
        for at in range(0, len(arriving), 2)
        for batch in engine.push("s", arriving[at : at + 2])
    ]
    return (*out, *engine.finish())


def adjusts(name: str, way: str) -> int:
    return sum(isinstance(element, Adjust) for element in tw.elements_of(output(name, way)))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", QUERIES)
def test_every_way_ends_with_the_same_table_and_keeps_its_promises(name: str, way: str) -> None:
    query, batches = QUERIES[name], output(name, way)
    assert_sound(batches)
    assert_same_table(
        oracle(query.node, {"s": tw.cht(disordered())}),
        tw.cht(tw.elements_of(batches), query.schema),
    )
    assert batches[-1].progress.ended


@pytest.mark.parametrize("name", QUERIES)
def test_final_never_takes_anything_back(name: str) -> None:
    assert adjusts(name, "final") == 0


@pytest.mark.parametrize("name", ["tumbling", "hopping by key", "snapshot", "session", "top_k"])
def test_the_longer_an_answer_is_held_the_fewer_corrections(name: str) -> None:
    made = {way: adjusts(name, way) for way in WAYS}
    assert (
        made["eager"] > made["speculative"] > made["hold 4"] > made["hold 30"] == made["final"] == 0
    )


@pytest.mark.parametrize("name", QUERIES)
def test_hold_0_is_speculative_to_the_element(name: str) -> None:
    assert list(tw.elements_of(output(name, "hold 0"))) == list(
        tw.elements_of(output(name, "speculative"))
    )
