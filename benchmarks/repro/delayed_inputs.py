"""Inputs that deliver at a constant rate with delays, in simulated time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from benchmarks.repro.merge_streams import SCHEMA, forms, make_merge
from thalweg.model.batch import Batch

__all__ = ["RATE", "deliver", "delivered", "rates"]

RATE = 5_000
Seconds = npt.NDArray[np.float64]


def delivered(count: int, delays: Seconds) -> Seconds:
    """When each element comes out of a queue: it was made at a constant rate, and waits for the one
    before it and for its own delay."""
    made = np.arange(count) / RATE
    # out[i] = max(made[i], out[i - 1] + delay[i]); with D the running sum of delays:
    # out[i] = D[i] + max over j <= i of (made[j] - D[j])
    waited = np.cumsum(delays)
    return waited + np.maximum.accumulate(made - waited)


def deliver(times: list[Seconds]) -> Seconds:
    """When each element of the merge of such inputs comes out. The merge is R3+ over one
    stream with 20% disorder."""
    count = len(times[0])
    [stream] = forms(count, 1, bytes_=16, disorder=0.2, stable=0.01, live=1_000)
    ends = np.cumsum([len(batch) for batch in stream])
    events = [
        (float(one[end - 1]), port, batch)
        for port, one in enumerate(times)
        for end, batch in zip(ends, stream, strict=True)
    ]
    events.sort(key=lambda event: event[:2])
    merge = make_merge("R3+", SCHEMA, len(times))
    out: list[float] = []
    for when, port, batch in events:
        answer: Batch = merge.process(port, batch)
        inserts = len(answer) - (0 if answer.is_adjust is None else int(answer.is_adjust.sum()))
        out += [when] * inserts
    return np.sort(np.array(out))


def rates(times: Seconds, width: float) -> Seconds:
    """Elements a second in windows of a width, without the first and the last."""
    counts = np.bincount((times / width).astype(np.int64))
    return np.asarray(counts[1:-2] / width, np.float64)
