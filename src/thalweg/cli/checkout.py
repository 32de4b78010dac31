"""Benchmarks and experiments of a source checkout: finding, listing, choosing and loading them.

They are not part of the installed package: they are looked for in the checkout around the current
folder, then in the one the package was imported from.
"""

from __future__ import annotations

import importlib
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from thalweg.errors import did_you_mean

__all__ = [
    "Measured",
    "echo_list",
    "find_checkout",
    "load_module",
    "require_checkout",
    "select",
]


@dataclass(frozen=True, slots=True)
class Measured:
    """A benchmark or an experiment that was found but not imported."""

    name: str
    summary: str


def find_checkout(start: Path, package: Path) -> Path | None:
    """The nearest folder that is this project's source, from `start` upwards, else the one around
    `package`."""
    for folder in [start, *start.parents, *package.parents]:
        if (folder / "benchmarks").is_dir() and _is_project(folder / "pyproject.toml"):
            return folder
    return None


def _is_project(file: Path) -> bool:
    try:
        project = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError):
        return False
    return bool(project.get("project", {}).get("name") == "thalweg")


def require_checkout(what: str) -> Path:
    checkout = find_checkout(Path.cwd(), Path(__file__))
    if checkout is None:
        raise click.ClickException(
            f"{what} are part of the source, not of the installed package: run this inside a "
            "checkout of thalweg that has benchmarks/."
        )
    return checkout


def load_module(checkout: Path, name: str) -> Any:
    """A module of `benchmarks`; it may import its neighbours as `benchmarks.<other>`."""
    if str(checkout) not in sys.path:
        sys.path.insert(0, str(checkout))
    return importlib.import_module(f"benchmarks.{name}")


def echo_list(found: Sequence[Measured]) -> None:
    """Print names and summaries as two columns."""
    wide = max((len(entry.name) for entry in found), default=0)
    for entry in found:
        click.echo(f"{entry.name:<{wide}}  {entry.summary}".rstrip())


def select(kind: str, names: tuple[str, ...], found: Sequence[Measured]) -> list[str]:
    """The names on the command line, if there are such; without any, all."""
    available = [entry.name for entry in found]
    for name in names:
        if name not in available:
            raise click.ClickException(
                f"no {kind} {name!r}{did_you_mean(name, available)} There are: "
                f"{', '.join(available) or 'none'}."
            )
    return list(names) or available
