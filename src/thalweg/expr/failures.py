"""From a failure inside a kernel to an error a user can act on.

On a schema (no rows yet) a failure is a `TypeMismatchError`; on rows it is an `EvaluationError`
that shows the first row it fails on, found by halving the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from thalweg.errors import EvaluationError, ThalwegError, TypeMismatchError
from thalweg.expr.frame import Frame, Shape
from thalweg.expr.kinds import Datum, Refusal

__all__ = ["KERNEL_ERRORS", "failure"]

KERNEL_ERRORS = (Refusal, pa.ArrowException, ArithmeticError, ValueError, NotImplementedError)
"""What a kernel may raise. (Arrow's own errors are spread over Python's.)"""

_ADVICE = {
    "overflow": (
        "Whole numbers stop at 2**63; use CAST(... AS double) where an approximation will do."
    ),
    "zero": "Leave such rows out first, or guard with CASE WHEN ... <> 0 THEN ... END.",
    "parse": "Leave such values out first, or guard with CASE WHEN ... THEN CAST(...) END.",
    "range": "Choose a wider type, or leave such values out first.",
}


def failure(
    text: str,
    names: Sequence[str],
    args: Sequence[Datum],
    run: Callable[..., Datum],
    reason: Exception,
    frame: Frame,
) -> ThalwegError:
    """The error for a kernel `run(*args)` that raised `reason` while evaluating the expression
    `text`."""
    if isinstance(frame, Shape):
        return TypeMismatchError(_ill_typed(text, names, args, reason))
    if isinstance(reason, Refusal):
        return EvaluationError(f"{text}: {reason}.")
    row, reason = _first_bad_row(args, run, reason)
    columns = [
        (name, arg) for name, arg in zip(names, args, strict=True) if isinstance(arg, pa.Array)
    ]
    shown = ", ".join(f"{name} = {_short(values[row])}" for name, values in columns)
    place = f" on row {row} of the batch, where {shown}" if shown else ""
    return EvaluationError(
        f"{text} failed{place}: {_first_line(reason)}. {_advice(reason)}".rstrip()
    )


def _ill_typed(text: str, names: Sequence[str], args: Sequence[Datum], reason: Exception) -> str:
    kinds = ", ".join(f"{name} is {arg.type}" for name, arg in zip(names, args, strict=True))
    if isinstance(reason, Refusal):
        return f"{text}: {reason}. Here {kinds}."
    if not isinstance(
        reason, (NotImplementedError, TypeError)
    ):  # no rows, so a constant must be to blame
        return f"{text} fails on every row: {_first_line(reason)}."
    return (
        f"{text} is not defined for these types: {kinds}. Convert with CAST(... AS ...). "
        f"({_first_line(reason)})"
    )


def _first_bad_row(
    args: Sequence[Datum], run: Callable[..., Datum], reason: Exception
) -> tuple[int, Exception]:
    """The smallest row that fails on its own account: the shortest failing prefix ends with it."""
    sizes = [len(arg) for arg in args if isinstance(arg, pa.Array)]
    good, bad = 0, sizes[0] if sizes else 1
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            run(
                *[
                    arg if isinstance(arg, pa.Scalar) else arg.slice(good, middle - good)
                    for arg in args
                ]
            )
        except KERNEL_ERRORS as narrower:
            bad, reason = middle, narrower
        else:
            good = middle
    return good, reason


def _short(value: pa.Scalar) -> str:
    shown = repr(value.as_py())
    return shown if len(shown) <= 60 else shown[:57] + "..."


def _first_line(reason: Exception) -> str:
    return str(reason).splitlines()[0].rstrip(".") if str(reason) else type(reason).__name__


def _advice(reason: Exception) -> str:
    message = str(reason).lower()
    if "overflow" in message:
        return _ADVICE["overflow"]
    if "zero" in message:
        return _ADVICE["zero"]
    if "parse" in message:
        return _ADVICE["parse"]
    return (
        _ADVICE["range"]
        if "range" in message or "truncated" in message or "bounds" in message
        else ""
    )
