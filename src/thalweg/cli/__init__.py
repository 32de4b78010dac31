"""The `thalweg` command. Each subcommand is one module, imported when it is called."""

from __future__ import annotations

import importlib
from importlib.metadata import version
from typing import Any

import click

from thalweg.errors import ThalwegError
from thalweg.model.printing import printable

__all__ = ["main"]

_COMMANDS = {
    "advise": "How disordered a recorded stream is, and which progress policy fits.",
    "bench": "Run benchmarks of a source checkout.",
    "demo": "Late packets in; early, revised and final answers out.",
    "repro": "Repeat experiments of the literature.",
    "sql": "A query in SQL over files, on Spark or in-process; without one, a shell.",
    "why": "What a query on Spark waits for.",
    "udm": "User-defined modules: what there is, and whether it does what it says.",
}
"""Name and line of help; the command lives in the module `thalweg.cli.<name>` under its own
name."""


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        command = getattr(importlib.import_module(f"thalweg.cli.{name}"), name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        """An error raised on purpose is a message for the user, not a traceback."""
        try:
            return super().invoke(ctx)
        except ThalwegError as error:
            raise click.ClickException(
                printable(str(getattr(error, "reason", error)))
            ) from error  # no line of ours for a user to look at


@click.group(cls=_Commands)
@click.version_option(version("thalweg"), prog_name="thalweg")
def main() -> None:
    """Continuous queries over events that have lifetimes."""
