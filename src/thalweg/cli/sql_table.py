"""Answers as a table on a terminal."""

from __future__ import annotations

from rich.console import Group
from rich.table import Table
from rich.text import Text

from thalweg.cli.sql_run import Look
from thalweg.model.answers import AnswerRow
from thalweg.model.clocks import time_value
from thalweg.model.printing import printable
from thalweg.model.time import INFINITY, time_us

__all__ = ["show", "sort_key"]


def sort_key(row: AnswerRow) -> tuple[int, int]:
    """Answers in the order of their times; one without end is the last."""
    start, end, _ = row
    return time_us(start), INFINITY if end is None else time_us(end)


def show(look: Look, columns: list[str], *, most: int) -> Group:
    """The latest answers, and a line about the query."""
    rows = look.rows()
    table = Table(header_style="bold", expand=False)
    for name in ("from", "to"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in columns:
        numeric = all(isinstance(row[2][name], (int, float)) for row in rows[:50])
        head = Text(printable(name))
        table.add_column(head, justify="right" if numeric and rows else "left")
    latest = sorted(rows, key=sort_key)[-most:]
    settled = None if look.cti is None else time_value(look.cti, look.clock)
    for start, end, payload in latest:
        final = look.cti is not None and look.cti > time_us(start)
        texts = [_time(start), _time(end), *(_value(payload[name]) for name in columns)]
        table.add_row(
            *(Text(printable(text)) for text in texts),
            style=None if final or look.ended else "yellow",
        )
    hidden = len(rows) - len(latest)
    more = (
        f"the last {len(latest)} of {len(rows):,} answers" if hidden else f"{len(rows):,} answers"
    )
    until = "nothing yet" if look.cti is None else _time(settled)
    news = (
        f"{look.read:,} rows read, {look.changes:,} changes, {look.retractions:,} retractions, "
        f"{look.late:,} late"
    )
    return Group(table, Text(f"{more}; {news}; final up to {until}", style="dim"))


def _time(time: object) -> str:
    """A time of an answer; without end is None, or infinity in ticks."""
    return "the end" if time is None or time == INFINITY else str(time)


def _value(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
