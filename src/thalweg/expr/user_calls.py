"""Calls of functions that a user defined: per event, or on whole columns.

The function itself travels with the expression, so that it runs in processes that never saw its
definition. Per event, a row with a null argument gives null and the function is not called, unless
it asks for nulls; a function on columns sees them. It must be deterministic: an event that is taken
back has to give the value it gave when it came. A call that raises, gives a value of another type
or takes longer than its limit ends the query, or gives null for that event alone (`on_error`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.errors import EvaluationError, ExpressionError, TypeMismatchError
from thalweg.expr._rendering import ATOM, Rendered
from thalweg.expr.frame import Frame, Shape
from thalweg.expr.kinds import Datum, kind_of
from thalweg.expr.limits import TimeUp, Watch
from thalweg.expr.nodes import Expr

__all__ = [
    "LOOKUPS",
    "ON_ERROR",
    "UserCall",
    "UserFunction",
    "find_user_function",
    "user_call",
]

ON_ERROR = ("fail", "null")
"""What becomes of an event that a function fails on: it ends the query, or gives null."""


@dataclass(frozen=True, eq=False)
class UserFunction:
    name: str
    version: str
    run: Callable[..., Any]
    inputs: tuple[pa.DataType | None, ...]
    """The types it takes; None: any."""
    output: pa.DataType
    vectorised: bool = False
    doc: str = ""
    nulls: bool = False
    """Whether it is called for nulls."""
    on_error: str = "fail"
    """One of `ON_ERROR`."""
    time_limit: float | None = None
    """Seconds that one call may take."""

    @property
    def label(self) -> str:
        return f"{self.name}@{self.version}"

    @property
    def ends_query(self) -> bool:
        """Whether an event that it fails on ends the query; else such an event gives null."""
        return self.on_error == "fail"


LOOKUPS: list[Callable[[str], UserFunction | None]] = []
"""Where to look up a function that the table does not have; the registry of modules adds its own
lookup."""


def find_user_function(name: str) -> UserFunction | None:
    """The function that a user defined under a name."""
    for lookup in LOOKUPS:
        found = lookup(name)
        if found is not None:
            return found
    return None


def user_call(function: UserFunction, args: Sequence[Expr]) -> UserCall:
    """A call, refused when the number of arguments is wrong."""
    if len(args) != len(function.inputs):
        raise ExpressionError(
            f"{function.name} takes {len(function.inputs)} arguments; got {len(args)}."
        )
    return UserCall(function, tuple(args))


@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class UserCall(Expr):
    """A user's function, applied to arguments."""

    function: UserFunction
    args: tuple[Expr, ...]

    def __init__(self, function: UserFunction, args: tuple[Expr, ...]) -> None:
        object.__setattr__(self, "function", function)
        object.__setattr__(self, "args", args)

    def parts(self) -> tuple[Expr, ...]:
        return self.args

    def key(self) -> tuple[Any, ...]:
        return "UserCall", self.function.label, *(arg.key() for arg in self.args)

    def with_parts(self, parts: Sequence[Expr]) -> Expr:
        return UserCall(self.function, tuple(parts))

    def _datum(self, frame: Frame) -> Datum:
        columns = [self._taken(arg.evaluate(frame), at) for at, arg in enumerate(self.args)]
        if isinstance(frame, Shape) or not frame.length:
            return pa.nulls(0, self.function.output)
        return (
            self._on_columns(columns, frame)
            if self.function.vectorised
            else self._on_rows(columns, frame.length)
        )

    def _taken(self, column: pa.Array, at: int) -> pa.Array:
        input_type = self.function.inputs[at]
        if input_type is None or column.type == input_type:
            return column
        if kind_of(column.type) not in (kind_of(input_type), "null"):
            raise TypeMismatchError(
                f"{self}: argument {at + 1} must be {input_type}; {self.args[at]} is {column.type}."
            )
        try:
            return column.cast(input_type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as reason:
            raise EvaluationError(
                f"{self}: argument {at + 1} must be {input_type}: {reason}."
            ) from reason

    def _on_columns(self, columns: list[pa.Array], frame: Frame) -> pa.Array:
        try:
            return self._called(columns, frame.length)
        except EvaluationError:
            if self.function.ends_query:
                raise
        alone = [[column.slice(at, 1) for column in columns] for at in range(frame.length)]
        return pa.concat_arrays([self._or_null(partial(self._called, row, 1)) for row in alone])

    def _called(self, columns: list[pa.Array], length: int) -> pa.Array:
        watch = Watch(self.function.time_limit)
        try:
            with watch:
                watch.at = 0
                output = self.function.run(*columns)
            result = output.to_arrow() if hasattr(output, "to_arrow") else output
            array = _one_piece(result if isinstance(result, pa.Array) else pa.array(result))
            array = (
                array if array.type == self.function.output else array.cast(self.function.output)
            )
        except TimeUp:
            raise EvaluationError(f"{self} took longer than {watch.limit:g} s.") from None
        except Exception as reason:  # anything may come out of a user's function
            raise EvaluationError(f"{self} failed: {type(reason).__name__}: {reason}.") from reason
        if len(array) != length:
            raise EvaluationError(
                f"{self}: the function returned {len(array)} values for {length} rows; it must give"
                " one for each."
            )
        return array

    def _or_null(self, call: Callable[[], pa.Array]) -> pa.Array:
        try:
            return call()
        except EvaluationError:
            return pa.nulls(1, self.function.output)

    def _on_rows(self, columns: list[pa.Array], length: int) -> pa.Array:
        """One call for each row whose arguments are not null (for every row if it takes nulls)."""
        selected = np.ones(length, np.bool_)
        if not self.function.nulls:
            for column in columns:
                selected &= column.is_valid().to_numpy(zero_copy_only=False)
        rows = (
            list(zip(*(column.to_pylist() for column in columns), strict=True))
            if columns
            else [()] * length
        )
        values = self._values(list(_where(rows, selected)))
        if selected.all():
            return values
        places = np.where(selected, np.cumsum(selected) - 1, 0)
        return values.take(pa.array(places, mask=~selected))

    def _values(self, rows: list[tuple[Any, ...]]) -> pa.Array:
        """The value of each row; null where the function fails and `on_error` is `null`."""
        values: list[Any] = []
        run, watch = self.function.run, Watch(self.function.time_limit)
        while len(values) < len(rows):
            try:
                with watch:
                    for row in rows[len(values) :]:
                        watch.at = len(values)
                        values.append(run(*row))
            except TimeUp:
                if watch.fired == len(values):  # otherwise the call had just ended
                    self._refuse(rows[len(values)], f"longer than {watch.limit:g} s")
                    values.append(None)
            except Exception as reason:  # anything may come out of a user's function
                message = f"{type(reason).__name__}: {reason}"
                self._refuse(rows[len(values)], message, reason)
                values.append(None)
        try:
            return pa.array(values, self.function.output)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as reason:
            if self.function.ends_query:
                raise EvaluationError(
                    f"{self}: the function returned something that is no {self.function.output}: "
                    f"{reason}."
                ) from reason
        return pa.concat_arrays([self._or_null(partial(self._one, value)) for value in values])

    def _one(self, value: Any) -> pa.Array:
        try:
            return pa.array([value], self.function.output)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as reason:
            raise EvaluationError(str(reason)) from reason

    def _refuse(self, row: tuple[Any, ...], message: str, reason: Exception | None = None) -> None:
        """Raise the failure of one row, unless `on_error` is `null`."""
        if self.function.ends_query:
            shown = ", ".join(
                f"{arg} = {value!r}" for arg, value in zip(self.args, row, strict=True)
            )
            raise EvaluationError(f"{self} failed where {shown}: {message}.") from reason

    def _rendered(self) -> Rendered:
        return f"{self.function.name}({', '.join(map(str, self.args))})", ATOM


def _where(
    rows: list[tuple[Any, ...]], selected: np.ndarray[Any, np.dtype[np.bool_]]
) -> Iterator[tuple[Any, ...]]:
    return iter(rows) if selected.all() else (rows[at] for at in np.flatnonzero(selected).tolist())


def _one_piece(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column if isinstance(column, pa.Array) else column.combine_chunks()
