"""Slack advice: how disordered a recorded stream is, and what waiting for stragglers buys and
costs.

Rows are taken in the order in which they arrived. With a slack s the promise after a row is the
newest time so far minus s, and

    completeness(s)   the share of rows that are not late
    latency(s)        how far the newest time has gone past the end of a window when the window
                      becomes final, in the middle and at worst
    state(s)          how many rows have come that the promise has not passed, on average and at
                      most

`advise` measures the three for slacks from none to the largest lateness there is, and proposes the
smallest with which a named share of the rows is on time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.errors import InputError
from thalweg.model.batch import Batch
from thalweg.model.clocks import UNITS, brief_duration, duration_text
from thalweg.model.time import MIN_TIME, Times
from thalweg.progress import QuarantineGate
from thalweg.progress.policies import Quarantine

__all__ = ["Advice", "Point", "advise"]

_SHARES = (0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9999)
_PLACES = 64
"""Where along the stream the state is counted."""


@dataclass(frozen=True, slots=True)
class Point:
    """What one slack buys and costs; times in ticks."""

    slack: int
    completeness: float
    late: int
    latency: int
    latency_worst: int
    state: float
    state_most: int


@dataclass(frozen=True, slots=True)
class Advice:
    """The disorder of a stream, the curve, and the policy that is proposed."""

    rows: int
    span: int
    disordered: float
    """The share of rows that came after a newer one."""
    lateness: Mapping[float, int]
    """By share of rows: the lateness that it stays within."""
    overtaken: int
    """The largest number of rows that overtook one."""
    curve: tuple[Point, ...]
    target: float
    slack: int
    policy: str
    reasons: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        fields = asdict(self)
        return {
            **fields,
            "lateness": {f"{share:g}": ticks for share, ticks in self.lateness.items()},
        }


def advise(
    times: Times,
    *,
    target: float = 0.999,
    window: int | None = None,
    keys: pa.Array | None = None,
    slacks: Sequence[int] = (),
) -> Advice:
    """Measure rows in their order of arrival. `target` is the share that is to be on time; `window`
    the length of a window.

    `keys` says whose clock each time is from, `slacks` are measured beside those that the data
    suggests.

    >>> advice = advise(np.array([1, 2, 5, 3, 8, 9, 4, 12]), target=0.8, window=2)
    >>> [(point.slack, round(point.completeness, 3)) for point in advice.curve]
    [(0, 0.75), (2, 0.875), (5, 1.0)]
    >>> advice.policy, advice.overtaken
    ('late_by("2 us")', 4)
    """
    if not len(times):
        raise InputError("there are no rows to measure.")
    if not 0 < target <= 1:
        raise InputError(
            f"the share of rows that is to be on time lies between 0 and 1; got {target}."
        )
    reasons: list[str] = []
    arrived = len(times)
    if keys is not None:
        times = _with_right_clocks(times, keys, reasons)
    before = np.maximum.accumulate(np.concatenate([[MIN_TIME], times]))[:-1]
    lateness = np.where(before == MIN_TIME, 0, np.maximum(before - times, 0))
    span = int(times.max() - times.min())
    length = (
        max(1, int(np.quantile(times, 0.99) - np.quantile(times, 0.01)) // 100)
        if window is None
        else window
    )
    ordered = np.sort(lateness)
    shares = {share: _quantile(ordered, share) for share in (*_SHARES, target, 1.0)}
    curve = tuple(
        _point(times, lateness, slack, length) for slack in sorted({0, *shares.values(), *slacks})
    )
    slack, policy = _policy(shares, target, reasons)
    if len(times) < arrived:
        policy += (
            f', quarantine=quarantine("{duration_text(_round_up(max(10 * slack, length)))}",'
            " key=...)"
        )
    return Advice(
        len(times),
        span,
        float((lateness > 0).mean()),
        shares,
        _overtaken(times),
        curve,
        target,
        slack,
        policy,
        tuple(reasons),
    )


def _quantile(ordered: Times, share: float) -> int:
    """The smallest lateness that at least this share does not exceed."""
    return int(ordered[max(int(np.ceil(share * len(ordered) * (1 - 1e-12))) - 1, 0)])


def _point(times: Times, lateness: Times, slack: int, window: int) -> Point:
    late = int((lateness > slack).sum())
    newest = np.maximum.accumulate(times)
    ends = np.unique(times // window + 1) * window  # of the windows that have rows
    closes = np.searchsorted(newest, ends + slack)
    waits = (
        (newest[closes[closes < len(newest)]] - ends[closes < len(newest)])
        if len(ends)
        else np.empty(0, np.int64)
    )
    places = np.unique(np.linspace(0, len(times) - 1, _PLACES).astype(np.int64))
    held = [int((times[: at + 1] >= newest[at] - slack).sum()) for at in places]
    middle, worst = (int(np.median(waits)), int(waits.max())) if len(waits) else (slack, slack)
    return Point(slack, 1 - late / len(times), late, middle, worst, float(np.mean(held)), max(held))


def _overtaken(times: Times) -> int:
    """What `late_by_rows` must allow: how many rows there are, at most, from the first that is
    newer than a row up to that row."""
    newest = np.maximum.accumulate(times)
    first = np.searchsorted(
        newest, times, side="right"
    )  # where something newer had come for the first time
    return int(np.maximum(np.arange(len(times)) - first, 0).max(initial=0))


def _with_right_clocks(times: Times, keys: pa.Array, reasons: list[str]) -> Times:
    """The times without those of rows whose clock must be wrong; such rows become a reason."""
    apart = _wrong_clocks(times, keys)
    if not apart.any():
        return times
    names = sorted({str(key) for key in keys.filter(pa.array(apart)).unique().to_pylist()})
    reasons.append(
        f"{int(apart.sum())} rows of {', '.join(names[:5])} have clocks far ahead of all "
        "others: they were left out"
    )
    return times[~apart]


def _wrong_clocks(times: Times, keys: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Rows so far ahead of everybody else that no disorder explains it."""
    usual = int(np.quantile(np.abs(np.diff(times)), 0.9)) if len(times) > 1 else 0
    gate = QuarantineGate(
        Quarantine(ahead=max(1_000 * usual, 1), key="key"),
        pa.schema([("key", keys.type), ("n", pa.int64())]),
    )
    rows = pa.RecordBatch.from_arrays([keys, pa.array(np.arange(len(times)))], names=["key", "n"])
    gated = gate.gate(Batch(rows, times, times + 1), MIN_TIME, None)
    apart = np.ones(len(times), np.bool_)
    apart[gated.batch.payload.column("n").to_numpy()] = False
    return apart


def _policy(shares: Mapping[float, int], target: float, reasons: list[str]) -> tuple[int, str]:
    largest, slack = shares[1.0], shares[target]
    if largest == 0:
        reasons.append("no row came after a newer one")
        return 0, "ordered()"
    if largest <= 2 * slack:
        reasons.append(
            f"waiting for the last straggler takes no more than twice what {target:.6g} of the rows"
            " need"
        )
        slack = largest
    elif slack == 0:
        reasons.append(
            f"{target:.6g} of the rows are in order; the others are up to {brief_duration(largest)}"
            " late"
        )
    else:
        reasons.append(
            f"{target:.6g} of the rows are at most {brief_duration(slack)} late; the last straggler"
            f" {brief_duration(largest)}"
        )
    cheaper = shares[0.99]
    if 0 < 10 * cheaper < slack:
        reasons.append(
            f'late_by("{duration_text(_round_up(cheaper))}") waits {slack / cheaper:.0f} times'
            " less, with 0.99 of the rows on time"
        )
    return slack, f'late_by("{duration_text(_round_up(slack))}")'


def _round_up(ticks: int) -> int:
    """A rounder duration, at most a twentieth longer."""
    for _, unit in UNITS:
        if ticks >= 20 * unit:
            return -(-ticks // unit) * unit
    return ticks
