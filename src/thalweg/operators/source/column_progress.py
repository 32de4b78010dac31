"""Columns that progress like time: a source declares that their values are out of order by at most
so much, so that the largest value seen promises a lower bound of the values to come.

    a row is late if its value < (the largest value before it) - disorder

A row without a value is late as well: no bound can hold it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.column_promises import ColumnPromises, column_promise, merge_column_promises
from thalweg.model.rows import Bools
from thalweg.model.time import MIN_TIME
from thalweg.progress.observed_rows import running_before

__all__ = ["ColumnProgress"]


@dataclass(frozen=True, slots=True)
class ColumnProgress:
    """A value: taking rows in gives another one."""

    disorders: tuple[tuple[str, int], ...]
    """Each column that progresses, with its disorder."""
    largest: Mapping[str, int] = field(default_factory=dict)
    """By column, the largest value seen."""

    def after(self, batch: Batch) -> tuple[Bools, ColumnProgress]:
        """Which rows of a batch are late, and the progress after it."""
        late = np.zeros(len(batch), np.bool_)
        largest = dict(self.largest)
        for name, disorder in self.disorders:
            column = batch.payload.column(name)
            values = column.cast(pa.int64()).fill_null(MIN_TIME).to_numpy(zero_copy_only=False)
            before = running_before(values, largest.get(name, MIN_TIME))
            late |= values < np.maximum(before, MIN_TIME + disorder) - disorder
            late |= values == MIN_TIME
            largest[name] = max(largest.get(name, MIN_TIME), int(values.max()))
        return late, ColumnProgress(self.disorders, largest)

    def promises(self) -> ColumnPromises:
        """The lower bounds that follow from the largest values."""
        promised: ColumnPromises = {}
        for name, disorder in self.disorders:
            if self.largest.get(name, MIN_TIME) > MIN_TIME:
                promised = merge_column_promises(
                    promised, column_promise({name: self.largest[name] - disorder})
                )
        return promised
