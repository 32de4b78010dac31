"""The state that a fragment keeps of one of its inputs, and the promises of the input.

The header of a chunk has a promise of its source, or its newest time and what else the policies of
the source need (`SourceProgress`, as in-process). The promise of an input is the smallest over the
parts of its source, and never goes back. The time comes in chunks too, so that a micro-batch that
runs again makes the same promises (`spark.sources.ticker`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from thalweg.errors import StateError
from thalweg.model.clocks import Clock
from thalweg.model.column_promises import ColumnPromises
from thalweg.model.time import MIN_TIME
from thalweg.plan.nodes import Ingress, Source
from thalweg.progress import combine_unordered
from thalweg.progress.source_clock import SourceClock
from thalweg.progress.source_progress import SourceProgress
from thalweg.shards.exchange.chunk import UNORDERED, Chunk
from thalweg.shards.exchange.header import column_promises_of_json, column_promises_to_json

__all__ = ["InputMemory"]


@dataclass(slots=True)
class InputMemory:
    source: SourceProgress
    """The progress by the policies of the source, from its rows and the time of the ticker; without
    policies for an input from another fragment."""
    promised: dict[str, int] = field(default_factory=dict)
    """By part of the source: the latest promise in its data."""
    position: dict[str, int] = field(default_factory=dict)
    """By part of the source: where the last chunk ended."""
    seen: dict[str, float] = field(default_factory=dict)
    """By part of the source: when it last had rows."""
    column_promises: dict[str, ColumnPromises] = field(default_factory=dict)
    """By part of the source: its latest promises over columns."""
    cti: int = MIN_TIME
    """The latest promise of the input, not rounded to a grid: rows before it are late."""
    passed: int = MIN_TIME
    """The latest promise to the readers of the input, on their grid."""
    woken: int = MIN_TIME
    """The promise made for the input by a clock, or by the other inputs while it was idle; earlier
    promises in its data are obsolete."""
    seen_at: float = 0.0
    late: int = 0
    asked: bool = False
    """Whether the ticker of this micro-batch asks for a promise."""

    @classmethod
    def of(cls, source: Source | None) -> InputMemory:
        """The memory of a new input of a source, or (None) from another fragment."""
        if source is None:
            return cls(SourceProgress.of("", Ingress()))
        return cls(SourceProgress.of(source.name, source.ingress))

    @property
    def newest(self) -> int | None:
        """The largest sync time that any part has shown."""
        return max(self.source.rows.newest.values(), default=None)

    @property
    def now(self) -> int | None:
        """The latest time of the ticker."""
        return self.source.clock.now

    def without_ticks(self, chunks: Iterable[Chunk]) -> list[Chunk]:
        """Set the clock from the chunks of the ticker; returns the other chunks."""
        chunks = list(chunks)
        self.asked = any(chunk.header.asked for chunk in chunks)
        for time in (chunk.header.clock for chunk in chunks):
            if time is not None:
                self.source.set_clock(time if self.now is None else max(time, self.now))
        of_source = [chunk for chunk in chunks if chunk.header.clock is None]
        if any(chunk.header.rows for chunk in of_source):
            self.source.clock = self.source.clock.after_rows()
        return of_source

    def keep_silence(self, before: SourceClock) -> None:
        """Restore the clock from before a micro-batch all of whose rows went into quarantine: such
        rows do not end a silence."""
        self.source.clock = replace(self.source.clock, rows_at=before.rows_at)

    def follow(self, source: str, chunk: Chunk) -> None:
        """Update the input's progress from a chunk header."""
        header = chunk.header
        part = header.partition
        if header.begin is not None and header.end is not None:
            expected = self.position.get(part)
            if expected is not None and header.begin != expected:
                raise StateError(
                    f"source {source!r}, partition {part!r}: the next input begins at "
                    f"{header.begin}, but the state has seen everything up to {expected}. The "
                    "checkpoint's offsets do not belong to its state: they were changed or "
                    "restored apart. Restore the whole checkpoint, or start a new one."
                )
            self.position[part] = header.end
        if header.newest is not None:
            self.source.rows = self.source.rows.see_newest(part, header.newest)
        promise = header.progress
        if promise.column_promises:
            self.column_promises[part] = promise.column_promises
        if promise.cti > MIN_TIME:
            self.promised[part] = max(promise.cti, self.promised.get(part, MIN_TIME))

    def follow_source(self, chunks: Iterable[Chunk], source: Source) -> None:
        """Update a source's progress from the chunks of a micro-batch, for inputs that begin to
        read it later."""
        of_source = self.without_ticks(chunks)
        for chunk in of_source:
            self.follow(source.name, chunk)
        self.absorb(of_source)

    def absorb(self, chunks: Iterable[Chunk]) -> None:
        """Let the policies that follow rows see the chunks of a micro-batch, in their order."""
        if not self.source.policy.observed:
            return
        unordered: dict[str, list[Any]] = {}
        for chunk in chunks:
            part, sighting = chunk.header.partition, chunk.header.sighting
            if sighting is None:
                continue
            if chunk.seq == UNORDERED:
                unordered.setdefault(part, []).append((sighting, chunk.header.rows))
            else:
                self.source.rows = self.source.rows.absorb(part, sighting)
        for part, sightings in unordered.items():
            for sighting in combine_unordered(sightings):
                self.source.rows = self.source.rows.absorb(part, sighting)

    def note_promise(self, promise: int) -> None:
        """Note a promise that was made to the readers of the input."""
        self.passed = max(self.passed, promise)
        self.cti = max(self.cti, promise)

    def promises(self) -> dict[str, int]:
        """By part of the source: its promise."""
        rows = self.source.rows
        parts = rows.timelines if self.source.policy.observes else []
        return {
            part: max(self.promised.get(part, MIN_TIME), rows.of(part))
            for part in dict.fromkeys([*self.promised, *parts])
        }

    def by_clock(self, others: int) -> int:
        """The promise that the clock allows. A source promises on demand when it is asked, or when
        the other inputs have promised more (`others`)."""
        promise = self.source.promise_by_timer()
        if self.asked or others > self.cti:
            promise = max(promise, self.source.clock.promise_on_demand)
        return promise

    def needed(self, time: int, clock: Clock = None) -> list[str]:
        """Descriptions of what would advance the promise to a time, for the parts that are
        behind."""
        promises = self.promises()
        behind = sorted(part for part, promise in promises.items() if promise < time) or [""]
        names = {part: f" from partition {part}" if part else "" for part in behind[:3]}
        return self.source.needed(time, names, clock)

    def warnings(self) -> list[str]:
        """Warnings about estimates that turned out wrong."""
        found = self.source.warnings(lambda part: f", partition {part}" if part else "")
        return list(found.values())

    def to_json(self) -> dict[str, Any]:
        plain = {name: getattr(self, name) for name in self.__slots__}
        promises = {
            part: column_promises_to_json(promised)
            for part, promised in self.column_promises.items()
        }
        return {**plain, "source": self.source.to_json(), "column_promises": promises}

    @classmethod
    def from_json(cls, state: Mapping[str, Any], source: Source | None) -> InputMemory:
        promises = {
            part: column_promises_of_json(promised)
            for part, promised in state["column_promises"].items()
        }
        source_progress = cls.of(source).source.restored(state["source"])
        return cls(**{**state, "source": source_progress, "column_promises": promises})
