"""The event index: the rows that open windows need, found by group and by end, then start.

Rows lie in runs. A run never changes and is sorted by (hash of the group, end, start), so the rows
of a group that end after a time are found by two binary searches. A batch becomes a new run; runs
of about one size are merged, so there are logarithmically many and each row is copied
logarithmically often. A row that is taken back is a row of weight -1 until the two meet in a merge.
Hashes only find candidates: who asks compares the keys themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from thalweg.model.delta import Delta
from thalweg.model.hashing import Hashes, hash_rows
from thalweg.model.rows import Bools, Codes, Rows
from thalweg.model.time import INFINITY, Times
from thalweg.operators.base import StateSize, delta_of_slice, slice_of_delta
from thalweg.operators.groups import ranges

__all__ = ["EventIndex", "first_after", "key_hashes"]

_SMALL = 4_096
"""A run of up to so many rows is cleaned whenever something in it can go; a larger one when a
quarter can."""


@dataclass(frozen=True, slots=True)
class _Run:
    rows: Delta
    hashes: Hashes
    slice: Rows

    @classmethod
    def of(cls, rows: Delta, hashes: Hashes) -> _Run:
        order = np.lexsort((rows.start, rows.end, hashes))
        ordered = rows.take(order)
        return cls(ordered, hashes[order], slice_of_delta(ordered))


class EventIndex:
    """Rows of `schema`, in groups by `keys`.

    >>> index = EventIndex(pa.schema([("k", pa.int64())]), ("k",))
    >>> rows = Delta(pa.RecordBatch.from_pydict({"k": [1, 2, 1]}), np.array([0, 0, 5]), np.array([9, 9, 6]), np.array([1, 1, 1]))
    >>> index.add(rows)
    >>> found = index.of_groups(key_hashes(rows.payload, ("k",))[:1], np.array([7]))
    >>> found.start.tolist(), found.end.tolist()
    ([0], [9])
    """

    def __init__(self, schema: pa.Schema, keys: tuple[str, ...]) -> None:
        self.schema, self.keys = schema, keys
        self._runs: list[_Run] = []
        self._negative = False

    def add(self, rows: Delta) -> None:
        """Rows that came (weight above 0) or were taken back (below)."""
        if not len(rows):
            return
        self._negative = self._negative or bool((rows.weight < 0).any())
        self._runs.append(_Run.of(rows, key_hashes(rows.payload, self.keys)))
        while len(self._runs) > 1 and len(self._runs[-2].rows) < 2 * len(self._runs[-1].rows):
            one, two = self._runs.pop(), self._runs.pop()
            merged = Delta.concat([two.rows, one.rows], self.schema)
            hashes = np.concatenate([two.hashes, one.hashes])
            if self._negative:
                merged = merged.consolidate()
                hashes = key_hashes(merged.payload, self.keys)
            if len(merged):
                self._runs.append(_Run.of(merged, hashes))
        if len(self._runs) <= 1:
            self._negative = bool(self._runs) and bool((self._runs[0].rows.weight < 0).any())

    def of_groups(self, hashes: Hashes, after: Times | None = None) -> Delta:
        """The rows of groups with these hashes (sorted, each once), of each those that end after a
        time."""
        parts = []
        for run in self._runs:
            low = np.searchsorted(run.hashes, hashes, side="left")
            high = np.searchsorted(run.hashes, hashes, side="right")
            if after is not None:
                low = first_after(run.rows.end, low, high, after)
            if len(hashes) == 1:
                if high[0] > low[0]:
                    parts.append(_slice(run.rows, int(low[0]), int(high[0])))
                continue
            if int((high - low).sum()) == len(run.rows):
                parts.append(run.rows)
                continue
            _, which = ranges(low, high - low)
            if len(which):
                parts.append(run.rows.take(which))
        return self._settled(parts)

    def ending_from(self, time: int) -> Delta:
        """The rows of all groups that end at a time or later."""
        return self._settled([run.rows.filter(run.rows.end >= time) for run in self._runs])

    def overlapping(self, start: int, end: int) -> Delta:
        """The rows of all groups that overlap [start, end)."""
        return self._settled(
            [run.rows.filter((run.rows.end > start) & (run.rows.start < end)) for run in self._runs]
        )

    def everything(self) -> Delta:
        return self._settled([run.rows for run in self._runs])

    def _settled(self, parts: list[Delta]) -> Delta:
        found = Delta.concat(parts, self.schema)
        return (
            found.consolidate()
            if self._negative and len(found) and (found.weight < 0).any()
            else found
        )

    def forget(self, needed: Callable[[Delta], Bools]) -> None:
        """Drop the rows that nobody needs any more; `needed` sees all rows at once."""
        if self._negative:
            rows = self.everything()
            self._runs = [_Run.of(rows, key_hashes(rows.payload, self.keys))] if len(rows) else []
            self._negative = False
        keep_all = needed(Delta.concat([run.rows for run in self._runs], self.schema))
        begin, kept = 0, []
        for run in self._runs:
            keep = keep_all[begin : begin + len(run.rows)]
            begin += len(run.rows)
            going = len(keep) - int(keep.sum())
            if going and (len(keep) <= _SMALL or going * 4 >= len(keep)):
                if going == len(keep):
                    continue
                rest = run.rows.filter(keep)
                kept.append(_Run(rest, run.hashes[keep], slice_of_delta(rest)))
            else:
                kept.append(run)
        self._runs = kept

    def clear(self) -> None:
        self._runs, self._negative = [], False

    def smallest_end(self) -> int:
        return min((int(run.rows.end.min()) for run in self._runs), default=INFINITY)

    # -------------------------------------------------------------------------------------------------------
    # state

    def slices(self) -> Iterator[tuple[str, Rows]]:
        """One slice a run: the same object as long as the run is there."""
        for number, run in enumerate(self._runs):
            yield f"events/{number}", run.slice

    def restore(self, slices: dict[str, Rows]) -> None:
        self.clear()
        for name in sorted(
            (name for name in slices if name.startswith("events/")),
            key=lambda name: int(name.partition("/")[2]),
        ):
            rows = delta_of_slice(slices[name])
            self._runs.append(_Run(rows, key_hashes(rows.payload, self.keys), slices[name]))
            self._negative |= bool((rows.weight < 0).any())

    def size(self) -> StateSize:
        return StateSize(
            sum(len(run.rows) for run in self._runs), sum(run.rows.nbytes for run in self._runs)
        )


def key_hashes(rows: Rows, keys: tuple[str, ...]) -> Hashes:
    """The hash of each row's group."""
    return hash_rows([rows.column(name) for name in keys], rows.num_rows)


def first_after(times: Times, low: Codes, high: Codes, limit: Times) -> Codes:
    """Of each sorted stretch times[low:high] the first position whose time is after the limit:
    binary searches side by side.

    >>> first_after(np.array([1, 3, 5, 2, 4]), np.array([0, 3]), np.array([3, 5]), np.array([3, 0])).tolist()
    [2, 3]
    """
    low, high = low.astype(np.int64), high.astype(np.int64)
    while (low < high).any():
        middle = (low + high) // 2
        inside = low < high
        later = np.zeros(len(low), np.bool_)
        later[inside] = times[middle[inside]] > limit[inside]
        high = np.where(inside & later, middle, high)
        low = np.where(inside & ~later, middle + 1, low)
    return low


def _slice(rows: Delta, begin: int, end: int) -> Delta:
    return Delta(
        rows.payload.slice(begin, end - begin),
        rows.start[begin:end],
        rows.end[begin:end],
        rows.weight[begin:end],
    )
