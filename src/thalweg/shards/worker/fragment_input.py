"""One input of a fragment in one bucket: its chunks become batches with promises.

The header of every chunk has the promises of its source, or a summary of its rows from which they
follow (`input_memory`). An input's promise is the smallest over the parts of its source. All
buckets see every header, so all of them make the same promises. Rows are judged late by the promise
that held when their micro-batch began; promises to the operators are on a grid, as in-process
(`progress.grids`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import reduce

import pyarrow as pa

from thalweg.errors import LateEventError
from thalweg.model.batch import Batch
from thalweg.model.clocks import shown_time
from thalweg.model.column_promises import ColumnPromises
from thalweg.model.progress import Progress
from thalweg.model.time import MIN_TIME
from thalweg.operators.base import Operator
from thalweg.plan.aggregates import ROWS
from thalweg.progress.grids import Grid, roll_down
from thalweg.shards.exchange.chunk import UNORDERED, Chunk
from thalweg.shards.exchange.ingest import kernels_of
from thalweg.shards.fragments.fragment import Exchange
from thalweg.shards.worker.input_memory import InputMemory

__all__ = ["FragmentInput"]


@dataclass(slots=True)
class FragmentInput:
    entry: Exchange
    memory: InputMemory
    expected_parts: int | None
    """How many buckets of the fragment upstream send progress; None: unknown."""
    idle_after: float | None
    """The silence in seconds after which the input is idle; None: never."""
    useful_grid: Grid | None = None
    """The grid of the promises that the operators of the fragment can use."""
    late_before: int = field(default=MIN_TIME, init=False)
    """The promise when the micro-batch began: its rows before that are late."""
    _ingest: list[Operator] = field(init=False)
    """The operators that rows of a source went through before the exchange."""

    def __post_init__(self) -> None:
        self._ingest = [] if self.entry.panes is not None else kernels_of(self.entry.ingest)

    @property
    def schema(self) -> pa.Schema:
        return self.entry.leaf.schema

    def now(self, now: float) -> int:
        """The time by the input's ticker, whose ticks are replayed with a micro-batch, so that
        promises are deterministic; without one the time of the process, in seconds."""
        clock = self.memory.now
        return int(now * 1_000_000) if clock is None else clock

    @property
    def sees_rows(self) -> bool:
        """Whether the input sees every row of its source in order, so that it makes promises by
        itself, as in-process."""
        source = self.entry.source
        return source is not None and self.entry.leaf.ingress == source.ingress

    @property
    def in_sequence(self) -> bool:
        """Whether promises come in the data itself, so that the order of the chunks is the order of
        the stream."""
        source = self.entry.source
        return source is not None and (not source.ingress.observes or self.sees_rows)

    @property
    def _grid(self) -> Grid | None:
        """The grid of the promises to the operators: the period of the source, or what the
        operators can use."""
        if self.entry.source is None:
            return None
        period = self.entry.source.ingress.period
        return self.useful_grid if period is None else (period, 0)

    # --------------------------------------------------------------------------------------------
    # chunks

    def batches(self, chunks: list[Chunk], now: float) -> Iterator[Batch]:
        """The chunks of a micro-batch as batches with promises."""
        if not chunks:
            return
        entry, memory = self.entry, self.memory
        memory.seen_at, self.late_before = now, memory.cti
        for chunk in chunks:
            memory.follow(entry.leaf.name, chunk)
            if chunk.header.rows or entry.source is None:
                memory.seen[chunk.header.partition] = now
        if entry.source is not None and not self.in_sequence:
            memory.absorb(chunks)
        if self.in_sequence and all(chunk.seq != UNORDERED for chunk in chunks):
            yield from map(self._batch_in_sequence, chunks)
            return
        parts = [chunk.batch(self.schema) for chunk in chunks if chunk.blob]
        batch = self._without_late_panes(Batch.concat(parts, self.schema))
        in_data = any(chunk.header.progress.cti > MIN_TIME for chunk in chunks)
        exact = self.promise(now)
        promise = max(self.on_grid(exact, in_data=in_data), memory.passed)
        memory.cti = max(memory.cti, promise if entry.panes is not None else exact)
        promises = self.progress_at(promise).merge(
            Progress(column_promises=self._column_promises())
        )
        yield batch.with_progress(reduce(Progress.merge, self._group_promises(chunks), promises))

    def _batch_in_sequence(self, chunk: Chunk) -> Batch:
        batch = self._without_late_panes(chunk.batch(self.schema))
        promise, memory = chunk.header.progress, self.memory
        memory.cti = max(memory.cti, promise.cti)
        if memory.woken > MIN_TIME:
            promise = promise.merge(self.progress_at(memory.woken))
        return batch.with_progress(promise)

    def _without_late_panes(self, batch: Batch) -> Batch:
        """Partial sums of rows in time; those of late rows are refused, or counted and dropped."""
        source, promise = self.entry.source, self.memory.cti
        if self.entry.panes is None:
            return batch
        late = batch.start < promise
        if not late.any():
            return batch
        rows = int(batch.payload.column(ROWS.name).to_numpy()[late].sum())
        assert source is not None
        if source.ingress.late_policy.stops:
            raise LateEventError(
                f"source {source.name!r}: {rows} rows come before the promise "
                f"{shown_time(promise, source.clock)} of their source. Give the source more "
                "disorder=, or a policy late='drop', 'adjust' or 'side'."
            )
        self.memory.late += rows
        return batch.filter(~late)

    # --------------------------------------------------------------------------------------------
    # promises

    def promise(self, now: float) -> int:
        """The promise of the input now: the smallest over the parts of its source that are not
        idle."""
        memory, idle_after = self.memory, self.idle_after
        if self.expected_parts is not None and len(memory.promised) < self.expected_parts:
            return MIN_TIME
        promises = memory.promises()
        active = [
            time
            for part, time in promises.items()
            if idle_after is None or now - memory.seen.get(part, now) < idle_after
        ]
        return min(active or promises.values(), default=MIN_TIME)

    def on_grid(self, promise: int, *, in_data: bool = False) -> int:
        """The promise to the operators when the source promises this (`in_data`: by a CTI). Rows
        are judged late by the exact promise, partial sums by a promise on their grid."""
        rounded = promise if in_data else roll_down(promise, self._grid)
        if self.entry.panes is None:
            return rounded
        window = self.entry.panes.window
        return roll_down(rounded, (window.hop, window.offset))

    def progress_at(self, cti: int) -> Progress:
        """The progress of the input when its source has promised a time. Promises are made behind
        the exchange, so the promises over columns that follow from them (for a column that holds
        the start of its row) are found here, not where the column was computed."""
        return reduce(lambda moved, kernel: kernel.moves(moved), self._ingest, Progress(cti))

    def promise_by_clock(self, others: int) -> int:
        """The promise that the clock allows the input when the other inputs have promised
        `others`."""
        return self.on_grid(self.memory.by_clock(others))

    def is_idle(self, now: float) -> bool:
        """Whether the input has been silent for its idle time."""
        if not self.memory.seen_at:
            self.memory.seen_at = now  # the time starts with the query, not with the epoch
        return self.idle_after is not None and now - self.memory.seen_at >= self.idle_after

    def _column_promises(self) -> ColumnPromises:
        """The promises over columns that every part of the source, or every bucket of the fragment
        upstream, makes."""
        memory = self.memory
        if not memory.column_promises or len(memory.promised) < (self.expected_parts or 1):
            return {}
        of_parts = (
            Progress(cti, column_promises=memory.column_promises.get(part, {}))
            for part, cti in memory.promised.items()
        )
        return reduce(Progress.meet, of_parts).column_promises

    def _group_promises(self, chunks: list[Chunk]) -> Iterator[Progress]:
        """The promises for single groups of a source with one part."""
        if self.entry.source is not None:
            for promise in (chunk.header.progress for chunk in chunks):
                if promise.scoped:
                    yield Progress(MIN_TIME, promise.scope_columns, promise.scoped)
