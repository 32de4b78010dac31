"""Expressions: a tree that computes a column from others, whatever the rows are.

Five kinds of nodes: `Column`, `Literal`, `Call`, `Cast` here, and `Case`. They are frozen and are
built with Python operators, with `col`, `lit` and `call`, or from SQL text. Because `==` builds an
expression, two expressions are compared with `same`.

`evaluate` gives one value per row of a frame; `type_in` gives the type of those values by
evaluating on no rows at all, so that the two cannot disagree. Nulls follow SQL: an operation on
null is null, except where its docstring names another result.

The constructors are written out: a frame of generated code on the stack would be taken for the
user's line in an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pyarrow as pa

from thalweg.errors import ExpressionError, UnknownColumnError, UnknownNameError
from thalweg.expr._rendering import ATOM, Rendered, render_call, render_name, render_value
from thalweg.expr.casts import cast_to, try_cast_to, type_name
from thalweg.expr.failures import KERNEL_ERRORS, failure
from thalweg.expr.frame import Frame, Shape
from thalweg.expr.functions import find_function, is_function
from thalweg.expr.kinds import Datum, common_type
from thalweg.expr.operators import Operators

__all__ = ["Call", "Cast", "Column", "Expr", "Literal", "call", "col", "lit"]


class Expr(Operators):
    """The base of all expressions.

    >>> str((col("len") + 1 > 40) & col("src").is_not_null())
    'len + 1 > 40 AND src IS NOT NULL'
    """

    __slots__ = ()

    def evaluate(self, frame: Frame) -> pa.Array:
        """One value for each row of the frame."""
        return _as_column(self._datum(frame), frame.length)

    def type_in(self, schema: pa.Schema) -> pa.DataType:
        """The type of the values over columns of these types; refuses what could not be
        evaluated."""
        for name in sorted(self.columns()):
            if name not in schema.names:
                raise UnknownColumnError(name, schema.names, f"in {self}")
        return self._datum(Shape.of_schema(schema)).type

    def columns(self) -> frozenset[str]:
        """The names of the columns that it reads."""
        return frozenset(expr.name for expr, _ in self._walk() if isinstance(expr, Column))

    def depth(self) -> int:
        """The number of nodes on the longest path from here to a leaf."""
        return max(level for _, level in self._walk())

    def _walk(self) -> Iterator[tuple[Expr, int]]:
        stack: list[tuple[Expr, int]] = [(self, 1)]
        while stack:
            expr, level = stack.pop()
            yield expr, level
            stack.extend((part, level + 1) for part in expr.parts())

    def rename(self, mapping: Mapping[str, str]) -> Expr:
        """The same expression over columns that are called otherwise; names that are not in the
        mapping stay."""
        return self.with_parts([part.rename(mapping) for part in self.parts()])

    def same(self, other: object) -> bool:
        """Whether two expressions are written alike: same nodes, names, values and types."""
        return isinstance(other, Expr) and self.key() == other.key()

    def key(self) -> tuple[Any, ...]:
        """A hashable value that is equal for expressions that are the `same`."""
        return (type(self).__name__, *(part.key() for part in self.parts()))

    def parts(self) -> tuple[Expr, ...]:
        """The operands: the expressions directly below this node."""
        return ()

    def with_parts(self, parts: Sequence[Expr]) -> Expr:
        """The same node over other operands, given in the order of `parts`."""
        return self

    def _datum(self, frame: Frame) -> Datum:
        raise NotImplementedError

    def _rendered(self) -> Rendered:
        raise NotImplementedError

    def __str__(self) -> str:
        try:
            return self._rendered()[0]
        except RecursionError:  # as a user may have built it; `as_expr` refuses it
            return f"(an expression of {self.depth()} levels)"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"

    def __reduce__(self) -> tuple[Any, ...]:
        parts = fields(self)  # type: ignore[arg-type]  # every node is a dataclass
        return type(self), tuple(getattr(self, f.name) for f in parts if f.init)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """Refuse a method that expressions do not have, with what to write."""
            raise _unknown_method(self, name)

    def _call(self, function: str, *args: object) -> Expr:
        return call(function, *args)

    def _cast(self, type_: pa.DataType) -> Expr:
        return Cast(self, type_)


@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class Column(Expr):
    """The values of a column."""

    name: str

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise ExpressionError(f"the name of a column is text; got {name!r}.")
        object.__setattr__(self, "name", name)

    def rename(self, mapping: Mapping[str, str]) -> Expr:
        return Column(mapping[self.name]) if self.name in mapping else self

    def key(self) -> tuple[Any, ...]:
        return "Column", self.name

    def _datum(self, frame: Frame) -> Datum:
        try:
            return frame.columns[self.name]
        except KeyError:
            raise UnknownColumnError(self.name, frame.columns) from None

    def _rendered(self) -> Rendered:
        return render_name(self.name), ATOM


@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class Literal(Expr):
    """One value for every row. A tuple is the list of an IN."""

    value: object
    type: pa.DataType | None = None
    scalar: pa.Scalar = field(init=False)

    def __init__(self, value: object, type: pa.DataType | None = None) -> None:  # noqa: A002
        plain = _plain_value(value)
        try:
            scalar = (
                _list_scalar(plain, type) if isinstance(plain, tuple) else pa.scalar(plain, type)
            )
        except (*KERNEL_ERRORS, TypeError) as reason:
            as_type = f" as {type}" if type is not None else ""
            raise ExpressionError(f"{value!r} cannot be a literal{as_type}: {reason}.") from reason
        object.__setattr__(self, "value", plain)
        object.__setattr__(self, "type", type)
        object.__setattr__(self, "scalar", scalar)

    def key(self) -> tuple[Any, ...]:
        return "Literal", repr(self.value), str(self.scalar.type)

    def _datum(self, frame: Frame) -> Datum:
        return self.scalar

    def _rendered(self) -> Rendered:
        text = render_value(self.value)
        natural = (
            isinstance(self.value, tuple) or _NATURAL.get(type(self.value)) == self.scalar.type
        )
        return (text if natural else f"CAST({text} AS {type_name(self.scalar.type)})"), ATOM


_NATURAL = {
    type(None): pa.null(),
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    timedelta: pa.duration("us"),
}


def _plain_value(value: object) -> object:
    if isinstance(value, (set, frozenset, dict)):
        raise ExpressionError(f"{value!r} cannot be a literal: give a single value, or a list.")
    if isinstance(value, (list, tuple)):
        return tuple(_plain_value(item) for item in value)
    return value.item() if isinstance(value, np.generic) else value


def _list_scalar(values: tuple[object, ...], type_: pa.DataType | None) -> pa.Scalar:
    if type_ is None:
        type_ = pa.list_(common_type([pa.scalar(value).type for value in values]))
    return pa.scalar(list(values), type_)


@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class Call(Expr):
    """A function of the table, or an operator, applied to arguments."""

    function: str
    args: tuple[Expr, ...]
    run: Callable[..., Datum] = field(init=False)

    def __init__(self, function: str, args: tuple[Expr, ...]) -> None:
        found = find_function(function, len(args))
        object.__setattr__(self, "function", found.name)
        object.__setattr__(self, "args", args)
        object.__setattr__(self, "run", found.apply)

    def parts(self) -> tuple[Expr, ...]:
        return self.args

    def key(self) -> tuple[Any, ...]:
        return "Call", self.function, *(arg.key() for arg in self.args)

    def with_parts(self, parts: Sequence[Expr]) -> Expr:
        return Call(self.function, tuple(parts))

    def _datum(self, frame: Frame) -> Datum:
        args = self.args
        if len(args) == 2:  # by far the most frequent
            values = [args[0]._datum(frame), args[1]._datum(frame)]
        else:
            values = [arg._datum(frame) for arg in args]
        try:
            return self.run(*values)
        except KERNEL_ERRORS as reason:
            raise failure(
                str(self), [str(arg) for arg in self.args], values, self.run, reason, frame
            ) from reason

    def _rendered(self) -> Rendered:
        return render_call(self.function, [arg._rendered() for arg in self.args])


@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class Cast(Expr):
    """The value as another type; one that does not fit is an error."""

    expr: Expr
    type: pa.DataType
    safe: bool = False
    """Null where the value does not fit, instead of an error."""

    def __init__(
        self,
        expr: Expr,
        type: pa.DataType,  # noqa: A002
        safe: bool = False,  # noqa: FBT001, FBT002
    ) -> None:
        if not isinstance(type, pa.DataType):
            raise ExpressionError(f"cast takes an Arrow type, such as pa.int64(); got {type!r}.")
        object.__setattr__(self, "expr", expr)
        object.__setattr__(self, "type", type)
        object.__setattr__(self, "safe", safe)

    def parts(self) -> tuple[Expr, ...]:
        return (self.expr,)

    def key(self) -> tuple[Any, ...]:
        return "Cast", str(self.type), self.safe, self.expr.key()

    def with_parts(self, parts: Sequence[Expr]) -> Expr:
        return Cast(parts[0], self.type, self.safe)

    def _datum(self, frame: Frame) -> Datum:
        value = self.expr._datum(frame)
        convert = try_cast_to if self.safe else cast_to
        try:
            return convert(value, self.type)
        except KERNEL_ERRORS as reason:
            raise failure(
                str(self),
                [str(self.expr)],
                [value],
                partial(convert, type_=self.type),
                reason,
                frame,
            ) from reason

    def _rendered(self) -> Rendered:
        word = "TRY_CAST" if self.safe else "CAST"
        return f"{word}({self.expr} AS {type_name(self.type)})", ATOM


def col(name: str) -> Column:
    """A column by its exact name.

    >>> col("len") > 40
    <Call len > 40>
    """
    return Column(name)


def lit(value: object) -> Literal:
    """A constant; text is the text itself, not SQL."""
    return Literal(value)


def call(function: str, *args: object) -> Expr:
    """A function of the table, or one that a user defined; arguments that are no expressions are
    constants.

    >>> str(call("starts_with", col("src"), "10."))
    "starts_with(src, '10.')"
    """
    arguments = tuple(arg if isinstance(arg, Expr) else Literal(arg) for arg in args)
    if not is_function(function):
        from thalweg.expr.user_calls import find_user_function, user_call

        own = find_user_function(function)
        if own is not None:
            return user_call(own, arguments)
    return Call(function, arguments)


_METHODS = {
    "sum": "an aggregate, tw.sum_(x)",
    "mean": "an aggregate, tw.avg(x)",
    "avg": "an aggregate, tw.avg(x)",
    "min": "an aggregate, tw.min_(x)",
    "max": "an aggregate, tw.max_(x)",
    "count": "an aggregate, tw.count(x)",
    "alias": "the name of the column, select(name=x)",
    "astype": "x.cast(type)",
    "fillna": "x.if_null(value)",
    "fill_null": "x.if_null(value)",
    "is_in": "x.isin([...])",
}
"""Methods that expressions of other libraries have, and what is written here."""


def _unknown_method(expr: Expr, name: str) -> AttributeError:
    what = f"an expression ({type(expr).__name__}) has no {name!r}"
    if name.startswith("_"):
        return AttributeError(what)
    if is_function(name):
        return UnknownNameError(f"{what}; functions are called: tw.call({name!r}, x, ...).")
    instead = _METHODS.get(name)
    return UnknownNameError(f"{what}; here it is {instead}." if instead else f"{what}.")


def _as_column(value: Datum | pa.ChunkedArray, length: int) -> pa.Array:
    """One value for each row; a kernel whose result is very large gives it in pieces."""
    if isinstance(value, pa.Scalar):
        return pa.repeat(value, length)
    return value if isinstance(value, pa.Array) else value.combine_chunks()
