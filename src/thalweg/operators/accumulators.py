"""Partial results that can be put together: of rows, of panes, of bins. The same columns for all of
them.

    of_rows      what each row contributes
    merge        partial results of equal code become one
    over_ranges  partial results of neighbouring rows become one, for many ranges at once
    results      the aggregates

`n` counts rows. Call i has, by its function:

    count               c{i}                    how many values
    sum, avg            c{i}, s{i}              and their sum; of floats with twice the digits: s{i}, e{i}
    variance, stddev    c{i}, s{i}, e{i}, q{i}, r{i}      and the sums of values and squares, with twice the digits
    min, max            x{i}                    the best value, null when there is none
    first, last         t{i}, x{i}              its start and value
    arg_max, arg_min    b{i}, x{i}, h{i}        what orders it, the value, and whether there is one
    sketched            x{i}, k{i}              one value, or a sketch of several

These are the bounded aggregates: a constant number of columns, whatever the number of rows.
Percentiles are not among them. Only sums can also be taken away again.
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
from thalweg.operators.doubled import rounded, square, variance_of
from thalweg.operators.range_tree import DOUBLED, MINIMUM, MINIMUM_FLOAT, range_query
from thalweg.operators.sketches import SKETCHED, merge_ranges, sketch_results
from thalweg.plan.aggregates import AggregateCall

__all__ = ["Accumulators"]

Floats = npt.NDArray[np.float64]
Columns = dict[str, pa.Array]

_ORDERED = ("min", "max", "first", "last", "arg_min", "arg_max")
_ABSENT = 2**62


class Accumulators:
    """The partial columns of some calls."""

    def __init__(self, arguments: ArgumentProjection, schema: pa.Schema) -> None:
        self._arguments = arguments
        self._result_types = [
            schema.field(len(schema) - len(arguments.calls) + i).type
            for i in range(len(arguments.calls))
        ]
        self._columns = [self._fields(i) for i in range(len(arguments.calls))]
        self._integers = [
            [field.name for field in fields if pa.types.is_int64(field.type)]
            for fields in self._columns
        ]
        self.schema = pa.schema(
            [pa.field("n", pa.int64()), *(field for fields in self._columns for field in fields)]
        )
        self._names = self.schema.names
        self._floats = [
            field.name
            for field in self.schema
            if field.name[0] in "seqr" and pa.types.is_float64(field.type)
        ]

    @property
    def subtractable(self) -> bool:
        """Whether what was added can be taken away: whole numbers only."""
        return all(
            pa.types.is_int64(field.type) and field.name[0] in "ncs" for field in self.schema
        )

    def _of_type(self, index: int, prefix: str = "_of") -> pa.DataType:
        return self._arguments.schema.field(f"{prefix}{index}").type

    def _fields(self, i: int) -> list[pa.Field]:
        call = self._arguments.calls[i]
        if call.function == "count":
            return [pa.field(f"c{i}", pa.int64())]
        if call.function in ("sum", "avg"):
            if not pa.types.is_floating(self._of_type(i)):
                return [pa.field(f"c{i}", pa.int64()), pa.field(f"s{i}", pa.int64())]
            return [
                pa.field(f"c{i}", pa.int64()),
                *(pa.field(f"{letter}{i}", pa.float64()) for letter in "se"),
            ]
        if call.function in ("variance", "stddev"):
            return [
                pa.field(f"c{i}", pa.int64()),
                *(pa.field(f"{letter}{i}", pa.float64()) for letter in "seqr"),
            ]
        value = pa.field(f"x{i}", self._of_type(i))
        if call.function in SKETCHED:
            return [value, pa.field(f"k{i}", pa.binary())]
        if call.function in ("min", "max"):
            return [value]
        if call.function in ("first", "last"):
            return [pa.field(f"t{i}", pa.int64()), value]
        return [pa.field(f"b{i}", self._of_type(i, "_by")), value, pa.field(f"h{i}", pa.bool_())]

    # --------------------------------------------------------------------------------------------------
    # contributions

    def of_rows(self, rows: Rows, start: Times, weight: Codes | None = None) -> Rows:
        """What each row contributes; `weight` only where everything is subtractable."""
        ones = np.ones(rows.num_rows, np.int64) if weight is None else weight
        columns: Columns = {"n": pa.array(ones)}
        for index in range(len(self._arguments.calls)):
            columns |= self._contribution(index, rows, start, ones)
        return pa.RecordBatch.from_arrays(
            [columns[name] for name in self._names], schema=self.schema
        )

    def _contribution(self, i: int, rows: Rows, start: Times, ones: Codes) -> Columns:
        call = self._arguments.calls[i]
        passes = self._arguments.passes(i, rows)
        if call.of is None:
            return {f"c{i}": pa.array(ones if passes is None else ones * passes)}
        values = rows.column(f"_of{i}")
        there = _all_of(passes, values, rows.num_rows)
        if call.function == "count":
            return {f"c{i}": pa.array(ones * there)}
        if call.function in ("sum", "avg"):
            return {f"c{i}": pa.array(ones * there), **self._total(i, values, there, ones)}
        if call.function in ("variance", "stddev"):
            floats = np.where(there, _floats(values), 0.0)
            sums = (floats, np.zeros(len(floats)), *square(floats))
            return {
                f"c{i}": pa.array(ones * there),
                **{
                    f"{letter}{i}": pa.array(part)
                    for letter, part in zip("seqr", sums, strict=True)
                },
            }
        if call.function in ("arg_min", "arg_max"):
            by = rows.column(f"_by{i}")
            has = _all_of(passes, by, rows.num_rows)
            return {f"b{i}": _only(by, has), f"x{i}": _only(values, has), f"h{i}": pa.array(has)}
        chosen = {f"x{i}": _only(values, there)}
        if call.function in SKETCHED:
            return {**chosen, f"k{i}": pa.nulls(rows.num_rows, pa.binary())}
        return chosen if call.function in ("min", "max") else {f"t{i}": pa.array(start), **chosen}

    def _total(self, i: int, values: pa.Array, there: Bools, ones: Codes) -> Columns:
        if f"e{i}" in self._floats:
            floats = np.where(there, _floats(values), 0.0)
            return {f"s{i}": pa.array(floats), f"e{i}": pa.array(np.zeros(len(floats)))}
        whole = values.cast(pa.int64())
        numbers = (whole.fill_null(0) if whole.null_count else whole).to_numpy(zero_copy_only=False)
        return {f"s{i}": pa.array(numbers * (ones * there))}

    # ---------------------------------------------------------------------------------------------------
    # put together

    def merge(self, parts: Rows, code: Codes, size: int) -> Rows:
        """Parts of equal code become one; the result is in the order of the codes 0 .. size - 1."""
        columns: Columns = {"n": _sums(parts.column("n"), code, size)}
        for i, call in enumerate(self._arguments.calls):
            if (keys := self._plain_keys(i, parts)) is not None:
                best = np.full(size, np.inf if keys.dtype.kind == "f" else _ABSENT, keys.dtype)
                np.minimum.at(best, code, keys)
                columns[f"x{i}"] = self._plain_values(i, best)
            elif call.function in SKETCHED:
                columns |= self._sketched(
                    i, parts.take(pa.array(np.argsort(code, kind="stable"))), *_bounds(code, size)
                )
            elif call.function in _ORDERED:
                order = self._order(i, parts)
                best = np.full(size, _ABSENT)
                np.minimum.at(best, code, order[0])
                columns |= self._picked(i, parts, best, order[1])
            else:
                columns |= {
                    name: _sums(parts.column(name), code, size) for name in self._integers[i]
                }
        if self._floats:
            columns |= self._doubled_sums(
                parts.take(pa.array(np.argsort(code, kind="stable"))), *_bounds(code, size)
            )
        return pa.RecordBatch.from_arrays(
            [columns[name] for name in self._names], schema=self.schema
        )

    def _doubled_sums(self, parts: Rows, lo: Codes, hi: Codes) -> Columns:
        """Sums of floats, in pairs of columns."""
        columns: Columns = {}
        for high, low in zip(self._floats[::2], self._floats[1::2], strict=True):
            sums = range_query(
                [parts.column(high).to_numpy(), parts.column(low).to_numpy()], lo, hi, DOUBLED
            )
            columns |= {high: pa.array(sums[0]), low: pa.array(sums[1])}
        return columns

    def over_ranges(self, parts: Rows, lo: Codes, hi: Codes) -> Rows:
        """The parts of each range [lo, hi) as one."""
        columns: Columns = {"n": _range_sums(parts.column("n"), lo, hi)}
        for i, call in enumerate(self._arguments.calls):
            if (keys := self._plain_keys(i, parts)) is not None:
                (least,) = range_query(
                    [keys], lo, hi, MINIMUM_FLOAT if keys.dtype.kind == "f" else MINIMUM
                )
                columns[f"x{i}"] = self._plain_values(i, least)
            elif call.function in SKETCHED:
                columns |= self._sketched(i, parts, lo, hi)
            elif call.function in _ORDERED:
                order = self._order(i, parts)
                (best,) = range_query([order[0]], lo, hi, MINIMUM)
                columns |= self._picked(i, parts, best, order[1])
            else:
                columns |= {
                    name: _range_sums(parts.column(name), lo, hi) for name in self._integers[i]
                }
        columns |= self._doubled_sums(parts, lo, hi)
        return pa.RecordBatch.from_arrays(
            [columns[name] for name in self._names], schema=self.schema
        )

    def _sketched(self, i: int, parts: Rows, lo: Codes, hi: Codes) -> Columns:
        values, sketches = merge_ranges(
            self._arguments.calls[i], parts.column(f"x{i}"), parts.column(f"k{i}"), lo, hi
        )
        return {f"x{i}": values, f"k{i}": sketches}

    def _plain_keys(self, i: int, parts: Rows) -> npt.NDArray[Any] | None:
        """The values of a minimum or maximum as numbers of which the smallest is wanted; None where
        they are not so plain."""
        call = self._arguments.calls[i]
        if call.function not in ("min", "max"):
            return None
        values = parts.column(f"x{i}")
        whole = pa.types.is_integer(values.type) and not pa.types.is_uint64(values.type)
        if not whole and not pa.types.is_floating(values.type):
            return None
        numbers = values.cast(pa.int64() if whole else pa.float64())
        keys: npt.NDArray[Any] = (numbers.fill_null(0) if numbers.null_count else numbers).to_numpy(
            zero_copy_only=False
        )
        if whole and len(keys) and (int(keys.max()) >= _ABSENT or int(keys.min()) <= -_ABSENT):
            return None
        if not whole and not np.isfinite(keys).all():
            return None
        keys = -keys if call.function == "max" else keys
        if not numbers.null_count:
            return keys
        absent = numbers.is_null().to_numpy(zero_copy_only=False)
        return np.where(absent, _ABSENT if whole else np.inf, keys)

    def _plain_values(self, i: int, keys: npt.NDArray[Any]) -> pa.Array:
        absent = keys >= (np.inf if keys.dtype.kind == "f" else _ABSENT)
        values = np.where(absent, 0, -keys if self._arguments.calls[i].function == "max" else keys)
        return pa.array(values, mask=absent if absent.any() else None).cast(
            self.schema.field(f"x{i}").type
        )

    def _order(self, i: int, parts: Rows) -> tuple[Codes, Codes]:
        """Each part's place among all in the order of the call, the best first; and which part
        stands at each place."""
        call = self._arguments.calls[i]
        values = parts.column(f"x{i}")
        if call.function in ("arg_min", "arg_max"):
            absent = ~parts.column(f"h{i}").to_numpy(zero_copy_only=False)
            main = _ranks(parts.column(f"b{i}"))
            keys = [_ranks(values), -main if call.function == "arg_max" else main]
        else:
            absent = values.is_null().to_numpy(zero_copy_only=False)
            ranks = _ranks(values)
            keys = [-ranks if call.function in ("max", "last") else ranks]
            if call.function in ("first", "last"):
                times = parts.column(f"t{i}").to_numpy()
                keys.append(-times if call.function == "last" else times)
        sorted_ = np.lexsort((*keys, absent))
        place = np.empty(len(sorted_), np.int64)
        place[sorted_] = np.arange(len(sorted_))
        return np.where(absent, _ABSENT, place), sorted_

    def _picked(self, i: int, parts: Rows, best: Codes, sorted_: Codes) -> Columns:
        absent = best >= _ABSENT
        which = (
            sorted_[np.where(absent, 0, best)] if len(sorted_) else np.zeros(len(best), np.int64)
        )
        at = pa.array(which, mask=absent)
        columns = {}
        for field in self._columns[i]:
            values = (
                parts.column(field.name).take(at)
                if len(sorted_)
                else pa.nulls(len(best), field.type)
            )
            columns[field.name] = values.fill_null(False) if field.name[0] == "h" else values
            if field.name[0] == "t":
                columns[field.name] = values.fill_null(0)
        return columns

    # --------------------------------------------------------------------------------------------------------
    # results

    def results(self, parts: Rows) -> list[pa.Array]:
        """The aggregates, one value for each part."""
        found = []
        for i, (call, kind) in enumerate(
            zip(self._arguments.calls, self._result_types, strict=True)
        ):
            if call.function == "count":
                found.append(parts.column(f"c{i}"))
            elif call.function in SKETCHED:
                found.append(
                    sketch_results(call, parts.column(f"x{i}"), parts.column(f"k{i}"), kind)
                )
            elif call.function in _ORDERED:
                values = parts.column(f"x{i}")
                found.append(values if values.type == kind else values.cast(kind))
            else:
                found.append(self._number(i, call, parts, kind))
        return found

    def _number(self, i: int, call: AggregateCall, parts: Rows, kind: pa.DataType) -> pa.Array:
        counts = parts.column(f"c{i}").to_numpy()
        if call.function in ("variance", "stddev"):
            sums = [parts.column(f"{letter}{i}").to_numpy() for letter in "seqr"]
            variances = variance_of(
                counts.astype(np.float64), (sums[0], sums[1]), (sums[2], sums[3])
            )
            return pa.array(
                variances if call.function == "variance" else np.sqrt(variances),
                kind,
                mask=counts < 2,
            )
        total = parts.column(f"s{i}").to_numpy()
        if f"e{i}" in self._floats:
            total = rounded((total, parts.column(f"e{i}").to_numpy()))
        if call.function == "sum":
            return pa.array(total, kind, mask=counts == 0)
        with np.errstate(invalid="ignore", divide="ignore"):
            return pa.array(total / counts, kind, mask=counts == 0)


def _floats(values: pa.Array) -> Floats:
    floats = values.cast(pa.float64())
    numbers: Floats = (floats.fill_null(0.0) if floats.null_count else floats).to_numpy(
        zero_copy_only=False
    )
    return numbers


def _bounds(code: Codes, size: int) -> tuple[Codes, Codes]:
    """Where each code begins and ends when they are sorted."""
    ends = np.cumsum(np.bincount(code, minlength=size))
    return np.concatenate([np.zeros(1, np.int64), ends[:-1]]), ends


def _all_of(passes: Bools | None, values: pa.Array, length: int) -> Bools:
    there = np.ones(length, np.bool_) if passes is None else passes
    return there & values.is_valid().to_numpy(zero_copy_only=False) if values.null_count else there


def _only(values: pa.Array, there: Bools) -> pa.Array:
    if there.all():
        return values
    return values.take(pa.array(np.arange(len(there)), mask=~there))


def _ranks(values: pa.Array) -> Codes:
    """Dense ranks; nulls rank after all values."""
    plain = values.cast(pa.int8()) if pa.types.is_boolean(values.type) else values
    ranks: Codes = (
        pc.rank(plain, sort_keys="ascending", tiebreaker="dense").to_numpy().astype(np.int64)
    )
    return ranks


def _sums(values: pa.Array, code: Codes, size: int) -> pa.Array:
    numbers = values.to_numpy()
    total = np.zeros(size, numbers.dtype)
    np.add.at(total, code, numbers)
    return pa.array(total)


def _range_sums(values: pa.Array, lo: Codes, hi: Codes) -> pa.Array:
    upto = np.concatenate(
        [np.zeros(1, np.int64), np.cumsum(values.to_numpy())]
    )  # wrap-around cancels out in the difference
    return pa.array(np.where(lo < hi, upto[hi] - upto[np.minimum(lo, hi)], 0))
