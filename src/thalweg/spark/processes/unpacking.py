"""Unpacks what `shipping` has packed, once in each worker."""

from __future__ import annotations

import pickle
from functools import lru_cache
from typing import Any

__all__ = ["unpacked"]


@lru_cache(maxsize=32)
def unpacked(packed: bytes) -> Any:
    """The object that was packed; the same one for all micro-batches."""
    return pickle.loads(packed)  # noqa: S301 - our own, on its way to our own workers
