"""A fragment at work in one bucket: chunks in, elements out, state as slices. It knows no Spark.

Progress. Every chunk says what its source promises, or what its rows show (see `inputs`). An
input's promise is the smallest over the parts of its source. All buckets see every header, so all
come to the same promises. Rows are judged late by the promise that stood when their micro-batch
began.

An input that has been silent for its `idle` time holds nobody back: it is taken to have come as far
as the others. Rows that it then still sends may be late, and fall under its policy.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass
from functools import reduce
from typing import Any

import pyarrow as pa

from thalweg.errors import LateEventError
from thalweg.graph.build import build_graph
from thalweg.graph.query_graph import QueryGraph
from thalweg.graph.stations import OperatorFigures
from thalweg.graph.stuck import StuckInputs
from thalweg.graph.whole import has_windows
from thalweg.graph.why import Why, explain_wait
from thalweg.model.batch import Batch
from thalweg.model.boxes import Boxes
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.model.punctuation import Punctuation
from thalweg.model.rows import Rows
from thalweg.model.time import INFINITY, MIN_TIME
from thalweg.operators.base import Operator, StateSize, progress_of_slice, slice_of_progress
from thalweg.operators.consistency import Consistency
from thalweg.operators.hopping.whole_windows import WholeWindowsKernel
from thalweg.operators.merging.named_inputs import InputChange, MergeStep, NamedInputsKernel
from thalweg.operators.modules.dead_letters import WritesLetters
from thalweg.operators.source.ingress import IngressKernel
from thalweg.operators.source.stamp_arrivals import time_told
from thalweg.plan.aggregates import ROWS
from thalweg.plan.explain import operator_ids
from thalweg.plan.nodes import MergedSource, Node
from thalweg.plan.nodes.arrivals import stamp_periods
from thalweg.plan.usefulness import useful_grids
from thalweg.progress.source_progress import roll_down
from thalweg.shards.exchange import UNORDERED, Chunk, Header
from thalweg.shards.fragments import Exchange, Fragment
from thalweg.shards.inputs import InputMemory
from thalweg.shards.state import operator_and_slice, slice_name

__all__ = ["Answer", "FragmentRunner"]

PROGRESS = "progress"
"""The slice that holds what the runner itself remembers."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one micro-batch gave: elements in order, and the promise after them."""

    batch: Batch
    late_rows: int
    ledgers: dict[str, pa.Table]
    """By input: its late rows."""
    skipped: dict[str, pa.Table]
    """By operator: the windows that its module failed on."""
    elements_in: int
    rows_read: int
    """Rows of the sources that these chunks come from, before anything was filtered or summed."""
    unwanted: int = 0
    """Of these, rows that were left out because nobody wants them."""


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
        self._entries = {entry.leaf.name: entry for entry in fragment.inputs}
        self._inputs = {name: InputMemory.of(entry.source) for name, entry in self._entries.items()}
        self._parts = dict(parts)
        self._idle = dict(idle or {})
        self._progress = NO_PROGRESS
        self._oldest: int | None = None
        """Before the first promise: the time of a row that waits for one, the same in every
        bucket."""
        self.figures: dict[str, OperatorFigures] = {}
        """What each operator did in the last micro-batch, and keeps."""
        self._grids = useful_grids(fragment.plan)
        self._stamped = stamp_periods(fragment.plan)
        self.signatures = _signatures(fragment, self._graph)
        self._stuck = StuckInputs(self._graph)

    # --------------------------------------------------------------------------------------------------------
    # flow

    def process(self, chunks: Iterable[Chunk], now: float) -> Answer:
        """One micro-batch: all chunks that came for this bucket."""
        by_origin: dict[str, list[Chunk]] = {}
        for chunk in chunks:
            by_origin.setdefault(chunk.origin, []).append(chunk)
        out: list[Batch] = []
        taken = 0
        late_before = self.late
        for station in self._graph.stations:
            station.count_anew()
        before = {name: (known.cti, known.told) for name, known in self._inputs.items()}
        arrived = {name: self._without_ticks(name, some) for name, some in by_origin.items()}
        self._tell_time(now, out)
        if self._progress.cti == MIN_TIME:
            shown = [c.header.newest for some in arrived.values() for c in some]
            times = [time for time in (*shown, self._oldest) if time is not None]
            self._oldest = min(times, default=None)
        for name, entry in self._entries.items():
            kernel = self._graph.sources[name].operator
            if isinstance(kernel, NamedInputsKernel):
                taken += self._merge(name, kernel, arrived.get(name, []), now, out)
                continue
            for batch in self._batches(
                entry, self._inputs[name], sorted(arrived.get(name, []), key=_chunk_order), now
            ):
                taken += len(batch)
                self._offer(name, batch, now, out)
            self._take_patterns(name, arrived.get(name, []), now, out)
        for name, entry in self._entries.items():
            if (
                entry.leaf.ingress.quarantine is not None
                and not self._graph.sources[name].elements_out
            ):
                # Rows in quarantine do not end a silence.
                self._inputs[name].keep_silence(before[name][1])
        self._read_clocks(now, out)
        self._advance_idle({name for name, some in arrived.items() if some}, now, out)
        for name, known in self._inputs.items():
            known.since = now if known.cti > before[name][0] else known.since
        self.figures = self._graph.figures()
        self._stuck.observe()
        answer = Batch.concat(out, self.fragment.plan.schema)
        self._progress = self._progress.advance(answer.progress)
        return Answer(
            answer.with_progress(self._progress),
            self.late - late_before,
            self._ledgers(),
            self._skipped(),
            taken,
            *self._rows_read(by_origin),
        )

    def _rows_read(self, by_origin: Mapping[str, list[Chunk]]) -> tuple[int, int]:
        """Rows that were read, and those of them that nobody wants. A source that several inputs
        read tells all of them the same."""
        read: dict[str, tuple[int, int]] = {}
        for name, chunks in by_origin.items():
            source = self._entries[name].source
            headers = [chunk.header for chunk in chunks]
            read[name if source is None else source.name] = (
                sum(header.rows for header in headers),
                sum(header.unwanted or 0 for header in headers),
            )
        return sum(rows for rows, _ in read.values()), sum(left for _, left in read.values())

    def _take_patterns(
        self, name: str, chunks: Iterable[Chunk], now: float, out: list[Batch]
    ) -> None:
        """Hand general punctuation to the input that judges rows by it, from the next micro-batch
        on."""
        texts = [text for chunk in chunks for text in chunk.header.patterns]
        kernel = self._graph.sources[name].operator
        if not texts or not isinstance(kernel, IngressKernel):
            return
        for pattern in map(Punctuation.from_text, texts):
            boxes = pattern.to_boxes()
            if boxes:
                said = Batch.empty(self._entries[name].leaf.schema, Progress(boxes=boxes))
                self._offer(name, said, now, out)
            else:
                kernel.guard(pattern)
        self._offer(name, Batch.empty(self._entries[name].leaf.schema), now, out)

    def _tell_time(self, now: float, out: list[Batch]) -> None:
        """Tell the inputs whose rows are stamped when they arrive. On Spark a ticker says the time,
        so that a micro-batch that runs again stamps the same."""
        for name in self._stamped:
            clock = self._inputs[name].clock
            told = time_told(int(now * 1_000_000) if clock is None else clock)
            self._offer(name, Batch.empty(self._entries[name].leaf.schema, told), now, out)

    def _offer(self, name: str, batch: Batch, now: float, out: list[Batch]) -> None:
        """Give a batch to an input of the graph, and work until all of it is done."""
        kernel = self._graph.sources[name].operator
        if isinstance(kernel, IngressKernel):
            # Ticks are replayed with the micro-batch, so promises are deterministic.
            clock = self._inputs[name].clock
            kernel.now = int(now * 1_000_000) if clock is None else clock
            observed = (
                not self._in_sequence(self._entries[name]) and not self._inputs[name].promised
            )
            kernel.passes = self._grids.get(name) if observed else None
        self._graph.offer(name, batch)
        out += self._graph.run()

    def _merge(
        self,
        name: str,
        kernel: NamedInputsKernel,
        chunks: list[Chunk],
        now: float,
        out: list[Batch],
    ) -> int:
        """Give the chunks of the inputs of a merge to it, one by one; how many elements they
        have."""
        entry, known = self._entries[name], self._inputs[name]
        taken = 0
        for chunk in sorted(chunks, key=_chunk_order):
            header = chunk.header
            change = InputChange(header.change) if header.change else None
            if change is not None:
                known.position.pop(header.partition, None)
            known.follow(entry.leaf.name, chunk)
            known.seen_at = known.seen[header.partition] = now
            kernel.step = MergeStep(header.partition, change, header.since)
            batch = chunk.batch(entry.leaf.schema)
            taken += len(batch)
            self._graph.offer(name, batch.with_progress(header.progress))
            out += self._graph.run()
        known.cti = max(known.cti, kernel.settled)
        return taken

    def _without_ticks(self, name: str, chunks: list[Chunk]) -> list[Chunk]:
        """The chunks of an input's source; chunks of its ticker only carry the time."""
        return self._inputs[name].without_ticks(chunks)

    def _read_clocks(self, now: float, out: list[Batch]) -> None:
        """Inputs whose policies follow a clock come as far as it lets them."""
        for name, entry in self._entries.items():
            policy = None if entry.source is None else entry.source.ingress
            if policy is None or not policy.clocks:
                continue
            known = self._inputs[name]
            ahead = max(
                (other.cti for one, other in self._inputs.items() if one != name), default=MIN_TIME
            )
            promise = roll_down(known.by_clock(ahead), self._grid_of(entry))
            if promise > known.cti:
                known.cti = known.woken = promise
                self._offer(name, Batch.empty(entry.leaf.schema, Progress(promise)), now, out)

    def _grid_of(self, entry: Exchange) -> tuple[int, int] | None:
        """The grid of the promises that rows are judged by: that of partial sums, or what the
        source asks for."""
        if entry.panes is not None:
            return entry.panes.window.hop, entry.panes.window.offset
        period = (
            None
            if entry.source is None or self._inputs[entry.leaf.name].promised
            else entry.source.ingress.period
        )
        return None if period is None else (period, 0)

    def _batches(
        self, entry: Exchange, known: InputMemory, chunks: list[Chunk], now: float
    ) -> Iterable[Batch]:
        """The input of a micro-batch as batches with promises."""
        if not chunks:
            return
        known.seen_at = now
        schema = entry.leaf.schema
        for chunk in chunks:
            known.follow(entry.leaf.name, chunk)
            if chunk.header.rows or entry.source is None:
                known.seen[chunk.header.partition] = now
        if entry.source is not None and not self._in_sequence(entry):
            known.absorb(chunks)
        if self._in_sequence(entry) and all(chunk.seq != UNORDERED for chunk in chunks):
            for chunk in chunks:
                batch = chunk.batch(schema)
                if entry.panes is not None:
                    batch = self._drop_late_panes(entry, known, batch)
                promise = chunk.header.progress
                known.cti = max(known.cti, promise.cti)
                yield batch.with_progress(
                    promise.merge(Progress(known.woken)) if known.woken > MIN_TIME else promise
                )
            return
        parts = [chunk.batch(schema) for chunk in chunks if chunk.blob]
        batch = Batch.concat(parts, schema)
        if entry.panes is not None:
            batch = self._drop_late_panes(entry, known, batch)
        known.cti = max(known.cti, self._promise(entry, known, now))
        common = Progress(known.cti, boxes=self._boxes(entry, known))
        yield batch.with_progress(reduce(Progress.merge, self._for_groups(entry, chunks), common))

    def _for_groups(self, entry: Exchange, chunks: list[Chunk]) -> Iterator[Progress]:
        """What a source of one part says of single groups."""
        if entry.source is not None:
            for header in (chunk.header for chunk in chunks if chunk.header.scoped):
                yield Progress(NO_PROGRESS.cti, tuple(header.scope_columns), header.progress.scoped)

    def _in_sequence(self, entry: Exchange) -> bool:
        """Whether promises come in the data itself, so that the order of the chunks is the order of
        the stream."""
        return entry.source is not None and (
            not entry.source.ingress.observes or entry.leaf.ingress.observes
        )

    def _promise(self, entry: Exchange, known: InputMemory, now: float) -> int:
        """What an input promises now, the smallest over the parts of its source."""
        expected = self._parts.get(entry.leaf.name)
        if expected is not None and len(known.promised) < expected:
            return MIN_TIME
        promises = known.promises()
        limit = self._idle.get(entry.leaf.name)
        awake = [
            t
            for part, t in promises.items()
            if limit is None or now - known.seen.get(part, now) < limit
        ]
        promise = min(awake or promises.values(), default=MIN_TIME)
        return roll_down(promise, self._grid_of(entry))

    def _boxes(self, entry: Exchange, known: InputMemory) -> Boxes:
        """The promises over columns that every bucket of the fragment upstream makes."""
        if not known.boxes or len(known.promised) < self._parts.get(entry.leaf.name, 0):
            return {}
        headers = [
            Header(cti=cti, boxes=known.boxes.get(part, [])) for part, cti in known.promised.items()
        ]
        return reduce(Progress.meet, (header.progress for header in headers)).boxes

    def _drop_late_panes(self, entry: Exchange, known: InputMemory, batch: Batch) -> Batch:
        late = batch.start < known.cti
        if not late.any():
            return batch
        rows = int(batch.payload.column(ROWS.name).to_numpy()[late].sum())
        assert entry.source is not None
        if entry.source.ingress.late == "error":
            raise LateEventError(
                f"source {entry.source.name!r}: {rows} rows come before the promise {known.cti} of their source. "
                "Give the source more disorder=, or a policy late='drop', 'adjust' or 'side'."
            )
        known.late += rows
        return batch.filter(~late)

    def _advance_idle(self, active: Container[str], now: float, out: list[Batch]) -> None:
        """Inputs that are idle come as far as those that are not."""
        waiting = [name for name in self._inputs if name not in active and self._is_idle(name, now)]
        if not waiting or len(waiting) == len(self._inputs):
            return
        far = min(self._inputs[name].cti for name in self._inputs if name not in waiting)
        for name in waiting:
            known = self._inputs[name]
            if far > known.cti and far != INFINITY:
                known.cti = known.woken = far
                self._offer(
                    name, Batch.empty(self._entries[name].leaf.schema, Progress(far)), now, out
                )

    def _is_idle(self, name: str, now: float) -> bool:
        limit = self._idle.get(name)
        known = self._inputs[name]
        if not known.seen_at:
            known.seen_at = now  # the time starts with the query, not with the epoch
        return limit is not None and now - known.seen_at >= limit

    # --------------------------------------------------------------------------------------------------------
    # joining a source that runs

    def begin_input(self, name: str, known: InputMemory, now: float) -> None:
        """Let an input go on from where its source has come: from now on rows are admitted as they
        are for those who have read the source from its start."""
        entry, memory = self._entries[name], deepcopy(known)
        memory.late = 0
        memory.cti = (
            self._promise(entry, memory, now)
            if memory.newest is not None or memory.promised
            else MIN_TIME
        )
        self._inputs[name] = memory
        if memory.cti > MIN_TIME:
            out: list[Batch] = []
            self._offer(name, Batch.empty(entry.leaf.schema, Progress(memory.cti)), now, out)
            for batch in out:
                self._progress = self._progress.advance(batch.progress)

    def leave_out(self, since: int) -> None:
        """Leave out windows that begin before a time."""
        for station in self._graph.stations:
            kernel = station.operator
            if isinstance(kernel, WholeWindowsKernel):
                kernel.since = max(kernel.since, since)

    # --------------------------------------------------------------------------------------------------------
    # late

    @property
    def late(self) -> int:
        """How many rows came late so far, or were set aside because of their clock, in this
        bucket."""
        return sum(known.late for known in self._inputs.values()) + sum(
            kernel.ledger.count + kernel.quarantined.count for kernel in self._ingresses().values()
        )

    def _ingresses(self) -> dict[str, IngressKernel]:
        kernels = {name: station.operator for name, station in self._graph.sources.items()}
        return {
            name: kernel for name, kernel in kernels.items() if isinstance(kernel, IngressKernel)
        }

    def kernels(self) -> list[Operator]:
        """The operators of the fragment."""
        return [station.operator for station in self._graph.stations]

    def positions(self) -> dict[str, dict[str, int]]:
        """By input and part of its source: where the last chunk ended."""
        return {name: dict(known.position) for name, known in self._inputs.items()}

    def _skipped(self) -> dict[str, pa.Table]:
        kernels = {station.id: station.operator for station in self._graph.stations}
        writers = {
            name: kernel.dead_letters
            for name, kernel in kernels.items()
            if isinstance(kernel, WritesLetters)
        }
        return {name: letters.take() for name, letters in writers.items() if letters}

    def _ledgers(self) -> dict[str, pa.Table]:
        taken = {
            name: pa.concat_tables(
                [kernel.ledger.take(kernel.schema), kernel.quarantined.take(kernel.schema)]
            )
            for name, kernel in self._ingresses().items()
            if kernel.ledger.tables or kernel.quarantined.tables
        }
        return {name: table for name, table in taken.items() if len(table)}

    # -------------------------------------------------------------------------------------------------------
    # state

    def state_size(self) -> dict[str, StateSize]:
        return self._graph.state_size()

    def slices(self) -> dict[str, Rows]:
        """All state by name; a slice that was not touched is the same object as the last time."""
        state = {
            slice_name(station, name): rows
            for station, slices in self._graph.snapshot().items()
            for name, rows in slices.items()
        }
        memory = {name: known.to_json() for name, known in self._inputs.items()}
        promise = slice_of_progress([self._progress]).column(0)
        arcs = pa.array([json.dumps(self._graph.arcs())])
        state[PROGRESS] = pa.RecordBatch.from_arrays(
            [pa.array([json.dumps(memory)]), promise, arcs], names=["memory", "progress", "arcs"]
        )
        return state

    def restore(self, slices: Mapping[str, Rows]) -> None:
        """Back to the state of `slices`."""
        memory = json.loads(slices[PROGRESS].column("memory")[0].as_py())
        self._inputs = {
            name: self._remembered(entry, memory.get(name)) for name, entry in self._entries.items()
        }
        self._graph.restore_arcs(json.loads(slices[PROGRESS].column("arcs")[0].as_py()))
        (self._progress,) = progress_of_slice(slices[PROGRESS].select(["progress"]))
        state: dict[str, dict[str, Rows]] = {station.id: {} for station in self._graph.stations}
        for name, rows in slices.items():
            station, part = operator_and_slice(name)
            if station in state:
                state[station][part] = rows
        self._graph.restore(state)

    def _remembered(self, entry: Exchange, told: Mapping[str, Any] | None) -> InputMemory:
        return (
            InputMemory.of(entry.source)
            if told is None
            else InputMemory.from_json(told, entry.source)
        )

    # -------------------------------------------------------------------------------------------------------
    # report

    def report(self) -> dict[str, Any]:
        """What this bucket did in the last micro-batch and what it waits for, as something that
        JSON can write."""
        why = explain_wait(self._graph, self._progress, None)
        waits = self._waits(why)
        first = self._oldest if self._progress.cti == MIN_TIME else None
        missing = (
            waits
            if first is None
            else self._waits(explain_wait(self._graph, self._progress, first))
        )
        warned = [text for name, known in self._inputs.items() for text in known.warnings(name)]
        return {
            "fragment": self.fragment.number,
            "promise": why.promise,
            "waits": waits,
            "missing": missing,
            "notes": [*why.notes, *warned],
            "stuck": self._stuck.warnings(),
            "newest": max(
                (known.newest for known in self._inputs.values() if known.newest is not None),
                default=None,
            ),
            "merged": {
                name: station.operator.standing()
                for name, station in self._graph.sources.items()
                if isinstance(station.operator, NamedInputsKernel)
            },
            "operators": {station: asdict(figures) for station, figures in self.figures.items()},
        }

    def _waits(self, why: Why) -> list[dict[str, Any]]:
        """What is waited for, with the sources and fragments that the inputs stand for."""
        waits = [
            asdict(wait) | {"path": [asdict(step) for step in wait.path], "upstream": None}
            for wait in why.waits
        ]
        for wait in waits:
            entry, known = self._entries[wait["source"]], self._inputs[wait["source"]]
            wait["since"] = None if known.since is None else int(known.since * 1_000_000)
            if entry.source is None:
                wait["release"] = []
                wait["upstream"] = entry.upstream
                continue
            if not isinstance(entry.source, MergedSource):
                wait["release"] = known.needed(wait["needs"], entry.source.clock)
            wait["source"] = entry.source.name
        return waits


def _chunk_order(chunk: Chunk) -> tuple[int, str, bytes]:
    """The order of the chunks of an input. Tasks of a micro-batch end in any order; it must not show
    when the micro-batch runs again."""
    return chunk.seq, chunk.header.partition, chunk.blob or b""


def _whole(node: Node) -> Operator | None:
    return WholeWindowsKernel(node.schema) if has_windows(node) else None


def _signatures(fragment: Fragment, graph: QueryGraph) -> dict[str, str]:
    """What each operator is and reads: state fits only an operator with the same one."""
    names = {identity: node for node, identity in operator_ids(fragment.plan).items()}
    found = {}
    for station in graph.stations:
        node = names.get(station.id)
        text = station.id
        if node is not None:
            text = f"{node.signature}, kept by {type(station.operator).__name__}"
        found[station.id] = text if station.operator.snapshot() else f"stateless {text}"
    return found
