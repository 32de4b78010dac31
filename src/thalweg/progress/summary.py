"""A summary of the rows of a chunk: small, and enough for every tracker.

A chunk is read far from where promises are made, by a task without state. So its header has what
trackers need: its newest time, its last running maxima (`late_by_rows`), a sample of its
rows (`estimated`). Chunks whose order is not known count as one: of its rows, only the newest time
after all of them is certain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from thalweg.model.time import MIN_TIME, Times

if TYPE_CHECKING:
    from thalweg.progress.policies import RowPolicy

__all__ = ["Sighting", "combine_unordered", "sighting_of"]


@dataclass(frozen=True, slots=True)
class Sighting:
    """The summary of a chunk's rows: what trackers need of rows that were read elsewhere."""

    newest: int
    steps: list[list[int]] = field(default_factory=list)
    """Rows and running maxima of their times, oldest first."""
    sample: list[Any] = field(default_factory=list)
    """Of some rows: the newest time before each, its own time, and how many rows each stands
    for."""


def sighting_of(sync: Times, policies: Sequence[RowPolicy]) -> Sighting | None:
    """The summary of rows that these policies need; the rows are in order of arrival."""
    if not len(sync) or not policies:
        return None
    sighting = Sighting(int(sync.max()))
    for policy in policies:
        sighting = policy.summarize(sync, sighting)
    return sighting


def combine_unordered(sightings: Sequence[tuple[Sighting, int]]) -> list[Sighting]:
    """Sightings, each with its number of rows, whose order is not known: one block, whose newest
    time is known only at its end."""
    rows = sum(count for _, count in sightings)
    if not rows:
        return []
    newest = max(sighting.newest for sighting, _ in sightings)
    steps = (
        [[rows - 1, MIN_TIME], [1, newest]]
        if any(sighting.steps for sighting, _ in sightings)
        else []
    )
    block = Sighting(newest, [step for step in steps if step[0]])
    return [
        *(Sighting(MIN_TIME, [], sighting.sample) for sighting, _ in sightings if sighting.sample),
        block,
    ]
