"""The naive memory manager: a key keeps its location for good once it has one.

So as many locations are held as keys were seen, and those of keys whose value was delivered hold
nothing that anybody waits for.
"""

from __future__ import annotations

import numpy as np

from thalweg.freshness._arrays import Ints

__all__ = ["NaiveMemory"]


class NaiveMemory:
    def __init__(self, keys: int) -> None:
        self._has = np.zeros(keys, np.bool_)

    def arrive(self, cells: Ints) -> None:
        self._has[cells] = True

    @property
    def held(self) -> int:
        return int(self._has.sum())
