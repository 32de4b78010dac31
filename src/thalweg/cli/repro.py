"""`thalweg repro`: experiments of the literature on this engine, as series and as pictures.

An experiment is a module `benchmarks/repro/fig_<chapter>_<number>.py` with a `TITLE`, a generator
`series(scale)` of measured points and a function `draw(points, path)` that makes the picture.
`scale` is a share of the full size: 1 is what the machine does in minutes, 0.01 is a smoke test.
Like the benchmarks they belong to a source checkout.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol, cast

import click

from thalweg.cli.bench import Figure, format_table
from thalweg.cli.checkout import Measured, echo_list, load_module, require_checkout, select

__all__ = ["Experiment", "Line", "experiments_in", "load_experiment", "repro"]

Line = Figure
"""One measured point: `bench` is "repro", and `params` name at least `figure`, `series` and `x`."""


class Experiment(Protocol):
    """What a module of `benchmarks/repro` provides."""

    TITLE: str

    def series(self, scale: float) -> Iterator[Line]: ...

    def draw(self, lines: Iterable[Line], path: Path) -> None: ...


def experiments_in(checkout: Path) -> Iterator[Measured]:
    """The experiments by the number of their figure, read and not imported."""
    for file in sorted((checkout / "benchmarks" / "repro").glob("fig_*.py"), key=_by_number):
        tree = ast.parse(file.read_text(encoding="utf-8"), str(file))
        yield Measured(_number_of(file), (ast.get_docstring(tree) or "").split("\n")[0])


def _number_of(file: Path) -> str:
    return file.stem.removeprefix("fig_").replace("_", "-")


def _by_number(file: Path) -> list[tuple[bool, int, str]]:
    """6-9 comes before 6-10, and numbers before names."""
    return [
        (not part.isdigit(), int(part) if part.isdigit() else 0, part)
        for part in _number_of(file).split("-")
    ]


def load_experiment(checkout: Path, number: str) -> Experiment:
    """The module of one figure."""
    return cast(Experiment, load_module(checkout, f"repro.fig_{number.replace('-', '_')}"))


@click.command
@click.argument("figures", nargs=-1, metavar="[FIGURE]...")
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON object a line, as soon as it is measured."
)
@click.option(
    "--plot",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Also draw each figure here.",
)
@click.option(
    "--scale",
    type=click.FloatRange(0, min_open=True),
    default=1.0,
    show_default=True,
    help="Share of the full size.",
)
@click.option("--list", "list_only", is_flag=True, help="Show which experiments there are.")
def repro(
    figures: tuple[str, ...], *, as_json: bool, folder: Path | None, scale: float, list_only: bool
) -> None:
    """Repeat the named experiments, such as 6-10, or all of them."""
    checkout = require_checkout("experiments")
    found = list(experiments_in(checkout))
    if list_only:
        echo_list(found)
        return
    for number in select("experiment", figures, found):
        _repeat(number, load_experiment(checkout, number), scale, folder, as_json=as_json)


def _repeat(
    number: str, experiment: Experiment, scale: float, folder: Path | None, *, as_json: bool
) -> None:
    lines: list[Line] = []
    for line in experiment.series(scale):
        if as_json:
            click.echo(line.to_json())
        lines.append(line)
    if not as_json:
        click.echo(f"{number}: {experiment.TITLE}\n{format_table(lines)}")
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"fig-{number}.png"
        experiment.draw(lines, path)
        click.echo(str(path), err=as_json)  # what reads JSON lines is not disturbed
