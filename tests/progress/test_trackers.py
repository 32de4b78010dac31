"""Trackers against their definitions, run row by row; and that nothing depends on how the rows are
cut into batches."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from thalweg.model.time import MIN_TIME, Times
from thalweg.progress import (
    EstimateTracker,
    RowsTracker,
    Tracker,
    absorbed,
    combine_unordered,
    sighting_of,
)
from thalweg.progress.estimate import class_of, upper_edge
from thalweg.progress.policies import Estimated, LateByRows


def disordered(random: Random, size: int, *, spread: int = 20) -> Times:
    return np.array(
        [at - random.choice([0, 0, random.randint(0, spread)]) for at in range(size)], np.int64
    )


def in_pieces(tracker: Tracker, sync: Times, random: Random) -> tuple[list[int], Tracker]:
    promises: list[int] = []
    begin = 0
    while begin < len(sync):
        end = begin + random.choice([1, 2, 7, 300])
        said, tracker = tracker.after(sync[begin:end])
        promises += said.tolist()
        begin = end
    return promises, tracker


@pytest.mark.parametrize("rows", [0, 1, 3, 50])
@pytest.mark.parametrize("seed", range(3))
def test_at_most_n_rows_late_is_the_newest_time_before_the_last_n(rows: int, seed: int) -> None:
    random = Random(f"{rows}/{seed}")
    sync = disordered(random, 120)
    expected = [
        max(sync[: max(at - rows, 0)].tolist(), default=MIN_TIME) for at in range(len(sync) + 1)
    ]
    said, after = in_pieces(RowsTracker(rows), sync, random)
    assert [*said, after.promise] == expected
    assert RowsTracker(rows).from_json(after.to_json()).promise == after.promise
    assert isinstance(after, RowsTracker)
    assert int(after.counts.sum()) <= rows + 1  # nothing older is kept


@pytest.mark.parametrize("rows", [0, 2, 40, 700])
def test_what_summaries_of_chunks_promise_is_never_more_than_the_rows_do(rows: int) -> None:
    random = Random(rows)
    sync = disordered(random, 3_000)
    whole, told = RowsTracker(rows), RowsTracker(rows)
    for begin in range(0, len(sync), 500):
        chunk = sync[begin : begin + 500]
        _, whole = whole.after(chunk)
        sighting = sighting_of(chunk, [LateByRows(rows)])
        assert sighting is not None and len(sighting.steps) <= 257
        (moved,) = absorbed([told], sighting)
        assert isinstance(moved, RowsTracker)
        told = moved
        assert MIN_TIME <= told.promise <= whole.promise
        assert (
            whole.promise - told.promise <= 3 + rows // 100
            or told.promise == whole.promise == MIN_TIME
        )
    assert told.promise > MIN_TIME


def test_of_chunks_in_no_order_only_what_came_before_them_is_promised() -> None:
    def unordered(*chunks: tuple[int, int]) -> Any:
        """What is known of chunks of two rows each that came in no order."""
        sightings: list[Any] = [sighting_of(np.array(chunk), [LateByRows(3)]) for chunk in chunks]
        return combine_unordered([(sighting, 2) for sighting in sightings])[0]

    (tracker,) = absorbed([RowsTracker(3)], unordered((5, 9)))
    (tracker,) = absorbed([tracker], unordered((20, 21), (10, 11)))
    assert tracker.promise == 9


def test_classes_of_lateness_are_a_sixteenth_wide_at_most() -> None:
    values = np.unique(
        np.concatenate([np.arange(2_000), 2 ** np.arange(11, 60), 2 ** np.arange(11, 60) - 1])
    )
    edges = np.array([upper_edge(int(number)) for number in class_of(values)])
    assert (edges >= values).all()
    assert (edges - values <= values // 16).all()
    assert (np.diff(class_of(values)) >= 0).all()


def naive_estimate(sync: list[int], percentile: float, warmup: int) -> list[int]:
    """The definition, row by row: lateness of all rows up to the last change of the slack,
    sorted."""
    newest, promised, slack = MIN_TIME, MIN_TIME, None
    lateness: list[int] = []
    said = []
    changes = {256, 512, 1024, 2048}
    for at, time in enumerate(sync):
        if slack is not None:
            promised = max(promised, newest - slack)
        said.append(promised)
        if newest > MIN_TIME:
            lateness.append(max(newest - time, 0))
        newest = max(newest, time)
        if at + 1 in changes and at + 1 >= warmup:
            ordered = sorted(int(upper_edge(int(class_of(np.array([x]))[0]))) for x in lateness)
            slack = ordered[max(int(np.ceil(percentile * len(ordered) * (1 - 1e-12))) - 1, 0)]
    return said


@pytest.mark.parametrize(("percentile", "warmup"), [(0.5, 1), (0.99, 600), (1.0, 1)])
def test_an_estimate_is_the_named_share_of_the_lateness_so_far(
    percentile: float, warmup: int
) -> None:
    random = Random(percentile)
    sync = disordered(random, 1_500, spread=200)
    said, after = in_pieces(EstimateTracker(percentile, warmup), sync, random)
    assert said == naive_estimate(sync.tolist(), percentile, warmup)
    assert isinstance(after, EstimateTracker) and not after.broken
    again, _ = (
        EstimateTracker(percentile, warmup).from_json(after.to_json()).after(np.array([1_600]))
    )
    assert again.tolist() == [after.promise]


def test_an_estimate_does_not_depend_on_batches_even_where_the_past_fades() -> None:
    random = Random(1)
    sync = disordered(random, 270_000, spread=100)
    whole = EstimateTracker(0.9, 1).after(sync)[1]
    halves = EstimateTracker(0.9, 1).after(sync[:100_001])[1].after(sync[100_001:])[1]
    assert whole.to_json() == halves.to_json()
    assert whole.counts.sum() < 200_000


def test_reality_that_gets_worse_breaks_an_estimate() -> None:
    random = Random(2)
    calm, wild = disordered(random, 1_024, spread=4), disordered(random, 600, spread=300) + 1_024
    tracker = EstimateTracker(0.99, 1).after(calm)[1]
    assert not tracker.broken
    assert tracker.after(wild)[1].broken


def test_an_estimate_from_summaries_is_near_the_one_from_rows() -> None:
    random = Random(3)
    sync = disordered(random, 8_192, spread=500)
    rows, told = EstimateTracker(0.99, 1), EstimateTracker(0.99, 1)
    for begin in range(0, len(sync), 1_024):
        chunk = sync[begin : begin + 1_024]
        rows = rows.after(chunk)[1]
        sighting = sighting_of(chunk, [Estimated(0.99, 1)])
        assert sighting is not None
        (told,) = absorbed([told], sighting)  # type: ignore[assignment]
    assert rows.slack is not None and told.slack is not None
    assert abs(rows.slack - told.slack) <= rows.slack // 8
    assert told.newest == rows.newest
