"""Windows that make no sense are refused where they are written; those that are seldom meant are
warned about."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import thalweg as tw
from thalweg.errors import PlanError, WindowWarning
from thalweg.model.rows import Codes
from thalweg.model.time import Times
from thalweg.stream import WindowedStream
from thalweg.windows import SlideByTuple, SlidingTime

EVENTS = tw.source("s", {"k": "string", "v": "int64", "seq": "int64"}, insert_only=True)

BAD: dict[str, tuple[Callable[[], object], str]] = {
    "zero range": (lambda: EVENTS.sliding(0, 1), "sliding range must be positive; got 0"),
    "negative slide": (lambda: EVENTS.sliding("10 s", "-1 s"), "sliding slide must be positive"),
    "a column that does not progress": (
        lambda: EVENTS.sliding(10, 5, over="seq"),
        "'seq' is a column, and nothing promises that its values progress, .* progressing=",
    ),
    "a column nobody has": (
        lambda: EVENTS.sliding(10, 5, over="sec"),
        "unknown column 'sec'. Did you mean 'seq'",
    ),
    "a duration for rows": (
        lambda: EVENTS.sliding("10 min", 5, over=tw.rows()),
        "'10 min' is a duration, but the window counts rows",
    ),
    "rows for a duration": (
        lambda: EVENTS.sliding("1000 rows", "1 s"),
        "counts rows, but the window is over time",
    ),
    "half a row": (
        lambda: EVENTS.sliding(2.5, 1, over=tw.rows()),  # type: ignore[arg-type]
        "the window counts rows; write a whole number",
    ),
    "an order that is missing": (lambda: EVENTS.slide_by_tuple("1 s", every=5), "in which order"),
    "a rank of something else": (
        lambda: tw.rank("seq"),
        "only the time of the stream gives an order",
    ),
    "rows somewhere": (lambda: tw.rows(at="sytem"), "Did you mean 'system'"),
    "no kind": (lambda: EVENTS.windows(10), "give a WindowKind"),  # type: ignore[arg-type]
    "a kind that needs context": (
        lambda: EVENTS.windows(SlideByTuple(5)),
        "says so with context = frozenset()",
    ),
    "an unknown partition": (
        lambda: EVENTS.sliding(10, 5, partition_by="kk"),
        "unknown column 'kk'. Did you mean 'k'",
    ),
    "numbered behind a join": (
        lambda: EVENTS.shift(1).sliding(10, 5, over=tw.rows(at="system")),
        "shift stands between the source and the window",
    ),
    "everything, holistic": (
        lambda: EVENTS.landmark(10).aggregate(p=tw.percentile("v", 0.5)),
        "needs every row or value there ever was",
    ),
    "an unknown strategy": (
        lambda: EVENTS.sliding(10, 5).using("pane").aggregate(n=tw.count()),
        "Did you mean 'panes'",
    ),
    "a strategy that cannot": (
        lambda: EVENTS.sliding(10, 5).using("panes").aggregate(n=tw.percentile("v", 0.5)),
        "cannot evaluate this window; possible: rows",
    ),
    "a strategy for snapshots": (
        lambda: EVENTS.snapshot().using("wid").aggregate(n=tw.count()),
        "one way only",
    ),
    "a strategy for rows": (
        lambda: EVENTS.sliding(5, over=tw.rows()).using("rows").aggregate(n=tw.count()),
        "one way only",
    ),
    "a strategy for tuples": (
        lambda: EVENTS.slide_by_tuple(5).using("wid").aggregate(n=tw.count()),
        "possible: rows, bins",
    ),
    "heavy hitters of everything": (
        lambda: EVENTS.landmark(10).aggregate(p=tw.heavy_hitters("k", 0.1)),
        "needs every row or value there ever was",
    ),
    "fill by tuple": (
        lambda: EVENTS.slide_by_tuple(5).fill().aggregate(n=tw.count()),
        "only hopping and tumbling windows",
    ),
    "top_k by tuple": (lambda: EVENTS.slide_by_tuple(5).top_k(1, by="v"), "has no ranking"),
    "ids of sessions": (
        lambda: EVENTS.session(10).with_id("w").aggregate(n=tw.count()),
        "is its start",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_refused(name: str) -> None:
    build, message = BAD[name]
    with pytest.raises(PlanError, match=message) as caught:
        build()
    assert caught.value.file == __file__


def test_a_slide_larger_than_the_range_is_warned_about() -> None:
    def build() -> WindowedStream:
        return EVENTS.sliding(5, 8)

    with pytest.warns(
        WindowWarning,
        match=r"tuples between two windows are in none\. A tumbling window has hop=5",
    ) as caught:
        build()
    assert (caught[0].filename, caught[0].lineno) == (__file__, build.__code__.co_firstlineno + 1)


def test_millions_of_panes_are_warned_about() -> None:
    with pytest.warns(
        WindowWarning,
        match=(
            r"greatest common divisor 1, so that a window has 600,000,000 panes\. A hop of 7000000"
        ),
    ):
        EVENTS.sliding("10 min", 7_000_001)


def test_a_kind_must_contain_its_tuples() -> None:
    class Shifted(SlidingTime):
        def time_range(self, windows: Codes) -> tuple[Times, Times]:
            start, end = super().time_range(windows)
            return start + 100, end + 100

    with pytest.raises(tw.ThalwegError, match="must contain the time 3 of its tuple"):
        tw.table(
            EVENTS.windows(Shifted(10, 5)).aggregate(n=tw.count()),
            {"s": [tw.point({"k": "a", "v": 1, "seq": 1}, 3)]},
        )
