"""Semantic test vectors: run a file of them and say of each whether it passes.

    python -m thalweg.testing.vectors FILE [--engine local|spark] [--forms N]

prints one JSON object a line, `{"name", "status": "pass" | "fail", "detail"}`, and
ends with code 0 only when nothing failed. Each case is played under N physical forms (50 unless
told; 2 on Spark), at every consistency in turn: the table must be the expected one, every output
must keep its own promises, and the promises the file asks for must have been made.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from thalweg.testing._vector_data import Vector, read_vector
from thalweg.testing._vector_expr import VectorError
from thalweg.testing._vector_run import failure_of
from thalweg.testing.runners import EngineType

__all__ = ["FORMS", "Outcome", "main", "read_vectors", "run_vector", "run_vectors"]

FORMS = 50
SPARK_FORMS = 2
"""On Spark a form takes seconds."""


@dataclass(frozen=True)
class Outcome:
    """The result of one case."""

    name: str
    status: str
    detail: str = ""

    def __str__(self) -> str:
        return json.dumps(asdict(self))


def run_vector(vector: Vector, *, forms: int = FORMS, engine: EngineType | None = None) -> Outcome:
    """One case, on `thalweg.run.Engine` by default."""
    try:
        wrong = failure_of(vector, engine if engine is not None else _local(), forms)
    except Exception as crash:  # the file goes on, whatever one case does
        return Outcome(vector.name, "fail", f"{type(crash).__name__}: {crash}")
    return Outcome(vector.name, "pass") if wrong is None else Outcome(vector.name, "fail", wrong)


def read_vectors(lines: Iterable[str]) -> Iterator[Vector | Outcome]:
    """The cases of a file; a line that is none is an outcome already."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield read_vector(line)
        except VectorError as reason:
            yield Outcome(f"line {number}", "fail", f"line {number}: {reason}")


def run_vectors(
    lines: Iterable[str], *, forms: int = FORMS, engine: EngineType | None = None
) -> Iterator[Outcome]:
    """Every case of a file, in order."""
    for vector in read_vectors(lines):
        yield (
            vector
            if isinstance(vector, Outcome)
            else run_vector(vector, forms=forms, engine=engine)
        )


def _local() -> EngineType:
    from thalweg.run import Engine

    return Engine


def _spark() -> EngineType:
    from thalweg.testing.spark_engine import SparkEngine

    return SparkEngine


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m thalweg.testing.vectors", description="Run a file of semantic test vectors."
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--engine", choices=("local", "spark"), default="local")
    parser.add_argument(
        "--forms",
        type=int,
        help=f"physical forms per case (default {FORMS}; {SPARK_FORMS} on Spark)",
    )
    options = parser.parse_args(arguments)
    on_spark = options.engine == "spark"
    forms = options.forms if options.forms is not None else SPARK_FORMS if on_spark else FORMS
    if forms < 1:
        parser.error("--forms must be at least 1")
    try:
        lines = options.file.read_text(encoding="utf-8").splitlines()
    except OSError as reason:
        parser.error(f"cannot read {options.file}: {reason.strerror}")
    failed = False
    for outcome in run_vectors(lines, forms=forms, engine=_spark() if on_spark else None):
        click.echo(str(outcome))
        failed |= outcome.status == "fail"
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
