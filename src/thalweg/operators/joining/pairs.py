"""Pairs of rows: the columns that expressions over a pair read, from both sides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import pyarrow as pa

from thalweg.expr import Expr, Frame
from thalweg.model.rows import Bools, Codes, Rows, take_column, whole_column
from thalweg.model.time import Times
from thalweg.operators.frames import Projection, evaluate_mask
from thalweg.plan.nodes import Named
from thalweg.state import Hits

__all__ = ["FoundSide", "PairCondition", "PairProjection", "Side", "TakenSide"]


class Side(Protocol):
    """One side of pairs: a value for each pair."""

    def column(self, name: str) -> pa.Array: ...


class TakenSide:
    """Rows of a batch or a table, by position."""

    def __init__(self, rows: Rows, start: Times, at: Codes) -> None:
        self._rows, self._start, self._at = rows, start, at

    def column(self, name: str) -> pa.Array:
        if name == "_start":
            return whole_column(self._start[self._at])
        return take_column(self._rows.column(name), self._at)


class FoundSide:
    """Rows that were found in an arrangement."""

    def __init__(self, hits: Hits) -> None:
        self._hits = hits

    def column(self, name: str) -> pa.Array:
        return whole_column(self._hits.start) if name == "_start" else self._hits.column(name)


class _PairColumns:
    """Where the columns of a pair come from: `l.x`, `r.x`, and plain names that only one side
    has."""

    def __init__(self, names: Iterable[str], left_names: Sequence[str]) -> None:
        self._places: list[tuple[str, int, str]] = []
        for name in names:
            prefix, dot, rest = name.partition(".")
            if dot and prefix in ("l", "r"):
                self._places.append((name, int(prefix == "r"), rest))
            else:
                self._places.append((name, int(name not in left_names), name))

    def frame(self, sides: tuple[Side, Side], size: int) -> Frame:
        return Frame({name: sides[at].column(plain) for name, at, plain in self._places}, size)


class PairProjection:
    """The columns of the answer, computed from pairs."""

    def __init__(self, result: Named, schema: pa.Schema, left_names: Sequence[str]) -> None:
        self._projection = Projection(result, schema)
        self._columns = _PairColumns(self._projection.used, left_names)

    def of(self, sides: tuple[Side, Side], size: int) -> Rows:
        return self._projection.of(self._columns.frame(sides, size))


class PairCondition:
    """A condition over pairs."""

    def __init__(self, predicate: Expr, left_names: Sequence[str]) -> None:
        self._predicate = predicate
        self._columns = _PairColumns(predicate.columns(), left_names)

    def holds(self, sides: tuple[Side, Side], size: int) -> Bools:
        return evaluate_mask(self._predicate, self._columns.frame(sides, size))
