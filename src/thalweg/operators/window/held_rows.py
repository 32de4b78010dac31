"""The rows that windows still need, by partition and position: a batch costs what it touches.

Rows lie in an arrangement (see `state.arrangement`) under the number of their partition, over the
stretch [since, until) of positions in which they are needed. A position is a time or a row number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from thalweg.model.delta import Delta
from thalweg.model.rows import Bools, Codes, Rows, take_column
from thalweg.model.time import MIN_TIME, Times, greatest
from thalweg.operators.base import Slices, StateSize
from thalweg.operators.window.partitions import Partitions
from thalweg.state import Arrangement, Hits
from thalweg.state.columns import RowColumns

__all__ = [
    "Found",
    "HeldRows",
    "Located",
    "PartitionedState",
    "stored_rows",
]

_MANY = 1_024
"""From this many partitions on, all rows are looked at instead of searching each partition."""
_FEW = 256
"""Up to this many rows beside the hits are not worth gathering."""


_NONE = np.empty(0, np.int64)


class Found:
    """Rows of the store over their stretches [start, end) of positions. Payloads never change and
    are gathered when they are first read; weights are those at the time of the search."""

    __slots__ = ("_payload", "hits", "partition", "start", "weight")

    def __init__(self, hits: Hits, partition: Codes) -> None:
        self.hits, self.partition = hits, partition
        self.start, self.weight = hits.start, hits.weight
        self._payload: Rows | None = None

    @property
    def end(self) -> Times:
        return self.hits.end

    @property
    def payload(self) -> Rows:
        if self._payload is None:
            self._payload = self.hits.payload()
        return self._payload

    def located(self, which: Codes) -> tuple[Rows, Codes]:
        """Rows as they are stored, and the positions of some of these rows among them."""
        if self._payload is None and len(self.hits.parts) == 1:
            run, at = self.hits.parts[0]
            return run.rows.payload, at[which]
        return self.payload, which

    def __len__(self) -> int:
        return len(self.partition)

    def delta(self) -> Delta:
        """The rows with their weights."""
        return Delta(self.payload, self.start, self.end, self.weight)

    def joined(self, other: Found) -> Found:
        """The rows of both."""
        owner = np.concatenate([self.hits.owner, other.hits.owner])
        hits = Hits(self.hits.schema, owner, [*self.hits.parts, *other.hits.parts])
        return Found(hits, np.concatenate([self.partition, other.partition]))

    def filter(self, mask: Bools) -> Found:
        if np.count_nonzero(mask) == len(mask):
            return self
        return Found(self.hits.filter(mask), self.partition[mask])


def stored_rows(hits: Hits, which: Codes) -> tuple[Rows, Codes]:
    """Rows that contain some hits, and the positions of the hits among them: all rows of a run if
    most of them were found, else copies of the hits."""
    if len(hits.parts) == 1:
        run, at = hits.parts[0]
        if len(run) <= 4 * len(at) + _FEW:
            return run.rows.payload, at[which]
    return hits.payload(), which


@dataclass(frozen=True, slots=True)
class Located:
    """Rows that are gathered column by column when they are needed: rows `at` positions of
    `stored`, and a function for their starts."""

    stored: Rows
    at: Codes
    _starts: Callable[[], Times]

    @property
    def start(self) -> Times:
        return self._starts()

    def __len__(self) -> int:
        return len(self.at)

    def column(self, name: str) -> pa.Array:
        return take_column(self.stored.column(name), self.at)


class PartitionedState:
    """State of the engine by partition: an arrangement, saved under a name of its own."""

    def __init__(self, name: str, schema: pa.Schema, partitions: Partitions, what: str) -> None:
        self._name = name
        self._held = Arrangement(schema, partitions.of_rows, what=what)

    def find_all(self, partition: Codes) -> Hits:
        """All rows of some partitions, also those that have ended but are still held. For many
        partitions all rows are looked at."""
        size = len(partition)
        if size <= _MANY:
            return self._held.of_groups(partition)
        every = self._held.all()
        group = every.group
        place = np.full(max(greatest(partition), int(group.max(initial=0))) + 1, -1)
        place[partition] = np.arange(size)
        owner = place[group]
        return Hits(every.schema, owner, every.parts).filter(owner >= 0)

    def remove(self, hits: Hits) -> None:
        """Forget rows that were found."""
        if len(hits):
            hits.set_weight(np.zeros(len(hits), np.int64))
            self._held.purge(MIN_TIME)

    def drop_groups(self, partition: Codes, until: Times) -> None:
        """Forget rows of some partitions that are not needed after a position of theirs."""
        self._held.drop_groups(partition, until)

    def groups(self) -> Codes:
        return self._held.groups()

    def renumber(self, moved: Codes) -> None:
        self._held.renumber(moved)

    def clear(self) -> None:
        self._held.clear()

    def snapshot(self) -> Slices:
        return self._held.snapshot(self._name)

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self._held.restore(self._name, slices)

    def size(self) -> StateSize:
        return self._held.size()


class HeldRows(PartitionedState):
    """
    >>> schema = pa.schema([("k", pa.string())])
    >>> held = HeldRows(schema, Partitions(schema, ("k",)), "example")
    >>> rows = pa.RecordBatch.from_pydict({"k": ["a", "b", "a"]})
    >>> delta = Delta(rows, np.array([0, 0, 5]), np.array([4, 9, 9]), np.ones(3, np.int64))
    >>> held.apply(delta, np.array([0, 1, 0]))
    >>> held.between(4, 6).partition.tolist(), held.of(np.array([0])).start.tolist()
    ([1, 0], [0, 5])
    """

    def __init__(self, schema: pa.Schema, partitions: Partitions, what: str) -> None:
        super().__init__("rows", schema, partitions, what)
        self.schema = schema
        self.partitions = partitions

    def __len__(self) -> int:
        return len(self._held)

    def apply(self, delta: Delta, partition: Codes) -> None:
        """Add rows and take rows away."""
        self._held.apply(delta, partition)

    def find(self, partition: Codes, since: Times, until: Times) -> Found:
        """For each of some partitions the rows needed after `since` that begin before `until`."""
        hits = self._held.find(partition, since, until)
        return Found(hits, partition[hits.owner])

    def of(self, partition: Codes) -> Found:
        """All rows of some partitions, also those that have ended but are still held."""
        hits = self.find_all(partition)
        return Found(hits, partition[hits.owner])

    def within(self, partition: Codes, since: int, until: int) -> Found:
        """The rows of some partitions that are needed after `since` and begin before `until`. For
        many partitions all rows are looked at."""
        size = len(partition)
        if size <= _MANY:
            return self.find(partition, np.full(size, since), np.full(size, until))
        found = self.between(since, until)
        wanted = np.zeros(len(self.partitions.index), np.bool_)
        wanted[partition] = True
        return found.filter(wanted[found.partition])

    def upto(self, partition: Codes, since: int, until: Times) -> Found:
        """The rows of some partitions that are needed after `since` and begin before the time of
        their partition. For many partitions all rows are looked at."""
        if len(partition) <= _MANY:
            return self.find(partition, np.full(len(partition), since), until)
        found = self.between(since, int(until.max()))
        if not len(found):
            return found
        limit = np.full(max(int(found.partition.max()), int(partition.max())) + 1, MIN_TIME)
        limit[partition] = until
        return found.filter(found.start < limit[found.partition])

    def between(self, since: int, until: int) -> Found:
        """The rows of all partitions that are needed after `since` and begin before `until`."""
        hits = self._held.between(since, until)
        return Found(hits, hits.group)

    def nothing(self) -> Found:
        return Found(Hits(self.schema, _NONE, []), _NONE)

    def everything(self) -> Found:
        hits = self._held.all()
        return Found(hits, hits.group)

    def equal(self, rows: Delta, partition: Codes) -> Codes:
        """The positions in `rows` of those that are held."""
        return np.unique(self._held.find_equal(rows, partition).owner)

    def latest_before(self, partition: Codes, instant: Times) -> Times:
        """For each probe the latest instant before another at which its partition has a row;
        MIN_TIME: none. Rows are held at instants, over one tick."""
        found = self._held.last_end_before(partition, instant + 1)
        return np.where(found == MIN_TIME, found, found - 1)

    def first_after(self, partition: Codes, instant: Times) -> Times:
        """For each probe the end of the first instant, from another on, at which its partition has
        a row; INFINITY: none. Rows are held at instants."""
        return self._held.first_end_after(partition, instant)

    @property
    def forgotten(self) -> int:
        """Rows that are not needed after this position are forgotten, though they may still be
        held."""
        return self._held.purged

    @property
    def is_small(self) -> bool:
        """Whether so few rows are held that it does not pay to drop some."""
        return self._held.is_small

    def first(self) -> int:
        """The earliest position of a row."""
        return self._held.first()

    def purge(self, until: int) -> None:
        """Forget rows that are not needed after a position. They may be dropped later."""
        self._held.purge(until)

    def drop(self, until: int) -> list[RowColumns]:
        """Forget rows that are not needed after a position; returns those that were dropped now."""
        return self._held.drop(until)
