"""Every error Thalweg raises, in one tree.

    ThalwegError
    ├── PlanError                 the query is wrong; raised while it is being built
    │   ├── UnknownColumnError
    │   ├── UnknownNameError      a method or function that is called otherwise here
    │   ├── TypeMismatchError
    │   ├── ExpressionError       text that cannot be parsed, or a function that there is not
    │   ├── WindowError           a window or duration that makes no sense
    │   └── SqlError              a query in SQL that cannot be understood; a caret shows the place
    ├── InputError                the data is wrong; a push is refused whole, state is unharmed
    │   ├── MalformedElementError
    │   ├── LifetimeError         an end before its start, a reach over too many windows
    │   ├── TimeRangeError        a time that is null, not finite, not whole or too large
    │   ├── UnknownRowError       an adjust whose row is not there when it comes
    │   ├── ProgressError         a CTI that goes back, for all rows or for a group
    │   ├── SchemaChangeError     columns that differ from the ones declared
    │   ├── LateEventError        an event that breaks its source's promise, if late is `error`
    │   └── ReceiverError         a receiver that does not answer
    ├── EvaluationError           an expression that failed on a row
    ├── ModuleError               a user's module that failed on a window, under the policy `fail`
    ├── SoundnessError            an output that breaks a promise made before it: an operator's bug
    ├── MissingPackageError       an optional package that is not installed; names its extra
    └── StateError                a snapshot of another query, or state that a failure has spoilt

A message says where, what was wrong, and what to do. `PlanError` also has the user's file and
line. What is legal but seldom meant is a `WindowWarning`; input that was passed over is an
`InputWarning`; an `EstimateWarning` says that more
events were late than an estimated slack allows.
"""

from __future__ import annotations

import difflib
import importlib.util
import sys
from collections.abc import Iterable

__all__ = [
    "EstimateWarning",
    "EvaluationError",
    "ExpressionError",
    "InputError",
    "InputWarning",
    "LateEventError",
    "LifetimeError",
    "MalformedElementError",
    "MissingPackageError",
    "ModuleError",
    "PlanError",
    "ProgressError",
    "ReceiverError",
    "SchemaChangeError",
    "SoundnessError",
    "SqlError",
    "StateError",
    "ThalwegError",
    "TimeRangeError",
    "TypeMismatchError",
    "UnknownColumnError",
    "UnknownNameError",
    "UnknownRowError",
    "WindowError",
    "WindowWarning",
    "did_you_mean",
    "list_names",
    "require_choice",
    "require_package",
    "user_stack_level",
]

_PACKAGE = __name__.partition(".")[0]


class ThalwegError(Exception):
    """The root of every error raised on purpose."""


def _user_frame() -> tuple[str, int] | None:
    """The innermost line of the stack that is not ours: the line the user wrote."""
    frame = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        ours = module == _PACKAGE or module.startswith(f"{_PACKAGE}.")
        if not ours and not frame.f_code.co_filename.startswith("<frozen"):
            return frame.f_code.co_filename, frame.f_lineno
        if frame.f_back is None:
            return None
        frame = frame.f_back
    return None


def user_stack_level() -> int:
    """The `stacklevel` with which the caller's `warnings.warn` blames the line the user wrote."""
    frame, level = sys._getframe(1), 1
    while (
        frame.f_back is not None
        and str(frame.f_globals.get("__name__", "")).partition(".")[0] == _PACKAGE
    ):
        frame, level = frame.f_back, level + 1
    return level


class PlanError(ThalwegError):
    """A query that cannot be built. `file` and `line` point at the user's own code."""

    def __init__(self, message: str) -> None:
        place = _user_frame()
        self.file: str | None = place[0] if place else None
        self.line: int | None = place[1] if place else None
        self.reason = message
        super().__init__(f"{message}\n  at {self.file}:{self.line}" if place else message)


class UnknownColumnError(PlanError):
    """A column that the stream does not have."""

    def __init__(
        self, name: str, known: Iterable[str], where: str = "", *, hint: str | None = None
    ) -> None:
        names = list(known)
        listed = list_names(names) or "none"
        prefix = f"{where}: " if where else ""
        instead = did_you_mean(name, names) if hint is None else f". {hint}"
        super().__init__(f"{prefix}unknown column {name!r}{instead} Columns here: {listed}.")
        self.name = name


class UnknownNameError(PlanError, AttributeError):
    """A method or function that there is not; the message says what it is called here."""


class TypeMismatchError(PlanError):
    """A value of the wrong type."""


class ExpressionError(PlanError):
    """Expression text that cannot be understood."""


class WindowError(PlanError):
    """A window, duration or period that makes no sense."""


class WindowWarning(UserWarning):
    """A window that can be evaluated, but is hardly what was meant."""


class SqlError(PlanError):
    """A query in SQL that cannot be understood. `row` and `column` count from one, in the text of
    the query."""

    def __init__(self, message: str, row: int, column: int) -> None:
        super().__init__(message)
        self.row = row
        self.column = column


class InputError(ThalwegError):
    """Input that was refused. Nothing of its batch was applied."""


class MalformedElementError(InputError):
    """Something that is not an insert, an adjust or a CTI, or lacks what makes it one."""


class LifetimeError(InputError):
    """A lifetime that ends before it starts, or reaches over more windows than a memory holds."""


class TimeRangeError(InputError):
    """A time that is null, not finite, not whole, or outside the range of the clock."""


class UnknownRowError(InputError):
    """An adjust of a row that is not in the table."""


class ProgressError(InputError):
    """A CTI below an earlier one."""


class SchemaChangeError(InputError):
    """Rows whose columns are not the ones the source declared."""


class LateEventError(InputError):
    """An event that breaks the promise of its source."""


class ReceiverError(InputError):
    """A receiver that does not answer."""


class EvaluationError(ThalwegError):
    """An expression that failed on data."""


class ModuleError(ThalwegError):
    """A module of a user that failed: it raised, ran too long, returned what it did not declare, or
    was not deterministic."""


class SoundnessError(ThalwegError):
    """An element that breaks an earlier CTI."""


class StateError(ThalwegError):
    """A snapshot that does not fit the query it is restored into, or a query that failed and cannot
    go on."""


class InputWarning(UserWarning):
    """Input that was passed over: a file that is not whole, a link, a file of another format."""


class MissingPackageError(ThalwegError, ImportError):
    """An optional package that is not installed."""

    def __init__(self, package: str, extra: str, what: str = "this") -> None:
        super().__init__(
            f"{what} needs {package}, which is not installed; install it with "
            f"pip install 'thalweg[{extra}]'."
        )


def require_package(package: str, extra: str, what: str) -> None:
    """Refuse, with the extra that brings it, what needs a package that is not installed."""
    if importlib.util.find_spec(package) is None:
        raise MissingPackageError(package, extra, what)


class EstimateWarning(UserWarning):
    """Reality has broken an estimate of disorder."""


def list_names(names: Iterable[str]) -> str:
    """Names in one line. Those of a file's columns may hold anything: what cannot be printed is
    written out, and blanks at an end are shown.

    >>> list_names(["src", "a\\nb", " len"])
    "src, 'a\\\\nb', ' len'"
    """
    return ", ".join(
        name if name.isprintable() and name.strip() == name != "" else repr(name) for name in names
    )


def require_choice(
    value: object, choices: Iterable[str], what: str, error: type[PlanError] = PlanError
) -> None:
    """Refuse a value that is none of a closed set; `what` says where it stands.

    >>> require_choice("inner", ["inner", "left"], "join: how")
    >>> require_choice("iner", ["inner", "left"], "join: how")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    thalweg.errors.PlanError: join: how must be one of inner, left. Did you mean 'inner'? Got
    'iner'.
    ...
    """
    known = list(choices)
    if value not in known:
        hint = did_you_mean(str(value), known)
        raise error(f"{what} must be one of {', '.join(known)}{hint} Got {value!r}.")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`". Did you mean 'x'?"` when something close is known, else a full stop.

    >>> did_you_mean("lenght", ["length", "src"])
    ". Did you mean 'length'?"
    >>> did_you_mean("zzz", ["length"])
    '.'
    """
    close = difflib.get_close_matches(name, list(known), n=1)
    return f". Did you mean {close[0]!r}?" if close else "."
