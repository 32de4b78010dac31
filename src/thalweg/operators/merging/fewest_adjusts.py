"""The fewest adjusts that bring the rows of an output in line with those of an input (see
`counted` for the rule and why no fewer will do)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from thalweg.model.rows import Bools, Codes
from thalweg.model.sorting import sort_pairs
from thalweg.model.time import Times
from thalweg.operators.merging.chains import ABSENT

__all__ = ["AdjustPlan", "differences", "fewest_adjusts"]

Counted = tuple[Codes, Times, Codes]
"""Parallel columns: which payload and start, an end, how often."""


@dataclass(frozen=True, slots=True)
class AdjustPlan:
    """Change i moves one row of `row[i]` from `end[i]` to `new_end[i]`. An absent end inserts the
    row, an absent new end removes it (`ABSENT`)."""

    row: Codes
    end: Times
    new_end: Times

    @property
    def inserts(self) -> Bools:
        """Which changes insert a row."""
        inserts: Bools = self.end == ABSENT
        return inserts

    def filter(self, mask: Bools) -> AdjustPlan:
        return AdjustPlan(self.row[mask], self.end[mask], self.new_end[mask])

    def legal(self, free: Bools, settled: Times) -> Bools:
        """Which changes the output's promises allow: any change of a row that may still appear or
        vanish (`free`), else a move between ends that are not settled. Both by row."""
        legal: Bools = (self.end != ABSENT) & (self.new_end != ABSENT)
        legal &= np.minimum(self.end, self.new_end) >= settled[self.row]
        legal |= free[self.row]
        return legal


def fewest_adjusts(
    size: int, wanted: Counted, shown: Counted, time: int | Times, *, exactly: bool = False
) -> AdjustPlan:
    """Changes after which the output has as many rows as are wanted, and each end before `time` as
    often; with `exactly` every end. The time may differ by row.

    >>> one = np.array([0, 0])
    >>> wanted, shown = (one, np.array([5, 30]), one + 1), (one, np.array([20, 30]), one + 1)
    >>> plan = fewest_adjusts(1, wanted, shown, 10)
    >>> plan.end.tolist(), plan.new_end.tolist()
    ([20], [5])
    """
    row, end, surplus = differences(wanted, shown)
    limit = time[row] if isinstance(time, np.ndarray) else time
    must = end < limit if not exactly else np.ones(len(end), np.bool_)
    net = np.zeros(size, np.int64)
    np.add.at(net, row, surplus)  # above zero: the output has too many
    from_row, from_end, from_class = _units(row, end, must, surplus, net)
    _, to_end, to_class = _units(row, end, must, -surplus, -net)
    # both sides have the same number of units in every row, so sorted they pair one to one
    needed = (from_class < 2) | (to_class < 2)
    return AdjustPlan(from_row[needed], from_end[needed], to_end[needed])


def differences(wanted: Counted, shown: Counted) -> Counted:
    """The rows and ends that are not as often wanted as shown, and how many more are shown."""
    row = np.concatenate([wanted[0], shown[0]])
    end = np.concatenate([wanted[1], shown[1]])
    weight = np.concatenate([-wanted[2], shown[2]])
    if not len(row):
        return row, end, weight
    order = sort_pairs(row, end)
    row, end, weight = row[order], end[order], weight[order]
    new = np.ones(len(row), np.bool_)
    new[1:] = (row[1:] != row[:-1]) | (end[1:] != end[:-1])
    total = np.add.reduceat(weight, np.flatnonzero(new))
    row, end = row[new], end[new]
    differs = total != 0
    return row[differs], end[differs], total[differs]


def _units(
    row: Codes, end: Times, must: Bools, surplus: Codes, net: Codes
) -> tuple[Codes, Times, Codes]:
    """One side of the pairs, one entry for each copy of a row, ordered by row and class: 0 must
    change, 1 makes up for the difference in number, 2 may stay."""
    over = surplus > 0
    count = surplus[over]
    rows, ends = np.repeat(row[over], count), np.repeat(end[over], count)
    classes = np.where(np.repeat(must[over], count), 0, 2)
    lacking = np.flatnonzero(net < 0)
    added = np.repeat(lacking, -net[lacking])
    rows = np.concatenate([rows, added])
    ends = np.concatenate([ends, np.full(len(added), ABSENT)])
    classes = np.concatenate([classes, np.ones(len(added), np.int64)])
    order = np.lexsort((ends, classes, rows))
    return rows[order], ends[order], classes[order]
