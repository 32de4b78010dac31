"""`thalweg demo`: disordered packets in; early answers, revisions and final answers out.

The packets are made up but the trouble is real: they arrive out of order, a fifth of them up to a
minute late, and a few so late that the source had already promised they would not come. The query
counts packets and bytes per source over the last ten minutes, every minute.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import click
import numpy as np
import numpy.typing as npt
import pyarrow as pa

import thalweg as tw
from thalweg.model.batch import Batch
from thalweg.model.cht import Row, rows_of_table, table_of_batches
from thalweg.run import Status

__all__ = ["Packets", "Report", "Watch", "demo", "make_packets", "packets_by_source", "play"]

SECOND, MINUTE = 1_000_000, 60_000_000
SOURCES = 64
SPAN = 40 * MINUTE


@dataclass(frozen=True)
class Packets:
    """Packets in order of arrival."""

    table: pa.Table
    arrival: npt.NDArray[np.int64]

    def cut(self, every: int, *, first: int | None = None) -> Iterator[tuple[int, pa.Table]]:
        """Batches of what arrived in each span of `every`, with the time at which the span ends;
        `first` ends the first span."""
        ends = np.arange(
            every if first is None else first, int(self.arrival[-1]) + every + 1, every
        )
        edges = np.searchsorted(self.arrival, [0, *ends])
        for at, begin, end in zip(ends, edges[:-1], edges[1:], strict=True):
            if end > begin:
                yield int(at), self.table.slice(begin, end - begin)


def make_packets(count: int, *, seed: int = 7, span: int = SPAN) -> Packets:
    """Packets of forty minutes unless told: 80% on time, 20% up to a minute late, one in two
    thousand minutes late."""
    rng = np.random.default_rng(seed)
    sent = np.sort(rng.integers(0, span, count))
    delay = rng.integers(0, 50_000, count)
    delay = np.where(rng.random(count) < 0.2, rng.integers(0, MINUTE, count), delay)
    delay = np.where(rng.random(count) < 0.0005, rng.integers(2 * MINUTE, 5 * MINUTE, count), delay)
    order = np.argsort(sent + delay, kind="stable")
    share = 1 / np.arange(1, SOURCES + 1)
    names = np.array([f"10.0.0.{number}" for number in range(1, SOURCES + 1)])
    columns = {
        "time": sent[order],
        "src": names[rng.choice(SOURCES, count, p=share / share.sum())],
        "len": rng.choice([40, 576, 1500], count),
    }
    return Packets(tw.events(pa.table(columns), start="time"), (sent + delay)[order])


def packets_by_source() -> tw.Stream:
    """The query: packets and bytes per source over ten minutes, every minute."""
    packets = tw.source(
        "packets",
        {"src": "string", "len": "int64"},
        disorder="1 min",
        late="drop",
        insert_only=True,
    )
    return (
        packets.group_by("src")
        .hopping("10 min", "1 min")
        .aggregate(packets=tw.count(), bytes=tw.sum_("len"))
    )


@dataclass
class Watch:
    """What becomes of the answer for one source and window."""

    src: str
    start: int
    end: int
    events: list[tuple[int, str, int]] = field(default_factory=list)
    """(time, `early` | `revised` | `final`, packets)"""
    _count: int | None = None

    def see(self, at: int, batch: Batch) -> None:
        rows = np.flatnonzero((batch.start == self.start) & (batch.end == self.end))
        mine = [
            (int(row), entry)
            for row, entry in zip(rows, batch.payload.take(pa.array(rows)).to_pylist(), strict=True)
        ]
        for row, entry in mine:
            taken_back = batch.is_adjust is not None and bool(batch.is_adjust[row])
            if entry["src"] == self.src and not taken_back:
                self.note(at, entry["packets"], batch.progress.cti)
        self.note(at, self._count, batch.progress.cti)

    def note(self, at: int, count: int | None, cti: int) -> None:
        """What the answer is now, and the promise that stands."""
        if count is not None and count != self._count:
            self.events.append((at, "early" if self._count is None else "revised", count))
            self._count = count
        is_final = any(kind == "final" for _, kind, _ in self.events)
        # To take the answer back would change time from its start on: once that is promised away,
        # it is final.
        if self._count is not None and not is_final and cti > self.start:
            self.events.append((at, "final", self._count))


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
    status, late = engine.status(), engine.late("packets")
    out += engine.finish()
    return Report(table_of_batches(out, query.schema), status, late)


def _clock_text(ticks: int) -> str:
    seconds, rest = divmod(ticks, SECOND)
    return f"{seconds // 60:02d}:{seconds % 60:02d}" + (f".{rest // 100_000}" if rest else "")


def _tell(watch: Watch, *, shown: int = 4) -> Iterator[str]:
    yield f"One answer, as it goes: packets from {watch.src} in [{_clock_text(watch.start)}, {_clock_text(watch.end)})"
    revised = [event for event in watch.events if event[1] == "revised"]
    hidden = set(revised[shown:-1])
    before = 0
    for event in watch.events:
        at, kind, count = event
        notes = {
            "early": "the window has passed; late packets may still come",
            "revised": f"{count - before:+d}: the answer {before} is taken back",
            "final": "every packet of the window is here, or will never be counted",
        }
        if event not in hidden:
            yield f"  {_clock_text(at)}  {kind:<8} {count:>7,}   {notes[kind]}"
        elif event == revised[shown]:
            yield f"         ... {len(hidden)} more revisions"
        before = count


def _speed(report: Report, count: int) -> str:
    return f"{count / report.status.busy_seconds:,.0f}" if report.status.busy_seconds else "-"


def _summary(packets: Packets, early: Report, final: Report) -> Iterator[str]:
    status, count = early.status, len(packets.arrival)
    starts = packets.table.column("_start").to_numpy()
    disorder = np.mean(starts < np.maximum.accumulate(starts))
    same = early.table.equals(final.table)
    yield f"  packets      {count:>10,}   {disorder:.0%} of them out of order"
    yield f"  packets/s    {_speed(early, count):>10}   in-process, early answers, {status.batches:,} batches of one second"
    yield f"  packets/s    {_speed(final, count):>10}   in-process, final answers, {final.status.batches:,} batches of ten seconds"
    yield f"  late         {status.late:>10,}   came after their promise: dropped, counted, and kept in the ledger"
    yield f"  answers      {early.table.num_rows:>10,}   in the final table"
    yield f"  retractions  {status.adjusts_out:>10,}   answers taken back because a late packet changed them"
    yield f"  state bytes  {status.state.bytes:>10,}   after {SPAN // MINUTE} minutes"
    yield f"With final answers only: {final.status.adjusts_out} retractions, and {'the same' if same else 'ANOTHER'} table."


@click.command
@click.option(
    "--packets",
    "count",
    default=1_000_000,
    show_default=True,
    type=click.IntRange(min=10_000),
    help="How many packets.",
)
@click.option("--in-process", is_flag=True, help="Without Spark, in this process.")
def demo(count: int, *, in_process: bool) -> None:
    """Late packets in; early, revised and final answers out. On Spark, local[*]."""
    packets = make_packets(count, span=SPAN if in_process else 24 * MINUTE)
    watch = Watch(f"10.0.0.{SOURCES}", 10 * MINUTE, 20 * MINUTE)
    click.echo(
        "Packets and bytes per source over the last 10 minutes, every minute; packets may come a minute late.\n"
    )
    lines = _in_process(packets, watch) if in_process else _on_spark(packets, watch)
    for line in lines:
        click.echo(line)


def _in_process(packets: Packets, watch: Watch) -> Iterator[str]:
    early = play(packets, watch, every=SECOND, consistency="speculative", clock=time.perf_counter)
    yield from _tell(watch)
    yield "\nThe whole run"
    final = play(packets, None, every=10 * SECOND, consistency="final", clock=time.perf_counter)
    yield from _summary(packets, early, final)


def _on_spark(packets: Packets, watch: Watch) -> Iterator[str]:
    from thalweg.cli.demo_spark import play_on_spark

    yield "Starting Spark on local[*] ..."
    report = play_on_spark(packets, watch, click.echo)
    yield ""
    yield from _tell(watch)
    status, count = report.status, len(packets.arrival)
    starts = packets.table.column("_start").to_numpy()
    disorder = np.mean(starts < np.maximum.accumulate(starts))
    reference = play(packets, None, every=MINUTE, consistency="final", clock=time.perf_counter)
    yield "\nThe whole run"
    yield f"  packets      {count:>10,}   {disorder:.0%} of them out of order"
    yield f"  packets/s    {count / report.seconds:>10,.0f}   all in all; {report.start_up:.0f} s until the first answer"
    yield f"  batches      {status.batches:>10,}   micro-batches of one minute of packets"
    yield f"  exchanged    {status.exchanged:>10,}   rows left for the exchange after partial sums"
    yield f"  late         {status.late:>10,}   came after their promise: dropped, and counted"
    yield f"  answers      {len(report.rows):>10,}   in the final table"
    yield f"  retractions  {status.adjusts:>10,}   answers taken back because a late packet changed them"
    if status.late == reference.status.late:
        same = len(report.rows) == reference.table.num_rows and _rows(reference.table) == sorted(
            map(_key, report.rows)
        )
        yield f"In-process, the final table is {'the same' if same else 'ANOTHER'}."


def _key(row: Row) -> tuple[object, ...]:
    return row[0], row[1], *row[2].values()


def _rows(table: pa.Table) -> list[tuple[object, ...]]:
    return sorted(map(_key, rows_of_table(table)))
