"""The demo at work: disordered packets in; early answers, revisions and final answers out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa

import thalweg as tw
from thalweg.cli.demo_changes import ChangeKind
from thalweg.cli.demo_packets import (
    MINUTE,
    SECOND,
    SOURCES,
    SPAN,
    Packets,
    make_packets,
    packets_by_source,
)
from thalweg.cli.demo_screen import Screen, clock_text, day_text
from thalweg.cli.demo_watch import Watch
from thalweg.model.batch import Batch
from thalweg.model.cht import Row, rows_of_table, table_of_batches
from thalweg.model.time import time_us
from thalweg.run import Status

__all__ = ["Report", "play", "run_demo"]

Seen = Callable[[Watch], None]
_FIRST_HOUR = 9
"""The hour of today at which the first packet was sent."""
_SHOWN = 4
"""How many revisions of an answer are printed, besides the last one."""


@dataclass(frozen=True)
class Report:
    """What a run leaves behind."""

    table: pa.Table
    status: Status
    late: pa.Table


def play(
    packets: Packets,
    watch: Watch | None,
    *,
    every: int,
    consistency: str,
    clock: Callable[[], float],
    seen: Seen | None = None,
) -> Report:
    """Run the query over the packets as they arrive."""
    query = packets_by_source()
    engine = tw.Engine(query, consistency=consistency, clock=clock)
    out: list[Batch] = []
    for at, rows in packets.cut(every):
        for batch in engine.push("packets", rows):
            out.append(batch)
            if watch is not None:
                watch.see(at, batch)
        if seen is not None and watch is not None:
            seen(watch)
    status, late = engine.status(), engine.late("packets")
    out += engine.finish()
    return Report(table_of_batches(out, query.schema), status, late)


def _tell(watch: Watch) -> Iterator[str]:
    answer = watch.followed
    yield "The query: packets and bytes per source over the last 10 minutes, every minute."
    yield (
        f"One answer, as it goes: packets from {watch.src}, {clock_text(watch.start)[:5]} to "
        f"{clock_text(watch.end)[:5]}, {day_text(watch.start)}"
    )
    revised = [change for change in answer.changes if change.kind is ChangeKind.REVISED]
    hidden = revised[_SHOWN:-1]
    before = 0
    for change in answer.changes:
        notes = {
            ChangeKind.EARLY: "the window has passed; late packets may still come",
            ChangeKind.REVISED: f"{change.count - before:+d}: the answer {before:,} is taken back",
            ChangeKind.FINAL: "every packet of the window is here, or will never be counted",
        }
        if change not in hidden:
            yield (
                f"  {clock_text(change.at):<10} {change.kind:<8} {change.count:>7,}   "
                f"{notes[change.kind]}"
            )
        elif change is hidden[0]:
            yield f"             ... {len(hidden)} more revisions"
        before = change.count


def _out_of_order(packets: Packets) -> float:
    starts = packets.table.column("_start").to_numpy()
    return float(np.mean(starts < np.maximum.accumulate(starts)))


def _speed(report: Report, count: int) -> str:
    return f"{count / report.status.busy_seconds:,.0f}" if report.status.busy_seconds else "-"


def _summary(packets: Packets, early: Report, final: Report) -> Iterator[str]:
    status, count = early.status, len(packets.arrival)
    same = early.table.equals(final.table)
    yield f"  packets      {count:>10,}   {_out_of_order(packets):.0%} of them out of order"
    yield (
        f"  packets/s    {_speed(early, count):>10}   in-process, early answers, {status.batches:,}"
        " batches of five seconds"
    )
    yield (
        f"  packets/s    {_speed(final, count):>10}   in-process, final answers, "
        f"{final.status.batches:,} batches of ten seconds"
    )
    yield (
        f"  late         {status.late:>10,}   came after their promise: dropped, counted, and kept "
        "in the ledger"
    )
    yield f"  answers      {early.table.num_rows:>10,}   in the final table"
    yield (
        f"  retractions  {status.adjusts_out:>10,}   answers taken back because a late packet "
        "changed them"
    )
    yield f"  state bytes  {status.state.bytes:>10,}   after {SPAN // MINUTE} minutes"
    yield (
        f"With final answers only: {final.status.adjusts_out} retractions, and "
        f"{'the same' if same else 'ANOTHER'} table."
    )


def run_demo(count: int, shown: Screen, *, in_process: bool) -> None:
    """Make the packets, run the query over them, and show the answers."""
    start = datetime.now(UTC).replace(hour=_FIRST_HOUR, minute=0, second=0, microsecond=0)
    since = time_us(start)
    packets = make_packets(count, span=SPAN if in_process else 24 * MINUTE, since=since)
    watch = Watch(f"10.0.0.{SOURCES}", since + 10 * MINUTE, since + 20 * MINUTE)
    play_on = _in_process if in_process else _on_spark
    shown.close(watch, play_on(packets, watch, shown))


def _in_process(packets: Packets, watch: Watch, shown: Screen) -> Iterator[str]:
    shown.doing("Running in this process, five seconds of packets at a time")
    early = play(
        packets,
        watch,
        every=5 * SECOND,
        consistency="speculative",
        clock=time.perf_counter,
        seen=shown.show,
    )
    yield ""
    yield from _tell(watch)
    yield "\nThe whole run"
    shown.doing("Running once more, with final answers only")
    final = play(packets, None, every=10 * SECOND, consistency="final", clock=time.perf_counter)
    yield from _summary(packets, early, final)


def _on_spark(packets: Packets, watch: Watch, shown: Screen) -> Iterator[str]:
    shown.doing("Starting Spark on local[*]")
    from thalweg.cli.demo_spark import play_on_spark

    report = play_on_spark(packets, watch, shown)
    yield ""
    yield from _tell(watch)
    status, count = report.status, len(packets.arrival)
    shown.doing("Running once more in this process, to compare the final tables")
    reference = play(packets, None, every=MINUTE, consistency="final", clock=time.perf_counter)
    yield "\nThe whole run"
    yield f"  packets      {count:>10,}   {_out_of_order(packets):.0%} of them out of order"
    yield (
        f"  packets/s    {count / report.seconds:>10,.0f}   all in all; {report.start_up:.0f} s "
        "until the first answer"
    )
    yield f"  batches      {status.batches:>10,}   micro-batches of one minute of packets"
    yield f"  exchanged    {status.exchanged:>10,}   rows left for the exchange after partial sums"
    yield f"  late         {status.late:>10,}   came after their promise: dropped, and counted"
    yield f"  answers      {len(report.rows):>10,}   in the final table"
    yield (
        f"  retractions  {status.adjusts:>10,}   answers taken back because a late packet changed "
        "them"
    )
    if status.late == reference.status.late:
        same = len(report.rows) == reference.table.num_rows and _rows(reference.table) == sorted(
            (time_us(start), time_us(end), *row.values()) for start, end, row in report.rows
        )
        yield f"In-process, the final table is {'the same' if same else 'ANOTHER'}."


def _key(row: Row) -> tuple[object, ...]:
    return row[0], row[1], *row[2].values()


def _rows(table: pa.Table) -> list[tuple[object, ...]]:
    return sorted(map(_key, rows_of_table(table)))
