"""The history of the demo's answers for one source: first answer, revisions, final answer of each
window."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.cli.demo_changes import ChangeKind
from thalweg.model.batch import Batch

__all__ = ["Answer", "Change", "Watch"]


@dataclass(frozen=True)
class Change:
    """One change of an answer."""

    at: int
    kind: ChangeKind
    count: int


@dataclass
class Answer:
    """The count of one window, with its changes in order."""

    start: int
    end: int
    changes: list[Change] = field(default_factory=list)

    @property
    def count(self) -> int | None:
        return self.changes[-1].count if self.changes else None

    @property
    def is_final(self) -> bool:
        return bool(self.changes) and self.changes[-1].kind is ChangeKind.FINAL

    @property
    def kind(self) -> ChangeKind:
        """What the answer is now."""
        if self.is_final:
            return ChangeKind.FINAL
        return ChangeKind.REVISED if self.revisions else ChangeKind.EARLY

    @property
    def revisions(self) -> int:
        return sum(change.kind is ChangeKind.REVISED for change in self.changes)

    def note(self, at: int, count: int | None, cti: int) -> None:
        """Record the current count (None: unchanged) and whether `cti` makes it final."""
        if count is not None and count != self.count:
            self.changes.append(
                Change(at, ChangeKind.REVISED if self.changes else ChangeKind.EARLY, count)
            )
        # Retracting the answer would change the table from its start on, so a CTI after the start
        # makes it final.
        if self.count is not None and not self.is_final and cti > self.start:
            self.changes.append(Change(at, ChangeKind.FINAL, self.count))


@dataclass
class Watch:
    """The answers for one source. The demo explains one of them, [start, end), step by step."""

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
        """Record the answers in a batch of output."""
        rows = np.flatnonzero(_is(batch, self.src))
        counts = batch.payload.take(pa.array(rows)).column("packets").to_pylist()
        found = [
            (int(batch.start[row]), int(batch.end[row]), count)
            for row, count in zip(rows, counts, strict=True)
            if batch.is_adjust is None or not batch.is_adjust[row]
        ]
        self.look(at, found, batch.progress.cti)

    def look(self, at: int, rows: Iterable[tuple[int, int, int]], cti: int) -> None:
        """Record answers as (start, end, packets) that are current at a time, and the CTI."""
        for start, end, count in rows:
            self._of(start, end).note(at, count, cti)
        for answer in self._open(cti):
            answer.note(at, None, cti)

    def _open(self, cti: int) -> Iterator[Answer]:
        return (a for a in self.answers.values() if a.start < cti and not a.is_final)


def _is(batch: Batch, src: str) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Mask of the rows of one source."""
    same = pc.equal(batch.payload.column("src"), src)
    return np.asarray(same.to_numpy(zero_copy_only=False), dtype=bool)
