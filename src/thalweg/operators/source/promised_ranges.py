"""What punctuation with a range of time and one of a column says of the rows of a source.

    no later row has  start < t  and  low <= column < high

promises t to every value of that range. Where ranges cover all values of a column, null included,
the least of their promises holds for the whole stream. A row that breaks such a promise is late.

State: a step function for each column (see `range_promises`), without what the common promise says.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.model.batch import Batch, column_of
from thalweg.model.progress import Progress, Scope, pack_ranges, scope_values, unpack_ranges
from thalweg.model.punctuation import Punctuation, Range, integer_limits
from thalweg.model.range_promises import RangePromises, Ranges, merge_ranges
from thalweg.model.time import INFINITY, MIN_TIME, Times
from thalweg.operators.source.punctuations import Punctuations

__all__ = ["NO_RANGES", "PromisedRanges", "RangeOfColumn", "range_of"]


@dataclass(frozen=True, slots=True)
class RangeOfColumn:
    """Values from `low` on and below `high`, in the type of the column; None: without a limit."""

    column: str
    low: Any
    high: Any


def range_of(pattern: Punctuation, schema: pa.Schema) -> RangeOfColumn | None:
    """The range of a pattern that has one, of one column, and says nothing of others.

    >>> from thalweg.model.punctuation import punctuation, before, within
    >>> ports = pa.schema([("port", pa.uint16()), ("len", pa.int64())])
    >>> range_of(punctuation(ts=before(9), port=within(1024, 65536)), ports)
    RangeOfColumn(column='port', low=1024, high=None)
    >>> range_of(punctuation(ts=before(9), port=80), ports) is None
    True
    """
    if len(pattern.patterns) != 1:
        return None
    [(name, limits)] = pattern.patterns.items()
    if not isinstance(limits, Range):
        return None
    kind = schema.field(name).type
    least, most = integer_limits(kind)
    low = None if limits.low is None or _at_most(limits.low, least) else limits.low
    high = None if limits.high is None or _above(limits.high, most) else limits.high
    try:
        low, high = (
            None if v is None else scope_values(column_of([v], kind))[0] for v in (low, high)
        )
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None  # rows are held against the pattern itself, and say what is wrong with it
    return RangeOfColumn(name, low, high)


def _at_most(value: Any, limit: int | None) -> bool:
    return limit is not None and value <= limit


def _above(value: Any, limit: int | None) -> bool:
    return limit is not None and value > limit


@dataclass(frozen=True, slots=True)
class PromisedRanges:
    """
    >>> ports = pa.schema([("port", pa.int64())])
    >>> some = PromisedRanges().add(RangeOfColumn("port", None, 1024), 100, 0)
    >>> both = some.add(RangeOfColumn("port", 1024, None), 70, 0)
    >>> both.common(ports, Progress(0), lambda column, value: 90)
    70
    """

    ranges: Ranges = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def add(self, values: RangeOfColumn, time: int, cti: int) -> PromisedRanges:
        """With one more promise; the same object where that says nothing new."""
        new = {values.column: RangePromises.over(values.low, values.high, time)}
        return self._of(merge_ranges(self.ranges, new, cti))

    def above(self, cti: int) -> PromisedRanges:
        """Without what a common promise says too."""
        return self._of(merge_ranges(self.ranges, {}, cti))

    def _of(self, ranges: Ranges) -> PromisedRanges:
        return self if ranges is self.ranges else PromisedRanges(ranges)

    def absorb(
        self, punctuations: Punctuations, progress: Progress, schema: pa.Schema
    ) -> tuple[PromisedRanges, Punctuations] | None:
        """With the first pattern that says something new of a range, where the promises have come to
        where its time begins; and the patterns that are left. One without a time stays: it may
        become a promise over its column."""
        for pattern in punctuations.patterns:
            given = pattern.given(progress)
            values, time = range_of(given, schema), given.time
            if values is None:
                continue
            if time.low is not None and int(time.low) > max(progress.cti, self._reached(values)):
                continue
            until = INFINITY if time.high is None else int(time.high)
            ranges = self.add(values, until, progress.cti)
            left = punctuations if time.high is None else punctuations.without(pattern)
            if ranges is not self or left is not punctuations:
                return ranges, left
        return None

    def _reached(self, values: RangeOfColumn) -> int:
        """What is promised to all values of a range."""
        known = self.ranges.get(values.column)
        return MIN_TIME if known is None else known.least_within(values.low, values.high)

    def raise_promises(self, batch: Batch, promise: Times) -> Times:
        """Promises raised for the rows whose values lie in the ranges."""
        for name, each in self.ranges.items():
            promise = np.maximum(promise, each.of_values(batch.payload.column(name)))
        return promise

    def common(
        self, schema: pa.Schema, progress: Progress, of_value: Callable[[str, Scope], int]
    ) -> int:
        """The promise that holds for all rows because ranges of one column cover all its values.
        Null, and NaN, lie in no range: `of_value` says what is promised to them."""
        found = progress.cti
        for name, each in self.ranges.items():
            kind = schema.field(name).type
            bound = progress.boxes.get((name,)) if pa.types.is_integer(kind) else None
            if bound is not None:
                each = each.merge(RangePromises.over(None, bound[0], INFINITY))
            if each.least > found:
                outside = [None, math.nan] if pa.types.is_floating(kind) else [None]
                found = max(found, min(each.least, *(of_value(name, (v,)) for v in outside)))
        return found

    def to_text(self) -> str:
        return json.dumps(pack_ranges(self.ranges))

    @classmethod
    def from_text(cls, text: str) -> PromisedRanges:
        """The inverse of `to_text`."""
        return cls(unpack_ranges(json.loads(text)))


NO_RANGES = PromisedRanges()
