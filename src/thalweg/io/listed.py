"""A listing of files as columns, and how it compares with the one before.

Two listings of one folder are nearly the same list: a file came here, another went there. They are
compared in runs, so that a million names that stayed cost a few milliseconds, and Python looks only
at those that did not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["NO_FILES", "Listing", "equal_runs"]

Positions: TypeAlias = npt.NDArray[np.int64]

_RUN = 8_192
_NEAR = 64
"""How far ahead a name is looked for before the rest is looked up one by one."""


@dataclass(frozen=True, eq=False, slots=True)
class Listing:
    """Names, sizes and times of files, in the order in which the place gave them."""

    names: list[str]
    size: Positions
    changed_ns: Positions

    def __len__(self) -> int:
        return len(self.names)

    @classmethod
    def concat(cls, parts: Sequence[Listing]) -> Listing:
        if len(parts) == 1:
            return parts[0]
        names = [name for part in parts for name in part.names]
        columns = ([p.size for p in parts], [p.changed_ns for p in parts])
        size, changed = (np.concatenate(c) if c else np.empty(0, np.int64) for c in columns)
        return cls(names, size, changed)


NO_FILES = Listing([], np.empty(0, np.int64), np.empty(0, np.int64))


def equal_runs(names: list[str], others: list[str]) -> Iterator[tuple[int, int, int]]:
    """Where two lists that are nearly the same agree: runs of equal names, each with its place in
    both and its length. A name that is in no run is new, or stands elsewhere in the other list.

    >>> list(equal_runs(["a", "x", "b", "d"], ["a", "b", "c", "d"]))
    [(0, 0, 1), (2, 1, 1), (3, 3, 1)]
    """
    here, there = 0, 0
    while here < len(names) and there < len(others):
        run = _equal_run(names, here, others, there)
        if run:
            yield here, there, run
        here, there = here + run, there + run
        gap = _gap(names, here, others, there)
        if gap is None:
            rest = {name: at for at, name in enumerate(others[there:], there)}
            found = ((at, rest.get(names[at])) for at in range(here, len(names)))
            yield from ((at, other, 1) for at, other in found if other is not None)
            return
        here, there = here + gap[0], there + gap[1]


def _equal_run(names: list[str], here: int, others: list[str], there: int) -> int:
    """How many names from `here` and from `there` on are equal."""
    run, most = 0, min(len(names) - here, len(others) - there)
    step = _RUN
    while run < most and step:
        until = min(run + step, most)
        if names[here + run : here + until] == others[there + run : there + until]:
            run = until
        elif step == 1:
            break
        else:
            step = max(1, min(step, until - run) // 2)
    return run


def _gap(names: list[str], here: int, others: list[str], there: int) -> tuple[int, int] | None:
    """How many names to pass over in each list until both go on alike; None: not near."""
    for ahead in range(1, _NEAR):
        if names[here : here + 1] == others[there + ahead : there + ahead + 1]:
            return 0, ahead
        if names[here + ahead : here + ahead + 1] == others[there : there + 1]:
            return ahead, 0
        if names[here + ahead : here + ahead + 1] == others[there + ahead : there + ahead + 1]:
            return ahead, ahead
    return None
