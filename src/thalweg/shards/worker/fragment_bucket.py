"""A fragment at work in one bucket: from the chunks of a micro-batch to rows of the next exchange
or of the output, with its state in a store.

Between micro-batches the runner is kept in memory. It is used again only where the store still has
the state that the runner wrote (see `shards.state.slices`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from thalweg.model.batch import Batch
from thalweg.model.progress import NO_PROGRESS
from thalweg.operators.base import StateSize
from thalweg.operators.consistency import Consistency
from thalweg.shards.exchange.chunk import Chunk, ExchangeRow
from thalweg.shards.exchange.header import Header, Message
from thalweg.shards.exchange.ingest import divided_rows
from thalweg.shards.fragments.fragment import Fragment, Target
from thalweg.shards.output.element_output import progress_blob
from thalweg.shards.output.rows import (
    OutputKind,
    OutputRow,
    beside_answer,
    changes_rows,
    output_of_chunk,
    tables_rows,
)
from thalweg.shards.state.slices import Memory, SliceStore
from thalweg.shards.state.store import Store
from thalweg.shards.worker.answer import Answer
from thalweg.shards.worker.fragment_runner import FragmentRunner

__all__ = ["FragmentBucket", "FragmentSpec", "divided_answer"]


@dataclass(frozen=True)
class FragmentSpec:
    """A fragment and its place in a query, as it travels to the workers."""

    run: str
    """Different for every start of a query, so that workers do not mix up runs."""
    fragment: Fragment
    consistency: Consistency
    parts: Mapping[str, int]
    """By input from another fragment: how many buckets send its progress."""
    idle: Mapping[str, float]
    """By input: the silence in seconds after which it is idle."""
    first: int
    """The id of the first bucket."""
    targets: list[Target] = field(default_factory=list)
    """The inputs of other fragments that read this one, with their bucket ids; empty for the last
    fragment."""

    def runner(self) -> FragmentRunner:
        return FragmentRunner(self.fragment, self.consistency, parts=self.parts, idle=self.idle)


class FragmentBucket:
    """One bucket of a fragment, from micro-batch to micro-batch of one process."""

    def __init__(self, spec: FragmentSpec, bucket: int) -> None:
        self._spec = spec
        self._bucket = bucket
        self._memory = Memory()
        self._runner: FragmentRunner | None = None
        self.written = 0
        """Bytes that the last micro-batch wrote to the store."""

    @property
    def targets(self) -> list[Target]:
        """The inputs that read the answer; empty if it is the answer of the query."""
        return self._spec.targets

    def _slices(self, store: Store) -> SliceStore:
        where = f"fragment {self._spec.fragment.number}, bucket {self._bucket}"
        return SliceStore(store, self._memory, where)

    def runner(self, store: Store) -> FragmentRunner:
        """The runner with the state of the store: that of the last micro-batch, or a new one if
        another process has written since."""
        slices = self._slices(store)
        if self._runner is None or not slices.is_current():
            runner = self._spec.runner()
            state = slices.load(runner.signatures)
            if state is not None:
                runner.restore(state)
            self._runner = runner
        return self._runner

    def process(self, chunks: Iterable[Chunk], now: float, store: Store) -> Answer:
        """The answer to the chunks of a micro-batch; the state after it is in the store."""
        runner, self._runner = self.runner(store), None  # not used again if `process` fails
        answer = runner.process(chunks, now)
        slices = self._slices(store)
        slices.save(runner.slices(), runner.signatures)
        self._runner, self.written = runner, slices.written
        return answer

    def rows(
        self, chunks: Iterable[Chunk], now: float, store: Store
    ) -> Iterator[ExchangeRow | OutputRow]:
        """The rows of the next exchange, or of the output. Messages that are not for a fragment are
        passed on."""
        for_fragment: list[Chunk] = []
        messages: list[Chunk] = []
        for chunk in chunks:
            (for_fragment if chunk.header.kind is Message.ROWS else messages).append(chunk)
        answer = self.process(for_fragment, now, store)
        assert self._runner is not None
        report = self._runner.report().to_json()
        if self._spec.targets:
            yield from self._exchange(answer, report, messages)
        else:
            size = sum(self._runner.state_size().values(), StateSize())
            yield from self._output(answer, report, size, messages)

    def _rows_read(self, answer: Answer) -> tuple[int, int]:
        """Rows that were read, and those left out: the first bucket counts for all."""
        is_first = self._bucket == self._spec.first
        return (answer.rows_read, answer.unwanted) if is_first else (0, 0)

    def _exchange(
        self, answer: Answer, report: str, messages: Iterable[Chunk]
    ) -> Iterator[ExchangeRow]:
        read, unwanted = self._rows_read(answer)
        spec = self._spec
        yield from divided_answer(spec.targets, self._bucket, answer.batch, read, unwanted)
        fragment, _, ids = spec.targets[0]
        for chunk in (*beside_answer(answer, report), *messages):
            yield chunk.to_row(ids[0], fragment)

    def _output(
        self, answer: Answer, report: str, size: StateSize, messages: Iterable[Chunk]
    ) -> Iterator[OutputRow]:
        yield from changes_rows(self._bucket, answer.batch)
        yield self._figures(answer, report, size)
        yield from tables_rows(self._bucket, answer)
        for chunk in messages:
            yield output_of_chunk(self._bucket, chunk)

    def _figures(self, answer: Answer, report: str, size: StateSize) -> OutputRow:
        batch, (read, unwanted) = answer.batch, self._rows_read(answer)
        return OutputRow(
            self._bucket,
            str(OutputKind.FIGURES),
            cti=None if batch.progress.cti == NO_PROGRESS.cti else batch.progress.cti,
            read=read,
            unwanted=unwanted,
            taken=answer.elements_in,
            changes=len(batch),
            adjusts=answer.adjusts,
            late=answer.late_rows,
            state_rows=size.rows,
            state_bytes=size.bytes,
            written=self.written,
            report=report,
            blob=progress_blob(batch.progress),
        )


def divided_answer(
    targets: Iterable[Target], bucket: int, batch: Batch, read: int = 0, unwanted: int = 0
) -> Iterator[ExchangeRow]:
    """The answer of a bucket, divided for the inputs that read it. `read` rows of the sources were
    read for it, and `unwanted` of these left out."""
    batch = batch.with_progress(batch.progress.without_groups())
    header = Header(partition=str(bucket), rows=read, unwanted=unwanted or None)
    for target in targets:
        yield from divided_rows(target, target.entry.leaf.name, batch, header)
