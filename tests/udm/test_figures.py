"""What Figures 2 to 10 of the StreamInsight extensibility paper show. The pictures are not in its
text; captions and paragraphs are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import thalweg as tw
from thalweg import udm

# Three interval events, as the figures draw them:
#
#      0    2    4    6    8    10   12   14
#   e1      |=========|
#   e2                |===========|
#   e3                       |=========|

E1, E2, E3 = (1, 6, "e1"), (5, 11, "e2"), (8, 13, "e3")
EVENTS = tw.source("events", {"name": "string"})
ROWS = {"events": [tw.insert({"name": name}, start, end) for start, end, name in (E1, E2, E3)]}


@udm.aggregate("figures.names", inputs={"name": "string"}, output="string")
def names(given: Sequence[str]) -> str:
    """Who is in the window."""
    return " ".join(sorted(given))


@udm.aggregate("figures.lifetimes", inputs={"name": "string"}, output="string", time_sensitive=True)
def lifetimes(events: Sequence[udm.Event], window: udm.Window) -> str:
    """Who is in the window, and when, as the module sees it."""
    return " ".join(f"{event.payload}[{event.start},{event.end})" for event in events)


@udm.operator(
    "figures.halves",
    inputs={"name": "string"},
    output={"name": "string"},
    time_sensitive=True,
    stamp="keep",
)
def halves(events: Sequence[udm.Event], window: udm.Window) -> list[udm.Event]:
    """From each event's start, or the window's, a stamp that reaches ten ticks beyond."""
    return [
        udm.Event(max(event.start, window.start), window.end + 10, event.payload)
        for event in events
    ]


def shown(query: tw.Stream) -> list[tuple[int, int, Any]]:
    return [
        (start, end, next(iter(payload.values()))) for start, end, payload in tw.table(query, ROWS)
    ]


def test_figure_2_span_based_and_window_based_operators() -> None:
    """(A) a filter keeps the whole span of an event; (B) a count reports once for every 5 second
    window."""
    assert shown(EVENTS.where("name <> 'e2'")) == [(1, 6, "e1"), (8, 13, "e3")]
    counted = EVENTS.tumbling(5).aggregate(n=tw.count())
    assert shown(counted) == [(0, 5, 1), (5, 10, 3), (10, 15, 2)]
    assert shown(EVENTS.tumbling(5).apply("figures.names", "name")) == [
        (0, 5, "e1"),
        (5, 10, "e1 e2 e3"),
        (10, 15, "e2 e3"),
    ]


def test_figure_3_hopping_windows() -> None:
    """An event that spans a boundary is in every window it overlaps."""
    assert shown(EVENTS.hopping(6, 4).apply("figures.names", "name")) == [
        (-4, 2, "e1"),
        (0, 6, "e1 e2"),
        (4, 10, "e1 e2 e3"),
        (8, 14, "e2 e3"),
        (12, 18, "e3"),
    ]


def test_figure_4_tumbling_windows() -> None:
    """Hop and size are one: no gaps, no overlap."""
    assert shown(EVENTS.hopping(4, 4).apply("figures.names", "name")) == shown(
        EVENTS.tumbling(4).apply("figures.names", "name")
    )
    assert shown(EVENTS.tumbling(4).apply("figures.names", "name"))[0] == (0, 4, "e1")


def test_figure_5_snapshot_windows() -> None:
    """Between endpoints nothing changes: only e1 is in the first window, e1 and e2 are in the
    second."""
    assert shown(EVENTS.snapshot().apply("figures.names", "name")) == [
        (1, 5, "e1"),
        (5, 6, "e1 e2"),
        (6, 8, "e2"),
        (8, 11, "e2 e3"),
        (11, 13, "e3"),
    ]


def test_figure_6_count_by_start_windows() -> None:
    """N = 2: a window at every start, as long as another follows; e3 begins none."""
    assert shown(EVENTS.count_by_start(2).apply("figures.names", "name")) == [
        (1, 6, "e1 e2"),
        (5, 9, "e2 e3"),
    ]
    # Several events of one start make a window larger than N; e1 overlaps the second one but does
    # not start in it.
    more = {"events": [*ROWS["events"], tw.insert({"name": "e4"}, 5, 7)]}
    assert [
        row[2]["names"]
        for row in tw.table(EVENTS.count_by_start(2).apply("figures.names", "name"), more)
    ] == ["e1 e2 e4", "e2 e3 e4"]
    assert tw.table(EVENTS.count_by_start(4).apply("figures.names", "name"), ROWS) == []


def test_count_by_end_windows() -> None:
    """The mirror image: an event belongs by its last tick."""
    assert shown(EVENTS.count_by_end(2).apply("figures.names", "name")) == [
        (5, 11, "e1 e2"),
        (10, 13, "e2 e3"),
    ]


@pytest.mark.parametrize(
    ("clip", "expected"),
    [
        ("none", "e1[1,6) e2[5,11) e3[8,13)"),
        ("left", "e1[5,6) e2[5,11) e3[8,13)"),
        ("right", "e1[1,6) e2[5,10) e3[8,10)"),
    ],
)
def test_figure_7_input_clipping(clip: str, expected: str) -> None:
    """What the module sees of the window [5, 10)."""
    assert (5, 10, expected) in shown(
        EVENTS.tumbling(5).apply("figures.lifetimes", "name", clip=clip)
    )


@pytest.mark.parametrize(
    ("stamp", "expected"), [("align", (5, 10)), ("keep", (8, 20)), ("clip", (8, 10))]
)
def test_figure_7_output_stamping(stamp: str, expected: tuple[int, int]) -> None:
    """How long the output for e3 in the window [5, 10) lives."""
    found = [
        row
        for row in shown(EVENTS.tumbling(5).apply("figures.halves", "name", stamp=stamp))
        if row[2] == "e3" and row[0] < 10
    ]
    assert [row[:2] for row in found] == [expected]


def test_figure_8_tumbling_windows_with_fully_clipped_events() -> None:
    assert shown(EVENTS.tumbling(5).apply("figures.lifetimes", "name", clip="full")) == [
        (0, 5, "e1[1,5)"),
        (5, 10, "e1[5,6) e2[5,10) e3[8,10)"),
        (10, 15, "e2[10,11) e3[10,13)"),
    ]


@udm.aggregate("figures.calls", inputs={"name": "string"}, output="int64")
class Counted:
    """Notes what it is asked."""

    asked: list[tuple[str, tuple[str, ...]]] = []  # noqa: RUF012

    def empty(self) -> int:
        return 0

    def add(self, state: int, delta: Sequence[str]) -> int:
        Counted.asked.append(("add", tuple(delta)))
        return state + len(delta)

    def remove(self, state: int, delta: Sequence[str]) -> int:
        Counted.asked.append(("remove", tuple(delta)))
        return state - len(delta)

    def result(self, state: int) -> int:
        return state


def test_figure_9_a_non_incremental_module_sees_all_rows_of_a_window() -> None:
    engine = tw.Engine(EVENTS.tumbling(10).apply("figures.names", "name"), consistency="eager")
    for at, name in enumerate("abc"):
        (out,) = engine.push("events", tw.point({"name": name}, at))
        assert out.payload.column("names").to_pylist()[-1] == " ".join("abc"[: at + 1])


def test_figure_10_an_incremental_module_sees_what_changed() -> None:
    Counted.asked.clear()
    engine = tw.Engine(EVENTS.tumbling(10).apply("figures.calls", "name"), consistency="eager")
    engine.push("events", [tw.point({"name": "a"}, 0), tw.point({"name": "b"}, 1)])
    engine.push("events", tw.point({"name": "c"}, 2))
    (out,) = engine.push("events", tw.remove({"name": "a"}, 0, 1))
    assert Counted.asked == [("add", ("a", "b")), ("add", ("c",)), ("remove", ("a",))]
    assert out.payload.column("calls").to_pylist() == [3, 2]
