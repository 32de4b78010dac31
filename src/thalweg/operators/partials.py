"""Partial results that add up: what a hopping count, sum or average keeps instead of rows.

`n` counts the rows, so that an empty window is known to be empty. Call i has `c{i}`, how many
values it counts, and for sums and averages `s{i}`, their sum. All are integers, so adding and
taking away is exact in any order. A change of a row adds its values times its weight.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from thalweg.errors import EvaluationError
from thalweg.model.rows import Bools, Rows
from thalweg.operators.arguments import ArgumentProjection
from thalweg.plan.aggregates import AggregateCall
from thalweg.plan.nodes.panes import partial_names

__all__ = ["Partials"]

Numbers = npt.NDArray[np.int64]

_SAFE = 2**31
"""Values below this cannot overflow a sum of fewer than 2**32 rows; larger ones are watched."""


class Partials:
    """The partial columns of some calls, and how rows become partials and partials results."""

    def __init__(self, arguments: ArgumentProjection, schema: pa.Schema) -> None:
        self._arguments = arguments
        self._schema = schema
        self.names = partial_names(arguments.calls)
        self._at = {name: row for row, name in enumerate(self.names)}

    def of_rows(self, rows: Rows, weight: Numbers) -> list[Numbers]:
        """The contribution of each row, in the order of `names`."""
        columns: list[Numbers] = [weight]
        for index, call in enumerate(self._arguments.calls):
            if call.of is None and call.where is None:
                continue
            counted = weight
            passes = self._arguments.passes(index, rows)
            if passes is not None:
                counted = counted * passes
            if call.of is None:
                columns.append(counted)
                continue
            values = rows.column(f"_of{index}")
            if values.null_count:
                counted = counted * values.is_valid().to_numpy(zero_copy_only=False)
            columns.append(counted)
            if call.function in ("sum", "avg"):
                whole = values.cast(pa.int64())
                numbers: Numbers = (whole.fill_null(0) if whole.null_count else whole).to_numpy(
                    zero_copy_only=False
                )
                if len(numbers) and max(int(numbers.max()), -int(numbers.min())) >= _SAFE:
                    self._watch(call, numbers)
                columns.append(
                    numbers if counted is weight and (weight == 1).all() else numbers * counted
                )
        return columns

    def _watch(self, call: AggregateCall, numbers: Numbers) -> None:
        if float(np.abs(numbers.astype(np.float64)).sum()) >= 2.0**62:
            raise EvaluationError(
                f"{call}: a sum of these values does not fit 64 bits; cast the column to double first."
            )

    def results(self, sums: Numbers) -> list[pa.Array]:
        """The aggregates of some cells; `sums` has a row for each of `names`."""
        return [pa.array(values, mask=missing) for values, missing in self._values(sums)]

    def differ(self, before: Numbers, after: Numbers) -> Bools:
        """Where two rows of cells have other aggregates."""
        differ = np.zeros(before.shape[1], np.bool_)
        for (old, old_missing), (new, new_missing) in zip(
            self._values(before), self._values(after), strict=True
        ):
            changed = old != new
            if old_missing is not None or new_missing is not None:
                none = np.zeros(len(changed), np.bool_)
                old_missing, new_missing = (
                    none if mask is None else mask for mask in (old_missing, new_missing)
                )
                changed = (old_missing != new_missing) | (changed & ~old_missing)
            differ |= changed
        return differ

    def _values(self, sums: Numbers) -> Iterator[tuple[npt.NDArray[Any], Bools | None]]:
        """The values of each aggregate, and which of them are null."""
        for index, call in enumerate(self._arguments.calls):
            counts = sums[self._at.get(f"c{index}", 0)]
            if call.function == "count":
                yield counts, None
                continue
            none = counts == 0
            missing = none if none.any() else None
            total = sums[self._at[f"s{index}"]]
            if call.function == "sum":
                yield total, missing
            else:
                yield total / (counts if missing is None else np.maximum(counts, 1)), missing
