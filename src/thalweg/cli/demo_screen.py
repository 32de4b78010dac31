"""What the demo shows: lines, or on a terminal a picture that changes while the query runs.

The picture has a bar for each window of one source. A bar is yellow while its answer may still
change and green when it is final; a number behind it says how often it was revised.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TextIO

import click

from thalweg.cli.demo_changes import ChangeKind

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

    from thalweg.cli.demo_watch import Answer, Watch

__all__ = ["Lines", "Picture", "Screen", "clock_text", "screen"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BAR = 34
_WINDOWS = 9
_COLOURS = {
    ChangeKind.EARLY: "yellow",
    ChangeKind.REVISED: "red",
    ChangeKind.FINAL: "green",
}


class Screen(Protocol):
    """Where the demo writes to."""

    def doing(self, text: str) -> None:
        """Show the step that runs now."""

    def show(self, watch: Watch) -> None:
        """Show the current answers."""

    def close(self, watch: Watch, lines: Iterable[str]) -> None:
        """Show the final answers, and the lines that explain them."""


def clock_text(ticks: int) -> str:
    """A time of the day.

    >>> clock_text(3_661_500_000)
    '01:01:01.5'
    """
    moment = _EPOCH + timedelta(microseconds=ticks)
    tenth = moment.microsecond // 100_000
    return f"{moment:%H:%M:%S}" + (f".{tenth}" if tenth else "")


def day_text(ticks: int) -> str:
    """
    >>> day_text(0)
    'Thursday 1 January 1970'
    """
    moment = _EPOCH + timedelta(microseconds=ticks)
    return f"{moment:%A} {moment.day} {moment:%B %Y}"


class Lines:
    """Plain lines, for a file, a pipe, or where no terminal package is installed."""

    def doing(self, text: str) -> None:
        click.echo(f"{text} ...")

    def show(self, watch: Watch) -> None:
        """Does nothing: printed lines cannot change, so all is printed by `close`."""

    def close(self, watch: Watch, lines: Iterable[str]) -> None:
        for line in lines:
            click.echo(line)


class _Transcript:
    """A text stream that copies what is written to a second one."""

    def __init__(self, stream: TextIO, copy: TextIO) -> None:
        self._stream, self._copy = stream, copy

    def write(self, text: str) -> int:
        self._copy.write(text)
        return self._stream.write(text)

    def flush(self) -> None:
        self._copy.flush()
        self._stream.flush()

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        return self._stream.isatty()


class Picture:
    """A terminal: a line with the current step, and bars that change."""

    def __init__(self, transcript: Path | None = None, picture: Path | None = None) -> None:
        from rich.console import Console
        from rich.live import Live

        out: TextIO = sys.stdout
        if transcript is not None:
            copy = transcript.open("w", encoding="utf-8", newline="")
            out = _Transcript(sys.stdout, copy)  # type: ignore[assignment]
        self._console = Console(file=out, highlight=False)
        self._picture_path = picture
        self._watch: Watch | None = None
        self._text = "starting"
        self._live: Live = Live(self._drawn(), console=self._console, refresh_per_second=8)
        self._live.start()

    def doing(self, text: str) -> None:
        self._text = text
        self._live.update(self._drawn(), refresh=True)  # however short the step is

    def show(self, watch: Watch) -> None:
        self._watch = watch
        self._live.update(self._drawn())

    def close(self, watch: Watch, lines: Iterable[str]) -> None:
        texts = list(lines)  # may run the rest of the demo, so before the live display stops
        self._live.update(_bars(watch))
        self._live.stop()
        _print(self._console, texts)
        if self._picture_path is not None:
            _save_svg(self._picture_path, watch, texts, self._console.width)

    def stop(self) -> None:
        """Leave the terminal as it was, after an error."""
        self._live.stop()

    def _drawn(self) -> RenderableType:
        from rich.console import Group
        from rich.spinner import Spinner

        spinner = Spinner("dots", text=self._text)
        return spinner if self._watch is None else Group(_bars(self._watch), spinner)


def _bars(watch: Watch) -> RenderableType:
    """A bar for each of the newest windows of the source."""
    from rich.table import Table
    from rich.text import Text

    day = day_text(watch.start)
    table = Table(
        box=None, title=f"Packets from {watch.src}, {day}", title_style="bold", title_justify="left"
    )
    for name in ("ten minutes", "packets", "", "answer"):
        table.add_column(name, header_style="dim", justify="right" if name == "packets" else "left")
    newest = watch.newest(_WINDOWS)
    most = max((answer.count or 0 for answer in newest), default=1) or 1
    for answer in newest:
        count = answer.count or 0
        kind = answer.kind
        bar = "█" * max(round(_BAR * count / most), 1)
        table.add_row(
            f"{clock_text(answer.start)[:5]} to {clock_text(answer.end)[:5]}",
            f"{count:,}",
            Text(bar, style=_COLOURS[ChangeKind.FINAL if answer.is_final else ChangeKind.EARLY]),
            Text(_answer_text(answer, kind), style=_COLOURS[kind]),
        )
    return table


def _answer_text(answer: Answer, kind: ChangeKind) -> str:
    times = answer.revisions
    revised = "" if not times else f", revised {times} {'time' if times == 1 else 'times'}"
    if kind is ChangeKind.FINAL:
        return f"final{revised}"
    return "early: late packets may still come" if not times else f"early{revised}"


def _print(console: Console, lines: Iterable[str]) -> None:
    for line in lines:
        console.print(line, style=_style(line), markup=False)


def _save_svg(picture: Path, watch: Watch, lines: Iterable[str], width: int) -> None:
    """Save the final screen as an SVG that loads no fonts from the network."""
    from rich._export_format import CONSOLE_SVG_FORMAT
    from rich.console import Console

    console = Console(
        file=StringIO(),
        record=True,
        width=width,
        force_terminal=True,
        color_system="truecolor",
        highlight=False,
    )
    console.print(_bars(watch))
    _print(console, lines)
    form = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    console.save_svg(str(picture), title="thalweg demo", code_format=form, unique_id="demo")


def _style(line: str) -> str:
    """The colour of a line: that of the kind of change it reports."""
    for kind, colour in _COLOURS.items():
        if f" {kind} " in line[:24]:
            return colour
    return ""


def screen(transcript: Path | None, picture: Path | None) -> Screen:
    """Bars on a terminal, plain lines elsewhere."""
    if sys.stdout.isatty() and find_spec("rich") is not None:
        return Picture(transcript, picture)
    return Lines()
