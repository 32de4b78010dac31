"""The third tier of the index at R4: how often an input has a row with each end.

An entry is (owner, end, count), where the owner is a row in one input's column. Entries are found
by owner and end through a table of digests, and those of one owner are linked, so that a row's ends
are read without looking at those of other rows.
"""

from __future__ import annotations

import numpy as np

from thalweg.model.digests import Digests, digest_rows
from thalweg.model.rows import Codes
from thalweg.model.time import Times
from thalweg.operators.merging.chains import distinct_digests
from thalweg.operators.merging.digest_table import DigestTable, grown

__all__ = ["EndCounts"]


class EndCounts:
    """Counts by row and end, for one input or for the output.

    >>> counts = EndCounts()
    >>> counts.add(np.array([3, 3, 5]), np.array([10, 10, 20]), np.array([1, 1, 1]))
    >>> [part.tolist() for part in counts.of(np.array([3, 5]))]
    [[0, 1], [10, 20], [2, 1]]
    """

    def __init__(self) -> None:
        self._table = DigestTable()
        self._row: Codes = np.zeros(self._table.capacity, np.int64)
        self._end: Times = np.zeros(self._table.capacity, np.int64)
        self._count: Codes = np.zeros(self._table.capacity, np.int64)
        self._next: Codes = np.full(self._table.capacity, -1)
        self._head: Codes = np.full(64, -1)
        self.total: Codes = np.zeros(64, np.int64)
        """By row: how many copies there are, whatever their ends."""
        self._zeros = 0

    @property
    def nbytes(self) -> int:
        columns = (self._row, self._end, self._count, self._next, self._head, self.total)
        return self._table.nbytes + sum(column.nbytes for column in columns)

    @property
    def operations(self) -> int:
        return self._table.operations

    def add(self, rows: Codes, ends: Times, weights: Codes) -> None:
        """Add to the counts; a pair may come several times."""
        if not len(rows):
            return
        self.grow(int(rows.max()) + 1)
        digests = _pairs(rows, ends)
        entries = self._table.find(digests)
        fresh = np.flatnonzero(entries < 0)
        if len(fresh):
            first, codes = distinct_digests(digests.take(fresh))
            entries[fresh] = self._new(digests, rows, ends, fresh[first])[codes]
        np.add.at(self._count, entries, weights)
        np.add.at(self.total, rows, weights)
        self._drop_zeros(entries)

    def grow(self, rows: int) -> None:
        """Make room for the rows below this number."""
        size = len(self._head)
        while size < rows:
            size *= 2
        self._head, self.total = grown(self._head, size, -1), grown(self.total, size)

    def _new(self, digests: Digests, rows: Codes, ends: Times, which: Codes) -> Codes:
        entries = self._table.add(digests.take(which))
        capacity = self._table.capacity
        self._row, self._end = grown(self._row, capacity), grown(self._end, capacity)
        self._count, self._next = grown(self._count, capacity), grown(self._next, capacity, -1)
        self._row[entries], self._end[entries] = rows[which], ends[which]
        self._count[entries] = 0
        self._link(entries)
        return entries

    def _link(self, entries: Codes) -> None:
        """Put entries at the head of the lists of their rows."""
        entries = entries[np.argsort(self._row[entries], kind="stable")]
        rows = self._row[entries]
        last = np.ones(len(entries), np.bool_)
        last[:-1] = rows[1:] != rows[:-1]
        self._next[entries] = np.where(last, self._head[rows], np.roll(entries, -1))
        first = np.roll(last, 1)
        first[0] = True
        self._head[rows[first]] = entries[first]

    def _drop_zeros(self, touched: Codes) -> None:
        """Remove entries with count 0, once they are a third of all entries."""
        self._zeros += int(np.count_nonzero(self._count[touched] == 0))
        if self._zeros * 3 < len(self._table) + 64:
            return
        used = self._table.used()
        self._table.remove(used[self._count[used] == 0])
        used = used[self._count[used] != 0]
        self._head[:] = -1
        if len(used):
            self._link(used)
        self._zeros = 0

    def of(self, rows: Codes) -> tuple[Codes, Times, Codes]:
        """The entries of some rows, as parallel columns: position in `rows`, end, count."""
        found_rows, found = [], []
        at = np.arange(len(rows))
        entries = np.full(len(rows), -1)
        held = rows < len(self._head)
        entries[held] = self._head[rows[held]]
        while True:
            there = entries >= 0
            at, entries = at[there], entries[there]
            if not len(entries):
                break
            found_rows.append(at)
            found.append(entries)
            entries = self._next[entries]
        if not found:
            none = np.empty(0, np.int64)
            return none, none, none
        entries, at = np.concatenate(found), np.concatenate(found_rows)
        counted = self._count[entries] != 0
        entries, at = entries[counted], at[counted]
        return at, self._end[entries], self._count[entries]

    def count(self, rows: Codes, ends: Times) -> Codes:
        """The count of each pair of a row and an end."""
        entries = self._table.find(_pairs(rows, ends))
        return np.where(entries >= 0, self._count[entries], 0)

    def remove(self, rows: Codes) -> None:
        """Forget rows altogether."""
        rows = rows[rows < len(self._head)]
        entries = self._head[rows]
        self._head[rows], self.total[rows] = -1, 0
        while True:
            entries = entries[entries >= 0]
            if not len(entries):
                return
            self._zeros -= int(np.count_nonzero(self._count[entries] == 0))
            following = self._next[entries]
            self._table.remove(entries)
            entries = following


def _pairs(rows: Codes, ends: Times) -> Digests:
    return digest_rows([rows, ends], len(rows))
