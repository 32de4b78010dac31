"""Python's operators and a few methods, as the expressions that they build.

`==` and `!=` build expressions too, so an expression equals nothing and has no truth value: `and`,
`or`, `not`, `in` and chained comparisons are refused rather than misread. Operands that are no
expressions are constants.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NoReturn

import pyarrow as pa

from thalweg.errors import ExpressionError

if TYPE_CHECKING:
    from thalweg.expr.nodes import Expr

__all__ = ["Operators"]


class Operators:
    """What every expression can do with Python's operators."""

    __slots__ = ()
    __array_ufunc__ = None  # a NumPy scalar on the left must leave the operator to us

    def _call(self, function: str, *args: object) -> Expr:
        raise NotImplementedError

    def _cast(self, type_: pa.DataType) -> Expr:
        raise NotImplementedError

    def __bool__(self) -> NoReturn:
        raise ExpressionError(
            f"{self} has no truth value of its own. Combine conditions with & | ~ instead of and, "
            "or, not (and instead of a < x < b); compare expressions with .same()."
        )

    __hash__ = object.__hash__

    def __add__(self, other: object) -> Expr:
        return self._call("add", self, other)

    def __radd__(self, other: object) -> Expr:
        return self._call("add", other, self)

    def __sub__(self, other: object) -> Expr:
        return self._call("subtract", self, other)

    def __rsub__(self, other: object) -> Expr:
        return self._call("subtract", other, self)

    def __mul__(self, other: object) -> Expr:
        return self._call("multiply", self, other)

    def __rmul__(self, other: object) -> Expr:
        return self._call("multiply", other, self)

    def __truediv__(self, other: object) -> Expr:
        return self._call("divide", self, other)

    def __rtruediv__(self, other: object) -> Expr:
        return self._call("divide", other, self)

    def __floordiv__(self, other: object) -> Expr:
        return self._call("floor_div", self, other)

    def __rfloordiv__(self, other: object) -> Expr:
        return self._call("floor_div", other, self)

    def __mod__(self, other: object) -> Expr:
        return self._call("mod", self, other)

    def __rmod__(self, other: object) -> Expr:
        return self._call("mod", other, self)

    def __neg__(self) -> Expr:
        return self._call("negate", self)

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]
        if other is None:
            raise ExpressionError(f"{self} == None is true of no row, as in SQL: use .is_null().")
        return self._call("eq", self, other)

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]
        if other is None:
            raise ExpressionError(
                f"{self} != None is true of no row, as in SQL: use .is_not_null()."
            )
        return self._call("ne", self, other)

    def __lt__(self, other: object) -> Expr:
        return self._call("lt", self, other)

    def __le__(self, other: object) -> Expr:
        return self._call("le", self, other)

    def __gt__(self, other: object) -> Expr:
        return self._call("gt", self, other)

    def __ge__(self, other: object) -> Expr:
        return self._call("ge", self, other)

    def __and__(self, other: object) -> Expr:
        return self._call("and", self, other)

    def __rand__(self, other: object) -> Expr:
        return self._call("and", other, self)

    def __or__(self, other: object) -> Expr:
        return self._call("or", self, other)

    def __ror__(self, other: object) -> Expr:
        return self._call("or", other, self)

    def __invert__(self) -> Expr:
        return self._call("not", self)

    def cast(self, type_: pa.DataType) -> Expr:
        return self._cast(type_)

    def is_null(self) -> Expr:
        return self._call("is_null", self)

    def is_not_null(self) -> Expr:
        return self._call("is_not_null", self)

    def isin(self, values: Iterable[object]) -> Expr:
        """Whether it is one of these constants."""
        if isinstance(values, str):
            raise ExpressionError(f"isin takes several values; write isin([{values!r}]) for one.")
        return self._call("in", self, tuple(values))

    def substring(self, start: int, length: int) -> Expr:
        """So many characters from a position on; the first is at 1."""
        return self._call("substring", self, start, length)

    def if_null(self, value: object) -> Expr:
        return self._call("coalesce", self, value)
