"""The end of a query, and the error that ended it: without the JVM's stack trace, and with the file
that caused it."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from functools import wraps
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from thalweg import errors
from thalweg.errors import InputError, PlanError, StateError, ThalwegError
from thalweg.io.file_notes import files_being_read
from thalweg.io.files import aside

__all__ = ["BatchFailure", "has_ended", "is_slow_start", "plain_failure", "with_short_search"]

_SLOW = (
    "Python worker failed to connect back",
    "waiting for the Python worker to connect back",
    "STREAMING_PYTHON_RUNNER_INITIALIZATION",
)
_CRASHES = ("Python worker exited unexpectedly", "crashed", "SIGSEGV", "Segmentation fault")
_FAILURE = re.compile(
    r"(: )?[A-Za-z_][\w.$]*(Error|Exception|Invalid|Interrupt|Exit|NotImplemented)\b(?!.* while"
    r" calling )(: |$)"
)
"""The line of a traceback, of Python or of the JVM, that says what was raised."""
_STREAM = re.compile(r"^\[STREAM_FAILED\] Query \[.*?\] terminated with exception: ")

_SEARCHED = "py4j.protocol.Py4JJavaError: An error occurred while calling"
_INTERRUPTED = "java.lang.InterruptedException"
_INTERRUPTIONS = (
    _INTERRUPTED,
    "java.io.InterruptedIOException",
    "java.nio.channels.ClosedByInterruptException",
    "SPARK_JOB_CANCELLED",
)
"""What a call into the JVM fails with while its query is being stopped."""


class BatchFailure(Exception):  # noqa: N818 - it goes to Spark, which makes an error of it
    """The traceback of what failed while a micro-batch was delivered."""


def with_short_search(each: Callable[[DataFrame, int], None]) -> Callable[[DataFrame, int], None]:
    """A function of micro-batches whose failures Spark can search.

    When such a function fails because its query is being stopped, Spark looks in the traceback for
    a failed call into the JVM and, from there on, for an interruption. It does so with a regular
    expression that calls itself for every character: a Java trace of some thousand characters
    overflows the stack of the query's thread, which dies of it. Here both are looked for
    beforehand, and Spark gets a text in which its search ends after a few steps.
    """

    @wraps(each)
    def searched(rows: DataFrame, number: int) -> None:
        try:
            each(rows, number)
        except Exception:
            text = traceback.format_exc()
            _, called, rest = text.partition(_SEARCHED)
            if not called:
                raise
            plain = text.replace(_SEARCHED, _SEARCHED.removeprefix("py4j.protocol."))
            if any(name in rest for name in _INTERRUPTIONS):
                plain = f"{plain}\n{_SEARCHED} it: {_INTERRUPTED}"
            raise BatchFailure(plain) from None

    return searched


def is_slow_start(reason: BaseException) -> bool:
    """Whether a Python process of Spark's did not start within Spark's limit of ten seconds. That
    happens on a busy machine; the next one is quicker."""
    return any(words in str(reason) for words in _SLOW)


def has_ended(query: StreamingQuery, timeout: float | None) -> bool:
    """Wait until a query has ended, at most `timeout` seconds; raises what ended it."""
    if timeout is None:
        query.awaitTermination()
        return True
    return bool(query.awaitTermination(timeout))  # type: ignore[arg-type]


def plain_failure(reason: BaseException, checkpoint: Path | None = None) -> ThalwegError:
    """What went wrong."""
    if isinstance(reason, ThalwegError):
        return reason
    text = str(reason).partition("=== Streaming Query ===")[0]
    lines = [line.strip() for line in text.splitlines()]
    own = [
        line.removeprefix("thalweg.errors.").partition(": ")
        for line in lines
        if line.startswith("thalweg.errors.")
    ]
    if own:
        name, _, message = own[-1]
        return _error(getattr(errors, name, ThalwegError), message)
    reading = files_being_read(checkpoint) if checkpoint is not None else []
    if reading and any(words in text for words in _CRASHES):
        return InputError(
            f"a Python worker died while it read {' or '.join(reading)}. If it does so again, the "
            f"file is to blame: rename it to {aside(reading[0])} to go on without it, and start "
            "again."
        )
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    failures = [line.removeprefix(": ") for line in lines if _FAILURE.match(line)]
    found = list(dict.fromkeys([*failures[-1:], *causes[-1:]])) or [
        _STREAM.sub("", line) for line in lines[:1]
    ]
    message = f"the query ended: {' | '.join(found) or type(reason).__name__}"
    if "STATE_STORE" in message:
        return StateError(f"{message} | Restore the checkpoint.")
    return ThalwegError(message)


def _error(kind: type[ThalwegError], message: str) -> ThalwegError:
    """An error with exactly this message; some classes would add to it."""
    error: ThalwegError = kind.__new__(kind)
    error.args = (message,)
    if isinstance(error, PlanError):
        error.file = error.line = None
    return error
