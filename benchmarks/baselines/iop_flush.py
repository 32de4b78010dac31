"""The low level of a two-level aggregation that keeps its output in order, with an aggressive slow flush.

For every tuple one sum of the window before leaves. When a sum of the new window has to make place for another, all sums of the window
before must leave first, since the output is in order: that is where the surges come from (Figure 8-6). The same table, in the same columns,
as the one it is compared with.
"""

from __future__ import annotations

import numpy as np

from thalweg.model.rows import Codes
from thalweg.operators.cells import Numbers
from thalweg.operators.table_panes import TablePanesKernel

__all__ = ["InOrderTable"]

Sent = list[tuple[Codes, Codes, Codes, Numbers]]


class InOrderTable(TablePanesKernel):
    """A table of partial sums that never sends a sum of a window before all of the one in front of it."""

    def _pace(self, rows: int, newest: int) -> Sent:
        began = newest > self._newest
        sent: Sent = []
        if began:  # what is left of the window before the last leaves at once
            sent.append(self._send((self._group >= 0) & (self._first < self._newest)))
        self._newest = max(self._newest, newest)
        old = np.flatnonzero((self._group >= 0) & (self._first < self._newest))[:rows]
        mask = np.zeros(len(self._group), np.bool_)
        mask[old] = True
        return [*sent, self._send(mask)]

    def _put(self, group: Codes, first: Codes, beyond: Codes, sums: Numbers) -> Sent:
        slot = (group * 2_654_435_761) % self._table.slots
        there = self._group[slot]
        collides = (there >= 0) & (there != group) & (self._first[slot] == first)
        flushed = [self._send((self._group >= 0) & (self._first < self._newest))] if collides.any() else []
        return [*flushed, *super()._put(group, first, beyond, sums)]
