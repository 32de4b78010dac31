"""A dictionary that keeps its newest entries."""

from __future__ import annotations

from typing import TypeVar

__all__ = ["Newest"]

K = TypeVar("K")
V = TypeVar("V")


class Newest(dict[K, V]):
    """A dictionary of at most `most` entries: those that were set last.

    >>> kept = Newest(2)
    >>> for name in ("a", "b", "a", "c"):
    ...     kept[name] = name.upper()
    >>> kept
    {'a': 'A', 'c': 'C'}
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        self.pop(key, None)
        super().__setitem__(key, value)
        while len(self) > self._most:
            del self[next(iter(self))]
