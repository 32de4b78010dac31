"""The event index: the rows that open windows of modules need, by group and position.

Rows lie in an arrangement (see `state.arrangement`) under the number of their group. Where rows
belong to windows by overlap, the position of a row is its lifetime; where they belong by an instant
(the start or the last tick), it is that instant, and the rest of the lifetime is a column. So the
rows of a window are found by search, however many rows the group has.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from thalweg.model.delta import Delta
from thalweg.model.names import internal
from thalweg.model.rows import Bools, Codes, Rows
from thalweg.model.time import INFINITY, MIN_TIME, Times
from thalweg.operators.base import Slices, StateSize
from thalweg.operators.window.held_rows import Found, HeldRows
from thalweg.operators.window.partitions import Partitions

__all__ = ["EventIndex", "Events"]

_OTHER = pa.field(internal("other"), pa.int64())
"""The end of a row that is held at its start, or the start of one that is held at its end."""


class Events:
    """Rows that were found: `owner` is the probe that found each, [since, until) the position."""

    __slots__ = ("_found", "_width", "end", "owner", "since", "start", "until", "weight")

    def __init__(self, found: Found, owner: Codes, start: Times, end: Times, width: int) -> None:
        self._found, self._width = found, width
        self.owner, self.start, self.end = owner, start, end
        self.since, self.until, self.weight = found.start, found.end, found.weight

    def __len__(self) -> int:
        return len(self.owner)

    def delta(self) -> Delta:
        """The rows themselves."""
        payload = self._found.payload
        if payload.num_columns > self._width:
            payload = payload.select(list(range(self._width)))
        return Delta(payload, self.start, self.end, self.weight)

    @property
    def partition(self) -> Codes:
        return self._found.partition

    def filter(self, mask: Bools) -> Events:
        if mask.all():
            return self
        found = self._found.filter(mask)
        return Events(found, self.owner[mask], self.start[mask], self.end[mask], self._width)

    def distinct(self) -> Events:
        """Each row once, where several probes found it."""
        if len(self._found.hits.parts) and len(self) > 1:
            places = np.concatenate(
                [at + (number << 40) for number, (_, at) in enumerate(self._found.hits.parts)]
            )
            _, first = np.unique(places, return_index=True)
            if len(first) < len(self):
                mask = np.zeros(len(self), np.bool_)
                mask[first] = True
                return self.filter(mask)
        return self

    def found(self) -> Found:
        """Where they stand."""
        return self._found


class EventIndex:
    """Rows of `schema`; `by` is the instant that they belong to windows by, None for the whole
    lifetime; `ends` is whether the ends of rows that belong by their starts matter.

    >>> schema = pa.schema([("k", pa.string())])
    >>> index = EventIndex(schema, Partitions(schema, ("k",)), "example", by="end")
    >>> rows = pa.RecordBatch.from_pydict({"k": ["a", "a"]})
    >>> delta = Delta(rows, np.array([0, 1]), np.array([4, 9]), np.ones(2, np.int64))
    >>> index.apply(delta, np.zeros(2, np.int64))
    >>> found = index.find(np.array([0]), np.array([3]), np.array([5]))
    >>> found.start.tolist(), found.end.tolist()
    ([0], [4])
    """

    def __init__(
        self,
        schema: pa.Schema,
        partitions: Partitions,
        what: str,
        *,
        by: str | None = None,
        ends: bool = True,
    ) -> None:
        self._by = by
        self._other = by == "end" or (by == "start" and ends)
        self._width = len(schema)
        held = pa.schema([*schema, _OTHER]) if self._other else schema
        self.rows = HeldRows(held, partitions, what)

    def place(self, delta: Delta) -> Delta:
        """Rows as they are held: over their positions."""
        if self._by is None:
            return delta
        since = delta.start if self._by == "start" else delta.end - 1
        payload = delta.payload
        if self._other:
            other = delta.end if self._by == "start" else delta.start
            payload = pa.RecordBatch.from_arrays(
                [*payload.columns, pa.array(other)], schema=self.rows.schema
            )
        return Delta(payload, since, since + 1, delta.weight)

    def apply(self, delta: Delta, partition: Codes) -> None:
        """Add rows and take rows away."""
        self.rows.apply(self.place(delta), partition)

    def find(self, partition: Codes, since: Times, until: Times) -> Events:
        """For each probe the rows of its partition whose position overlaps [since, until). One
        probe of the only partition needs no search."""
        if len(partition) == 1 and len(self.rows.partitions.index) == 1:
            return self.between(int(since[0]), int(until[0]))
        found = self.rows.find(partition, since, until)
        return self._events(found, found.hits.owner)

    def of(self, partition: Codes) -> Events:
        """All rows of some partitions."""
        size = len(partition)
        return self.find(partition, np.full(size, MIN_TIME), np.full(size, INFINITY))

    def between(self, since: int, until: int) -> Events:
        """The rows of all partitions whose position overlaps [since, until)."""
        found = self.rows.between(since, until)
        return self._events(found, found.hits.owner)

    def _events(self, found: Found, owner: Codes) -> Events:
        start, end = found.start, found.end
        if self._other:
            other: Times = found.hits.column(_OTHER.name).to_numpy()
            start, end = (start, other) if self._by == "start" else (other, end)
        return Events(found, owner, start, end, self._width)

    def missing(self, delta: Delta, partition: Codes) -> Bools:
        """Which of some rows are not held."""
        lost = np.ones(len(delta), np.bool_)
        lost[self.rows.equal(self.place(delta), partition)] = False
        return lost

    def earlier(self, partition: Codes, instant: Times, count: int) -> Times:
        """For each probe the instant of a row that is the `count`-th distinct one before another,
        or the first; the instant itself where there is none before."""
        for _ in range(count):
            before = self.rows.latest_before(partition, instant)
            instant = np.where(before == MIN_TIME, instant, before)
        return instant

    def later(self, partition: Codes, instant: Times, count: int) -> Times:
        """For each probe the position behind the `count`-th distinct instant from another on, or
        behind the last."""
        for _ in range(count):
            after = self.rows.first_after(partition, instant)
            instant = np.where(after == INFINITY, instant, after)
        return instant

    # --------------------------------------------------------------------------------------------
    # forgetting and state

    def drop(self, until: int) -> None:
        """Forget rows whose position ends by a time. They may go later than they could."""
        self.rows.drop(until)

    def remove(self, events: Events) -> None:
        self.rows.remove(events.found().hits)

    def clear(self) -> None:
        self.rows.clear()

    def snapshot(self) -> Slices:
        return self.rows.snapshot()

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self.rows.restore(slices)

    def size(self) -> StateSize:
        return self.rows.size()
