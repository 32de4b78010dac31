"""`thalweg udm`: the modules that are installed here, what each declares, and a check of the laws
it claims."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import click

from thalweg.errors import ThalwegError
from thalweg.expr.user_calls import UserFunction
from thalweg.udm import DEFAULT, Module

__all__ = ["udm"]


@click.group
@click.option(
    "--load",
    "-l",
    "modules",
    multiple=True,
    metavar="MODULE",
    help="Import this Python module first; may be repeated.",
)
def udm(modules: tuple[str, ...]) -> None:
    """User-defined functions, aggregates and operators."""
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    for name in modules:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise click.ClickException(f"cannot import {name!r}: {error}.") from error


@udm.command("list")
def list_modules() -> None:
    """All modules, of Thalweg, of installed packages and of --load."""
    entries = DEFAULT.all()
    wide = max((len(entry.label) for entry in entries), default=0)
    for entry in entries:
        kind = entry.kind if isinstance(entry, Module) else "function"
        summary = entry.doc.splitlines()[0] if entry.doc else ""
        click.echo(f"{entry.label:<{wide}}  {kind:<9}  {summary}".rstrip())


@udm.command("show")
@click.argument("name")
def show(name: str) -> None:
    """The inputs, outputs and laws of a module."""
    function = DEFAULT.find_function(name)
    if function is not None:
        click.echo("\n".join(_function(function)))
        return
    click.echo("\n".join(_module(DEFAULT.find(name))))


def _function(function: UserFunction) -> list[str]:
    inputs = ", ".join("any" if kind is None else str(kind) for kind in function.inputs)
    lines = [
        f"{function.label}, a function{' of columns' if function.vectorised else ''}",
        f"  {inputs} -> {function.output}",
    ]
    return [*lines, *_text(function.doc)]


def _module(module: Module) -> list[str]:
    inputs = (
        "any columns"
        if module.inputs is None
        else ", ".join(f"{name} {kind}" for name, kind in module.inputs)
    )
    output = (
        "depends on the input"
        if callable(module.output) and not hasattr(module.output, "id")
        else str(module.output)
    )
    properties = [str(module.properties)]
    properties += [
        fact for fact in ("incremental", "differential", "mergeable") if getattr(module, fact)
    ]
    properties += ["vectorised"] if module.in_columns else []
    lines = [
        f"{module.label}, an {module.kind}" + (", time-sensitive" if module.time_sensitive else ""),
        f"  takes      {inputs} (as {module.takes}, nulls: {module.nulls})",
        f"  gives      {output}",
        f"  parameters {module.signature() or 'none'}",
        f"  policies   clip {module.clip}, stamp {module.stamp}",
        f"  claims     {', '.join(properties)}",
        f"  from       {'.'.join(module.origin)}",
    ]
    return [*lines, *_text(module.doc)]


def _text(doc: str) -> list[str]:
    return ["", *(f"  {line}".rstrip() for line in doc.splitlines())] if doc else []


@udm.command("check")
@click.argument("names", nargs=-1, required=True)
@click.option(
    "--param",
    "-p",
    "pairs",
    multiple=True,
    metavar="NAME=VALUE",
    help="An initialisation parameter, as JSON or text.",
)
@click.option(
    "--column",
    "-c",
    "columns",
    multiple=True,
    metavar="NAME:TYPE",
    help="A column of the input, for a module that takes any.",
)
@click.option("--trials", default=100, show_default=True, help="Random windows for each law.")
@click.option("--seed", default=0, show_default=True)
def check(
    names: tuple[str, ...], pairs: tuple[str, ...], columns: tuple[str, ...], trials: int, seed: int
) -> None:
    """Try the laws of modules on random windows; a counter-example is made small."""
    from thalweg.testing.modules import check_module

    params = dict(_pair(pair, "=") for pair in pairs)
    typed = {name: str(kind) for name, kind in (_pair(column, ":") for column in columns)} or None
    broken = 0
    for name in names:
        try:
            findings = check_module(name, params=params, columns=typed, trials=trials, seed=seed)
        except ThalwegError as error:
            raise click.ClickException(str(error)) from error
        click.echo(DEFAULT.find(name).label)
        for finding in findings:
            broken += not finding.holds
            click.echo(
                f"  {finding.law:<18} {'holds' if finding.holds else 'BROKEN'} ({finding.trials} "
                "windows)"
            )
            if finding.broken is not None:
                click.echo("\n".join(f"    {line}" for line in finding.broken.splitlines()))
    if broken:
        raise click.ClickException(f"{broken} {'law is' if broken == 1 else 'laws are'} broken.")


def _pair(text: str, sign: str) -> tuple[str, Any]:
    name, found, value = text.partition(sign)
    if not found:
        raise click.BadParameter(f"{text!r} is not NAME{sign}VALUE.")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value
