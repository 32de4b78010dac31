"""What an aggregate is: partial results that can be put together.

    of_rows       what each row contributes, in a fixed number of columns
    merge         partial results of equal code become one; codes without any get the one of no rows
    over_ranges   partial results of neighbouring rows become one, for many ranges at once
    result        the value of each partial result

An aggregate is a frozen value that does not depend on windows or queries. Whatever evaluates
windows uses these methods alone, so that a new aggregate is one class in one file. The methods work
on whole columns. Partial results must not depend on how rows were divided: `merge`
is associative and commutative, bit by bit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa

from thalweg.errors import EvaluationError
from thalweg.model.rows import Bools, Codes, take_column, whole_column
from thalweg.model.time import Times

__all__ = ["Aggregate", "Columns", "PlainSum", "Values", "is_number"]

PlainSum = Literal["count", "sum", "high"]
"""A count, a sum modulo 2^64, the sum of the upper halves (see `aggregates.sums`)."""

Columns = list[pa.Array]
"""Partial results: an array for each of an aggregate's `fields`."""


@dataclass(slots=True)  # made for each call and batch: a frozen one takes five times as long
class Values:
    """The rows that one call aggregates: their starts, what it is the aggregate `of`, what orders
    it (`by`), and which rows pass its filter (None: all)."""

    start: Times
    of: pa.Array | None = None
    by: pa.Array | None = None
    passes: Bools | None = None

    def __len__(self) -> int:
        return len(self.start)

    @property
    def column(self) -> pa.Array:
        """`of`, for aggregates that always have an argument."""
        assert self.of is not None
        return self.of

    @property
    def are_all_there(self) -> bool:
        """Whether all rows pass the filter and have a value."""
        return self.passes is None and (self.of is None or not self.of.null_count)

    def present(self, column: pa.Array | None) -> Bools:
        """The rows that pass the filter and have a value."""
        there = np.ones(len(self), np.bool_) if self.passes is None else self.passes
        if column is None or not column.null_count:
            return there
        valid: Bools = column.is_valid().to_numpy(zero_copy_only=False)
        return there & valid

    def take(self, which: Codes) -> Values:
        at = pa.array(which)
        return Values(
            self.start[which],
            None if self.of is None else self.of.take(at),
            None if self.by is None else self.by.take(at),
            None if self.passes is None else self.passes[which],
        )


class Aggregate(ABC):
    """One aggregate function, with its parameters if it has some."""

    name: ClassVar[str]
    bounded: ClassVar[bool] = True
    """Whether partial results have a fixed size, however many rows there are."""
    grows: ClassVar[bool] = False
    """Whether partial results grow with the distinct values of their rows."""
    repeatable: ClassVar[bool] = True
    """Whether the same rows always give the same value; a value that may differ must be
    kept until it is taken back."""
    numeric: ClassVar[bool] = False
    """Whether it needs numbers."""
    compares: ClassVar[Literal["of", "by"] | None] = None
    """Whose values it compares, so that they need an order."""
    ignores_repeats: ClassVar[bool] = False
    """Whether a value that comes again changes nothing."""
    counts_rows: ClassVar[bool] = False
    """Whether, of nothing in particular, it is the number of rows."""
    plain_sums: ClassVar[tuple[PlainSum, ...]] = ()
    """What each column of a partial result is, where all of them are sums of whole numbers that any
    engine can make; fewer columns are the first of these. Empty: they are something else."""
    of_nothing: ClassVar[int | None] = None
    """The value where no row passes."""

    @abstractmethod
    def result_type(self, of: pa.DataType | None, by: pa.DataType | None) -> pa.DataType:
        """The type of the result; refuses what cannot be aggregated."""

    @abstractmethod
    def fields(self, of: pa.DataType | None, by: pa.DataType | None) -> list[pa.Field]:
        """The columns of a partial result."""

    @abstractmethod
    def of_rows(self, values: Values) -> Columns:
        """What each row contributes."""

    @abstractmethod
    def merge(self, parts: Columns, code: Codes, size: int) -> Columns:
        """Parts of equal code as one, for the codes 0 .. size - 1."""

    @abstractmethod
    def result(self, parts: Columns, kind: pa.DataType) -> pa.Array:
        """The value of each part, of type `kind`."""

    def is_linear(self, of: pa.DataType | None) -> bool:
        """Whether partial results are whole numbers that add up: `merge` is addition, and a part
        is taken away by subtracting it."""
        return False

    def numbers_of_rows(self, values: Values) -> list[Codes]:
        """`of_rows` of a linear aggregate, as plain numbers."""
        return [part.to_numpy() for part in self.of_rows(values)]

    def result_of_numbers(self, parts: Sequence[Codes], kind: pa.DataType) -> pa.Array:
        """`result` of a linear aggregate, from plain numbers that lie side by side."""
        return self.result([whole_column(part) for part in parts], kind)

    def over_ranges(self, parts: Columns, lo: Codes, hi: Codes) -> Columns:
        """The parts of each range [lo, hi) as one."""
        length = np.maximum(hi - lo, 0)
        which = np.repeat(np.arange(len(lo)), length)
        member = np.arange(len(which)) - np.repeat(np.cumsum(length) - length, length) + lo[which]
        return self.merge([take_column(part, member) for part in parts], which, len(lo))

    def of_members(
        self, values: Values, member: Codes, cell: Codes, cells: int, kind: pa.DataType
    ) -> pa.Array:
        """The value of each cell; row `member[i]` belongs to `cell[i]`. A row may be in many."""
        at = pa.array(member)
        parts = [part.take(at) for part in self.of_rows(values)]
        merged = self.merge(parts, cell, cells)
        self.require_length(cells, *merged)
        found = self.result(merged, kind)
        self.require_length(cells, found)
        return found

    def require_length(self, size: int, *columns: pa.Array) -> None:
        """Refuse columns that a method of one's own made too short or too long."""
        for column in columns:
            if len(column) != size:
                raise EvaluationError(
                    f"aggregate {self.name!r} gave {len(column)} values where {size} belong: "
                    "of_rows() gives one for each row, merge() for each code, result() for each "
                    "partial result."
                )

    def define(self, values: Sequence[object]) -> object:
        """The value of the non-null `values` of one window, straight from the definition: what
        tests compare with."""
        raise NotImplementedError(f"{self.name}: the aggregate does not say what it means.")

    @property
    def parameters(self) -> tuple[object, ...]:
        """What is shown after its arguments; with the class, the identity of an aggregate."""
        return ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.parameters))})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.parameters == self.parameters

    def __hash__(self) -> int:
        return hash((type(self), self.parameters))


def is_number(kind: pa.DataType) -> bool:
    """Types that can be added up; truth values are 0 and 1."""
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    )
