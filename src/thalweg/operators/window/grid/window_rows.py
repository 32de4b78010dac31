"""The rows that open windows need, by group and time: a batch costs what it touches.

Rows lie in an arrangement (see `state.arrangement`), under the number of their group. A change asks
for the rows of the groups it touches that reach into the windows it touches; a release for the rows
of all groups in the windows that answer; a CTI drops slots of rows that have ended.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from thalweg.model.delta import Delta
from thalweg.model.rows import Codes, Rows
from thalweg.model.time import INFINITY, MIN_TIME, Times
from thalweg.operators.base import Slices, StateSize
from thalweg.state import Arrangement, KeyIndex

__all__ = ["WindowRows"]

_NAME = "rows"
_MANY = 1_024
"""So many groups are not looked up one by one."""


class WindowRows:
    """
    >>> held = WindowRows(pa.schema([("k", pa.string())]), ("k",), "example")
    >>> rows = pa.RecordBatch.from_pydict({"k": ["a", "b", "a"]})
    >>> delta = Delta(rows, np.array([0, 0, 5]), np.array([4, 9, 9]), np.ones(3, np.int64))
    >>> held.apply(delta, held.group_of(rows))
    >>> found, of = held.between(4, 6)
    >>> found.payload.column("k").to_pylist(), of.tolist()
    (['b', 'a'], [1, 0])
    """

    def __init__(self, schema: pa.Schema, keys: tuple[str, ...], what: str) -> None:
        self._keys = keys
        self.index = KeyIndex([schema.field(name) for name in keys])
        self._held = Arrangement(schema, self.group_of, what=what)

    def group_of(self, rows: Rows) -> Codes:
        """The number of each row's group."""
        return self.index.numbers([rows.column(name) for name in self._keys], rows.num_rows)

    @property
    def schema(self) -> pa.Schema:
        return self._held.schema

    def __len__(self) -> int:
        return len(self._held)

    def apply(self, delta: Delta, group: Codes) -> None:
        """Add rows of some groups and take rows away."""
        self._held.apply(delta, group)

    def of_groups(self, group: Codes, since: int, until: int) -> tuple[Delta, Codes]:
        """The rows of some groups that end after `since` and start before `until`, and the group
        of each."""
        size = len(group)
        if size > _MANY:
            hits = self._held.between(since, until)
            wanted = np.zeros(len(self.index), np.bool_)
            wanted[group] = True
            hits = hits.filter(wanted[hits.group])
            return hits.delta(), hits.group
        hits = self._held.find(group, np.full(size, since), np.full(size, until))
        return hits.delta(), group[hits.owner]

    def between(self, since: int, until: int) -> tuple[Delta, Codes]:
        """The rows of all groups that end after `since` and start before `until`, and the group of
        each."""
        hits = self._held.between(since, until)
        return hits.delta(), hits.group

    def purge(self, until: int) -> None:
        """Forget rows that have ended by then."""
        self._held.purge(until)

    def renumber(self, moved: Codes) -> None:
        """Groups have new numbers."""
        self._held.renumber(moved)

    def groups(self) -> Codes:
        """The groups that have rows."""
        return self._held.groups()

    def purge_groups(self, group: Codes, until: Times) -> None:
        """Forget rows of some groups that have ended by a time of the group."""
        size = len(group)
        hits = self._held.find(group, np.full(size, MIN_TIME), np.full(size, INFINITY))
        over = hits.filter(hits.end <= until[hits.owner])
        if len(over):
            over.set_weight(np.zeros(len(over), np.int64))
            self._held.drop(MIN_TIME)

    def clear(self) -> None:
        self._held.clear()
        self.index.clear()

    def snapshot(self) -> Slices:
        return self._held.snapshot(_NAME)

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self.index.clear()
        self._held.restore(_NAME, slices)

    def size(self) -> StateSize:
        return self._held.size() + StateSize(0, self.index.nbytes)
