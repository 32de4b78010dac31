"""`thalweg bench`: runs the benchmarks of a source checkout.

A benchmark is a module `benchmarks/<name>.py` with a function `run(emit, **options)` that measures
and calls `emit(metric, value, unit, **params)` once per figure. Benchmarks and the systems they
compare with are not part of the installed package (see `checkout`).
"""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import click

from thalweg.cli.checkout import Measured, echo_list, load_module, require_checkout, select

__all__ = [
    "Emit",
    "Figure",
    "bench",
    "benchmarks_in",
    "format_table",
    "load",
]

Value = int | float | str | bool


class Emit(Protocol):
    """What a benchmark calls with each figure."""

    def __call__(self, metric: str, value: float, unit: str, **params: Value) -> None: ...


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured figure."""

    bench: str
    metric: str
    value: float
    unit: str
    params: dict[str, Value]

    def to_json(self) -> str:
        """
        >>> Figure("core", "throughput", 1.5, "M/s", {"query": "filter"}).to_json()
        '{"bench": "core", "metric": "throughput", "value": 1.5, "unit": "M/s", "params": {"query":
        "filter"}}'
        """
        fields = {
            "bench": self.bench,
            "metric": self.metric,
            "value": self.value,
            "unit": self.unit,
            "params": self.params,
        }
        return json.dumps(
            fields, allow_nan=False, default=lambda scalar: scalar.item()
        )  # NumPy's numbers


def benchmarks_in(checkout: Path) -> Iterator[Measured]:
    """The modules that define `run`, by name. They are read, not imported: some need packages that
    others do not."""
    for file in sorted((checkout / "benchmarks").glob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"), str(file))
        if any(isinstance(node, ast.FunctionDef) and node.name == "run" for node in tree.body):
            summary = (ast.get_docstring(tree) or "").split("\n")[0]
            yield Measured(file.stem, summary)


def load(checkout: Path, name: str) -> Callable[..., None]:
    """The `run` function of one benchmark."""
    run: Callable[..., None] = load_module(checkout, name).run
    return run


def format_table(figures: list[Figure]) -> str:
    """Figures as aligned columns.

    >>> time = Figure("core", "throughput", 2500000.0, "rows/s", {"query": "filter"})
    >>> print(format_table([time, Figure("core", "state", 17, "B", {})]))
    metric          value  unit    params
    throughput  2,500,000  rows/s  query=filter
    state              17  B
    """
    rows = [("metric", "value", "unit", "params")]
    for figure in figures:
        params = " ".join(f"{name}={value}" for name, value in figure.params.items())
        rows.append((figure.metric, _format_value(figure.value), figure.unit, params))
    wide = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = (
        f"{metric:<{wide[0]}}  {value:>{wide[1]}}  {unit:<{wide[2]}}  {params}".rstrip()
        for metric, value, unit, params in rows
    )
    return "\n".join(lines)


def _format_value(value: float) -> str:
    return f"{value:,.0f}" if isinstance(value, int) or abs(value) >= 1000 else f"{value:.4g}"


def _parse_option(text: str) -> tuple[str, Value]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise click.BadParameter(f"{text!r} is not NAME=VALUE.", param_hint="--option")
    try:
        parsed: Any = ast.literal_eval(value)
    except (ValueError, SyntaxError):
        parsed = value
    return name, parsed if isinstance(parsed, (int, float, str, bool)) else value


def _check_options(name: str, run: Callable[..., None], options: dict[str, Value]) -> None:
    try:
        inspect.signature(run).bind(None, **options)
    except TypeError as error:
        raise click.ClickException(
            f"benchmark {name!r} cannot take these options: {error}."
        ) from error


@click.command
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON object a line, as soon as it is measured."
)
@click.option("--list", "list_only", is_flag=True, help="Show which benchmarks there are.")
@click.option(
    "--option",
    "-o",
    "pairs",
    multiple=True,
    metavar="NAME=VALUE",
    help="Passed to the benchmark; may be repeated.",
)
def bench(
    names: tuple[str, ...], *, as_json: bool, list_only: bool, pairs: tuple[str, ...]
) -> None:
    """Run the named benchmarks, or all of them."""
    checkout = require_checkout("benchmarks")
    found = list(benchmarks_in(checkout))
    if list_only:
        echo_list(found)
        return
    options = dict(_parse_option(pair) for pair in pairs)
    selected = {name: load(checkout, name) for name in select("benchmark", names, found)}
    for name, run in selected.items():
        _check_options(name, run, options)
    for name, run in selected.items():
        _run_one(name, run, options, as_json=as_json)


def _run_one(
    name: str, run: Callable[..., None], options: dict[str, Value], *, as_json: bool
) -> None:
    figures: list[Figure] = []

    def emit(metric: str, value: float, unit: str, **params: Value) -> None:
        figure = Figure(name, metric, value, unit, params)
        if as_json:
            click.echo(figure.to_json())
        figures.append(figure)

    run(emit, **options)
    if not as_json:
        click.echo(f"{name}\n{format_table(figures)}")
