"""What came packed (see `shipping`), unpacked once in each worker."""

from __future__ import annotations

import pickle
from functools import lru_cache
from typing import Any

__all__ = ["unpacked"]


@lru_cache(maxsize=32)
def unpacked(packed: bytes) -> Any:
    """What was packed; the same object for all micro-batches."""
    return pickle.loads(packed)  # noqa: S301 - our own, on its way to our own workers
