"""Retracts the answers of windows: from kept answers, or by computing them again.

The answers of aggregates and of modules that are not deterministic are kept, and answers no longer
than the rows of their window; of other answers only a checksum. For deterministic modules some kept
answers are computed again too, and compared.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from thalweg.model.delta import Delta
from thalweg.model.rows import Bools, Codes
from thalweg.operators.window.modules.module_windows import ModuleWindows, checksum
from thalweg.operators.window.modules.window_entries import Answered, Entries, FoundWindows
from thalweg.operators.window.modules.window_index import WindowIndex
from thalweg.udm.cells import Cells

__all__ = ["OldRows", "TakingBack"]

_CHECKS, _EVERY = 4, 64
"""The first so many kept answers are compared, then one in so many."""

_NOT_DETERMINISTIC = (
    "it is not deterministic: it gave another answer for the same rows; say deterministic=False"
)

OldRows = Callable[[Codes], tuple[Codes, Cells]]
"""For some of the windows to take back, by position: an order of them, and the rows that they had,
in that order."""


class TakingBack:
    def __init__(self, module: ModuleWindows) -> None:
        self._module = module
        self._seen = 0

    def choose(self, answered: Answered, entries: Entries) -> Entries:
        """Which answers are kept; the others only leave a checksum."""
        module, node = self._module.module, self._module.node
        if (
            module.kind == "aggregate"
            or not module.properties.deterministic
            or node.stamp == "time-bound"
            or module.incremental
        ):
            return entries
        order = np.argsort(entries.id)
        at = order[np.searchsorted(entries.id[order], answered.window)]
        long = np.bincount(at, minlength=len(entries)) > entries.events
        if not long.any():
            return entries
        sums = entries.checksum.copy()
        for one in np.flatnonzero(long).tolist():
            sums[one] = checksum(answered.rows.filter(at == one))
        return entries.but(recomputed=long, checksum=sums)

    def rows(self, leaving: FoundWindows, windows: WindowIndex, old_rows: OldRows) -> Delta:
        """The rows that these windows have emitted, as removals."""
        schema = self._module.node.schema
        answered = leaving.answered
        if not answered.any():
            return Delta.empty(schema)
        entries = leaving.entries
        kept = windows.answers_of(entries.id[answered])
        out = kept.rows.filter(kept.out) if len(kept.out) else kept.rows
        again = self._to_check(entries, answered)
        if not again.any():
            return out.negate()
        some = np.flatnonzero(again)
        order, cells = old_rows(some)
        found, _ = self._module.answered(
            self._module.caller.compute(cells), entries.take(some[order]), cells
        )
        parts = [out]
        for position in some.tolist():
            own = found.rows.filter(found.window == entries.id[position])
            lost = bool(entries.recomputed[position])
            if lost:
                parts.append(own)
            before_sum = (
                entries.checksum[position]
                if lost
                else checksum(kept.rows.filter(kept.window == entries.id[position]))
            )
            if checksum(own) != before_sum:
                # What was not kept cannot be taken back any more: no policy goes on from there.
                self._module.fail(entries, position, _NOT_DETERMINISTIC, None, always=lost)
        return Delta.concat(parts, schema).negate()

    def _to_check(self, leaving: Entries, answered: Bools) -> Bools:
        module, node = self._module.module, self._module.node
        again = leaving.recomputed.copy()
        if not module.properties.deterministic or module.incremental or node.stamp == "time-bound":
            return again
        some = np.flatnonzero(answered & ~again & ~leaving.failed)
        number = self._seen + np.arange(len(some))
        self._seen += len(some)
        again[some[(number < _CHECKS) | (number % _EVERY == 0)]] = True
        return again
