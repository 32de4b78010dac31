"""Taking back what windows have answered: from what was kept, or by computing it again.

Kept are the answers of aggregates, of modules that are not deterministic, and those that are no
longer than the rows of their window; of the others only a checksum. Of deterministic modules some
kept answers are computed again too, and compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thalweg.model.delta import Delta
from thalweg.model.rows import Codes
from thalweg.operators.module_windows import checksum
from thalweg.operators.window_index import Answered, Entries, WindowIndex

if TYPE_CHECKING:
    from thalweg.operators.module_windows import ModuleWindows
    from thalweg.operators.window_frames import Frame

__all__ = ["TakingBack"]

_CHECKS, _EVERY = 4, 64
"""The first so many kept answers are compared, then one in so many."""


_DICE = "it is not deterministic: it gave another answer for the same rows; say deterministic=False"


class TakingBack:
    def __init__(self, module: ModuleWindows) -> None:
        self._module = module
        self._seen = 0

    def choose(self, answered: Answered, entries: Entries) -> tuple[Answered, Entries]:
        """Which answers are kept, and which only leave a checksum."""
        module, node = self._module.module, self._module.node
        if (
            module.kind == "aggregate"
            or not module.properties.deterministic
            or node.stamp == "time-bound"
            or module.incremental
        ):
            return answered, entries
        order = np.argsort(entries.id)
        at = order[np.searchsorted(entries.id[order], answered.window)]
        long = np.bincount(at, minlength=len(entries)) > entries.events
        sums = entries.checksum.copy()
        for one in np.flatnonzero(long).tolist():
            sums[one] = checksum(answered.rows.filter(at == one))
        return answered, entries.but(recomputed=long, checksum=sums)

    def rows(
        self,
        leaving: Entries,
        windows: WindowIndex,
        before: Delta,
        code: Codes,
        window_code: Codes,
        frame: Frame,
    ) -> Delta:
        """The rows that these windows have out, as rows that go."""
        schema = self._module.node.schema
        kept = windows.answers_of(leaving.id)
        out = kept.rows.filter(kept.out) if len(kept.out) else kept.rows
        again = self._to_check(leaving)
        if not again.any():
            return out.negate()
        some = np.flatnonzero(again)
        found = self._computed(leaving.take(some), before, code, window_code[some], frame)
        parts = [out]
        for position in some.tolist():
            own = found.rows.filter(found.window == leaving.id[position])
            lost = bool(leaving.recomputed[position])
            if lost:
                parts.append(own)
            before_sum = (
                leaving.checksum[position]
                if lost
                else checksum(kept.rows.filter(kept.window == leaving.id[position]))
            )
            if checksum(own) != before_sum:
                # What was not kept cannot be taken back any more: no policy goes on from there.
                self._module.fail(leaving, position, _DICE, None, always=lost)
        return Delta.concat(parts, schema).negate()

    def _to_check(self, leaving: Entries) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        module, node = self._module.module, self._module.node
        again = leaving.recomputed.copy()
        if not module.properties.deterministic or module.incremental or node.stamp == "time-bound":
            return again
        answered = np.flatnonzero(leaving.answered & ~again & ~leaving.failed)
        number = self._seen + np.arange(len(answered))
        self._seen += len(answered)
        again[answered[(number < _CHECKS) | (number % _EVERY == 0)]] = True
        return again

    def _computed(
        self, entries: Entries, rows: Delta, code: Codes, window_code: Codes, frame: Frame
    ) -> Answered:
        from thalweg.operators.window_frames import Spans

        order = np.lexsort((entries.start, window_code))
        spans = Spans(window_code[order], entries.start[order], entries.end[order])
        row, window = frame.members(code, rows.start, rows.end, spans)
        cells = self._module.cells(rows, row, window, rows.weight[row], spans)
        return self._module.answered(
            self._module.caller.compute(cells), entries.take(order), cells
        )[0]
