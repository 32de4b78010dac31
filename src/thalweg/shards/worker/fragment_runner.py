"""Runs a fragment in one bucket: chunks in, elements out, state as slices, without Spark.

A micro-batch gives the chunks of each input to the graph as batches with promises (see
`fragment_input`), then lets inputs that follow a clock promise, and those that are idle.

An input that has been silent for its `idle` time delays no other: its promise is that of the
others. Rows that it sends after that may be late, and fall under its policy.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from copy import deepcopy
from dataclasses import replace

from thalweg.graph.build import build_graph
from thalweg.graph.graph_operator import OperatorFigures
from thalweg.graph.stuck import StuckInputs
from thalweg.model.batch import Batch
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.model.rows import Rows
from thalweg.model.time import INFINITY, MIN_TIME
from thalweg.operators.base import Operator, StateSize
from thalweg.operators.consistency import Consistency
from thalweg.operators.merging.named_inputs import MergeStep, NamedInputsKernel
from thalweg.operators.source.ingress import IngressKernel
from thalweg.operators.source.stamp_arrivals import clock_promise
from thalweg.operators.window.whole_windows import WholeWindowsKernel
from thalweg.plan.nodes import Node
from thalweg.plan.nodes.arrivals import stamp_periods
from thalweg.plan.usefulness import useful_grids
from thalweg.progress.source_clock import SourceClock
from thalweg.shards.exchange.chunk import Chunk
from thalweg.shards.fragments.fragment import Fragment
from thalweg.shards.reports.bucket_report import BucketReport, report_of
from thalweg.shards.worker.answer import Answer
from thalweg.shards.worker.fragment_input import FragmentInput
from thalweg.shards.worker.input_memory import InputMemory
from thalweg.shards.worker.runner_state import (
    MEMORY_SLICE,
    RunnerMemory,
    operator_signatures,
    restore_graph,
    slices_of_graph,
)
from thalweg.shards.worker.set_aside import rows_set_aside, take_dead_letters, take_ledgers

__all__ = ["FragmentRunner"]


class FragmentRunner:
    """`parts` says how many buckets of an upstream fragment send progress, by input name; `idle`
    the idle time in seconds. A fragment that was added to a running host leaves out windows that
    have missed rows (see `leave_out`)."""

    def __init__(
        self,
        fragment: Fragment,
        consistency: Consistency,
        *,
        parts: Mapping[str, int],
        idle: Mapping[str, float] | None = None,
        added_later: bool = False,
    ) -> None:
        self.fragment = fragment
        self._graph, _ = build_graph(
            fragment.plan, consistency, rewrite=False, after=_whole if added_later else None
        )
        grids = useful_grids(fragment.plan)
        self._inputs = {
            entry.leaf.name: FragmentInput(
                entry,
                InputMemory.of(entry.source),
                parts.get(entry.leaf.name),
                (idle or {}).get(entry.leaf.name),
                grids.get(entry.leaf.name),
            )
            for entry in fragment.inputs
        }
        self._progress = NO_PROGRESS
        self._oldest: int | None = None
        """Before the first promise: the time of the oldest row, the same in every bucket."""
        self.figures: dict[str, OperatorFigures] = {}
        """The figures of each operator for the last micro-batch, and its state."""
        self._stamped = stamp_periods(fragment.plan)
        self.signatures = operator_signatures(fragment, self._graph)
        self._stuck = StuckInputs(self._graph)

    # --------------------------------------------------------------------------------------------
    # flow

    def process(self, chunks: Iterable[Chunk], now: float) -> Answer:
        """One micro-batch: all its chunks for this bucket."""
        by_input: dict[str, list[Chunk]] = {}
        for chunk in chunks:
            by_input.setdefault(chunk.origin, []).append(chunk)
        out: list[Batch] = []
        elements_in = 0
        late_so_far = self.late
        for operator in self._graph.operators:
            operator.reset_counts()
        before = {name: (i.memory.cti, i.memory.source.clock) for name, i in self._inputs.items()}
        arrived = {
            name: self._inputs[name].memory.without_ticks(its_chunks)
            for name, its_chunks in by_input.items()
        }
        self._set_stamp_clocks(now, out)
        self._note_oldest(chunk for its_chunks in arrived.values() for chunk in its_chunks)
        for name in self._inputs:
            elements_in += self._admit(name, arrived.get(name, []), now, out)
        self._keep_silences({name: clock for name, (_, clock) in before.items()})
        self._advance_by_clocks(now, out)
        self._advance_idle({name for name, its_chunks in arrived.items() if its_chunks}, now, out)
        for name, input_ in self._inputs.items():
            if input_.memory.cti > before[name][0]:
                input_.memory.source.since = input_.now(now)
        self.figures = self._graph.figures()
        self._stuck.observe()
        answer = Batch.concat(out, self.fragment.plan.schema)
        self._progress = self._progress.advance(answer.progress)
        return Answer(
            answer.with_progress(self._progress),
            self.late - late_so_far,
            take_ledgers(self._graph),
            take_dead_letters(self._graph),
            elements_in,
            *self._rows_read(by_input),
        )

    def _keep_silences(self, before: Mapping[str, SourceClock]) -> None:
        """Restore the clocks of inputs all of whose rows went into quarantine."""
        for name, input_ in self._inputs.items():
            quarantines = input_.entry.leaf.ingress.quarantine is not None
            if quarantines and not self._graph.sources[name].elements_out:
                input_.memory.keep_silence(before[name])

    def _note_oldest(self, chunks: Iterable[Chunk]) -> None:
        if self._progress.cti == MIN_TIME:
            times = [self._oldest, *(chunk.header.newest for chunk in chunks)]
            self._oldest = min((time for time in times if time is not None), default=None)

    def _admit(self, name: str, chunks: list[Chunk], now: float, out: list[Batch]) -> int:
        """Give the chunks of an input to the graph; returns the number of their elements."""
        kernel = self._graph.sources[name].kernel
        if isinstance(kernel, NamedInputsKernel):
            return self._merge(name, kernel, chunks, now, out)
        elements = 0
        for batch in self._inputs[name].batches(sorted(chunks, key=_chunk_order), now):
            elements += len(batch)
            self._offer(name, batch, now, out)
        self._punctuate(name, chunks, now, out)
        return elements

    def _rows_read(self, by_input: Mapping[str, list[Chunk]]) -> tuple[int, int]:
        """Rows that were read, and those of them that no answer needs. Inputs that read one source
        have the same counts in their headers, which are counted once."""
        read: dict[str, tuple[int, int]] = {}
        for name, chunks in by_input.items():
            source = self._inputs[name].entry.source
            headers = [chunk.header for chunk in chunks]
            read[name if source is None else source.name] = (
                sum(header.rows for header in headers),
                sum(header.unwanted or 0 for header in headers),
            )
        return sum(rows for rows, _ in read.values()), sum(left for _, left in read.values())

    def _punctuate(self, name: str, chunks: Iterable[Chunk], now: float, out: list[Batch]) -> None:
        """Hand general punctuation to the input that judges rows by it, from the next micro-batch
        on."""
        patterns = [pattern for chunk in chunks for pattern in chunk.header.patterns]
        kernel = self._graph.sources[name].kernel
        if not patterns or not isinstance(kernel, IngressKernel):
            return
        for pattern in patterns:
            column_promises = pattern.to_column_promises()
            if column_promises:
                self._offer_promise(name, Progress(column_promises=column_promises), now, out)
            else:
                kernel.punctuate(pattern)
        self._offer_promise(name, NO_PROGRESS, now, out)

    def _set_stamp_clocks(self, now: float, out: list[Batch]) -> None:
        """Set the clocks of the inputs whose rows are stamped when they arrive. On Spark a ticker
        sets them, so that a micro-batch that runs again stamps the same."""
        for name in self._stamped:
            self._offer_promise(name, clock_promise(self._inputs[name].now(now)), now, out)

    def _offer_promise(self, name: str, promise: Progress, now: float, out: list[Batch]) -> None:
        self._offer(name, Batch.empty(self._inputs[name].schema, promise), now, out)

    def _offer(self, name: str, batch: Batch, now: float, out: list[Batch]) -> None:
        """Give a batch to an input of the graph, and run the graph until it is idle."""
        kernel = self._graph.sources[name].kernel
        if not isinstance(kernel, IngressKernel):
            self._graph.offer(name, batch)
            out += self._graph.run()
            return
        input_ = self._inputs[name]
        kernel.now, kernel.late_before = input_.now(now), input_.late_before
        self._graph.offer(name, batch)
        out += self._graph.run()
        input_.memory.note_promise(kernel.progress.cti)

    def _merge(
        self,
        name: str,
        kernel: NamedInputsKernel,
        chunks: list[Chunk],
        now: float,
        out: list[Batch],
    ) -> int:
        """Give the chunks of a merge's inputs to the merge, one by one; returns the number of their
        elements."""
        memory, schema = self._inputs[name].memory, self._inputs[name].schema
        elements = 0
        for chunk in sorted(chunks, key=_chunk_order):
            header = chunk.header
            if header.change is not None:
                memory.position.pop(header.partition, None)
            memory.follow(name, chunk)
            memory.seen_at = memory.seen[header.partition] = now
            kernel.step = MergeStep(header.partition, header.change, header.since)
            batch = chunk.batch(schema)
            elements += len(batch)
            self._graph.offer(name, batch.with_progress(header.progress))
            out += self._graph.run()
        memory.cti = max(memory.cti, kernel.settled)
        return elements

    def _advance_by_clocks(self, now: float, out: list[Batch]) -> None:
        """Let inputs whose policies follow a clock promise as much as the clock allows."""
        for name, input_ in self._inputs.items():
            source = input_.entry.source
            if source is None or not source.ingress.clocks:
                continue
            others = (other.memory.cti for other in self._inputs.values() if other is not input_)
            promise = input_.promise_by_clock(max(others, default=MIN_TIME))
            self._advance_input(name, promise, now, out)

    def _advance_idle(self, active: Container[str], now: float, out: list[Batch]) -> None:
        """Advance the inputs that are idle as far as those that are not."""
        idle = {n for n, i in self._inputs.items() if n not in active and i.is_idle(now)}
        if not idle or len(idle) == len(self._inputs):
            return
        promise = min(i.memory.cti for name, i in self._inputs.items() if name not in idle)
        if promise != INFINITY:
            for name in self._inputs:
                if name in idle:
                    self._advance_input(name, promise, now, out)

    def _advance_input(self, name: str, promise: int, now: float, out: list[Batch]) -> None:
        """Let an input promise a time, if it is later than its promise."""
        input_ = self._inputs[name]
        promise = input_.on_grid(promise, in_data=True)
        if promise > input_.memory.cti:
            input_.memory.woken = promise
            self._offer_promise(name, input_.progress_at(promise), now, out)

    # --------------------------------------------------------------------------------------------
    # joining a source that runs

    def begin_input(self, name: str, source_memory: InputMemory, now: float) -> None:
        """Let an input begin with the progress of its source: from now on rows are admitted as by
        inputs that have read the source from its start."""
        input_, memory = self._inputs[name], deepcopy(source_memory)
        input_.memory = memory
        memory.late = 0
        has_shown_something = memory.newest is not None or bool(memory.promised)
        exact = input_.promise(now) if has_shown_something else MIN_TIME
        promise = input_.on_grid(exact, in_data=bool(memory.promised))
        memory.cti = promise if input_.entry.panes is not None else exact
        if promise > MIN_TIME:
            out: list[Batch] = []
            self._offer_promise(name, input_.progress_at(promise), now, out)
            for batch in out:
                self._progress = self._progress.advance(batch.progress)

    def leave_out(self, since: int) -> None:
        """Leave out windows that begin before a time."""
        for operator in self._graph.operators:
            kernel = operator.kernel
            if isinstance(kernel, WholeWindowsKernel):
                kernel.since = max(kernel.since, since)

    # --------------------------------------------------------------------------------------------
    # figures

    @property
    def late(self) -> int:
        """How many rows came late so far, or were set aside because of their clock, in this
        bucket."""
        before_operators = sum(input_.memory.late for input_ in self._inputs.values())
        return before_operators + rows_set_aside(self._graph)

    def kernels(self) -> list[Operator]:
        """The operators of the fragment."""
        return [operator.kernel for operator in self._graph.operators]

    def positions(self) -> dict[str, dict[str, int]]:
        """By input and part of its source: where the last chunk ended."""
        return {name: dict(input_.memory.position) for name, input_ in self._inputs.items()}

    # --------------------------------------------------------------------------------------------
    # state

    def state_size(self) -> dict[str, StateSize]:
        return self._graph.state_size()

    def slices(self) -> dict[str, Rows]:
        """All state by name; a slice that was not touched is the same object as the last time."""
        memory = RunnerMemory(
            {name: input_.memory.to_json() for name, input_ in self._inputs.items()},
            self._progress,
            self._graph.arcs(),
        )
        return {**slices_of_graph(self._graph), MEMORY_SLICE: memory.to_rows()}

    def restore(self, slices: Mapping[str, Rows]) -> None:
        """Back to the state of `slices`."""
        memory = RunnerMemory.of_rows(slices[MEMORY_SLICE])
        for name, input_ in self._inputs.items():
            source, saved = input_.entry.source, memory.inputs.get(name)
            input_.memory = (
                InputMemory.of(source) if saved is None else InputMemory.from_json(saved, source)
            )
        self._graph.restore_arcs(memory.arcs)
        self._progress = memory.progress
        restore_graph(self._graph, slices)

    # --------------------------------------------------------------------------------------------
    # report

    def report(self) -> BucketReport:
        """The figures of the last micro-batch, and the promises that this bucket waits for."""
        report = report_of(
            self.fragment.number, self._graph, self._inputs, self._progress, self._oldest
        )
        return replace(report, stuck=tuple(self._stuck.warnings()), operators=self.figures)


def _chunk_order(chunk: Chunk) -> tuple[int, str, bytes]:
    """The order of the chunks of an input. Tasks of a micro-batch end in any order, so chunks are
    sorted for a micro-batch that runs again."""
    return chunk.seq, chunk.header.partition, chunk.blob or b""


def _whole(node: Node) -> Operator | None:
    return WholeWindowsKernel(node.schema) if node.covers_windows else None
