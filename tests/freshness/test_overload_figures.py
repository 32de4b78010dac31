"""The staleness that `bench freshness` tells of ways to stand overload on Spark."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.overload_on_spark import Record, staleness_at
from thalweg.testing.oracle.freshness import Delivery, application_staleness

KEYS = 4


@given(
    frames=st.lists(
        st.tuples(st.integers(1, 5), st.lists(st.integers(0, KEYS - 1), min_size=1, max_size=6)),
        min_size=1,
        max_size=8,
    ),
    services=st.lists(st.tuples(st.integers(1, 6), st.sets(st.integers(0, 40))), max_size=8),
)
@settings(max_examples=60, deadline=None)
def test_staleness_is_that_of_the_definition(
    frames: list[tuple[int, list[int]]], services: list[tuple[int, set[int]]]
) -> None:
    """Frames are sent some ticks after each other; the sink gets rows by number, some that were
    sent before and in any order."""
    record, now = Record(), 0
    for gap, keys in frames:
        now += gap
        record.sent_at.append(float(now))
        record.sent.append(np.array(keys))
    cells = np.concatenate(record.sent)
    sent_at = np.repeat(record.sent_at, [len(frame) for frame in record.sent])
    served_at = 0
    for gap, numbers in services:
        served_at += gap
        there = [row for row in sorted(numbers) if row < len(cells) and sent_at[row] < served_at]
        record.served_at.append(float(served_at))
        record.served.append(np.array(there, np.int64))
    moments = np.arange(1, max(now, served_at) + 3, dtype=np.float64)
    stale = staleness_at(record, KEYS, moments)
    for key in range(KEYS):
        rows = np.flatnonzero(cells == key)
        rank = {int(row): at for at, row in enumerate(rows)}
        deliveries = [
            Delivery(key, rank[int(row)], 0, int(at))
            for at, served in zip(record.served_at, record.served, strict=True)
            for row in served
            if cells[row] == key
        ]
        arrivals = [int(at) for at in sent_at[rows]]
        expected = [application_staleness(arrivals, deliveries, int(t)) for t in moments]
        assert stale[:, key].tolist() == expected
