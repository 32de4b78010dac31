"""Conflation: the declaration of an update queue in front of a source.

A source with an update key is a stream of updates: a row replaces the row before it of the same
key. When rows come faster than they are worked on, only the newest row of each key is kept, and
what leaves the queue is the source's table. It happens only where the query says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

__all__ = [
    "SCHEDULE_NAMES",
    "WINDOW_RULES",
    "Conflation",
    "NewestWindow",
    "WindowRule",
]

SCHEDULE_NAMES = ("gain", "in-place", "fifo", "linecutting", "linecutting-literal", "deadline")
"""Which waiting key is served next: see `thalweg.freshness.schedules`."""


class WindowRule(StrEnum):
    """Which window of a key is its newest: see `thalweg.freshness.window_queue`."""

    AUTO = "auto"
    LAZY = "lazy"
    EAGER = "eager"


WINDOW_RULES = tuple(rule.value for rule in WindowRule)


@dataclass(frozen=True, slots=True)
class NewestWindow:
    """The queue's unit is a window of each key: whole ones leave, rows marked by their start."""

    size: int
    hop: int
    rule: str = "auto"

    def __str__(self) -> str:
        return f"window of {self.size} by {self.hop}, {self.rule}"


@dataclass(frozen=True, slots=True)
class Conflation:
    key: tuple[str, ...]
    """The columns of the update key; without one, each row replaces the one before it."""
    schedule: str = "gain"
    freshness: int | None = None
    """How old an answer may be, in ticks of the clock of arrival."""
    capacity: int = 256 * 2**20
    """Bytes that waiting rows and keys may take."""
    disorder: int | None = None
    """How much earlier than the newest row a row may be when it arrives: the queue's own input
    makes promises by it, since rows leave the queue in another order."""
    targets: tuple[tuple[tuple[Any, ...], int], ...] = ()
    """Targets of single keys: the values of its columns, and ticks."""
    inputs: tuple[str, ...] = ()
    """The names of the inputs, if the source is a union of several ..."""
    truth: str | None = None
    """... and the one whose rows count where two inputs have different rows for one time."""
    window: NewestWindow | None = None
    """With one, the newest window of each key is kept instead of the newest row."""
    adaptive: bool = False
    """Whether all rows are served as long as they can be within the freshness target."""

    def __str__(self) -> str:
        unit = "row" if self.window is None else str(self.window)
        key = ", ".join(self.key) or "(one row)"
        return f"newest {unit} by {key}, {self.schedule}"
