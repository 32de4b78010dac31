"""Chains of starts: the shared part of session lifetimes and session windows.

The starts of a group, in order, form chains: the next start belongs to the chain while it is less
than `gap` after the previous one. A chain is closed once the CTI has reached its last start plus
the gap.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from thalweg.model.rows import Codes
from thalweg.model.sorting import sort_pairs
from thalweg.model.time import Times

__all__ = ["Chains", "chains_of"]


@dataclass(frozen=True, slots=True)
class Chains:
    of_row: Codes
    """The chain of each row."""
    first: Times
    last: Times
    group: Codes


def chains_of(group: Codes, start: Times, mark: Times, gap: int) -> Chains:
    """Cut the starts of each group into chains. `mark` is the first start of a row's chain, if
    earlier rows were forgotten."""
    order = sort_pairs(group, start)
    times, groups = start[order], group[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (groups[1:] != groups[:-1]) | (times[1:] - times[:-1] >= gap)
    number = new.cumsum() - 1
    of_row = np.empty(len(order), np.int64)
    of_row[order] = number
    begins = new.nonzero()[0]
    if not len(begins):
        return Chains(of_row, begins, begins, groups)
    first = np.minimum.reduceat(mark[order], begins)
    last = np.maximum.reduceat(times, begins)
    return Chains(of_row, first, last, groups[begins])
