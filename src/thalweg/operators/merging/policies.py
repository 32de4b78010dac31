"""What a merge is free to choose (section V of the document): when a row is shown, when its end is
revised, how far its CTI stays behind, and what becomes of rows that the input that leads lacks.

The choices trade latency against chattiness. They never change the final table of a merge of
mutually consistent inputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from thalweg.errors import PlanError, did_you_mean

__all__ = ["InsertPolicy", "Level", "MergePolicy", "Missing", "RevisePolicy"]

Level = Literal["R0", "R1", "R2", "R3", "R4"]

InsertPolicy = Literal[
    "first seen", "leader", "highest start", "most unfrozen", "half frozen", "share"
]
"""When a row is shown before a CTI makes it necessary (location 2 of Algorithm R3)."""

RevisePolicy = Literal["lazy", "every", "leader"]
"""When a row that is shown gets another end (location 1): only when a CTI makes it necessary, with
every adjust of any input, or with every adjust of the input that leads."""

Missing = Literal["leader", "keep"]
"""The table is that of the inputs that led, or it has every row that any input had; then progress is
that of the slowest input."""


@dataclass(frozen=True, slots=True)
class MergePolicy:
    """
    >>> MergePolicy(insert="half frozen").revise
    'lazy'
    """

    insert: InsertPolicy = "first seen"
    revise: RevisePolicy = "lazy"
    missing: Missing = "leader"
    lag: int = 0
    """How far the output's CTI stays behind the largest of the inputs."""
    share: float = 0.5
    """With `insert="share"`: the share of the inputs that must have a row."""

    def __post_init__(self) -> None:
        for name, value, known in (
            ("insert", self.insert, get_args(InsertPolicy)),
            ("revise", self.revise, get_args(RevisePolicy)),
            ("missing", self.missing, get_args(Missing)),
        ):
            if value not in known:
                raise PlanError(
                    f"merge: {name}={value!r} is not a policy{did_you_mean(str(value), known)} "
                    f"There are: {', '.join(known)}."
                )
        if self.lag < 0:
            raise PlanError(f"merge: lag must not be negative; got {self.lag}.")
        if not 0 < self.share <= 1:
            raise PlanError(f"merge: share must be above 0 and at most 1; got {self.share}.")
