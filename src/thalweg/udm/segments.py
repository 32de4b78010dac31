"""Sums over segments: for modules that compute all windows in one call. Segment i is
values[offsets[i]:offsets[i + 1]]."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["segment_sums"]


def segment_sums(values: npt.NDArray[Any], offsets: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """The sum of each segment; 0 for an empty one.

    >>> segment_sums(np.array([1.0, 2.0, 4.0]), np.array([0, 2, 2, 3])).tolist()
    [3.0, 0.0, 4.0]
    """
    full = offsets[1:] > offsets[:-1]
    if len(full) and np.count_nonzero(full) == len(full):
        found: npt.NDArray[Any] = np.add.reduceat(values, offsets[:-1])
        return found
    sums = np.zeros(len(full), values.dtype)
    if full.any():
        sums[full] = np.add.reduceat(values, offsets[:-1][full])
    return sums
