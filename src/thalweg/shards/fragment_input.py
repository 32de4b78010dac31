"""One input of a fragment in one bucket: its chunks become batches with promises.

The header of every chunk has what its source promises, or what its rows show (see `inputs`). An
input's promise is the smallest over the parts of its source. All buckets see every header, so all
come to the same promises. Rows are judged late by the promise that stood when their micro-batch
began.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import reduce

import pyarrow as pa

from thalweg.errors import LateEventError
from thalweg.model.batch import Batch
from thalweg.model.column_promises import ColumnPromises
from thalweg.model.progress import Progress
from thalweg.model.time import MIN_TIME
from thalweg.operators.base import Operator
from thalweg.plan.aggregates import ROWS
from thalweg.progress.source_progress import roll_down
from thalweg.shards.exchange import UNORDERED, Chunk, Header
from thalweg.shards.fragments import Exchange
from thalweg.shards.ingest import kernels_of
from thalweg.shards.inputs import InputMemory

__all__ = ["FragmentInput"]


@dataclass(slots=True)
class FragmentInput:
    entry: Exchange
    memory: InputMemory
    expected_parts: int | None
    """How many buckets of the fragment upstream send progress; None: unknown."""
    idle_after: float | None
    """The silence in seconds after which the input is idle; None: never."""
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
    def in_sequence(self) -> bool:
        """Whether promises come in the data itself, so that the order of the chunks is the order of
        the stream."""
        source = self.entry.source
        return source is not None and (
            not source.ingress.observes or self.entry.leaf.ingress.observes
        )

    @property
    def _grid(self) -> tuple[int, int] | None:
        """The grid of the promises that rows are judged by: that of partial sums, or what the
        source asks for."""
        if self.entry.panes is not None:
            return self.entry.panes.window.hop, self.entry.panes.window.offset
        if self.entry.source is None or self.memory.promised:
            return None
        period = self.entry.source.ingress.period
        return None if period is None else (period, 0)

    # --------------------------------------------------------------------------------------------
    # chunks

    def batches(self, chunks: list[Chunk], now: float) -> Iterator[Batch]:
        """The chunks of a micro-batch as batches with promises."""
        if not chunks:
            return
        entry, memory = self.entry, self.memory
        memory.seen_at = now
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
        memory.cti = max(memory.cti, self.promise(now))
        promises = self.progress_at(memory.cti).merge(
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
        if source.ingress.late == "error":
            raise LateEventError(
                f"source {source.name!r}: {rows} rows come before the promise {promise} of their "
                "source. Give the source more disorder=, or a policy late='drop', 'adjust' or "
                "'side'."
            )
        self.memory.late += rows
        return batch.filter(~late)

    # --------------------------------------------------------------------------------------------
    # promises

    def promise(self, now: float) -> int:
        """What the input promises now: the smallest over the parts of its source that are not
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
        return roll_down(min(active or promises.values(), default=MIN_TIME), self._grid)

    def progress_at(self, cti: int) -> Progress:
        """The progress of the input when its source has promised a time. Promises are made behind
        the exchange, so what follows from them for columns (one that holds the start of its row) is
        found here, not where the column was computed."""
        return reduce(lambda moved, kernel: kernel.moves(moved), self._ingest, Progress(cti))

    def promise_by_clock(self, others: int) -> int:
        """What the clock lets the input promise, when the other inputs have promised `others`."""
        return roll_down(self.memory.by_clock(others), self._grid)

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
        headers = [
            Header(cti=cti, column_promises=memory.column_promises.get(part, []))
            for part, cti in memory.promised.items()
        ]
        return reduce(Progress.meet, (header.progress for header in headers)).column_promises

    def _group_promises(self, chunks: list[Chunk]) -> Iterator[Progress]:
        """What a source of one part promises for single groups."""
        if self.entry.source is not None:
            for header in (chunk.header for chunk in chunks if chunk.header.scoped):
                yield Progress(MIN_TIME, tuple(header.scope_columns), header.progress.scoped)
