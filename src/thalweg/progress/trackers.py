"""Which tracker follows which policy, and trackers written down and read back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from thalweg.errors import PlanError
from thalweg.progress.estimate import EstimateTracker
from thalweg.progress.overtaken import RowsTracker
from thalweg.progress.policies import Estimated, LateByRows, RowPolicy
from thalweg.progress.summary import Sighting

__all__ = ["Tracker", "absorbed", "restore_trackers", "trackers_for", "trackers_text"]

Tracker: TypeAlias = RowsTracker | EstimateTracker


def trackers_for(policies: Sequence[RowPolicy]) -> tuple[Tracker, ...]:
    """New trackers for one timeline."""
    return tuple(map(_tracker_for, policies))


def _tracker_for(policy: RowPolicy) -> Tracker:
    match policy:
        case LateByRows(rows):
            return RowsTracker(rows)
        case Estimated(percentile, warmup):
            return EstimateTracker(percentile, warmup)
    raise PlanError(f"progress: no tracker follows {policy!r}.")


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
