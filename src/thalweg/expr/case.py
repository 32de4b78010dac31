"""CASE: one of several values for each row.

A null condition counts as false. All values have one common type. A value counts only on the rows
that choose it, and a condition only on the rows that no branch before it has chosen: `CASE WHEN n
<> 0 THEN total // n END` never divides by zero. Whole columns are tried first; only when that fails
each branch is evaluated on its own rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from thalweg.errors import EvaluationError, ExpressionError
from thalweg.expr._logic import choose
from thalweg.expr._rendering import ATOM, Rendered
from thalweg.expr.failures import KERNEL_ERRORS, failure
from thalweg.expr.frame import Frame
from thalweg.expr.kinds import Datum, Refusal, column, convert, meet, truth
from thalweg.expr.nodes import Expr, Literal

__all__ = ["Case"]

_NULL, _TRUE = Literal(None), Literal(value=True)


@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class Case(Expr):
    """The value of the first branch whose condition is true, else the default, else null.

    A value counts only on the rows that choose it: `CASE WHEN n <> 0 THEN total // n END` does not
    divide by zero.
    """

    branches: tuple[tuple[Expr, Expr], ...]
    default: Expr | None = None

    def __init__(
        self, branches: tuple[tuple[Expr, Expr], ...], default: Expr | None = None
    ) -> None:
        if not branches:
            raise ExpressionError("CASE needs at least one WHEN ... THEN ...")
        object.__setattr__(self, "branches", branches)
        object.__setattr__(self, "default", default)

    def parts(self) -> tuple[Expr, ...]:
        pairs = tuple(expr for branch in self.branches for expr in branch)
        return pairs if self.default is None else (*pairs, self.default)

    def key(self) -> tuple[Any, ...]:
        return "Case", len(self.branches), *(part.key() for part in self.parts())

    def with_parts(self, parts: Sequence[Expr]) -> Expr:
        size = 2 * len(self.branches)
        return Case(
            tuple(zip(parts[:size:2], parts[1:size:2], strict=True)),
            None if self.default is None else parts[size],
        )

    def _datum(self, frame: Frame) -> Datum:
        default = _NULL if self.default is None else self.default
        try:
            conditions = [condition._datum(frame) for condition, _ in self.branches]
            values = [value._datum(frame) for _, value in self.branches] + [default._datum(frame)]
        except EvaluationError:
            return self._row_by_branch(frame, default)
        try:
            *chosen, result = meet(values)
            for condition, value in zip(
                reversed([truth(c) for c in conditions]), reversed(chosen), strict=True
            ):
                result = choose(condition, value, result)
        except KERNEL_ERRORS as reason:
            names = [
                str(expr)
                for expr in (
                    *(c for c, _ in self.branches),
                    *(v for _, v in self.branches),
                    default,
                )
            ]
            raise failure(
                str(self), names, [*conditions, *values], _not_again, reason, frame
            ) from reason
        return result

    def _row_by_branch(self, frame: Frame, default: Expr) -> pa.Array:
        """Each value evaluated only on the rows that choose it: slower, and fails only where it has
        to."""
        names = self.columns()
        type_ = self.type_in(pa.schema([(name, frame.columns[name].type) for name in names]))
        waiting = np.arange(frame.length)
        places, pieces = [], []
        for condition, value in (*self.branches, (_TRUE, default)):
            seen = frame.take(names, pa.array(waiting))
            hit = (
                column(truth(condition.evaluate(seen)))
                .fill_null(fill_value=False)
                .to_numpy(zero_copy_only=False)
            )
            places.append(waiting[hit])
            chosen = value.evaluate(frame.take(names, pa.array(waiting[hit])))
            pieces.append(column(convert(chosen, type_)))
            waiting = waiting[~hit]
        return pa.concat_arrays(pieces).take(pa.array(np.argsort(np.concatenate(places))))

    def _rendered(self) -> Rendered:
        body = "".join(f" WHEN {condition} THEN {value}" for condition, value in self.branches)
        tail = "" if self.default is None else f" ELSE {self.default}"
        return f"CASE{body}{tail} END", ATOM


def _not_again(*_: Datum) -> NoReturn:
    raise Refusal("the branches do not go together")
