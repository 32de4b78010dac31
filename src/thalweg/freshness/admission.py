"""The result of offering rows to a queue."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Admission"]


@dataclass(frozen=True, slots=True)
class Admission:
    """How many rows of a call were accepted, outdated and refused.

    >>> Admission(accepted=2) + Admission(accepted=1, refused=4)
    Admission(accepted=3, outdated=0, refused=4)
    """

    accepted: int = 0
    outdated: int = 0
    """Older than a row of their key that was seen before."""
    refused: int = 0
    """No room: for their key, for their value, or for a text as long as theirs."""

    def __add__(self, other: Admission) -> Admission:
        return Admission(
            self.accepted + other.accepted,
            self.outdated + other.outdated,
            self.refused + other.refused,
        )
