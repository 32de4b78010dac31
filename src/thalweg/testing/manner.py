"""How a physical form is drawn: how many detours, promises, cuts and restarts it has."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

__all__ = ["PLAIN", "PUNCTUATED", "WILD", "Manner"]


@dataclass(frozen=True)
class Manner:
    """Chances and limits by which one form is drawn."""

    detours: float = 0.0
    """The chance that a row takes a detour."""
    spurious: int = 0
    """How many rows per source come and go."""
    disorder: float = 0.0
    """How far, in time, an element may fall behind; infinite: any order."""
    promises: float = 0.0
    """The chance of a CTI at each place."""
    strongest: bool = True
    """Whether added CTIs are as strong as they may be."""
    keep: float = 1.0
    """The chance that a CTI of the input is kept."""
    delay: float = 0.0
    """The chance that a CTI of the input comes later than it could."""
    cut: float = 0.0
    """The chance of a cut between two elements."""
    restarts: float = 0.0
    """The chance of a restart between two batches."""
    in_turn: bool = False
    """Whether one source comes after the other."""

    @classmethod
    def draw(cls, random: Random) -> Manner:
        return cls(
            detours=random.choice([0, 0.3, 0.8]),
            spurious=random.choice([0, 0, 1, 3]),
            disorder=random.choice([0, 2, 8, float("inf")]),
            promises=random.choice([0, 0.2, 0.5, 1]),
            strongest=random.random() < 0.6,
            keep=random.choice([1, 1, 0.5, 0]),
            delay=random.choice([0, 0, 0.5]),
            cut=random.choice([0, 0.1, 0.4, 1]),
            restarts=random.choice([0, 0, 0.1, 0.5]),
            in_turn=random.random() < 0.2,
        )


PLAIN = Manner()
PUNCTUATED = Manner(promises=1, cut=1)
WILD = Manner(detours=0.8, spurious=3, disorder=8, promises=0.5, cut=0.7, restarts=0.2, delay=0.3)
