"""The sinks and the forms of answers: `to=`, `path=` and `output=` are checked before Spark
starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thalweg.errors import PlanError, did_you_mean
from thalweg.shards.output.typed_rows import FORMS, PACKED, Form

__all__ = ["FILE_FORMATS", "require_hosted", "require_output", "require_sink"]

FILE_FORMATS = ("parquet", "orc", "csv", "json", "text", "avro", "delta", "iceberg")
_SINKS = ("memory", "console", "noop", "elements", *FILE_FORMATS)
_HOSTED_SINKS = ("memory", "parquet", "noop")


def require_sink(to: str | Callable[..., Any], path: str | None) -> None:
    """Refuse an unknown sink, and a path that does not go with it."""
    if callable(to):
        if path is not None:
            raise PlanError(
                "path= goes with a file format; a function knows itself where to write."
            )
        return
    if to not in _SINKS and "." not in to:
        raise PlanError(
            f"to={to!r} is no place for answers{did_you_mean(str(to), _SINKS)} There are "
            f"{', '.join(_SINKS)}, and any function of a DataFrame and the number of its "
            "micro-batch."
        )
    if to in ("memory", "console", "noop"):
        if path is not None:
            raise PlanError(f"to={to!r} writes no files; leave path= out, or say to='parquet'.")
    elif path is None:
        raise PlanError(f"to={to!r} needs a path.")
    elif to == "elements" and "://" in path:
        raise PlanError(
            f"to='elements' writes a folder of this machine, and {path!r} is elsewhere: a batch "
            "must appear whole, by renaming."
        )


def require_output(output: str) -> None:
    """Refuse an unknown form of answers."""
    if output not in (*FORMS, PACKED):
        hint = did_you_mean(str(output), map(str, FORMS))
        raise PlanError(f"output must be one of {', '.join(FORMS)}{hint} Got {output!r}.")


def require_hosted(
    to: str, path: str | None, output: str, consistency: str, *, queries: int
) -> None:
    """Refuse a sink or a form that the queries of a host cannot have."""
    require_output(output)
    if to not in _HOSTED_SINKS:
        raise PlanError(f'add: to= is "memory", "parquet" or "noop"; got {to!r}.')
    if (to == "parquet") != (path is not None):
        raise PlanError('add: to="parquet" and path= go together.')
    if path is not None and queries > 1:
        raise PlanError("add_all: give queries that write files one by one, each its own path.")
    if output == Form.FINAL and consistency != "final":
        raise PlanError(
            "output='final' needs consistency='final': other answers may still be revised."
        )
