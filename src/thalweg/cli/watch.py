"""`thalweg watch`: how fresh the answers of a query over update queues are."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click
import pyarrow as pa

from thalweg.errors import ReceiverError
from thalweg.freshness.key_table import pack_keys
from thalweg.freshness.receiver_client import ReceiverClient
from thalweg.model.printing import printable
from thalweg.shards.output.newest_answers import WRITTEN, NewestAnswers, WatchNote

__all__ = ["watch"]

_WIDE = 100


@click.command
@click.argument("checkpoint", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--keys", "most", default=20, show_default=True, help="How many keys to show.")
@click.option("--every", default=1.0, show_default=True, help="Seconds from one table to the next.")
@click.option("--count", type=int, help="How many tables; without it, until Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each table.")
def watch(checkpoint: Path, *, most: int, every: float, count: int | None, as_json: bool) -> None:
    """Show how fresh the answers of a query behind a receiver are. CHECKPOINT is its checkpoint.

    For the keys whose answers are stalest: the newest answer, its age and staleness, and how many
    updates were replaced by newer ones. For the receiver: how much of its capacity is in use."""
    note = WatchNote.read(checkpoint)
    answers = NewestAnswers(note, checkpoint)
    looks = 0
    while True:
        answers.refresh()
        seen = look(note, answers, most)
        if as_json:
            click.echo(json.dumps(seen, default=str))
        else:
            if looks:
                click.clear()
            for line in show(seen):
                click.echo(printable(line))
        looks += 1
        if count is not None and looks >= count:
            return
        time.sleep(every)


def look(note: WatchNote, answers: NewestAnswers, most: int) -> dict[str, Any]:
    """Answers, keys and queues at one moment, as a JSON object; times in microseconds."""
    now = time.time_ns() // 1_000
    answers_by_key = _by_key(answers.rows, note.keys)
    sources: dict[str, Any] = {}
    for source, folder in note.receivers.items():
        try:
            with ReceiverClient.of(folder, timeout_s=10) as receiver:
                status, stalest = receiver.status(), receiver.stalest_keys(most)
        except ReceiverError as reason:
            sources[source] = {"error": str(reason)}
            continue
        for entry in stalest:
            answer = answers_by_key.get(str(entry["key"]))
            entry["answer"] = answer
            entry["age"] = None if answer is None else now - answer.pop(WRITTEN)
        sources[source] = {"queue": status, "keys": stalest}
    return {"time": now, "answers_readable": answers.is_readable, "sources": sources}


def _by_key(rows: pa.Table | None, keys: list[str]) -> dict[str, dict[str, Any]]:
    """Answers by key, each key in the text form that receivers use."""
    if rows is None:
        return {}
    if not keys:
        return {"": rows.to_pylist()[-1]}
    columns = [rows[name].combine_chunks() for name in keys]
    if len(columns) == 1:
        names = [str(value) for value in columns[0].to_pylist()]
    else:
        names = [value.decode("utf-8", "replace") for value in pack_keys(columns).to_pylist()]
    return dict(zip(names, rows.to_pylist(), strict=True))


def show(seen: dict[str, Any]) -> list[str]:
    """A look as lines of text."""
    lines: list[str] = []
    for source, report in seen["sources"].items():
        if "error" in report:
            lines.append(f"{source}: {report['error']}")
            continue
        queue = report["queue"]
        share = 100 * queue["bytes_used"] / max(queue["bytes_allowed"], 1)
        lines += [
            (
                f"{source}: {queue['waiting']:,} of {queue['keys']:,} keys wait, "
                f"{queue['arrived']:,} updates arrived, {queue['conflated']:,} conflated, "
                f"{queue['refused']:,} refused"
            ),
            (
                f"  staleness {_seconds(queue['staleness_now'])} now, "
                f"p99 {_seconds(queue['staleness_p99'])}, "
                f"{_seconds(queue['staleness_average'])} on average; "
                f"{queue['bytes_used']:,} bytes, {share:.0f}% of the budget"
            ),
            (
                f"  a micro-batch costs {_seconds(queue['batch_overhead'])} "
                f"and {queue['row_cost']:.1f} us a row; {queue['open_cuts']} open"
            ),
            f"  {'key':<20} {'stale':>8} {'age':>8} {'conflated':>10}  answer",
        ]
        for entry in report["keys"]:
            answer = entry["answer"]
            text = "" if answer is None else json.dumps(answer, default=str)
            age = "" if entry["age"] is None else _seconds(entry["age"])
            lines.append(
                f"  {entry['key']!s:<20.20} {_seconds(entry['staleness']):>8} {age:>8} "
                f"{entry['conflated']:>10,}  {text:.{_WIDE}}"
            )
    if not seen["answers_readable"]:
        lines.append("the answers go where they cannot be read from here.")
    return lines


def _seconds(ticks: float) -> str:
    return f"{ticks / 1e6:.2f} s"
