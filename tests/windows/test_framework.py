"""The three functions of every kind: duals of each other, and in the category they say."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thalweg.errors import WindowError
from thalweg.windows import (
    Category,
    LandmarkTime,
    SlideByTuple,
    SlidingRows,
    SlidingTime,
    Tuples,
    WindowIds,
    WindowKind,
    duality,
)
from thalweg.windows.framework import Membership

SIZES = st.integers(1, 12)
KINDS = st.one_of(
    st.builds(SlidingTime, SIZES, SIZES, st.one_of(st.none(), st.integers(-5, 20))),
    st.builds(LandmarkTime, SIZES, st.integers(-5, 20)),
    st.builds(SlidingRows, st.one_of(st.none(), SIZES), SIZES, st.booleans(), st.booleans()),
    st.builds(SlideByTuple, SIZES, st.integers(1, 4), st.booleans()),
)
TUPLES = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 2)), max_size=14)


def tuples_of(rows: list[tuple[int, int]], *, partitioned: bool) -> Tuples:
    ts = np.array([time for time, _ in rows], np.int64)
    partition = np.array([part if partitioned else 0 for _, part in rows], np.int64)
    return Tuples.of(ts, partition=partition)


@settings(max_examples=300, deadline=None)
@given(kind=KINDS, rows=TUPLES)
def test_extent_and_wids_are_duals(kind: WindowKind, rows: list[tuple[int, int]]) -> None:
    partitioned = isinstance(kind, SlideByTuple) or getattr(kind, "partitioned", False)
    tuples = tuples_of(rows, partitioned=partitioned)
    assert duality(kind, tuples) is None


def windows_of(kind: WindowKind, tuples: Tuples, at: int) -> set[int]:
    found = kind.wids(tuples)
    return set(found.window[found.member == at].tolist())


@settings(max_examples=150, deadline=None)
@given(kind=KINDS, rows=TUPLES.filter(lambda rows: len(rows) > 1), data=st.data())
def test_a_category_says_what_other_tuples_decide(
    kind: WindowKind, rows: list[tuple[int, int]], data: st.DataObject
) -> None:
    """Without what comes after it, a tuple of an FCF window is in the same windows; a CF one also
    without what came before."""
    whole = tuples_of(rows, partitioned=getattr(kind, "partitioned", False))
    at = data.draw(st.integers(0, len(rows) - 1))
    if isinstance(kind, SlidingTime) and kind.origin is None:
        kind = SlidingTime(
            kind.range, kind.slide, int(whole.ts.min())
        )  # the origin is a fact about the whole stream
    if isinstance(kind, LandmarkTime) or (isinstance(kind, SlidingRows) and kind.range is None):
        return  # how many windows there are grows with the stream, for all its tuples
    if kind.category is not Category.FCA:
        earlier = whole.take(np.arange(at + 1))
        assert windows_of(kind, whole, at) == windows_of(kind, earlier, at)
    if kind.category is Category.CF and not isinstance(kind, SlidingRows):
        assert windows_of(kind, whole, at) == windows_of(kind, whole.take(np.array([at])), 0)


def test_categories() -> None:
    expected = {
        SlidingTime(10, 5): Category.CF,
        LandmarkTime(5): Category.CF,
        SlidingRows(10, 5): Category.CF,
        SlidingRows(10, 5, partitioned=True): Category.FCF,
        SlidingRows(10, 5, ranked=True): Category.FCA,
        SlideByTuple(10): Category.FCA,
        SlideByTuple(10, 3): Category.FCA,
        SlideByTuple(10, 3, ranked=True): Category.FCA,
    }
    assert {kind: kind.category for kind in expected} == expected


def test_ids_go_back_to_times() -> None:
    """The first extents of a window of ten minutes, every minute, from midnight: 0 to 8 are
    partial."""
    kind = SlidingTime(600, 60)
    start, end = kind.time_range(np.array([0, 8, 9, 10]))
    assert end.tolist() == [60, 540, 600, 660] and start.tolist() == [-540, -60, 0, 60]
    five_seconds = Tuples.of(np.array([5]))
    assert kind.wids(five_seconds).window.tolist() == list(range(10))
    with pytest.raises(WindowError, match="follow from its tuples"):
        SlidingRows(5, 5).time_range(np.array([0]))


class Careless(SlidingTime):
    """A kind whose wids forgets the last window."""

    def wids(self, tuples: Tuples) -> Membership:
        found = super().wids(tuples)
        keep = found.window < found.window.max(initial=0)
        return Membership(found.member[keep], found.window[keep])


def test_a_broken_kind_is_found() -> None:
    assert (
        duality(Careless(10, 5), Tuples.of(np.array([1, 7])))
        == "sliding(10 by 5 over ts, from 0): by extent the tuple 1 (ts 7) belongs to window 2, by"
        " wids it does not."
    )


def test_tuples_and_ids() -> None:
    tuples = Tuples.of(np.array([3, 1]), x=pa.array([1.0, 2.0])).take(np.array([1]))
    assert (len(tuples), tuples.number.tolist(), tuples.columns["x"].to_pylist()) == (1, [2], [2.0])
    assert WindowIds.of(np.array([4, 5])).pairs() == {(4, 0), (5, 0)}
