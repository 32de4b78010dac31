"""Punctuation at the input: from the rows that were seen, and from the clock, to promises.

A tracker is one policy at work on one timeline (a source, a partition of it, or a part that is read
by itself). It is a value: taking rows in gives another tracker, so that a batch that is refused
leaves no trace. In-process a tracker sees every row and says what was promised just before each; on
Spark it sees summaries of chunks and says what is promised after them.
"""

from thalweg.progress.estimate import EstimateTracker
from thalweg.progress.overtaken import RowsTracker
from thalweg.progress.quarantine import Gated, QuarantineGate
from thalweg.progress.summary import Sighting, combine_unordered, sighting_of
from thalweg.progress.trackers import (
    Tracker,
    absorbed,
    restore_trackers,
    trackers_for,
    trackers_text,
)

__all__ = [
    "EstimateTracker",
    "Gated",
    "QuarantineGate",
    "RowsTracker",
    "Sighting",
    "Tracker",
    "absorbed",
    "combine_unordered",
    "restore_trackers",
    "sighting_of",
    "trackers_for",
    "trackers_text",
]
