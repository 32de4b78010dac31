"""The latest chain of starts of each partition: its first and its last start.

New starts extend the chain when they are less than a gap away from it, on either side, or begin the
next chain. Starts further before the chain belong to chains that are not kept.
"""

from __future__ import annotations

import numpy as np

from thalweg.model.rows import Codes
from thalweg.model.sorting import run_begins, sort_pairs
from thalweg.model.time import MIN_TIME, Times
from thalweg.operators.window.partition_values import grown, moved_to

__all__ = ["LatestChains"]


class LatestChains:
    """`first` and `last` are MIN_TIME for a partition without a chain.

    >>> chains = LatestChains(gap=3)
    >>> chains.grow(np.array([1]))
    >>> [found.tolist() for found in chains.extend(np.array([0, 1, 0, 0]), np.array([5, 6, 7, 10]))]
    [[0], [7]]
    >>> chains.first.tolist(), chains.last.tolist()
    ([10, 6], [10, 6])
    """

    def __init__(self, gap: int) -> None:
        self._gap = gap
        self.first = self.last = np.empty(0, np.int64)

    def grow(self, partition: Codes) -> None:
        """Make room for these partitions."""
        last = grown(self.last, partition, MIN_TIME)
        if last is not self.last:
            self.last, self.first = last, grown(self.first, np.array([len(last) - 1]), MIN_TIME)

    def extend(self, partition: Codes, start: Times) -> tuple[Codes, Times]:
        """Add starts. Returns the partitions of chains that are not the latest any more, or never
        were, and the last start of each such chain, or an earlier one."""
        early = start <= self.first[partition] - self._gap
        if np.count_nonzero(early):
            late = ~early
            older = self.extend(partition[late], start[late])
            return (
                np.concatenate([older[0], partition[early]]),
                np.concatenate([older[1], start[early]]),
            )
        np.minimum.at(self.first, partition, start)
        # A start within the latest chain is as if it stood at its end.
        at = np.maximum(start, self.last[partition])
        order = sort_pairs(partition, at)
        at, partition = at[order], partition[order]
        before = np.empty(len(at), np.int64)
        before[1:] = at[:-1]
        begins = run_begins(partition)
        before[begins] = self.last[partition[begins]]
        new = at - before >= self._gap
        # Of several values for one partition the last one stays.
        self.first[partition[new]] = at[new]
        self.last[partition] = at
        new &= before != MIN_TIME
        return partition[new], before[new]

    def forget(self, partition: Codes) -> None:
        """Forget the chains of some partitions."""
        self.first[partition] = self.last[partition] = MIN_TIME

    def renumber(self, moved: Codes) -> None:
        """Partitions have new numbers."""
        self.first = moved_to(self.first, moved, MIN_TIME)
        self.last = moved_to(self.last, moved, MIN_TIME)
