"""Aggregate calls: which aggregate, of what, over which rows.

| function | meaning over the rows of a window |
| --- | --- |
| count() | number of rows |
| count(x) | rows where x is not null |
| sum(x), min(x), max(x), avg(x) | of the non-null values |
| variance(x), stddev(x) | of the sample (n - 1); null for n < 2 |
| percentile(x, p) | exact, linear between ranks: rank p * (n - 1) |
| percentile(x, p, discrete=True) | exact, the smallest value with at least p of the rows up to it |
| approx_percentile(x, p) | about the same, from a sketch |
| heavy_hitters(x, share) | the values of at least that share of the rows, with their counts |
| first(x), last(x) | x of the row with the smallest / largest start; equal starts: as min / max |
| arg_max(x, by=y), arg_min | x of the row with the largest / smallest y; equal y: the smallest x |
| aggregate_by(a, x) | what your own aggregate `a` says |

Where no row passes, a count is 0, your own aggregate says what its result is, and all others are
null. `where=` limits one aggregate to some rows; it does not remove the window.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from thalweg.aggregates import (
    Aggregate,
    ApproximatePercentile,
    ArgMax,
    ArgMin,
    Average,
    Count,
    DiscretePercentile,
    First,
    HeavyHitters,
    Last,
    Max,
    Min,
    Percentile,
    StandardDeviation,
    Sum,
    Variance,
    is_number,
)
from thalweg.errors import PlanError, TypeMismatchError
from thalweg.expr import Expr, as_expr
from thalweg.model.names import internal

if TYPE_CHECKING:
    from thalweg.expr import ExprLike

__all__ = [
    "ROWS",
    "AggregateCall",
    "aggregate_by",
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
    "partial_schema",
    "percentile",
    "require_order",
    "stddev",
    "sum_",
    "variance",
]

ROWS = pa.field(internal("rows"), pa.int64())
"""The column of partial results that counts rows."""


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """One aggregate: `aggregate(of, by) filter (where ...)`."""

    aggregate: Aggregate
    of: Expr | None = None
    by: Expr | None = None
    where: Expr | None = None

    def type_in(self, schema: pa.Schema) -> pa.DataType:
        """The type of the result; refuses what cannot be aggregated."""
        if self.where is not None:
            condition = self.where.type_in(schema)
            if not pa.types.is_boolean(condition):
                raise TypeMismatchError(
                    f"{self}: the filter must be a condition; it is {condition}."
                )
        of, by = self.types_in(schema)
        if self.aggregate.numeric and not (of is not None and is_number(of)):
            raise TypeMismatchError(
                f"{self} needs a number; {self.of} is {of}. Convert it: "
                f"CAST({self.of} AS double), or TRY_CAST, which is null where that fails."
            )
        compared = {"of": of, "by": by}.get(self.aggregate.compares or "")
        if compared is not None:
            require_order(compared, str(self))
        return self.aggregate.result_type(of, by)

    def types_in(self, schema: pa.Schema) -> tuple[pa.DataType | None, pa.DataType | None]:
        """The types of what it aggregates and of what orders it."""
        of = None if self.of is None else self.of.type_in(schema)
        return of, None if self.by is None else self.by.type_in(schema)

    def partials_in(self, index: int, schema: pa.Schema) -> list[pa.Field]:
        """The columns of its partial results, being the call with this number. How many rows there
        are is known without it."""
        if self.of is None and self.where is None and self.aggregate.counts_rows:
            return [ROWS]
        return [
            pa.field(internal(f"{index}.{field.name}"), field.type)
            for field in self.aggregate.fields(*self.types_in(schema))
        ]

    def adds_up(self, schema: pa.Schema) -> bool:
        """Whether partial results are whole numbers that are added and taken away."""
        return self.aggregate.is_linear(self.types_in(schema)[0])

    @property
    def bounded(self) -> bool:
        """Whether partial results have a fixed size, however many rows there are; the others are
        holistic."""
        return self.aggregate.bounded

    def __str__(self) -> str:
        inside = [str(part) for part in (self.of, self.by) if part is not None]
        inside += [str(parameter) for parameter in self.aggregate.parameters]
        return f"{self.aggregate.name}({', '.join(inside)})" + (
            f" where {self.where}" if self.where is not None else ""
        )


def require_order(kind: pa.DataType, what: str) -> None:
    """Refuse to compare lists, structs, maps and intervals of months and days."""
    if pa.types.is_nested(kind) or pa.types.is_interval(kind):
        raise TypeMismatchError(
            f"{what} compares values, and {kind} has no order; give a part of it."
        )


def partial_schema(calls: Iterable[AggregateCall], schema: pa.Schema) -> pa.Schema:
    """The columns of partial results of some calls: the number of rows, then those of each call."""
    fields = [field for i, call in enumerate(calls) for field in call.partials_in(i, schema)]
    return pa.schema([ROWS, *(field for field in fields if field is not ROWS)])


def aggregate_by(
    aggregate: Aggregate,
    of: ExprLike | None = None,
    *,
    by: ExprLike | None = None,
    where: ExprLike | None = None,
) -> AggregateCall:
    """A call of any aggregate, such as one of your own."""
    if not isinstance(aggregate, Aggregate):
        raise PlanError(
            f"aggregate_by takes an object of a class derived from Aggregate; got {aggregate!r}. A "
            "function over the values of a window is a module: udm.aggregate, and apply."
        )

    def optional(value: ExprLike | None) -> Expr | None:
        return None if value is None else as_expr(value)

    return AggregateCall(aggregate, optional(of), optional(by), optional(where))


def count(of: ExprLike | None = None, *, where: ExprLike | None = None) -> AggregateCall:
    """Rows, or rows where `of` is not null."""
    return aggregate_by(Count(), of, where=where)


def sum_(of: ExprLike, *, where: ExprLike | None = None) -> AggregateCall:
    return aggregate_by(Sum(), of, where=where)


def avg(of: ExprLike, *, where: ExprLike | None = None) -> AggregateCall:
    return aggregate_by(Average(), of, where=where)


def min_(of: ExprLike, *, where: ExprLike | None = None) -> AggregateCall:
    return aggregate_by(Min(), of, where=where)


def max_(of: ExprLike, *, where: ExprLike | None = None) -> AggregateCall:
    return aggregate_by(Max(), of, where=where)


def variance(of: ExprLike, *, where: ExprLike | None = None) -> AggregateCall:
    """The sample variance."""
    return aggregate_by(Variance(), of, where=where)


def stddev(of: ExprLike, *, where: ExprLike | None = None) -> AggregateCall:
    """The sample standard deviation."""
    return aggregate_by(StandardDeviation(), of, where=where)


def percentile(
    of: ExprLike, p: float, *, discrete: bool = False, where: ExprLike | None = None
) -> AggregateCall:
    """The exact percentile `0 <= p <= 1`."""
    kind = DiscretePercentile if discrete else Percentile
    return aggregate_by(kind(float(p)), of, where=where)


def approx_percentile(of: ExprLike, p: float, *, where: ExprLike | None = None) -> AggregateCall:
    """About the percentile `0 <= p <= 1`, from a sketch of fixed size; exact for few rows."""
    return aggregate_by(ApproximatePercentile(float(p)), of, where=where)


def heavy_hitters(of: ExprLike, share: float, *, where: ExprLike | None = None) -> AggregateCall:
    """The values that make up at least this share of the rows, each with how often it came. Exact,
    and kept as one count for each distinct value."""
    return aggregate_by(HeavyHitters(float(share)), of, where=where)


def first(of: ExprLike, *, where: ExprLike | None = None) -> AggregateCall:
    """The value of the row that starts first."""
    return aggregate_by(First(), of, where=where)


def last(of: ExprLike, *, where: ExprLike | None = None) -> AggregateCall:
    """The value of the row that starts last."""
    return aggregate_by(Last(), of, where=where)


def arg_max(of: ExprLike, *, by: ExprLike, where: ExprLike | None = None) -> AggregateCall:
    """The value of the row where `by` is largest."""
    return aggregate_by(ArgMax(), of, by=by, where=where)


def arg_min(of: ExprLike, *, by: ExprLike, where: ExprLike | None = None) -> AggregateCall:
    """The value of the row where `by` is smallest."""
    return aggregate_by(ArgMin(), of, by=by, where=where)
