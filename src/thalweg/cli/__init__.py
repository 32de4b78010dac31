"""The `thalweg` command. Each subcommand is one module, imported when it is called."""

from __future__ import annotations

import errno
import importlib
from pathlib import Path
from typing import Any

import click

from thalweg.errors import MissingPackageError, ThalwegError

__all__ = ["main"]

_COMMANDS = {
    "demo": "Late packets in; early, revised and final answers out.",
    "sql": "Run queries in SQL over files, or a shell.",
    "doctor": "Check that Python, Java and Spark are there.",
    "advise": "Measure the disorder of recorded rows, propose a policy.",
    "why": "Show what a query on Spark waits for.",
    "udm": "List and check user-defined modules.",
    "receive": "Hold the newest row of each key, and take rows over TCP.",
    "watch": "Show how fresh the answers behind a receiver are.",
    "ha": "Run a query as several replicas, merged.",
    "cutover": "Replace a query that runs under `thalweg ha`.",
    "quicken": "Make Spark start faster.",
    "bench": "Run benchmarks of a source checkout.",
    "repro": "Repeat experiments of the literature.",
}
"""Commands in the order of the help, with their lines there. The command `name` is the function
`name` of the module `thalweg.cli.name`."""


_EXTRAS = {
    "pyspark": "spark",
    "pandas": "spark",
    "rich": "sql-shell",
    "prompt_toolkit": "sql-shell",
    "matplotlib": "plot",
    "datasketches": "sketches",
    "hypothesis": "testing",
    "duckdb": "bench",
}
"""Which extra brings an optional package."""

_OF_A_CHECKOUT = frozenset({"bench", "repro"})


def _called(ctx: click.Context) -> str:
    return f"thalweg {ctx.invoked_subcommand or ''}".strip()


def _shown() -> dict[str, str]:
    """The commands that work here: benchmarks are not part of the package."""
    checkout = (Path(__file__).parents[3] / "benchmarks").is_dir()
    return {
        name: summary
        for name, summary in _COMMANDS.items()
        if checkout or name not in _OF_A_CHECKOUT
    }


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_shown())

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        command = getattr(importlib.import_module(f"thalweg.cli.{name}"), name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_shown().items()))

    def invoke(self, ctx: click.Context) -> Any:
        """An error raised on purpose is a message for the user, not a traceback."""
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            extra = _EXTRAS.get((error.name or "").partition(".")[0])
            if extra is None:
                raise
            raise click.ClickException(
                str(MissingPackageError(str(error.name), extra, _called(ctx)))
            ) from error
        except OSError as error:
            if error.filename is None or error.errno == errno.EPIPE:
                raise
            raise click.ClickException(f"{error.filename}: {error.strerror}.") from error
        except ThalwegError as error:
            from thalweg.model.printing import printable

            raise click.ClickException(
                printable(str(getattr(error, "reason", error)))
            ) from error  # no line of ours for a user to look at


@click.group(cls=_Commands)
@click.version_option(package_name="thalweg", prog_name="thalweg")
def main() -> None:
    """Continuous queries over events that have lifetimes."""
