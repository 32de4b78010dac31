"""What the demo looks at: the answers for one source, window by window, as they come, change and
become final."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.model.batch import Batch

__all__ = ["Answer", "Change", "Watch"]


@dataclass(frozen=True)
class Change:
    """At a time, an answer came (`early`), was taken back and given anew (`revised`), or became
    `final`."""

    at: int
    kind: str
    count: int


@dataclass
class Answer:
    """The count of one window, and what became of it."""

    start: int
    end: int
    changes: list[Change] = field(default_factory=list)

    @property
    def count(self) -> int | None:
        return self.changes[-1].count if self.changes else None

    @property
    def is_final(self) -> bool:
        return bool(self.changes) and self.changes[-1].kind == "final"

    @property
    def revisions(self) -> int:
        return sum(change.kind == "revised" for change in self.changes)

    def note(self, at: int, count: int | None, cti: int) -> None:
        """What the answer is now, and the promise that stands."""
        if count is not None and count != self.count:
            self.changes.append(Change(at, "revised" if self.changes else "early", count))
        # To take the answer back would change time from its start on: once that is promised away,
        # it is final.
        if self.count is not None and not self.is_final and cti > self.start:
            self.changes.append(Change(at, "final", self.count))


@dataclass
class Watch:
    """The answers for one source; one of them is followed step by step."""

    src: str
    start: int
    end: int
    answers: dict[tuple[int, int], Answer] = field(default_factory=dict)

    @property
    def followed(self) -> Answer:
        return self._of(self.start, self.end)

    def _of(self, start: int, end: int) -> Answer:
        return self.answers.setdefault((start, end), Answer(start, end))

    def newest(self, most: int) -> list[Answer]:
        """The last windows that have an answer, oldest first."""
        changed = [answer for _, answer in sorted(self.answers.items()) if answer.changes]
        return changed[-most:]

    def see(self, at: int, batch: Batch) -> None:
        """Take in a batch of answers."""
        rows = np.flatnonzero(_is(batch, self.src))
        counts = batch.payload.take(pa.array(rows)).column("packets").to_pylist()
        found = [
            (int(batch.start[row]), int(batch.end[row]), count)
            for row, count in zip(rows, counts, strict=True)
            if batch.is_adjust is None or not batch.is_adjust[row]
        ]
        self.look(at, found, batch.progress.cti)

    def look(self, at: int, rows: Iterable[tuple[int, int, int]], cti: int) -> None:
        """Answers as (start, end, packets) that stand at a time, and the promise."""
        for start, end, count in rows:
            self._of(start, end).note(at, count, cti)
        for answer in self._open(cti):
            answer.note(at, None, cti)

    def _open(self, cti: int) -> Iterator[Answer]:
        return (a for a in self.answers.values() if a.start < cti and not a.is_final)


def _is(batch: Batch, src: str) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which rows are of a source."""
    same = pc.equal(batch.payload.column("src"), src)
    return np.asarray(same.to_numpy(zero_copy_only=False), dtype=bool)
