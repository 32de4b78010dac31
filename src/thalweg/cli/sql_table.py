"""Answers as a table on a terminal."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from rich.console import Group
from rich.table import Table
from rich.text import Text

from thalweg.cli.sql_run import Look
from thalweg.model.time import INFINITY

__all__ = ["show"]


def show(look: Look, columns: list[str], *, most: int, dates: bool) -> Group:
    """The latest answers, and a line about the query."""
    rows = look.rows()
    table = Table(header_style="bold", expand=False)
    for name in ("from", "to"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in columns:
        numeric = all(isinstance(row[2][name], (int, float)) for row in rows[:50])
        table.add_column(name, justify="right" if numeric and rows else "left")
    latest = sorted(rows, key=lambda row: (row[0], row[1]))[-most:]
    for start, end, payload in latest:
        final = look.cti is not None and look.cti > start
        values = [
            _time(start, dates=dates),
            _time(end, dates=dates),
            *(_value(payload[name]) for name in columns),
        ]
        table.add_row(*values, style=None if final or look.ended else "yellow")
    hidden = len(rows) - len(latest)
    more = (
        f"the last {len(latest)} of {len(rows):,} answers" if hidden else f"{len(rows):,} answers"
    )
    settled = "nothing yet" if look.cti is None else _time(look.cti, dates=dates)
    news = f"{look.read:,} rows read, {look.changes:,} changes, {look.retractions:,} retractions, {look.late:,} late"
    return Group(table, Text(f"{more}; {news}; final up to {settled}", style="dim"))


def _time(ticks: int, *, dates: bool) -> str:
    if ticks == INFINITY:
        return "the end"
    if not dates:
        return str(ticks)
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=ticks)
    except OverflowError:
        return str(ticks)
    return moment.strftime("%Y-%m-%d %H:%M:%S") + (
        f".{ticks % 1_000_000:06}" if ticks % 1_000_000 else ""
    )


def _value(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
