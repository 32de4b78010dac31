"""The low level of a two-level aggregation that keeps its output in order, with an aggressive slow
flush.

For every tuple one sum of the window before leaves. When a sum of the new window has to make place
for another, all sums of the window before must leave first, since the output is in order: that is
where the surges come from (Figure 8-6). The same table, in the same columns, as the one it is
compared with.
"""

from __future__ import annotations

from thalweg.operators.window.grid.cells import Numbers
from thalweg.operators.window.grid.pane_table import TablePanesKernel

__all__ = ["InOrderTable"]


class InOrderTable(TablePanesKernel):
    """A table of partial sums that never sends a sum of a window before all of the one in front of
    it."""

    def _pace(self, rows: int, newest: int) -> list[Numbers]:
        # What is left of the window before the last leaves at once when a new one begins.
        sent = [self._send(self._old())] if newest > self._newest else []
        self._newest = max(self._newest, newest)
        return [*sent, self._send(self._old()[:rows])]

    def _put(self, sums: Numbers) -> list[Numbers]:
        slot, width = self._slots(sums), self._width
        other = (self._held[:width, slot] != sums[:width]).any(axis=0)
        collides = other & (self._first[slot] == sums[width])
        flushed = [self._send(self._old())] if collides.any() else []
        return [*flushed, *super()._put(sums)]
