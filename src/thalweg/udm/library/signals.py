"""Signals and sequences: interpolation between samples, "A followed by B", a chart pattern. They
see time and stamp their output."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from thalweg.udm.decorators import operator
from thalweg.udm.events import Event, Window

__all__ = ["FollowedBy", "HeadAndShoulders", "Interpolate"]


@operator(
    "std.interpolate",
    inputs={"value": "double"},
    output={"value": "double"},
    time_sensitive=True,
    stamp="clip",
    nulls="skip",
    ordered=True,
)
class Interpolate:
    """Samples of a signal (edge events) as straight lines between them: a value every `every` ticks
    of the window.

    Between a sample and the next the value goes from the one to the other; after the last one it
    stays.
    """

    def __init__(self, every: int) -> None:
        if every <= 0:
            raise TypeError(f"every must be positive; got {every}")
        self._every = every

    def compute(self, samples: Sequence[Event], window: Window) -> Iterator[Event]:
        ends = [(after.start, after.payload) for _, after in pairwise(samples)] + [(None, None)]
        for sample, (until, target) in zip(samples, ends, strict=True):
            begin = max(sample.start, window.start)
            first = -((window.start - begin) // self._every) * self._every + window.start
            last = min(window.end, sample.end if until is None else until)
            for time in range(first, last, self._every):
                slope = (
                    0.0
                    if until is None or until == sample.start
                    else (target - sample.payload) / (until - sample.start)
                )
                yield Event(
                    time, time + self._every, sample.payload + slope * (time - sample.start)
                )


@operator(
    "std.followed_by",
    inputs={"kind": "string"},
    output={"first_at": "int64", "second_at": "int64"},
    time_sensitive=True,
    stamp="time-bound",
    time_bound=True,
    ignores_ends=True,
    nulls="skip",
)
class FollowedBy:
    """Every event of kind `first` with every later one of kind `second` at most `within` ticks
    after it; stamped at the second."""

    def __init__(self, first: str, second: str, within: int) -> None:
        self._first, self._second, self._within = first, second, within

    def compute(self, events: Sequence[Event], window: Window) -> Iterator[Event]:
        for late in events:
            if late.payload != self._second or late.start < window.start:
                continue
            for early in events:
                if early.payload == self._first and 0 < late.start - early.start <= self._within:
                    yield Event(
                        late.start,
                        late.start + 1,
                        {"first_at": early.start, "second_at": late.start},
                    )


@operator(
    "std.head_and_shoulders",
    inputs={"price": "double"},
    output={"left": "double", "head": "double", "right": "double"},
    time_sensitive=True,
    stamp="time-bound",
    time_bound=True,
    ignores_ends=True,
    nulls="skip",
)
class HeadAndShoulders:
    """The chart pattern: three peaks, the middle one highest, the outer two alike within
    `tolerance` (a share of the head).

    A peak is known by the lower price after it, so the pattern is stamped there: what comes later
    does not change it.
    """

    def __init__(self, tolerance: float = 0.05) -> None:
        self._tolerance = tolerance

    def compute(self, prices: Sequence[Event], window: Window) -> Iterator[Event]:
        peaks: list[float] = []
        steps = [
            prices[at]
            for at in range(len(prices))
            if at == 0 or prices[at].payload != prices[at - 1].payload
        ]
        for before, peak, after in zip(steps, steps[1:], steps[2:], strict=False):
            if not before.payload < peak.payload > after.payload:
                continue
            peaks.append(peak.payload)
            if len(peaks) < 3 or after.start < window.start:
                continue
            left, head, right = peaks[-3:]
            if head > max(left, right) and abs(left - right) <= self._tolerance * head:
                yield Event(after.start, after.start + 1, (left, head, right))
