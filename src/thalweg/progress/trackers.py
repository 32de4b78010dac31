"""Trackers: what a policy makes of the rows of one timeline, and trackers written down and read
back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from thalweg.model.clocks import Clock
from thalweg.model.time import Times
from thalweg.progress.summary import Sighting

if TYPE_CHECKING:
    from thalweg.progress.policies import RowPolicy

__all__ = ["Tracker", "absorbed", "restore_trackers", "trackers_for", "trackers_text"]


class Tracker(ABC):
    """The state of a policy on one timeline. Immutable: taking rows in gives another tracker."""

    __slots__ = ()

    @property
    @abstractmethod
    def promise(self) -> int:
        """What is promised now."""

    @abstractmethod
    def after(self, sync: Times) -> tuple[Times, Tracker]:
        """What was promised just before each row, and the tracker that has seen them."""

    @abstractmethod
    def absorb(self, sighting: Sighting) -> Tracker:
        """The tracker after a chunk of which there is a summary alone."""

    @abstractmethod
    def needed(self, time: int, clock: Clock = None) -> str:
        """What would bring the promise to a time."""

    @property
    def broken_reason(self) -> str | None:
        """Why the promises were too late for the rows that came; None where they were not."""
        return None

    @abstractmethod
    def to_json(self) -> Any: ...

    @abstractmethod
    def from_json(self, state: Any) -> Self:
        """The inverse of `to_json`."""


def trackers_for(policies: Sequence[RowPolicy]) -> tuple[Tracker, ...]:
    """New trackers for one timeline."""
    return tuple(policy.tracker() for policy in policies)


def absorbed(trackers: Sequence[Tracker], sighting: Sighting) -> tuple[Tracker, ...]:
    """Trackers after a chunk of which there is a summary alone."""
    return tuple(tracker.absorb(sighting) for tracker in trackers)


def trackers_text(trackers: Sequence[Tracker]) -> list[Any]:
    """Trackers as something that JSON can write."""
    return [tracker.to_json() for tracker in trackers]


def restore_trackers(policies: Sequence[RowPolicy], states: Sequence[Any]) -> tuple[Tracker, ...]:
    """The inverse of `trackers_text`."""
    return tuple(
        tracker.from_json(state)
        for tracker, state in zip(trackers_for(policies), states, strict=True)
    )
