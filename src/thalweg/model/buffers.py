"""Arrow's buffers as NumPy sees them."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["as_numbers"]

T = TypeVar("T", bound=np.generic)


def as_numbers(buffer: pa.Buffer | None, kind: type[T] | np.dtype[T]) -> npt.NDArray[T]:
    """The bytes of a buffer as numbers, without copying them; none where there is no buffer.

    >>> as_numbers(pa.array([1, 2, 3]).buffers()[1], np.int64)[:3].tolist()
    [1, 2, 3]
    """
    return np.frombuffer(b"" if buffer is None else memoryview(buffer), kind)
