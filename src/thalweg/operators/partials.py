"""Partial results that add up: what a hopping count, sum or average keeps instead of rows.

`n` counts the rows, so that an empty window is known to be empty. Call i has `c{i}`, how many values it counts, and for
sums and averages `s{i}`, their sum. All are integers, so adding and taking away is exact in any order. A change of a row
adds its values times its weight.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from thalweg.errors import EvaluationError
from thalweg.model.rows import Rows
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
                numbers: Numbers = (whole.fill_null(0) if whole.null_count else whole).to_numpy(zero_copy_only=False)
                if len(numbers) and max(int(numbers.max()), -int(numbers.min())) >= _SAFE:
                    self._watch(call, numbers)
                columns.append(numbers if counted is weight and (weight == 1).all() else numbers * counted)
        return columns

    def _watch(self, call: AggregateCall, numbers: Numbers) -> None:
        if float(np.abs(numbers.astype(np.float64)).sum()) >= 2.0**62:
            raise EvaluationError(f"{call}: a sum of these values does not fit 64 bits; cast the column to double first.")

    def results(self, columns: list[Numbers]) -> list[pa.Array]:
        """The aggregates of some cells from their partials."""
        by_name = dict(zip(self.names, columns, strict=True))
        results = []
        for index, call in enumerate(self._arguments.calls):
            counts = by_name.get(f"c{index}", by_name["n"])
            if call.function == "count":
                results.append(pa.array(counts))
                continue
            sums, none = by_name[f"s{index}"], counts == 0
            missing = none if none.any() else None
            if call.function == "sum":
                results.append(pa.array(sums, mask=missing))
            else:
                with np.errstate(invalid="ignore", divide="ignore"):
                    results.append(pa.array(sums / counts, mask=missing))
        return results
