"""Arrays that are indexed by key cell and grow with the number of keys; which values are texts."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["NEVER", "Floats", "Ints", "Mask", "enlarge", "is_text", "keep"]

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]

NEVER = -(2**63)
"""The time of something that has not happened."""


def enlarge(array: npt.NDArray[Any], size: int, filler: float) -> npt.NDArray[Any]:
    """A longer copy; the new entries are `filler`.

    >>> enlarge(np.array([7]), 3, -1)
    array([ 7, -1, -1])
    """
    longer = np.full(size, filler, array.dtype)
    longer[: len(array)] = array
    return longer


def keep(array: npt.NDArray[Any], kept: Ints, filler: float) -> None:
    """Move the entries at `kept` to the front, in place; the others become `filler`.

    >>> array = np.array([5, 6, 7])
    >>> keep(array, np.array([0, 2]), -1)
    >>> array
    array([ 5,  7, -1])
    """
    array[: len(kept)] = array[kept]
    array[len(kept) :] = filler


def is_text(kind: pa.DataType) -> bool:
    """Whether values of a type are texts or bytes, of any length."""
    tests = (
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_binary,
        pa.types.is_large_binary,
    )
    return any(test(kind) for test in tests)
