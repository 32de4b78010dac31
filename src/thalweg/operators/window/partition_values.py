"""A value for each partition, in an array by its number."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from thalweg.model.rows import Codes
from thalweg.model.time import greatest

__all__ = ["grown", "moved_to"]

T = TypeVar("T", bound=np.generic)


def grown(values: npt.NDArray[T], partition: Codes, empty: int) -> npt.NDArray[T]:
    """The values, extended so that there is one for each of these partitions."""
    size = greatest(partition) + 1 if len(partition) else 0
    if size <= len(values):
        return values
    more = np.full(max(size, 2 * len(values)) - len(values), empty, values.dtype)
    return np.concatenate([values, more])


def moved_to(values: npt.NDArray[T], moved: Codes, empty: int) -> npt.NDArray[T]:
    """The values of partitions that have new numbers (-1: forgotten)."""
    values = grown(values, np.array([len(moved) - 1]), empty)[: len(moved)]
    kept = moved >= 0
    result = np.full(int(moved.max(initial=-1)) + 1, empty, values.dtype)
    result[moved[kept]] = values[kept]
    return result
