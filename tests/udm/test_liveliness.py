"""Liveliness and clean-up, case by case: which CTI comes out, and what is still kept."""

from __future__ import annotations

from typing import Any

import pytest

import thalweg as tw
from tests.udm.modules import MINE
from tests.udm.test_laws import WINDOWS, apply
from thalweg.expr import col
from thalweg.model import INFINITY, MIN_TIME
from thalweg.operators.window.modules.module_kernel import ModuleKernel
from thalweg.plan.nodes import Source, WindowApply
from thalweg.testing.strategies import KEYED
from thalweg.windows import Window

S = Source("s", KEYED)
LONG = tw.insert({"k": 1, "v": 1}, 2, 50)
SHORT = [tw.insert({"k": 1, "v": 2}, 3, 5), tw.insert({"k": 1, "v": 3}, 12, 14)]


def module(name: str, window: Window, **more: Any) -> WindowApply:
    return apply(name, window, S, **more)


def the_kernel(engine: tw.Engine) -> ModuleKernel:
    (kernel,) = [
        operator.kernel
        for operator in engine._graph.operators
        if isinstance(operator.kernel, ModuleKernel)
    ]
    return kernel


def promise(query: WindowApply, *elements: tw.Element, at: int) -> int:
    engine = tw.Engine(query)
    engine.push("s", list(elements))
    engine.push("s", tw.cti(at))
    return engine.status().progress.cti


def kept(query: WindowApply, *elements: tw.Element, at: int) -> tuple[int, int]:
    """Rows and windows that are left."""
    engine = tw.Engine(query)
    engine.push("s", [*elements, tw.cti(at)])
    kernel = the_kernel(engine)
    held = kernel._events.rows
    rows = held.between(held.forgotten, INFINITY)
    return len(rows), len(kernel._windows.beginning_before(INFINITY))


TUMBLING, HOPPING, SNAPSHOT, COUNT, BY_END = (
    WINDOWS[name] for name in ("tumbling", "hopping", "snapshot", "count", "count by end")
)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        # Unrestricted stamps: never, before the end.
        (module("t.echo", TUMBLING, stamp="unrestricted"), MIN_TIME),
        # Not before the window: up to the earliest window with an event that may still change.
        (module("t.after", TUMBLING, stamp="keep"), 0),
        (module("t.spans", SNAPSHOT), 2),
        # Right clipping: the end of the latest closed window.
        (module("t.after", TUMBLING, stamp="keep", clip="right"), 16),
        (module("t.spans", TUMBLING, clip="full"), 16),
        (module("t.starts", TUMBLING), 16),
        # Windows overlap: the start of the earliest that is not closed, [10, 19).
        (module("t.spans", HOPPING, clip="right"), 10),
        # The module is not time-sensitive.
        (module("t.total", TUMBLING), 16),
        # Snapshots of such a module: only ends may move, so the CTI itself, were it not for the
        # window that has not answered.
        (module("t.total", SNAPSHOT), 14),
        # Time-bound: the CTI itself.
        (module("t.steps", TUMBLING), 18),
        (module("t.steps", HOPPING), 18),
        (module("t.steps", SNAPSHOT), 18),
        # Count windows: the last start that may still begin a window; ends, too.
        (module("t.total", COUNT), 12),
        (module("t.total", BY_END), 13),
    ],
    ids=str,
)
def test_the_cti_that_comes_out(query: WindowApply, expected: int) -> None:
    assert promise(query, LONG, *SHORT, at=18) == expected


def test_an_event_without_an_end_holds_a_window_for_ever_unless_it_is_clipped() -> None:
    endless = tw.insert({"k": 1, "v": 1}, 2)
    assert promise(module("t.spans", TUMBLING), endless, at=1000) == 0
    assert promise(module("t.spans", TUMBLING, clip="right"), endless, at=1000) == 1000


@pytest.mark.parametrize(
    ("query", "rows", "windows"),
    [
        # 1. Not time-sensitive: windows go with their end; rows whose end may move stay.
        (module("t.total", TUMBLING), 1, 1),
        (module("t.total", SNAPSHOT), 1, 1),
        # 2. It sees ends: a window stays while an event in it may change, and so do the other rows
        # of that window.
        (module("t.spans", TUMBLING), 3, 3),
        (module("t.spans", SNAPSHOT), 3, 5),
        (module("t.spans", TUMBLING, clip="left"), 3, 3),
        # 3. It sees ends cut at the window: as in the first case.
        (module("t.spans", TUMBLING, clip="right"), 1, 1),
        (module("t.starts", TUMBLING), 1, 1),
    ],
    ids=str,
)
def test_what_is_kept(query: WindowApply, rows: int, windows: int) -> None:
    left = kept(query, LONG, *SHORT, at=18)
    assert left[0] == rows
    assert left[1] <= windows  # on a grid, windows that have not answered have no entry
    assert kept(query, LONG, *SHORT, at=60)[0] == 0
    assert kept(query, LONG, *SHORT, at=60)[1] == 0


def test_count_windows_keep_the_starts_that_windows_to_come_need() -> None:
    points = [tw.point({"k": 1, "v": at}, at) for at in range(10)]
    assert kept(module("t.total", WINDOWS["count of three"]), *points, at=20) == (2, 0)
    assert kept(module("t.total", WINDOWS["count"]), *points, at=20) == (1, 0)
    assert kept(module("t.total", WINDOWS["count by end"]), *points, at=20) == (1, 0)


def spans(kernel: ModuleKernel) -> list[tuple[int, int, int]]:
    """Start, end and number of events of every window of the index."""
    entries = kernel._windows.beginning_before(INFINITY)
    found = zip(entries.start, entries.end, entries.events, strict=True)
    return sorted((int(start), int(end), int(events)) for start, end, events in found)


def test_the_window_index_counts_events() -> None:
    engine = tw.Engine(module("t.total", SNAPSHOT))
    engine.push("s", [tw.insert({"k": 1, "v": 1}, 0, 10), tw.insert({"k": 1, "v": 2}, 4, 10)])
    kernel = the_kernel(engine)
    assert spans(kernel) == [(0, 4, 1), (4, 10, 2)]
    engine.push("s", tw.remove({"k": 1, "v": 2}, 4, 10))  # its endpoints go, two windows become one
    assert spans(kernel) == [(0, 10, 1)]


def test_output_exists_for_windows_up_to_the_watermark() -> None:
    """m = max(latest CTI, largest start): no window that reaches beyond it has answered, every
    other one that has rows has."""
    engine = tw.Engine(module("t.total", TUMBLING))
    assert not engine.push("s", tw.point({"k": 1, "v": 1}, 3))
    (out,) = engine.push("s", tw.point({"k": 1, "v": 5}, 30))
    answered = [(e.start, e.payload) for e in tw.elements_of([out]) if isinstance(e, tw.Insert)]
    assert answered == [(0, {"total": 1})]  # [8, 16) and [16, 24) are empty
    (out,) = engine.push("s", tw.cti(32))
    assert [e.payload for e in tw.elements_of([out]) if isinstance(e, tw.Insert)] == [{"total": 5}]


def test_properties_are_explained() -> None:
    text = tw.Stream(WindowApply(S, TUMBLING, MINE.find("t.starts"), (("v", col("v")),))).explain()
    assert (
        "ignores ends: a window and its rows are dropped when the CTI reaches the window's end"
        in text
    )
    assert "deterministic:" in text
