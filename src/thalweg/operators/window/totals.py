"""Totals: partial results of rows that are no longer held, for windows over everything so far.

Each is the partial result of a group up to a position (a window, or 0). They lie in an arrangement,
so that a batch writes only those of the partitions it touches.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from thalweg.model.delta import Delta
from thalweg.model.rows import Codes, Rows, concat_rows, encode, take_rows, used_codes
from thalweg.model.sorting import representatives
from thalweg.model.time import INFINITY, MIN_TIME
from thalweg.operators.window.accumulators import Accumulators
from thalweg.operators.window.held_rows import PartitionedState
from thalweg.operators.window.partitions import Partitions
from thalweg.state import Hits

__all__ = ["Totals"]


class Totals(PartitionedState):
    def __init__(
        self,
        schema: pa.Schema,
        columns: tuple[str, ...],
        sums: Accumulators,
        partitions: Partitions,
        what: str,
    ) -> None:
        super().__init__("totals", schema, partitions, what)
        self._schema, self._columns, self._sums = schema, columns, sums

    def of(self, partition: Codes) -> Hits:
        """The totals of some partitions; the start of a total is its position."""
        return self.find_all(partition)

    def add(
        self, rows: Rows, which: Codes, partition: Codes, position: Codes, closed: Codes
    ) -> None:
        """Merge the partial results of some rows into the totals of their groups. Totals at
        positions before the `closed` one of their partition are merged, at the last of these
        positions."""
        touched = used_codes([partition])
        held = self.of(touched)
        names = self._schema.names
        new = pa.RecordBatch.from_arrays(rows.columns[: len(names)], schema=self._schema)
        parts = concat_rows([held.payload(), take_rows(new, which)], self._schema)
        partition, position = partition[which], position[which]
        partition = np.concatenate([touched[held.owner], partition])
        position = np.concatenate([held.start, position])
        group, size = encode([parts.column(name) for name in self._columns], len(partition))
        last = np.full(max(size, 1), MIN_TIME)
        done = position < closed[partition]
        np.maximum.at(last, group[done], position[done])
        position = np.where(done, last[group], position)
        payload, representative = self.merged(parts, group, position)
        size = len(representative)
        self.remove(held)
        ends, ones = np.full(size, INFINITY), np.ones(size, np.int64)
        self._held.add(
            Delta(payload, position[representative], ends, ones), partition[representative]
        )

    def merged(self, parts: Rows, group: Codes, position: Codes) -> tuple[Rows, Codes]:
        """Merge partial results of equal group and position; also the position of a row of each."""
        code, size = encode([group, position], len(group))
        representative = representatives(code, size)
        named = take_rows(parts.select(list(self._columns)), representative)
        sums = self._sums.merge(parts, code, size)
        columns = [*named.columns, *sums.columns]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema), representative
