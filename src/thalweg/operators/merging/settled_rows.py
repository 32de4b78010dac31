"""Rows that the output has settled and that some input has yet to confirm.

The document drops a row as soon as the output has settled it, and ignores what slower inputs send
about it later. With `settled="compare"` it stays until every input has promised beyond its *key*:
its end in the output, or its start where the output has no such row. By then an input can neither
bring nor change it: if it has another end, or lacks the row, or has one that the output lacks, the
two disagree for ever.

Rows lie in runs sorted by key, so that a promise looks only at the rows it decides.
"""

from __future__ import annotations

import numpy as np

from thalweg.model.rows import Codes
from thalweg.model.time import Times

__all__ = ["SettledRows"]


class SettledRows:
    """
    >>> rows = SettledRows()
    >>> rows.add(np.array([7, 8]), np.array([20, 10]))
    >>> rows.between(5, 15).tolist(), rows.take_before(15).tolist(), len(rows)
    ([8], [8], 1)
    """

    def __init__(self) -> None:
        self._runs: list[tuple[Times, Codes]] = []

    def __len__(self) -> int:
        return sum(len(slots) for _, slots in self._runs)

    @property
    def nbytes(self) -> int:
        return sum(keys.nbytes + slots.nbytes for keys, slots in self._runs)

    def add(self, slots: Codes, keys: Times) -> None:
        """Rows that were settled, with their keys."""
        if not len(slots):
            return
        order = np.argsort(keys, kind="stable")
        runs = self._runs
        runs.append((keys[order], slots[order]))
        while len(runs) > 1 and len(runs[-2][0]) < 2 * len(runs[-1][0]):
            later, earlier = runs.pop(), runs.pop()
            both = np.concatenate([earlier[0], later[0]])
            order = np.argsort(both, kind="stable")
            runs.append((both[order], np.concatenate([earlier[1], later[1]])[order]))

    def between(self, first: int, last: int) -> Codes:
        """The slots of rows with first <= key < last."""
        found = [
            slots[np.searchsorted(keys, first) : np.searchsorted(keys, last)]
            for keys, slots in self._runs
        ]
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def take_before(self, time: int) -> Codes:
        """The slots of rows with a key before a time, which are dropped here."""
        dropped, kept = [], []
        for keys, slots in self._runs:
            cut = int(np.searchsorted(keys, time))
            dropped.append(slots[:cut])
            if cut < len(slots):
                kept.append((keys[cut:].copy(), slots[cut:].copy()) if cut else (keys, slots))
        self._runs = kept
        return np.concatenate(dropped) if dropped else np.empty(0, np.int64)
