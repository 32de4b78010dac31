"""Figures of the window thesis: baselines are the best form of their idea, every line is what it
says, the document's parameters are used, and what was changed is told."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from types import FrameType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import thalweg as tw
from benchmarks.baselines.buffering import BufferedMaximum, Values
from benchmarks.repro import fig_6_10, fig_7_6, fig_8_11
from benchmarks.repro.ordered_plans import Count, Result
from benchmarks.repro.streams import SECOND, in_order
from benchmarks.repro.traffic import Link
from benchmarks.repro.whole_plans import SERIES, Plan
from thalweg.plan.nodes import WindowAggregate
from thalweg.plan.nodes.traversal import find
from thalweg.windows import HoppingWindow

FIGURES = Path(__file__).parents[2] / "benchmarks" / "repro"


def extents(values: list[int], range_: int, slide: int) -> list[int]:
    """From the definition: the maximum of the last `range_` values, every `slide` values."""
    ends = range(slide, len(values) + 1, slide)
    return [max(values[max(end - range_, 0) : end]) for end in ends]


@given(
    st.lists(st.lists(st.integers(-5, 5), max_size=9), max_size=5),
    st.integers(1, 7),
    st.integers(1, 9),
)
def test_buffering_gives_the_maximum_of_each_extent(
    parts: list[list[int]], range_: int, slide: int
) -> None:
    buffer = BufferedMaximum(range_, slide)
    found = [buffer.process(np.array(part, np.int64)).tolist() for part in parts]
    assert list(chain(*found)) == extents(list(chain(*parts)), range_, slide)


def calls(run: Callable[[], object]) -> int:
    """How many functions, Python's and NumPy's, a run calls."""
    count = 0

    def note(_: FrameType, event: str, __: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return count


def test_buffering_reduces_all_extents_of_a_batch_at_once() -> None:
    """Not one after the other in Python, which made it hundreds of times slower than it is."""
    values: Values = np.arange(2_000)
    few, many = (BufferedMaximum(100, slide) for slide in (1_000, 1))
    assert calls(lambda: few.process(values)) == calls(lambda: many.process(values)) < 100


def test_the_lines_of_6_10_are_what_they_say_and_say_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fig_6_10, "RANGE", 40)
    data, rows = in_order(400, rate=SECOND), tw.source("rows", {"value": "int64"}, insert_only=True)
    wid = fig_6_10.by_window_id(rows, 10)
    (node,) = find(wid.node, WindowAggregate)
    assert node.chosen == "wid"
    expected = extents(data.value.tolist(), 40, 10)
    for query in (wid, fig_6_10.by_number(rows, 10)):
        table = tw.table(query, {"rows": fig_6_10.batches_of(data, 70)})
        assert [row["most"] for *_, row in sorted(table, key=lambda row: row[1])][:40] == expected


def held(kind: str, plan: Plan) -> int:
    return SERIES[kind](plan).plan.bytes


def test_windows_of_a_minute_hold_the_same_in_order_and_not() -> None:
    """Figure 8-10 at the size that Q8-4 has: a delay of ten seconds is small against a minute."""

    def plan(size: str, length: int) -> Plan:
        unions = {
            "m1": [Link("a", 60, 50)],
            "m3": [Link("m2", 60, 50), Link("c", 1, 50, 10 * SECOND)],
        }
        return Plan(
            unions,
            lambda m: m[0].window_join(m[1], "key", window=tw.same_window(size)),
            length_s=length,
        )

    minute, short = plan("1 min", 75), plan("2 s", 40)
    assert 0.75 < held("OOP", minute) / held("IOP", minute) < 1.35
    assert held("OOP", short) < 0.75 * held("IOP", short)


def test_the_documents_windows_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    packets = tw.source("packets", {"key": "int64"})
    (node,) = find(fig_8_11.counted([packets]).node, WindowAggregate)
    assert isinstance(node.window, HoppingWindow)
    assert (node.window.size, node.window.hop) == (300 * SECOND, 60 * SECOND)
    lengths = []
    monkeypatch.setattr(fig_7_6, "WINDOWS_S", (1,))

    def counted(count: Count, *_: object) -> Result:
        lengths.append((count.counted_s, count.length_s))
        return Result(0, 0, 0.0, 0.0, 0)

    monkeypatch.setattr(fig_7_6, "out_of_order", counted)
    monkeypatch.setattr(fig_7_6, "count_pairs", counted)
    list(fig_7_6.series(0.1))
    assert lengths == [(60, 130)] * 2, "pairs of each minute, two minutes at least"


@pytest.mark.parametrize("figure", sorted(FIGURES.glob("fig_[678]_*.py")), ids=lambda f: f.stem)
def test_a_figure_says_what_was_changed(figure: Path) -> None:
    text = ast.get_docstring(ast.parse(figure.read_text(encoding="utf-8"))) or ""
    assert "Changed" in text
