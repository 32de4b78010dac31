"""What a fragment remembers of one of its inputs, and what the input promises.

Every chunk says what its source promises, or how new its newest row is and what else the policies
of the source want to know. An input promises the smallest over the parts of its source, and never
takes a promise back. Clocks are told by chunks too (`spark.ticker`), so that a micro-batch that
runs again comes to the same promises.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from thalweg.errors import StateError
from thalweg.model.time import INFINITY, MIN_TIME
from thalweg.plan.nodes import Ingress, Source
from thalweg.progress import (
    EstimateTracker,
    Tracker,
    absorbed,
    combine_unordered,
    restore_trackers,
    trackers_for,
    trackers_text,
)
from thalweg.shards.exchange import UNORDERED, Chunk

__all__ = ["InputMemory"]


@dataclass(slots=True)
class InputMemory:
    newest: dict[str, int] = field(default_factory=dict)
    """By part of the source: the largest sync time it has shown."""
    promised: dict[str, int] = field(default_factory=dict)
    """By part of the source: the latest promise it made itself."""
    position: dict[str, int] = field(default_factory=dict)
    """By part of the source: where the last chunk ended."""
    seen: dict[str, float] = field(default_factory=dict)
    """By part of the source: when it last had rows."""
    boxes: dict[str, list[list[list[Any]]]] = field(default_factory=dict)
    """By part of the source: its latest promises over columns."""
    cti: int = MIN_TIME
    woken: int = MIN_TIME
    """How far it was taken along while it was idle; promises of its own before that are out of
    date."""
    seen_at: float = 0.0
    late: int = 0
    trackers: dict[str, tuple[Tracker, ...]] = field(default_factory=dict)
    """By part of the source: what its policies remember."""
    clock: int | None = None
    """The latest time that a ticker told."""
    heard: int | None = None
    """What the ticker had told when the last rows came."""
    asked: bool = False
    """Whether the ticker of this micro-batch asks for a promise."""
    since: float | None = None
    """When the promise last moved."""

    def without_ticks(self, chunks: Iterable[Chunk]) -> list[Chunk]:
        """The chunks of the source; chunks of its ticker only carry the time."""
        some = list(chunks)
        self.asked = any(chunk.header.asked for chunk in some)
        for chunk in some:
            if chunk.header.clock is not None:
                self.clock = max(chunk.header.clock, self.clock or chunk.header.clock)
        rest = [chunk for chunk in some if chunk.header.clock is None]
        if any(chunk.header.rows for chunk in rest):
            self.heard = self.clock
        return rest

    def follow(self, source: str, chunk: Chunk) -> None:
        """Update the input's progress from a chunk header."""
        header = chunk.header
        part = header.partition
        if header.begin is not None and header.end is not None:
            expected = self.position.get(part)
            if expected is not None and header.begin != expected:
                raise StateError(
                    f"source {source!r}, partition {part!r}: the next input begins at {header.begin}, but the state has seen "
                    f"everything up to {expected}. The checkpoint's offsets do not belong to its state: they were changed or "
                    "restored apart. Restore the whole checkpoint, or start a new one."
                )
            self.position[part] = header.end
        if header.newest is not None:
            self.newest[part] = max(header.newest, self.newest.get(part, MIN_TIME))
        if header.boxes:
            self.boxes[part] = header.boxes
        if header.cti is not None:
            self.promised[part] = max(header.cti, self.promised.get(part, MIN_TIME))

    def follow_source(self, chunks: Iterable[Chunk], source: Source) -> None:
        """What the chunks of a micro-batch say of a source, for inputs that begin to read it
        later."""
        rest = self.without_ticks(chunks)
        for chunk in rest:
            self.follow(source.name, chunk)
        self.sight(rest, source.ingress)

    def sight(self, chunks: Iterable[Chunk], policy: Ingress) -> None:
        """Let the policies that follow rows see the chunks of a micro-batch, in their order."""
        if not policy.observed:
            return
        unordered: dict[str, list[Any]] = {}
        for chunk in chunks:
            sighting = chunk.header.sighting
            if sighting is None:
                continue
            if chunk.seq == UNORDERED:
                unordered.setdefault(chunk.header.partition, []).append(
                    (sighting, chunk.header.rows)
                )
            else:
                self._absorb(chunk.header.partition, sighting, policy)
        for part, sightings in unordered.items():
            for sighting in combine_unordered(sightings):
                self._absorb(part, sighting, policy)

    def _absorb(self, part: str, sighting: Any, policy: Ingress) -> None:
        self.trackers[part] = absorbed(
            self.trackers.get(part) or trackers_for(policy.observed), sighting
        )

    def promises(self, policy: Ingress | None) -> dict[str, int]:
        """What each part of the source promises."""
        promises = dict(self.promised)
        if policy is not None and policy.disorder is not None:
            for part, newest in self.newest.items():
                promises[part] = max(promises.get(part, MIN_TIME), newest - policy.disorder)
        for part, trackers in self.trackers.items():
            promises[part] = max(
                [promises.get(part, MIN_TIME), *(tracker.promise for tracker in trackers)]
            )
        return promises

    def by_clock(self, policy: Ingress, ahead: int) -> int:
        """What the clock lets the input promise; `ahead` is how far the other inputs are. A source
        that is asked answers, wherever they are."""
        if self.clock is None:
            return MIN_TIME
        if self.heard is None:
            self.heard = self.clock  # silence begins with the query
        promise = MIN_TIME
        timer, asked = policy.timer, policy.on_demand
        if timer is not None and self.clock - self.heard >= timer.lull:
            promise = self.clock - timer.behind
        if asked is not None and (self.asked or ahead > self.cti):
            promise = max(promise, self.clock - asked.behind)
        return promise

    def needed(self, time: int, policy: Ingress) -> list[str]:
        """What would bring the promise to a time, one way for each policy; of several parts, of
        those that are behind."""
        promises = self.promises(policy)
        behind = sorted(part for part, promise in promises.items() if promise < time) or [""]
        ways = []
        for part in behind[:3]:
            of = f" from partition {part}" if part else ""
            if policy.disorder is not None:
                newest = self.newest.get(part)
                shown = "none has come" if newest is None else f"the newest is {newest}"
                ways.append(
                    f"a row{of} at {time + policy.disorder} or later ({shown}, disorder {policy.disorder})"
                )
            ways += [
                f"{tracker.needed(time)}{of}"
                for tracker in self.trackers.get(part) or trackers_for(policy.observed)
            ]
        ways += [f"the clock at {time + one.behind}" for one in policy.clocks]
        return (
            [*ways, f"a CTI at {time} or later in the data", "the end of the source"]
            if time < INFINITY
            else ["the end of the source"]
        )

    def warnings(self, name: str) -> list[str]:
        """Estimates that reality has broken."""
        found = (
            (part, tracker)
            for part, several in self.trackers.items()
            for tracker in several
            if isinstance(tracker, EstimateTracker)
        )
        return [
            f"source {name!r}: {tracker.late:.0f} of {tracker.judged:.0f} rows came later than the estimated slack {tracker.slack}"
            for _, tracker in found
            if tracker.broken
        ]

    def to_json(self) -> dict[str, Any]:
        told = {name: getattr(self, name) for name in self.__slots__ if name != "trackers"}
        return {
            **told,
            "trackers": {part: trackers_text(trackers) for part, trackers in self.trackers.items()},
        }

    @classmethod
    def from_json(cls, told: Mapping[str, Any], policy: Ingress | None) -> InputMemory:
        known = {name: value for name, value in told.items() if name != "trackers"}
        states: Mapping[str, Any] = told.get("trackers", {}) if policy is not None else {}
        trackers = (
            {part: restore_trackers(policy.observed, state) for part, state in states.items()}
            if policy is not None
            else {}
        )
        return cls(**known, trackers=trackers)
