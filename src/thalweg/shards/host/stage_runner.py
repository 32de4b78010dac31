"""Runs one bucket of one stage of a host: all the queries that have a fragment there.

    "queries"            the version, and the queries of it with their plans
    "sources"            a token, and the progress of each source
    query id/fragment/   the slices of one query, with a directory of their own (`shards.state`)

A query reads a source from the first chunk of its version on; its input then begins with the
progress that the source has made, so that lateness is judged as for queries that have read the
source from the start. All decisions here follow from chunks and state alone, so that every bucket,
and a micro-batch that runs again, makes the same ones.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from thalweg.errors import StateError, ThalwegError
from thalweg.graph.whole import whole_since
from thalweg.model.time import MIN_TIME
from thalweg.operators.base import StateSize
from thalweg.shards.exchange.blobs import blob_of_batch
from thalweg.shards.exchange.chunk import Chunk, ExchangeRow
from thalweg.shards.exchange.header import Header, Message
from thalweg.shards.exchange.ingest import divided_rows
from thalweg.shards.fragments.fragment import Fragment
from thalweg.shards.host.figures import HostReport, reports_to_json
from thalweg.shards.host.query_registry import changes_of_json
from thalweg.shards.host.roster import HostSpec, LiveQuery
from thalweg.shards.host.saved_stage import SavedQueries, SavedSources, SourceState, saved_token
from thalweg.shards.state.slices import Memory, SliceStore, remove_slices
from thalweg.shards.state.store import PrefixedStore, Store
from thalweg.shards.worker.answer import Answer
from thalweg.shards.worker.fragment_runner import FragmentRunner
from thalweg.shards.worker.input_memory import InputMemory

__all__ = ["StageRunner"]


@dataclass(eq=False)
class _Part:
    """A fragment of a query in this bucket."""

    query: LiveQuery
    fragment: Fragment
    runner: FragmentRunner
    memory: Memory
    chunks: list[Chunk] = field(default_factory=list)
    whole: int = MIN_TIME
    """The time from which its windows have missed no row."""

    @property
    def prefix(self) -> str:
        return _prefix(self.query.entry.id, self.fragment.number)


def _prefix(id_: str, fragment: int) -> str:
    return f"{id_}/{fragment}/"


class StageRunner:
    """`process` takes the chunks of a micro-batch and returns rows for later stages and the
    output."""

    def __init__(self, spec: HostSpec, stage: int, bucket: int) -> None:
        self._spec = spec
        self._stage = stage
        self._bucket = bucket
        self._roster = spec.roster()
        self._sources = {
            name: SourceState(InputMemory.of(source)) for name, source in spec.sources.items()
        }
        self._parts: dict[str, _Part] = {}
        self.token = ""

    # --------------------------------------------------------------------------------------------
    # a micro-batch

    def process(self, chunks: Iterable[Chunk], now: float, store: Store) -> Iterator[ExchangeRow]:
        announced: dict[str, list[Chunk]] = {name: [] for name in self._sources}
        rows: list[Chunk] = []
        for chunk in chunks:
            if chunk.header.kind is Message.SOURCE:
                announced[chunk.origin].append(chunk)
            else:
                rows.append(chunk)
        self._apply_changes(announced, store)
        began = self._begin_inputs(announced, now)
        before = {name: state.newest for name, state in self._sources.items()}
        for name, source_chunks in announced.items():
            self._follow(name, sorted(source_chunks, key=lambda chunk: chunk.seq))
        for part, names in began.items():
            self._leave_out_missed(part, names, before)
        self._route(rows)
        yield from self._run(now, store)
        self._save_sources(store)
        store.settle()

    def _apply_changes(self, announced: Mapping[str, list[Chunk]], store: Store) -> None:
        """Apply the changes of queries that the first chunk of a new version carries."""
        changes = {
            change.version: change
            for chunks in announced.values()
            for chunk in chunks
            if chunk.blob is not None
            for change in changes_of_json(chunk.blob)
        }
        new = [changes[n] for n in sorted(changes) if n > self._roster.version]
        if not new:
            return
        before = dict(self._roster.queries)
        for change in new:
            if change.version != self._roster.version + 1:
                raise StateError(
                    f"stage {self._stage}, bucket {self._bucket}: version "
                    f"{self._roster.version + 1} of the host's queries never came."
                )
            self._roster.apply(change)
        for id_, query in before.items():
            if self._roster.queries.get(id_) is not query:
                self._stop(query, store, keep_state=id_ in self._roster.queries)
        for id_, query in self._roster.queries.items():
            if before.get(id_) is not query:
                self._start(query, store)
        self._save_queries(store)

    def _stop(self, query: LiveQuery, store: Store, *, keep_state: bool) -> None:
        for fragment in query.fragments(self._stage):
            self._parts.pop(_prefix(query.entry.id, fragment.number), None)
            if not keep_state:
                own = PrefixedStore(store, _prefix(query.entry.id, fragment.number))
                remove_slices(own, self._where)

    def _start(self, query: LiveQuery, store: Store) -> None:
        """Make the runners of a query, with its state in the store."""
        for fragment in query.fragments(self._stage):
            if self._bucket not in query.buckets(fragment):
                continue
            later = not query.entry.partial
            runner = FragmentRunner(
                fragment, query.consistency, parts=query.parts(fragment), added_later=later
            )
            part = _Part(query, fragment, runner, Memory())
            slices = self._slices(part, store).load(runner.signatures)
            if slices is not None:
                runner.restore(slices)
            self._parts[part.prefix] = part

    def _slices(self, part: _Part, store: Store) -> SliceStore:
        where = (
            f"query {part.query.entry.name!r}, fragment {part.fragment.number}, bucket "
            f"{self._bucket}"
        )
        return SliceStore(PrefixedStore(store, part.prefix), part.memory, where)

    # --------------------------------------------------------------------------------------------
    # sources

    def _begin_inputs(
        self, announced: Mapping[str, list[Chunk]], now: float
    ) -> dict[_Part, set[str]]:
        """Begin the inputs whose source has reached the version of their query; returns the sources
        of these inputs by part."""
        began: dict[_Part, set[str]] = {}
        for part in self._parts.values():
            for entry in part.fragment.inputs:
                if entry.source is None:
                    continue
                version, name = part.query.entry.version, entry.source.name
                before = self._sources[name]
                if before.version < version <= _version(announced[name], before.version):
                    part.runner.begin_input(entry.leaf.name, before.memory, now)
                    began.setdefault(part, set()).add(name)
        return began

    def _leave_out_missed(
        self, part: _Part, began: set[str], before: Mapping[str, int | None]
    ) -> None:
        """Leave out windows that may have missed rows: rows from before this micro-batch for inputs
        that begin now, all rows so far for inputs that have not begun."""
        newest: dict[str, int] = {}
        for entry in part.fragment.inputs:
            if entry.source is None:
                continue
            name = entry.source.name
            state = self._sources[name]
            seen = before[name] if name in began else None
            if name not in began and state.version < part.query.entry.version:
                seen = state.newest
            if seen is not None:
                newest[entry.leaf.name] = seen
        self._leave_out(part, newest)

    def _leave_out(self, part: _Part, newest: Mapping[str, int]) -> None:
        if newest and not part.query.entry.partial:
            part.whole = max(part.whole, whole_since(part.fragment.plan, newest))
            part.runner.leave_out(part.whole)

    def _follow(self, name: str, chunks: list[Chunk]) -> None:
        """Update the progress of a source from its chunks."""
        state, source = self._sources[name], self._spec.sources[name]
        state.version = _version(chunks, state.version)
        state.memory.follow_source(chunks, source)

    # --------------------------------------------------------------------------------------------
    # rows

    def _route(self, rows: Iterable[Chunk]) -> None:
        """Give chunks to the inputs that read them."""
        readers: dict[str, list[tuple[_Part, str]]] = {}
        for part in self._parts.values():
            for entry in part.fragment.inputs:
                origin = part.query.origin(part.fragment.number, entry)
                readers.setdefault(origin, []).append((part, entry.leaf.name))
        for chunk in rows:
            version = chunk.header.version
            for part, leaf in readers.get(chunk.origin, ()):
                if version is None or version >= part.query.entry.version:
                    part.chunks.append(replace(chunk, origin=leaf))
                    if chunk.header.whole is not None and chunk.header.whole > part.whole:
                        self._leave_out(part, {leaf: chunk.header.whole - 1})

    def _run(self, now: float, store: Store) -> Iterator[ExchangeRow]:
        reports = []
        for part in self._parts.values():
            if not part.chunks:
                continue
            chunks, part.chunks = part.chunks, []
            try:
                answer = part.runner.process(chunks, now)
            except ThalwegError as reason:
                reason.args = (f"query {part.query.entry.name!r}: {reason.args[0]}",)
                raise
            slices = self._slices(part, store)
            slices.save(part.runner.slices(), part.runner.signatures)
            yield from self._answer(part, answer)
            reports.append(_report(part, answer))
        if reports:
            header = Header(Message.REPORT, report=reports_to_json(reports))
            yield ExchangeRow(self._bucket, self._spec.stages, "", 0, header.to_json(), None)

    def _answer(self, part: _Part, answer: Answer) -> Iterator[ExchangeRow]:
        query, batch = part.query, answer.batch
        readers = query.readers(part.fragment)
        whole = None if part.whole == MIN_TIME else part.whole
        for origin, target in readers:
            sent = batch.with_progress(batch.progress.without_groups())
            header = Header(partition=str(self._bucket), whole=whole)
            yield from divided_rows(target, origin, sent, header)
        if not readers and len(batch):
            text = Header(Message.ANSWER, rows=len(batch)).to_json()
            blob = blob_of_batch(batch)
            yield ExchangeRow(self._bucket, self._spec.stages, query.entry.id, 0, text, blob)

    # --------------------------------------------------------------------------------------------
    # state

    def load(self, store: Store) -> None:
        """Restore the state from the store."""
        queries = SavedQueries.read(store, self._where)
        if queries is not None:
            self._roster.use(queries.by_id, queries.version)
        saved = SavedSources.read(store, self._where, self._spec.sources)
        if saved is not None:
            self.token = saved.token
            self._sources |= saved.sources
        for query in self._roster.queries.values():
            self._start(query, store)

    def is_current(self, store: Store) -> bool:
        """Whether the store still has the state that this runner has written."""
        return saved_token(store, self._where) == self.token

    @property
    def _where(self) -> str:
        return f"stage {self._stage}, bucket {self._bucket}"

    def _save_queries(self, store: Store) -> None:
        entries = [query.entry for query in self._roster.queries.values()]
        SavedQueries(self._roster.version, entries).write(store)

    def _save_sources(self, store: Store) -> None:
        self.token = uuid.uuid4().hex
        SavedSources(self.token, self._sources).write(store)


def _version(chunks: Iterable[Chunk], before: int) -> int:
    """The version that a source has reached. Chunks of a ticker only carry the time."""
    versions = (c.header.version for c in chunks if c.header.clock is None)
    return max((version for version in versions if version is not None), default=before)


def _report(part: _Part, answer: Answer) -> HostReport:
    """The report of a part on a micro-batch."""
    batch, size = answer.batch, sum(part.runner.state_size().values(), StateSize())
    return HostReport(
        part.query.entry.id,
        batch.progress.cti,
        len(batch),
        answer.adjusts,
        answer.late_rows,
        size.rows,
        size.bytes,
        last=not part.query.readers(part.fragment),
    )
