"""Windows that need the rank of a row in its partition, in the order of time.

    slide by rank        as by tuple (see `by_time`), at every n-th tuple; a change moves the ranks
                         of all later rows

A row is settled when the CTI has passed its start: it cannot be taken back, and no earlier one can
arrive. Of forgotten rows only the count is kept, for each partition.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from thalweg.model.delta import Delta
from thalweg.model.names import internal
from thalweg.model.order import dense_ranks
from thalweg.model.rows import Codes, Rows
from thalweg.model.sorting import sort_pairs
from thalweg.model.time import MIN_TIME, Times
from thalweg.operators.base import Slices, StateSize
from thalweg.operators.window.assigners.by_time import frames_by_tuple
from thalweg.operators.window.assigners.changes import Ordered, repeated
from thalweg.operators.window.assigners.whole_partitions import WholePartitions
from thalweg.operators.window.extents import Frames
from thalweg.operators.window.held_rows import Found
from thalweg.operators.window.partition_values import grown, moved_to
from thalweg.progress.frontier import Frontier
from thalweg.windows import SlideByTuple

__all__ = ["CountingAssigner", "RankAssigner"]

_COUNT = pa.field(internal("count"), pa.int64())
_FORGOTTEN = "gone"
"""The name of the slice with counts."""


class CountingAssigner(WholePartitions):
    """Rows are ranked in their partition; forgotten rows are counted."""

    ranked: bool
    ties: int = 0
    """Columns at the end of a row that order rows of equal position."""

    def __init__(self) -> None:
        super().__init__()
        self._forgotten = np.empty(0, np.int64)
        self._written: Rows | None = None

    def order(self, found: Found) -> Ordered:
        which = sort_pairs(found.partition, found.start)
        if self.ties and _has_ties(found.start[which], found.partition[which]):
            names = self.held.schema.names[len(self.held.schema) - self.ties :]
            ties = [dense_ranks(found.payload.column(name)) for name in reversed(names)]
            which = np.lexsort((*ties, found.start, found.partition))
        which = repeated(which, found.weight)
        number = found.start[which]
        if self.ranked:
            partition = found.partition[which]
            begins = partition.searchsorted(partition, side="left")
            earlier = grown(self._forgotten, partition, 0)[partition]
            number = np.arange(len(partition)) - begins + 1 + earlier
        return Ordered(found, which, lambda: self.starts(found)[which], number, self.times(found))

    def times(self, found: Found) -> Times | None:
        """The times at which held rows count, where these are not their starts."""
        return None

    def count(self, partition: Codes, weight: Codes) -> None:
        """Count rows that are forgotten."""
        if not self.ranked or not len(partition):
            return
        self._forgotten = grown(self._forgotten, partition, 0)
        np.add.at(self._forgotten, partition, weight)
        self._written = None

    def finish(self, partition: Codes) -> None:
        super().finish(partition)
        self._forgotten = grown(self._forgotten, partition, 0)
        self._forgotten[partition] = 0
        self._written = None

    def used(self) -> Codes:
        return self._forgotten.nonzero()[0]

    def renumber(self, moved: Codes) -> None:
        super().renumber(moved)
        self._forgotten = moved_to(self._forgotten, moved, 0)

    def clear(self) -> None:
        super().clear()
        self._forgotten, self._written = np.empty(0, np.int64), None

    def snapshot(self) -> Slices:
        if not self.ranked:
            return {}
        if self._written is None:
            partition = self._forgotten.nonzero()[0]
            keys = self.held.partitions.named(partition)
            self._written = pa.RecordBatch.from_arrays(
                [*keys, pa.array(self._forgotten[partition])],
                schema=pa.schema([*self.held.partitions.fields, _COUNT]),
            )
        return {_FORGOTTEN: self._written}

    def restore(self, slices: Mapping[str, Rows], frontier: Frontier) -> None:
        self._forgotten = np.empty(0, np.int64)
        if self.ranked:
            rows = slices[_FORGOTTEN]
            self.count(self.held.partitions.of_rows(rows), rows.column(_COUNT.name).to_numpy())
            self._written = rows
        super().restore(slices, frontier)

    def size(self) -> StateSize:
        counts = int(np.count_nonzero(self._forgotten))
        return StateSize(counts, 8 * counts)


class RankAssigner(CountingAssigner):
    """Slide by every n-th tuple in the order of time."""

    ranked = True

    def __init__(self, kind: SlideByTuple) -> None:
        super().__init__()
        self._range, self._every = kind.range, kind.every

    def stretch(self, delta: Delta) -> tuple[Times, Times]:
        return delta.start, delta.start + self._range

    def frames(self, rows: Ordered, more: tuple[Codes, Codes], mark: int) -> Frames:
        return frames_by_tuple(rows, self._range, self._every)

    def close(self, frontier: Frontier) -> int:
        for rows in self.held.drop(frontier.cti):
            self.count(rows.group, rows.weight)
        return self.promise(frontier.cti)

    def forget(self, found: Found) -> None:
        self.count(found.partition, found.weight)
        super().forget(found)

    def promise(self, time: int) -> int:
        return max(time - self._range + 1, MIN_TIME)

    def needs(self, time: int) -> int:
        return time + self._range - 1


def _has_ties(start: Times, partition: Codes) -> bool:
    """Whether two neighbours have one start and one partition."""
    return bool(((start[1:] == start[:-1]) & (partition[1:] == partition[:-1])).any())
