"""Partial results that add up, as a matrix of whole numbers: the state of a hopping count, sum or
average instead of rows.

The first row of the matrix counts the rows, so that an empty window is known to be empty; the
others are the columns of each call's aggregate (see `aggregates.base`). Adding and taking away is
exact in any order. A change of a row adds its values times its weight.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from thalweg.model.rows import Bools
from thalweg.model.time import Times, greatest, least
from thalweg.operators.arguments import ArgumentProjection, ColumnNamed
from thalweg.plan.aggregates import partial_schema

__all__ = ["Partials"]

Numbers = npt.NDArray[np.int64]

_FEW = 1_024
"""In more rows than this, columns that are equal are found, so that they are summed once."""


class Partials:
    """The partial columns of some calls, and how rows become partials and partials results."""

    def __init__(self, arguments: ArgumentProjection, schema: pa.Schema) -> None:
        self._arguments = arguments
        self._kinds = [field.type for field in list(schema)[-len(arguments.calls) :]]
        self.names: list[str] = partial_schema(arguments.calls, arguments.seen).names
        at = {name: row for row, name in enumerate(self.names)}
        self._rows = [
            [at[field.name] for field in call.partials_in(index, arguments.seen)]
            for index, call in enumerate(arguments.calls)
        ]

    def of_rows(self, column: ColumnNamed, start: Times, weight: Numbers) -> list[Numbers]:
        """The contribution of each row, in the order of `names`, from its arguments."""
        columns: list[Numbers] = [weight] * len(self.names)
        once = len(weight) > 0 and least(weight) == 1 and greatest(weight) == 1
        for index, (call, places) in enumerate(zip(self._arguments.calls, self._rows, strict=True)):
            if places == [0]:
                continue
            parts = call.aggregate.numbers_of_rows(self._arguments.values(index, column, start))
            for place, numbers in zip(places, parts, strict=True):
                if not once:
                    columns[place] = numbers * weight
                elif len(numbers) <= _FEW or not _are_ones(numbers):
                    columns[place] = numbers
        return columns

    def results(self, sums: Numbers) -> list[pa.Array]:
        """The aggregates of some cells; `sums` has a row for each of `names`."""
        sums = np.ascontiguousarray(sums)
        return [
            call.aggregate.result_of_numbers([sums[place] for place in places], kind)
            for call, places, kind in zip(
                self._arguments.calls, self._rows, self._kinds, strict=True
            )
        ]

    def differ(self, before: Numbers, after: Numbers) -> Bools:
        """Which cells, with rows before and after, have other aggregates."""
        differ: Bools = (before != after).any(axis=0)
        which = np.flatnonzero(differ & (before[0] > 0) & (after[0] > 0))
        if len(which):
            same = np.ones(len(which), np.bool_)
            old, new = self.results(before[:, which]), self.results(after[:, which])
            for left, right in zip(old, new, strict=True):
                same &= _equal(left, right)
            differ[which[same]] = False
        return differ


def _are_ones(numbers: Numbers) -> bool:
    if not len(numbers) or numbers[0] != 1 or numbers[-1] != 1:
        return False
    return least(numbers) == 1 and greatest(numbers) == 1


def _equal(left: pa.Array, right: pa.Array) -> Bools:
    """Where two results are the same: both null, or the same value."""
    if not left.null_count and not right.null_count:
        return np.asarray(left.to_numpy() == right.to_numpy())
    missing = [side.is_null().to_numpy(zero_copy_only=False) for side in (left, right)]
    values = [side.fill_null(0).to_numpy(zero_copy_only=False) for side in (left, right)]
    same: Bools = (missing[0] == missing[1]) & (missing[0] | (values[0] == values[1]))
    return same
