"""The rows of a source that may still be adjusted, and the check that an adjust names one of them.

A row is held until a promise passes its end: the CTI of the source, or the promise of its group.
A source that is declared insert-only holds none, nor one whose adjusts a merge behind it checks.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.delta import Delta, Weights
from thalweg.model.progress import Progress
from thalweg.model.rows import Codes, Rows, encode
from thalweg.model.time import INFINITY
from thalweg.operators.base import Slices, StateSize
from thalweg.operators.group_promises import newly_promised, promises_of_rows
from thalweg.state import RowSet

__all__ = ["AdjustableRows"]

_SLICE = "live"


class AdjustableRows:
    """
    >>> from thalweg.model.element_batches import batch_of
    >>> from thalweg.model.elements import adjust, point
    >>> schema = pa.schema([("v", pa.int64())])
    >>> rows = AdjustableRows(schema, "source 's'")
    >>> rows.apply(batch_of([point({"v": 1}, 5)], schema))
    >>> adjusts = [adjust({"v": 1}, 5, 6, 9), adjust({"v": 1}, 5, 6, 7)]
    >>> rows.first_unknown(batch_of(adjusts, schema))
    1
    """

    def __init__(self, schema: pa.Schema, what: str) -> None:
        self._schema = schema
        self._rows = RowSet(schema, what=what)

    def apply(self, batch: Batch) -> None:
        """Add the inserts of a batch, and move the ends that it adjusts."""
        change = Delta.of_batch(batch)
        self._rows.change(change if batch.is_adjust is None else change.consolidate())

    def since(self, cti: int) -> Delta:
        """The rows that may be adjusted after a CTI."""
        return self._rows.between(cti - 1, INFINITY).delta()

    def first_unknown(self, batch: Batch) -> int | None:
        """The first adjust of a batch whose row is not held when its turn comes: neither held
        before the batch nor inserted earlier in it, or already adjusted."""
        if batch.is_adjust is None or batch.new_end is None:
            return None
        removing = np.flatnonzero(batch.is_adjust)
        if not len(removing):
            return None
        adding = np.flatnonzero(~batch.is_adjust | (batch.new_end > batch.start))
        change = Delta.of_batch(batch)  # the rows that adjusts remove, then those that are added
        removed = change.take(np.arange(len(removing)))
        held = self._rows.find_rows(removed).distinct()[0].delta()
        every = Delta.concat([held, change], self._schema)
        code, size = encode([*every.payload.columns, every.start, every.end], len(every))
        # An adjust removes the row as it was before it adds the row as it is.
        turn = np.concatenate([np.full(len(held), -1), removing * 2, adding * 2 + 1])
        removed_codes = code[len(held) : len(held) + len(removing)]
        missing = _first_negative(code, every.weight, turn, removed_codes, size)
        return None if missing is None else missing // 2

    def drop_settled(self, before: Progress, progress: Progress) -> None:
        """Drop the rows that nothing may adjust any more, now that promises have moved on."""
        cti = progress.cti
        if cti == INFINITY:
            self._rows.clear()
        elif cti > before.cti:
            self._rows.purge(cti - 1)
        if not self._rows.is_empty() and newly_promised(before, progress):
            columns = progress.scope_columns
            found = self._rows.between(cti - 1, INFINITY)
            promised = promises_of_rows(progress, found.payload(columns), columns)
            settled = found.filter((found.end < promised) | (promised == INFINITY))
            settled.set_weight(np.zeros(len(settled), np.int64))
            self._rows.purge(cti - 1)

    def snapshot(self) -> Slices:
        return self._rows.snapshot(_SLICE)

    def restore(self, slices: Mapping[str, Rows], cti: int) -> None:
        self._rows.restore(_SLICE, slices)
        self._rows.purge(cti - 1)

    def size(self) -> StateSize:
        return self._rows.size()


def _first_negative(
    code: Codes, weight: Weights, turn: Codes, removed: Codes, size: int
) -> int | None:
    """The first turn after which a row has been removed more often than added. Only the rows whose
    codes are in `removed` are looked at."""
    concerned = np.zeros(size, np.bool_)
    concerned[removed] = True
    among = np.flatnonzero(concerned[code])
    order = among[np.lexsort((turn[among], code[among]))]
    group, change = code[order], weight[order]
    running = np.cumsum(change)
    begins = np.flatnonzero(np.concatenate([[True], group[1:] != group[:-1]]))
    before = (running - change)[begins]
    count = running - np.repeat(before, np.diff(np.append(begins, len(order))))
    bad = turn[order[count < 0]]
    return int(bad.min()) if len(bad) else None
