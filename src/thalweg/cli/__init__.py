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
    "advise": "How disordered a recorded stream is, and which progress policy fits.",
    "bench": "Run benchmarks of a source checkout.",
    "cutover": "Replace a query that runs under thalweg ha by another one.",
    "doctor": "Whether everything is there that a query needs, and what to do if not.",
    "demo": "Late packets in; early, revised and final answers out.",
    "ha": "A query as several replicas with a merge in front.",
    "quicken": "Make Spark start faster: keep an archive of the classes it loads.",
    "receive": "Hold the newest row of each key on disk and take rows over TCP.",
    "repro": "Repeat experiments of the literature.",
    "sql": "A query in SQL over files, on Spark or in-process; without one, a shell.",
    "watch": "How fresh the answers of a query behind a receiver are.",
    "why": "What a query on Spark waits for.",
    "udm": "User-defined modules: what there is, and whether it does what it says.",
}
"""Name and line of help; the command lives in the module `thalweg.cli.<name>` under its own
name."""


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
