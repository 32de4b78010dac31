"""The worked examples of "The Extensibility Framework in Microsoft StreamInsight", by the names
they have there.

Tables I and II are given in full. The figures are pictures: the events below are chosen so that
they show what each figure and its text say. User-defined modules, clipping policies and count
windows are not part of the core; their figures are tested as far as the core expresses them, and
the name of the test says which part that is.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import pytest

import thalweg as tw
from thalweg.model import (
    INFINITY,
    Adjust,
    Element,
    Insert,
    Row,
    adjust,
    cht,
    cti,
    equivalent,
    first_violation,
    insert,
    remove,
)

EVENTS = tw.source("events", {"id": "string"})

#          0    5    10   15
#          |----|----|----|
#     e1    [----)                 [1, 6)
#     e2       [------)            [4, 12)
#     e3               [--)        [11, 14)
E1, E2, E3 = insert({"id": "e1"}, 1, 6), insert({"id": "e2"}, 4, 12), insert({"id": "e3"}, 11, 14)
THREE = [E1, E2, E3]

Span = tuple[int, int]


def table(query: tw.Stream, elements: Iterable[Element]) -> list[Row]:
    return list(tw.table(query, {"events": elements}))


def members(windowed: tw.Stream, elements: Iterable[Element] = THREE) -> dict[Span, str]:
    """Window -> the events that belong to it. A top-k with room for all keeps every member, with
    the window's span."""
    found: dict[Span, list[str]] = {}
    for start, end, payload in table(windowed, elements):
        found.setdefault((start, end), []).append(payload["id"])
    return {span: " ".join(sorted(ids)) for span, ids in found.items()}


def answers(engine: tw.Engine, *elements: Element) -> list[Element]:
    return [e for e in tw.elements_of(engine.push("events", elements)) if not isinstance(e, tw.Cti)]


def promises(engine: tw.Engine, *elements: Element) -> list[int]:
    return [
        e.time for e in tw.elements_of(engine.push("events", elements)) if isinstance(e, tw.Cti)
    ]


# ------------------------------------------------------------------------------------------------
# II.A, tables

P1, P2 = {"payload": "P1"}, {"payload": "P2"}
TABLE_I: list[Row] = [(1, 5, P1), (4, 9, P2)]
TABLE_II: list[Insert | Adjust] = [
    insert(P1, 1),
    adjust(P1, 1, None, 10),
    adjust(P1, 1, 10, 5),
    insert(P2, 4, 9),
]


def test_table_i_is_the_history_of_its_two_rows() -> None:
    assert cht([insert(P1, 1, 5), insert(P2, 4, 9)]) == TABLE_I


def test_table_ii_reduces_to_table_i() -> None:
    assert cht(TABLE_II) == TABLE_I
    assert equivalent(TABLE_II, [insert(P2, 4, 9), insert(P1, 1, 5)])


def test_table_ii_gives_table_i_through_an_engine_at_every_consistency() -> None:
    rows = tw.source("rows", {"payload": "string"})
    for consistency in ("speculative", "eager", "final"):
        assert tw.table(rows, {"rows": TABLE_II}, consistency=consistency) == TABLE_I


def test_a_full_retraction_sets_the_new_end_to_the_start() -> None:
    assert cht([*TABLE_II, adjust(P1, 1, 5, 1)]) == [(4, 9, P2)]
    assert remove(P1, 1, 5) == adjust(P1, 1, 5, 1)


def test_sync_time_is_the_earliest_time_modified() -> None:
    assert [e.sync for e in TABLE_II] == [1, 10, 5, 4]
    assert remove(P1, 1, 5).sync == 1


# ------------------------------------------------------------------------------------------------
# II.C, CTIs


def test_a_cti_allows_retractions_whose_ends_both_lie_at_or_after_it() -> None:
    assert first_violation([insert(P1, 1), cti(10), adjust(P1, 1, None, 10)]) is None


@pytest.mark.parametrize(
    "late",
    [insert(P2, 9, 20), adjust(P1, 1, 30, 9), adjust(P2, 1, 9, 12)],
    ids=["an event that starts before it", "a new end before it", "an old end before it"],
)
def test_a_cti_forbids_to_modify_any_earlier_time(late: Insert | Adjust) -> None:
    begun = [insert(P1, 1, 30), insert(P2, 1, 9)]
    broken = first_violation([*begun, cti(10), late])
    assert broken is not None and (broken.element, broken.promise) == (late, 10)


# ------------------------------------------------------------------------------------------------
# the figures


def test_figure_2a_a_filter_keeps_the_whole_span_of_each_event() -> None:
    assert table(EVENTS.where("id != 'e2'"), THREE) == [
        (1, 6, {"id": "e1"}),
        (11, 14, {"id": "e3"}),
    ]


def test_figure_2a_a_span_based_operator_may_alter_the_lifetime() -> None:
    assert [row[:2] for row in table(EVENTS.shift(10).clip_duration(4), THREE)] == [
        (11, 15),
        (14, 18),
        (21, 24),
    ]


def test_figure_2b_count_over_a_tumbling_window_of_5_gives_one_event_for_every_window() -> None:
    counted = EVENTS.tumbling(5).aggregate(n=tw.count())
    assert table(counted, THREE) == [(0, 5, {"n": 2}), (5, 10, {"n": 2}), (10, 15, {"n": 2})]


def test_figure_3_in_hopping_windows_an_event_is_in_every_window_it_overlaps() -> None:
    assert members(EVENTS.hopping(6, 3).top_k(9, by="id")) == {
        (-3, 3): "e1",
        (0, 6): "e1 e2",
        (3, 9): "e1 e2",
        (6, 12): "e2 e3",
        (9, 15): "e2 e3",
        (12, 18): "e3",
    }


def test_figure_4_tumbling_windows_are_gapless_and_do_not_overlap() -> None:
    windows = members(EVENTS.tumbling(5).top_k(9, by="id"))
    assert windows == {(0, 5): "e1 e2", (5, 10): "e1 e2", (10, 15): "e2 e3"}
    assert members(EVENTS.hopping(5, 5).top_k(9, by="id")) == windows
    spans = sorted(windows)
    assert all(one[1] == two[0] for one, two in pairwise(spans))


def test_figure_5_only_e1_is_in_the_first_snapshot_and_e1_and_e2_in_the_second() -> None:
    windows = members(EVENTS.snapshot().top_k(9, by="id"))
    assert windows == {
        (1, 4): "e1",
        (4, 6): "e1 e2",
        (6, 11): "e2",
        (11, 12): "e2 e3",
        (12, 14): "e3",
    }
    endpoints = sorted({time for e in THREE for time in (e.start, e.end)})
    assert sorted(windows) == list(pairwise(endpoints))


def test_figure_5_a_retraction_removes_endpoints_and_merges_snapshots() -> None:
    windows = members(EVENTS.snapshot().top_k(9, by="id"), [*THREE, remove({"id": "e2"}, 4, 12)])
    assert windows == {(1, 6): "e1", (11, 14): "e3"}


def test_figure_6_the_start_times_that_a_count_window_would_count() -> None:
    # The core has no count windows. What they are made of it has: the spans between consecutive
    # distinct starts, each with the events that start there. Two at the same instant are one start,
    # which is what keeps count windows deterministic.
    same = insert({"id": "e2b"}, 4, 5)
    starts = members(EVENTS.edges().snapshot().top_k(9, by="id"), [*THREE, same])
    assert starts == {(1, 4): "e1", (4, 11): "e2 e2b", (11, INFINITY): "e3"}


def test_figure_7_output_is_aligned_to_the_window_whatever_the_lifetimes_of_its_input() -> None:
    # The policy of operations that do not time-stamp their output, and the only one the core has.
    inside, across = insert({"id": "in"}, 6, 7), insert({"id": "across"}, 3, 30)
    counted = EVENTS.tumbling(5).aggregate(n=tw.count())
    assert (5, 10, {"n": 2}) in table(counted, [inside, across])
    assert all(
        (end - start, start % 5) == (5, 0) for start, end, _ in table(counted, [inside, across])
    )


def test_figure_8_events_fully_clipped_to_tumbling_windows_are_what_chop_gives() -> None:
    clipped = EVENTS.chop(5)
    assert table(clipped, THREE) == [
        (1, 5, {"id": "e1"}),
        (4, 5, {"id": "e2"}),
        (5, 6, {"id": "e1"}),
        (5, 10, {"id": "e2"}),
        (10, 12, {"id": "e2"}),
        (11, 14, {"id": "e3"}),
    ]
    # Clipping changes lifetimes, not membership.
    assert members(clipped.tumbling(5).top_k(9, by="id")) == members(
        EVENTS.tumbling(5).top_k(9, by="id")
    )


# ----------------------------------------------------------------------------------------------- V,
# system internals


@pytest.mark.parametrize(
    "query", [EVENTS.tumbling(5).aggregate(n=tw.count()), EVENTS.snapshot().aggregate(n=tw.count())]
)
def test_v_c_output_exists_for_the_windows_that_do_not_overlap_the_future_of_the_watermark(
    query: tw.Stream,
) -> None:
    # m is the larger of the latest CTI and the latest start; the invariant holds after every
    # element.
    engine, seen, out, m = tw.Engine(query), list[Element](), list[Element](), -INFINITY
    arriving: list[Element] = [
        E1,
        E2,
        cti(3),
        E3,
        adjust({"id": "e3"}, 11, 14, 13),
        cti(12),
        cti(20),
    ]
    for element in arriving:
        seen.append(element)
        out += answers(engine, element)
        m = max(m, element.time if isinstance(element, tw.Cti) else element.start)
        assert cht(out, query.schema) == [row for row in table(query, seen) if row[1] <= m]


def test_v_d_a_lifetime_modification_affects_only_windows_of_the_changed_part() -> None:
    engine = tw.Engine(EVENTS.tumbling(5).aggregate(n=tw.count()))
    before = answers(engine, *THREE, insert({"id": "late"}, 20, 21))
    assert [e.start for e in before if isinstance(e, Insert)] == [0, 5, 10]
    changed = answers(
        engine, adjust({"id": "e1"}, 1, 6, 4)
    )  # [4, 6) was given up: only the part in [5, 10) was alone in its window
    assert changed == [adjust({"n": 2}, 5, 10, 5), insert({"n": 1}, 5, 10)]


def test_v_d_empty_windows_have_no_output() -> None:
    assert (0, 5, {"n": 1}) not in table(
        EVENTS.tumbling(5).aggregate(n=tw.count()), [insert({"id": "e"}, 12, 13)]
    )
    engine = tw.Engine(EVENTS.tumbling(5).aggregate(n=tw.count()))
    answers(engine, E1, E3)
    assert answers(engine, remove({"id": "e1"}, 1, 6)) == [
        remove({"n": 1}, 0, 5),
        remove({"n": 1}, 5, 10),
    ]


def test_v_f_an_endless_event_does_not_stop_the_output_cti_of_time_insensitive_windows() -> None:
    # What the document reaches by right clipping: a CTI passes up to the end of the latest window
    # that it covers.
    engine = tw.Engine(EVENTS.tumbling(5).aggregate(n=tw.count()))
    assert promises(engine, insert({"id": "endless"}, 1), cti(12)) == [10]
    assert promises(engine, cti(14)) == []
    assert promises(engine, cti(15)) == [15]


def test_v_f_time_bound_output_gives_a_cti_for_every_cti() -> None:
    engine = tw.Engine(EVENTS.snapshot().aggregate(n=tw.count()), consistency="eager")
    assert promises(engine, insert({"id": "endless"}, 1), cti(12)) == [12]
    assert promises(engine, cti(13)) == [13]


def test_v_f_windows_that_end_by_the_cti_leave_no_state() -> None:
    engine = tw.Engine(EVENTS.hopping(6, 3).aggregate(n=tw.count()))
    engine.push("events", THREE)
    assert engine.status().state.rows > 0
    engine.push(
        "events", cti(21)
    )  # that closes the last window with an event, and the one after it
    assert engine.status().state.rows == 0
