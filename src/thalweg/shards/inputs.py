"""The state that a fragment keeps of one of its inputs, and what the input promises.

The header of a chunk has a promise of its source, or its newest time and what else the policies of
the source need (`SourceProgress`). An input promises the smallest over the parts of its
source, and never takes a promise back. The time comes in chunks too (`spark.ticker`), so that
a micro-batch that runs again comes to the same promises.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from thalweg.errors import StateError
from thalweg.model.clocks import Clock
from thalweg.model.time import MIN_TIME
from thalweg.plan.nodes import Ingress, Source
from thalweg.progress import combine_unordered
from thalweg.progress.source_clock import SourceClock
from thalweg.progress.source_progress import SourceProgress, ways_to_promise
from thalweg.shards.exchange import UNORDERED, Chunk

__all__ = ["InputMemory"]

_OBJECTS = ("policy", "seen_rows", "clock")
"""Fields with a written form of their own."""
_CLOCK = "told"
"""The clock's name in what is written."""


@dataclass(slots=True)
class InputMemory:
    policy: Ingress
    """How the source admits its rows; empty for an input from another fragment."""
    seen_rows: SourceProgress
    """What the rows of each part of the source have shown, and the promises that follow."""
    clock: SourceClock
    """The time of the ticker, and when rows last came by it."""
    promised: dict[str, int] = field(default_factory=dict)
    """By part of the source: the latest promise it made itself."""
    position: dict[str, int] = field(default_factory=dict)
    """By part of the source: where the last chunk ended."""
    seen: dict[str, float] = field(default_factory=dict)
    """By part of the source: when it last had rows."""
    column_promises: dict[str, list[list[list[Any]]]] = field(default_factory=dict)
    """By part of the source: its latest promises over columns."""
    cti: int = MIN_TIME
    woken: int = MIN_TIME
    """The promise that a clock, or the other inputs while it was idle, made for it; earlier
    promises in its data are out of date."""
    seen_at: float = 0.0
    late: int = 0
    asked: bool = False
    """Whether the ticker of this micro-batch asks for a promise."""
    since: float | None = None
    """When the promise last moved."""

    @classmethod
    def of(cls, source: Source | None) -> InputMemory:
        """Of an input that has seen nothing yet; None: it comes from another fragment."""
        policy = Ingress() if source is None else source.ingress
        return cls(policy, SourceProgress(policy), SourceClock(policy))

    @property
    def newest(self) -> int | None:
        """The largest sync time that any part has shown."""
        return max(self.seen_rows.newest.values(), default=None)

    @property
    def now(self) -> int | None:
        """The latest time of the ticker."""
        return self.clock.now

    def without_ticks(self, chunks: Iterable[Chunk]) -> list[Chunk]:
        """The chunks of the source; chunks of its ticker only carry the time."""
        chunks = list(chunks)
        self.asked = any(chunk.header.asked for chunk in chunks)
        for time in (chunk.header.clock for chunk in chunks):
            if time is not None:
                self.clock = self.clock.at(time if self.now is None else max(time, self.now))
        of_source = [chunk for chunk in chunks if chunk.header.clock is None]
        if any(chunk.header.rows for chunk in of_source):
            self.clock = self.clock.after_rows()
        return of_source

    def keep_silence(self, before: SourceClock) -> None:
        """All rows went into quarantine, which does not end a silence: it counts from before
        them."""
        self.clock = replace(self.clock, rows_at=before.rows_at)

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
            self.seen_rows = self.seen_rows.see_newest(part, header.newest)
        if header.column_promises:
            self.column_promises[part] = header.column_promises
        if header.cti is not None:
            self.promised[part] = max(header.cti, self.promised.get(part, MIN_TIME))

    def follow_source(self, chunks: Iterable[Chunk], source: Source) -> None:
        """Update a source's progress from the chunks of a micro-batch, for inputs that begin to
        read it later."""
        of_source = self.without_ticks(chunks)
        for chunk in of_source:
            self.follow(source.name, chunk)
        self.absorb(of_source)

    def absorb(self, chunks: Iterable[Chunk]) -> None:
        """Let the policies that follow rows see the chunks of a micro-batch, in their order."""
        if not self.policy.observed:
            return
        unordered: dict[str, list[Any]] = {}
        for chunk in chunks:
            part, sighting = chunk.header.partition, chunk.header.sighting
            if sighting is None:
                continue
            if chunk.seq == UNORDERED:
                unordered.setdefault(part, []).append((sighting, chunk.header.rows))
            else:
                self.seen_rows = self.seen_rows.absorb(part, sighting)
        for part, sightings in unordered.items():
            for sighting in combine_unordered(sightings):
                self.seen_rows = self.seen_rows.absorb(part, sighting)

    def promises(self) -> dict[str, int]:
        """What each part of the source promises."""
        seen = self.seen_rows
        parts = seen.timelines if self.policy.observes else []
        return {
            part: max(self.promised.get(part, MIN_TIME), seen.of(part))
            for part in dict.fromkeys([*self.promised, *parts])
        }

    def by_clock(self, others: int) -> int:
        """What the clock lets the input promise. A source promises on demand when it is asked, or
        when the other inputs have promised more (`others`)."""
        promise = MIN_TIME
        self.clock = self.clock.started()
        if self.clock.timer_fires:
            promise = self.clock.timer_promise
            self.clock = self.clock.after_timer()
        if self.asked or others > self.cti:
            promise = max(promise, self.clock.promise_on_demand)
        return promise

    def needed(self, time: int, clock: Clock = None) -> list[str]:
        """What would bring the promise to a time, one way for each policy; of several parts, of
        those that are behind."""

        def by_policy() -> list[str]:
            promises = self.promises()
            behind = sorted(part for part, promise in promises.items() if promise < time) or [""]
            ways = []
            for part in behind[:3]:
                of = f" from partition {part}" if part else ""
                ways += [f"{way}{of}" for way in self.seen_rows.needed(time, part, clock)]
            return ways + self.clock.needed(time, clock)

        return ways_to_promise(time, by_policy, self.policy, clock)

    def warnings(self, name: str) -> list[str]:
        """Estimates that reality has broken."""
        reasons = self.seen_rows.broken_estimates()
        return [f"source {name!r}: {reason}" for reason in reasons.values()]

    def to_json(self) -> dict[str, Any]:
        plain = {name: getattr(self, name) for name in self.__slots__ if name not in _OBJECTS}
        return {**plain, "seen_rows": self.seen_rows.to_json(), _CLOCK: self.clock.to_json()}

    @classmethod
    def from_json(cls, state: Mapping[str, Any], source: Source | None) -> InputMemory:
        new = cls.of(source)
        plain = {n: value for n, value in state.items() if n not in ("seen_rows", _CLOCK)}
        seen = new.seen_rows.from_json(state["seen_rows"])
        return cls(new.policy, seen, new.clock.from_json(state[_CLOCK]), **plain)
