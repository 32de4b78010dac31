"""Aggregate calls: which function, of what, over which rows.

| function | meaning over the rows of a window | no rows pass |
| --- | --- | --- |
| count() | number of rows | 0 |
| count(x) | rows where x is not null | 0 |
| sum(x), min(x), max(x), avg(x) | of the non-null values | null |
| variance(x), stddev(x) | of the sample (n - 1) | null for n < 2 |
| percentile(x, p) | exact, linear between ranks: rank p * (n - 1) | null |
| percentile(x, p, discrete=True) | exact, the smallest value with at least p of the rows at or below it | null |
| approx_percentile(x, p) | about the smallest value with at least p of the rows at or below it, from a sketch | null |
| heavy_hitters(x, share) | the values that make up at least that share of the rows, as text, with about how often | null |
| first(x), last(x) | x of the row with the smallest / largest start; equal starts: the smallest / largest x | null |
| arg_max(x, by=y), arg_min | x of the row with the largest / smallest y; equal y: the smallest x | null |

`where=` limits one aggregate to some rows; it does not remove the window.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from thalweg.errors import ExpressionError, TypeMismatchError
from thalweg.expr import Expr, as_expr

if TYPE_CHECKING:
    from thalweg.expr import ExprLike

__all__ = [
    "SKETCHED",
    "AggregateCall",
    "approx_percentile",
    "arg_max",
    "arg_min",
    "avg",
    "count",
    "first",
    "heavy_hitters",
    "last",
    "max_",
    "min_",
    "percentile",
    "stddev",
    "sum_",
    "variance",
]

_NUMERIC_ONLY = {"sum", "avg", "variance", "stddev", "percentile_cont", "approx_percentile"}

SKETCHED = ("approx_percentile", "heavy_hitters")
"""Functions whose partial results are sketches."""


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """One aggregate: `function(of, by) filter (where ...)`."""

    function: str
    of: Expr | None = None
    by: Expr | None = None
    where: Expr | None = None
    p: float | None = None

    def type_in(self, schema: pa.Schema) -> pa.DataType:
        """The type of the result; refuses what cannot be aggregated."""
        if self.where is not None:
            condition = self.where.type_in(schema)
            if not pa.types.is_boolean(condition):
                raise TypeMismatchError(
                    f"{self}: the filter must be a condition; it is {condition}."
                )
        if self.by is not None:
            self.by.type_in(schema)
        if self.of is None:
            return pa.int64()
        of = self.of.type_in(schema)
        if self.function in _NUMERIC_ONLY and not (
            pa.types.is_integer(of) or pa.types.is_floating(of) or pa.types.is_boolean(of)
        ):
            raise TypeMismatchError(f"{self} needs a number; {self.of} is {of}.")
        if self.function == "count":
            return pa.int64()
        if self.function == "sum":
            return pa.float64() if pa.types.is_floating(of) else pa.int64()
        if self.function in {"avg", "variance", "stddev", "percentile_cont", "approx_percentile"}:
            return pa.float64()
        if self.function == "heavy_hitters":
            return pa.list_(pa.struct([("value", pa.string()), ("count", pa.int64())]))
        return of

    def adds_up(self, schema: pa.Schema) -> bool:
        """Whether the aggregate is the sum of exact integer contributions of its rows."""
        if self.function == "count":
            return True
        if self.function not in ("sum", "avg") or self.of is None:
            return False
        kind = self.of.type_in(schema)
        return bool(pa.types.is_integer(kind) or pa.types.is_boolean(kind))

    @property
    def bounded(self) -> bool:
        """Whether partial results have a fixed size, however many rows there are; the others are
        holistic."""
        return not self.function.startswith("percentile")

    def __str__(self) -> str:
        inside = ", ".join(str(part) for part in (self.of, self.by, self.p) if part is not None)
        return f"{self.function}({inside})" + (
            f" where {self.where}" if self.where is not None else ""
        )


def _call(
    function: str,
    of: ExprLike | None,
    where: ExprLike | None,
    by: ExprLike | None = None,
    p: float | None = None,
) -> AggregateCall:
    def optional(value: ExprLike | None) -> Expr | None:
        return None if value is None else as_expr(value)

    return AggregateCall(function, optional(of), optional(by), optional(where), p)


def count(of: ExprLike | None = None, *, where: ExprLike | None = None) -> AggregateCall:
    """Rows, or rows where `of` is not null."""
    return _call("count", of, where)


def sum_(of: ExprLike, *, where: ExprLike | None = None) -> AggregateCall:
    return _call("sum", of, where)


def avg(of: ExprLike, *, where: ExprLike | None = None) -> AggregateCall:
    return _call("avg", of, where)


def min_(of: ExprLike, *, where: ExprLike | None = None) -> AggregateCall:
    return _call("min", of, where)


def max_(of: ExprLike, *, where: ExprLike | None = None) -> AggregateCall:
    return _call("max", of, where)


def variance(of: ExprLike, *, where: ExprLike | None = None) -> AggregateCall:
    """The sample variance."""
    return _call("variance", of, where)


def stddev(of: ExprLike, *, where: ExprLike | None = None) -> AggregateCall:
    """The sample standard deviation."""
    return _call("stddev", of, where)


def percentile(
    of: ExprLike, p: float, *, discrete: bool = False, where: ExprLike | None = None
) -> AggregateCall:
    """The exact percentile `0 <= p <= 1`."""
    if not 0 <= p <= 1:
        raise ExpressionError(f"a percentile lies between 0 and 1; got {p}.")
    return _call("percentile_disc" if discrete else "percentile_cont", of, where, p=float(p))


def approx_percentile(of: ExprLike, p: float, *, where: ExprLike | None = None) -> AggregateCall:
    """About the percentile `0 <= p <= 1`, from a sketch of fixed size; exact for few rows."""
    if not 0 <= p <= 1:
        raise ExpressionError(f"a percentile lies between 0 and 1; got {p}.")
    return _call("approx_percentile", of, where, p=float(p))


def heavy_hitters(of: ExprLike, share: float, *, where: ExprLike | None = None) -> AggregateCall:
    """The values that make up at least this share of the rows, each with about how often it came,
    from a sketch of fixed size."""
    if not 0 < share <= 1:
        raise ExpressionError(f"heavy_hitters: a share lies above 0 and is at most 1; got {share}.")
    return _call("heavy_hitters", of, where, p=float(share))


def first(of: ExprLike, *, where: ExprLike | None = None) -> AggregateCall:
    """The value of the row that starts first."""
    return _call("first", of, where)


def last(of: ExprLike, *, where: ExprLike | None = None) -> AggregateCall:
    """The value of the row that starts last."""
    return _call("last", of, where)


def arg_max(of: ExprLike, *, by: ExprLike, where: ExprLike | None = None) -> AggregateCall:
    """The value of the row where `by` is largest."""
    return _call("arg_max", of, where, by=by)


def arg_min(of: ExprLike, *, by: ExprLike, where: ExprLike | None = None) -> AggregateCall:
    """The value of the row where `by` is smallest."""
    return _call("arg_min", of, where, by=by)
