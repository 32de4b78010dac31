"""The command itself: version, help, errors as messages."""

from __future__ import annotations

from importlib.metadata import version

import click
import pytest
from click.testing import CliRunner

from thalweg.cli import main
from thalweg.errors import StateError


def test_version() -> None:
    result = CliRunner().invoke(main, ["--version"])
    assert (result.exit_code, result.output) == (0, f"thalweg, version {version('thalweg')}\n")


def test_help_has_a_line_for_each_command() -> None:
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    context = click.Context(main)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None, name
        assert f"  {name} " in result.output


def test_unknown_command_is_refused() -> None:
    result = CliRunner().invoke(main, ["bnech"])
    assert result.exit_code == 2
    assert "bnech" in result.output


def test_an_error_raised_on_purpose_is_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command
    def broken() -> None:
        raise StateError("the snapshot belongs to another query.")

    monkeypatch.setattr(main, "get_command", lambda _context, _name: broken)
    result = CliRunner().invoke(main, ["broken"])
    assert (result.exit_code, result.output) == (
        1,
        "Error: the snapshot belongs to another query.\n",
    )
