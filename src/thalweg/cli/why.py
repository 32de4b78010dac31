"""`thalweg why`: what a query on Spark waits for, from the report that lies in its checkpoint."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import click

from thalweg.errors import InputError
from thalweg.model.printing import printable
from thalweg.model.time import time_us
from thalweg.shards.reports.combined import combined_why, read_reports

__all__ = ["why"]


def _time(text: str | None) -> int | None:
    if text is None:
        return None
    if text.lstrip("-").isdigit():
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError as reason:
        raise InputError(
            f"{text!r} is no time: give ticks, or a time such as 2026-01-31T12:00."
        ) from reason
    return time_us(time if time.tzinfo else time.replace(tzinfo=UTC))


@click.command
@click.argument("checkpoint", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--at",
    metavar="TIME",
    help=(
        "The start of the answer that is missed: ticks, or a time in UTC. By default the first that"
        " is not final."
    ),
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def why(checkpoint: Path, *, at: str | None, as_json: bool) -> None:
    """Show why answers of a query on Spark are not final yet. CHECKPOINT is its checkpoint.

    As of the last micro-batch: the operator that waits, the source whose promise it waits for,
    since when, and what would release it.
    """
    batch, reports = read_reports(checkpoint)
    why_ = combined_why(reports, _time(at))
    if not as_json:
        click.echo(printable(f"as of micro-batch {batch}: {why_}"))
        return
    waits = [
        {
            "source": w.source,
            "operator": w.operator,
            "needs": w.needs,
            "has": w.has,
            "since": w.since,
            "release": list(w.release),
        }
        for w in why_.waits
    ]
    facts = {"batch": batch, "time": why_.time, "promise": why_.promise, "settled": why_.settled}
    click.echo(json.dumps({**facts, "waits": waits, "notes": why_.notes}))
