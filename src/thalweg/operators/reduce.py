"""Reducing cells: one aggregate over many small sets of rows at once, by sorting and segment sums.

A cell is a window of a group. `member[i]` is a row that belongs to `cell[i]`; a row may belong to
many cells. The result has one value per cell. Values of any type are ordered through dense ranks,
so that text and times work like numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.model.rows import Bools, Codes, Rows
from thalweg.model.time import Times
from thalweg.operators.arguments import ArgumentProjection

__all__ = ["reduce_cells"]

Floats = npt.NDArray[np.float64]


def reduce_cells(
    arguments: ArgumentProjection,
    index: int,
    rows: Rows,
    start: Times,
    member: Codes,
    cell: Codes,
    cells: int,
    kind: pa.DataType,
) -> pa.Array:
    """The value of call `index` for each cell, of type `kind`."""
    call = arguments.calls[index]
    passes = arguments.passes(index, rows)
    if passes is not None:
        keep = passes[member]
        member, cell = member[keep], cell[keep]
    if call.of is None:
        return pa.array(np.bincount(cell, minlength=cells).astype(np.int64))
    values = rows.column(f"_of{index}")
    if call.function in ("arg_max", "arg_min"):
        order = rows.column(f"_by{index}")
        chosen, found = _extreme(
            _present(order),
            [order, values],
            member,
            cell,
            cells,
            largest=call.function == "arg_max",
        )
        return _pick(values, chosen, found, kind)
    present = _present(values)
    if present is not None:
        keep = present[member]
        member, cell = member[keep], cell[keep]
    if call.function == "count":
        return pa.array(np.bincount(cell, minlength=cells).astype(np.int64))
    if call.function in ("min", "max"):
        chosen, found = _extreme(
            None, [values], member, cell, cells, largest=call.function == "max"
        )
        return _pick(values, chosen, found, kind)
    if call.function in ("first", "last"):
        chosen, found = _by_time(values, start, member, cell, cells, last=call.function == "last")
        return _pick(values, chosen, found, kind)
    if call.function in ("percentile_cont", "percentile_disc"):
        return _percentile(call.function, float(call.p or 0.0), values, member, cell, cells, kind)
    return _moments(call.function, values, member, cell, cells, kind)


def _present(values: pa.Array) -> Bools | None:
    if not values.null_count:
        return None
    mask: Bools = values.is_valid().to_numpy(zero_copy_only=False)
    return mask


def _ranks(values: pa.Array) -> Codes:
    """Dense ranks; nulls rank after all values."""
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    ranks: Codes = (
        pc.rank(values, sort_keys="ascending", tiebreaker="dense").to_numpy().astype(np.int64)
    )
    return ranks


def _segments(cell: Codes, cells: int) -> tuple[Codes, Codes]:
    """Of sorted cells: where each begins, and how many members it has."""
    counts = np.bincount(cell, minlength=cells).astype(np.int64)
    return np.concatenate(
        [np.zeros(1, np.int64), np.cumsum(counts)[:-1]]
    ) if cells else counts, counts


def _extreme(
    present: Bools | None,
    keys: list[pa.Array],
    member: Codes,
    cell: Codes,
    cells: int,
    *,
    largest: bool,
) -> tuple[Codes, Bools]:
    """Per cell the row that is best by the first key; ties go to the smallest of the second."""
    if present is not None:
        keep = present[member]
        member, cell = member[keep], cell[keep]
    main = _ranks(keys[0])[member]
    order = [-main if largest else main]
    if len(keys) > 1:
        order.insert(0, _ranks(keys[1])[member])
    sorted_ = np.lexsort((*order, cell))
    begins, counts = _segments(cell, cells)
    found = counts > 0
    chosen = np.zeros(cells, np.int64)
    chosen[found] = member[sorted_[begins[found]]]
    return chosen, found


def _by_time(
    values: pa.Array, start: Times, member: Codes, cell: Codes, cells: int, *, last: bool
) -> tuple[Codes, Bools]:
    sorted_ = np.lexsort((_ranks(values)[member], start[member], cell))
    begins, counts = _segments(cell, cells)
    found = counts > 0
    chosen = np.zeros(cells, np.int64)
    at = begins + counts - 1 if last else begins
    chosen[found] = member[sorted_[at[found]]]
    return chosen, found


def _pick(values: pa.Array, chosen: Codes, found: Bools, kind: pa.DataType) -> pa.Array:
    picked = (
        values.take(pa.array(chosen, mask=~found))
        if len(values)
        else pa.nulls(len(chosen), values.type)
    )
    return picked if picked.type == kind else picked.cast(kind)


def _numbers(values: pa.Array, *, integers: bool) -> Any:
    target = pa.int64() if integers else pa.float64()
    filled = values.cast(target)
    return (
        filled.fill_null(0).to_numpy(zero_copy_only=False)
        if filled.null_count
        else filled.to_numpy(zero_copy_only=False)
    )


def _moments(
    function: str, values: pa.Array, member: Codes, cell: Codes, cells: int, kind: pa.DataType
) -> pa.Array:
    counts = np.bincount(cell, minlength=cells).astype(np.int64)
    integers = not pa.types.is_floating(values.type)
    numbers = _numbers(values, integers=integers)[member]
    if function == "sum" and integers:
        totals = np.zeros(cells, np.int64)
        np.add.at(totals, cell, numbers)
        return pa.array(totals, kind, mask=counts == 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        if integers:
            whole = np.zeros(cells, np.int64)
            np.add.at(whole, cell, numbers)
            sums = whole.astype(np.float64)
        else:
            sums = _float_sums(numbers.astype(np.float64), cell, cells)
        if function == "sum":
            return pa.array(sums, kind, mask=counts == 0)
        means = sums / counts
        if function == "avg":
            return pa.array(means, kind, mask=counts == 0)
        squares = _float_sums((numbers - means[cell]) ** 2, cell, cells)
        variances = squares / (counts - 1)
    result = np.sqrt(variances) if function == "stddev" else variances
    return pa.array(result, kind, mask=counts < 2)


def _float_sums(numbers: Floats, cell: Codes, cells: int) -> Floats:
    """Sums that do not depend on the order of the rows: each cell adds its values in sorted
    order."""
    order = np.lexsort((numbers, cell))
    return np.asarray(np.bincount(cell[order], weights=numbers[order], minlength=cells), np.float64)


def _percentile(
    function: str,
    p: float,
    values: pa.Array,
    member: Codes,
    cell: Codes,
    cells: int,
    kind: pa.DataType,
) -> pa.Array:
    sorted_ = member[np.lexsort((_ranks(values)[member], cell))]
    begins, counts = _segments(cell, cells)
    found = counts > 0
    if function == "percentile_disc":
        at = np.maximum(np.ceil(p * counts - 1e-9).astype(np.int64) - 1, 0)
        chosen = np.zeros(cells, np.int64)
        chosen[found] = sorted_[(begins + at)[found]]
        return _pick(values, chosen, found, kind)
    numbers = _numbers(values, integers=False)
    rank = p * np.maximum(counts - 1, 0)
    low = np.floor(rank).astype(np.int64)
    high = np.minimum(low + 1, np.maximum(counts - 1, 0))
    result = np.zeros(cells)
    below, above = numbers[sorted_[(begins + low)[found]]], numbers[sorted_[(begins + high)[found]]]
    share = (rank - low)[found]
    result[found] = np.where(share == 0, below, below + share * (above - below))
    return pa.array(result, kind, mask=~found)
