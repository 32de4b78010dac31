"""Frontier: when an answer may leave.

With the watermark m = max(latest CTI, largest start seen) and the CTI c, an answer that is complete
at e leaves when

    speculative   e <= m                 hold d        e <= max(c, m - d)
    eager         at once                final         e <= c

A promise for one partition of the state (group-wise punctuation) lets the answers of that partition
leave earlier. The final table is the same for all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from thalweg.errors import PlanError
from thalweg.model.batch import Batch
from thalweg.model.rows import Codes, Rows
from thalweg.model.time import INFINITY, MIN_TIME, Times, greatest

__all__ = ["Consistency", "Frontier", "Line", "Reached"]

_MODES = ("speculative", "eager", "final")


@dataclass(frozen=True, slots=True)
class Consistency:
    """
    >>> [Consistency(level).threshold(watermark=20, cti=5) for level in ("speculative", "final")]
    [20, 5]
    >>> Consistency("speculative", hold=10).threshold(watermark=20, cti=5)
    10
    """

    mode: str = "speculative"
    hold: int = 0

    def __post_init__(self) -> None:
        if self.mode not in _MODES:
            raise PlanError(f"consistency must be one of {', '.join(_MODES)}; got {self.mode!r}.")
        if self.hold < 0 or (self.hold and self.mode != "speculative"):
            raise PlanError(
                "hold is a duration of 0 or more and goes with consistency='speculative'."
            )

    @property
    def is_final(self) -> bool:
        """Whether answers wait until the CTI has passed them: there are no revisions."""
        return self.mode == "final"

    @property
    def is_eager(self) -> bool:
        """Whether answers leave at once, of open windows too."""
        return self.mode == "eager"

    def threshold(self, watermark: int, cti: int) -> int:
        """The latest end of an answer that may leave."""
        if self.is_eager:
            return INFINITY
        if self.is_final:
            return cti
        return max(
            cti, watermark if watermark == INFINITY else max(watermark - self.hold, MIN_TIME)
        )


@dataclass(frozen=True, slots=True)
class Line:
    """A time for every partition: the common one, or a later one of its own."""

    common: int = MIN_TIME
    ahead: Mapping[int, int] = field(default_factory=dict)

    def of(self, partition: Codes) -> Times | int:
        """The time of each partition; one number where all have the same.

        >>> Line(5, {2: 9}).of(np.array([0, 2]))
        array([5, 9])
        """
        if not self.ahead or not len(partition):
            return self.common
        numbers, times = self.columns()
        every = np.full(max(int(partition.max()), int(numbers.max())) + 1, self.common)
        every[numbers] = np.maximum(times, self.common)
        return every[partition]

    def columns(self) -> tuple[Codes, Times]:
        """The partitions that have a time of their own, and those times."""
        size = len(self.ahead)
        return (
            np.fromiter(self.ahead.keys(), np.int64, size),
            np.fromiter(self.ahead.values(), np.int64, size),
        )


@dataclass(slots=True)
class Reached:
    """The CTI and the watermark of a stream."""

    consistency: Consistency
    cti: int = MIN_TIME
    watermark: int = MIN_TIME

    def move(self, cti: int, newest: int = MIN_TIME) -> int:
        """Move on to a CTI and the start of a row; the latest end of an answer that may leave."""
        if cti > self.cti:
            self.cti = cti
        self.watermark = max(self.watermark, newest, self.cti)
        return self.consistency.threshold(self.watermark, self.cti)


@dataclass(slots=True)
class Frontier(Reached):
    """Answers that are complete at or before `out` have left; after a batch those up to
    `after(batch)` may.

    >>> frontier = Frontier(Consistency("speculative"))
    >>> frontier.after(Batch(pa.RecordBatch.from_pydict({"v": [1]}), np.array([7]), np.array([8])))
    7
    """

    out: int = MIN_TIME
    promised: dict[int, int] = field(default_factory=dict)
    """Promises for single partitions, where they are later than the common one."""

    def after(self, batch: Batch) -> int:
        """The latest time at which an answer that may leave is complete, once this batch is known;
        never less than what is out."""
        cti = batch.progress.cti
        if cti > self.cti:
            self.promised = {at: time for at, time in self.promised.items() if time > cti}
        newest = greatest(batch.start) if len(batch) else MIN_TIME
        return max(self.move(cti, newest), self.out)

    def promise(self, partition: Codes, times: Times) -> None:
        """Promises for single partitions."""
        if len(partition):
            later = zip(partition.tolist(), times.tolist(), strict=True)
            more = {at: max(time, self.promised.get(at, time)) for at, time in later}
            self.promised = {**self.promised, **{a: t for a, t in more.items() if t > self.cti}}

    def withdraw(self, partition: Codes) -> None:
        """Remove the promises of partitions without rows in state."""
        if len(partition):
            removed = set(partition.tolist())
            self.promised = {at: time for at, time in self.promised.items() if at not in removed}

    def renumber(self, moved: Codes) -> None:
        """Renumber the partitions: `moved` has the new number of each."""
        self.promised = {int(moved[at]): time for at, time in self.promised.items()}

    def line(self) -> Line:
        """For each partition, the end up to which its answers have left."""
        return Line(self.out, self.promised)

    def settled(self) -> Line:
        """The promise that holds for each partition."""
        return Line(self.cti, self.promised)

    def to_rows(self) -> Rows:
        return pa.RecordBatch.from_arrays(
            [pa.array([self.cti, self.watermark, self.out], pa.int64())], names=["marks"]
        )

    def restore(self, rows: Rows) -> None:
        self.cti, self.watermark, self.out = rows.column(0).to_pylist()
