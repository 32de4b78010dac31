"""Exact percentiles: every value of a window is needed, so that there is no partial result of fixed
size. A part is the list of its values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from thalweg.aggregates.base import Aggregate, Columns, Values
from thalweg.aggregates.sums import plain_floats
from thalweg.errors import ExpressionError
from thalweg.model.order import dense_ranks, whole_keys
from thalweg.model.rows import Bools, Codes
from thalweg.model.sorting import sort_pairs

__all__ = ["DiscretePercentile", "Percentile", "ValueAtShare"]


@dataclass(frozen=True, slots=True)
class ValueAtShare(Aggregate):
    """The value below which a share p of the values lies, exactly or about."""

    p: float

    def __post_init__(self) -> None:
        if not 0 <= self.p <= 1:
            raise ExpressionError(f"a percentile lies between 0 and 1; got {self.p}.")

    @property
    def parameters(self) -> tuple[object, ...]:
        return (self.p,)

    def result_type(self, of: pa.DataType | None, by: pa.DataType | None) -> pa.DataType:
        return pa.float64()


@dataclass(frozen=True, slots=True)
class Percentile(ValueAtShare):
    """Linear between the values at the ranks around p * (n - 1)."""

    name: ClassVar[str] = "percentile_cont"
    numeric: ClassVar[bool] = True
    bounded: ClassVar[bool] = False

    def fields(self, of: pa.DataType | None, by: pa.DataType | None) -> list[pa.Field]:
        assert of is not None
        return [pa.field("values", pa.list_(of))]

    def of_rows(self, values: Values) -> Columns:
        there = values.present(values.of)
        return [_lists(values.column, np.arange(len(values))[there], there.astype(np.int64))]

    def merge(self, parts: Columns, code: Codes, size: int) -> Columns:
        order = np.argsort(code, kind="stable")
        lists = parts[0].take(pa.array(order))
        length = np.diff(lists.offsets.to_numpy())
        many = np.zeros(size, np.int64)
        np.add.at(many, code[order], length)
        values = lists.flatten()
        return [_lists(values, np.arange(len(values)), many)]

    def result(self, parts: Columns, kind: pa.DataType) -> pa.Array:
        lists = parts[0]
        length = np.diff(lists.offsets.to_numpy())
        cell = np.repeat(np.arange(len(lists)), length)
        values = lists.flatten()
        return self._choose(values, np.arange(len(values)), cell, len(lists), kind)

    def of_members(
        self, values: Values, member: Codes, cell: Codes, cells: int, kind: pa.DataType
    ) -> pa.Array:
        if not values.are_all_there:
            there = values.present(values.of)[member]
            member, cell = member[there], cell[there]
        return self._choose(values.column, member, cell, cells, kind)

    def _choose(
        self, values: pa.Array, member: Codes, cell: Codes, cells: int, kind: pa.DataType
    ) -> pa.Array:
        sorted_, begins, counts = _sorted_cells(values, member, cell, cells)
        some = counts.nonzero()[0]
        full = len(some) == cells
        if not full:
            begins, counts = begins[some], counts[some]
        numbers = plain_floats(values)
        rank = self.p * (counts - 1)
        low = rank.astype(np.int64)
        share, low = rank - low, low + begins
        below = numbers[sorted_[low]]
        above = numbers[sorted_[np.minimum(low + 1, begins + counts - 1)]]
        if pa.types.is_floating(values.type):
            with np.errstate(invalid="ignore", over="ignore"):  # of infinities and huge values
                between = below + share * (above - below)
            between = np.where((share == 0) | (below == above), below, between)
        else:
            between = below + share * (above - below)
        if full:
            return pa.array(between, kind)
        result, empty = np.zeros(cells), np.ones(cells, np.bool_)
        result[some], empty[some] = between, False
        return pa.array(result, kind, mask=empty)


@dataclass(frozen=True, slots=True)
class DiscretePercentile(Percentile):
    """The smallest value with at least p of the values at or below it."""

    name: ClassVar[str] = "percentile_disc"
    numeric: ClassVar[bool] = False

    def result_type(self, of: pa.DataType | None, by: pa.DataType | None) -> pa.DataType:
        assert of is not None
        return of

    def _choose(
        self, values: pa.Array, member: Codes, cell: Codes, cells: int, kind: pa.DataType
    ) -> pa.Array:
        sorted_, begins, counts = _sorted_cells(values, member, cell, cells)
        found: Bools = counts > 0
        at = np.maximum(np.ceil(self.p * counts - 1e-9).astype(np.int64) - 1, 0)
        chosen = np.zeros(cells, np.int64)
        chosen[found] = sorted_[(begins + at)[found]]
        if not len(values):
            return pa.nulls(cells, kind)
        picked = values.take(pa.array(chosen, mask=~found))
        return picked if picked.type == kind else picked.cast(kind)


def _sorted_cells(
    values: pa.Array, member: Codes, cell: Codes, cells: int
) -> tuple[Codes, Codes, Codes]:
    """Members by cell and value; where each cell begins, and how many it has."""
    keys = whole_keys(values)
    if keys is None:
        keys = dense_ranks(values)
    sorted_ = member[sort_pairs(cell, keys[member])]
    counts = np.bincount(cell, minlength=cells).astype(np.int64)
    return sorted_, np.cumsum(counts) - counts, counts


def _lists(values: pa.Array, which: Codes, length: Codes) -> pa.ListArray:
    offsets = np.zeros(len(length) + 1, np.int32)
    np.cumsum(length, out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), values.take(pa.array(which)))
