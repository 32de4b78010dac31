"""Which tracker follows which policy, and trackers written down and read back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from thalweg.progress.estimate import EstimateTracker
from thalweg.progress.overtaken import RowsTracker
from thalweg.progress.policies import Estimated, LateByRows
from thalweg.progress.summary import Sighting

__all__ = ["Tracker", "absorbed", "restore_trackers", "trackers_for", "trackers_text"]

Tracker: TypeAlias = RowsTracker | EstimateTracker


def trackers_for(policies: Sequence[LateByRows | Estimated]) -> tuple[Tracker, ...]:
    """New trackers for one timeline."""
    return tuple(
        RowsTracker(policy.rows)
        if isinstance(policy, LateByRows)
        else EstimateTracker(policy.percentile, policy.warmup)
        for policy in policies
    )


def absorbed(trackers: Sequence[Tracker], sighting: Sighting) -> tuple[Tracker, ...]:
    """Trackers after a chunk that they know by its summary only."""
    return tuple(
        tracker.absorb(sighting.steps)
        if isinstance(tracker, RowsTracker)
        else tracker.absorb(sighting.sample or [[], [], 0.0], sighting.newest)
        for tracker in trackers
    )


def trackers_text(trackers: Sequence[Tracker]) -> list[Any]:
    """Trackers as something that JSON can write."""
    return [tracker.to_json() for tracker in trackers]


def restore_trackers(
    policies: Sequence[LateByRows | Estimated], states: Sequence[Any]
) -> tuple[Tracker, ...]:
    """The inverse of `trackers_text`."""
    return tuple(
        tracker.from_json(state)
        for tracker, state in zip(trackers_for(policies), states, strict=True)
    )
