"""The figures of an update queue at one moment."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["QueueStatus"]


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """A queue at one moment, for one reader. Staleness in ticks of the clock of arrival."""

    keys: int
    forgotten: int
    """Keys that were idle when room was needed for new ones; one that comes again is new."""
    waiting: int
    arrived: int
    taken: int
    conflated: int
    outdated: int
    refused: int
    staleness_now: float
    """Mean over the keys."""
    staleness_p99: float
    """Of a hundred keys, the stalest but one."""
    staleness_average: float
    """Mean over keys and time."""
    queue_staleness_average: float
    longest_wait: int
    bytes_used: int
    bytes_allowed: int
    mode: str = "update"
    """`append` while an adaptive queue serves all rows, `update` while it conflates; how often it
    changed, and when and why it last did."""
    switches: int = 0
    last_switch: str = ""
