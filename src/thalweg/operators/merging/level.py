"""What every level of a merge is: the algorithm for one class of inputs, R0 to R4.

The kernel (`kernel`) knows the inputs, who leads and what the output has promised. A level keeps
what is needed to go from a batch of one input to changes of the output. A batch is worked on in
three steps: `update` takes what the input says, `advance` brings the output to where its next CTI
may stand, and `show` makes the changes that policies ask for beyond that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from thalweg.errors import InputError
from thalweg.model.batch import Batch
from thalweg.model.elements import Payload
from thalweg.model.rows import Bools, Codes, Rows
from thalweg.model.time import INFINITY, MIN_TIME, Times
from thalweg.operators.base import StateSize
from thalweg.plan.merging import MergePolicy

__all__ = [
    "ABSENT",
    "Alarm",
    "BrokenLevelError",
    "MergeInput",
    "MergeLevel",
    "Outlook",
    "first_row",
    "show_end",
]

ABSENT: int = -(2**63)
"""The end of a row that is not there."""


class BrokenLevelError(InputError):
    """An input lacks a property that the level of the merge needs."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """Inputs of a merge that say different things about a row that is settled, or an input that is
    not what it was declared to be. The output goes on, and stays sound."""

    kind: str
    input: str
    other: str
    payload: Payload
    start: int
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(slots=True)
class MergeInput:
    """One input, as the kernel knows it."""

    name: str
    column: int
    since: int = MIN_TIME
    """The input is right about every row that ends at this time or later."""
    cti: int = MIN_TIME
    joined: bool = True
    """Whether it may lead."""
    insert_only: bool = False
    """It never takes a row back."""
    highest_start: int = MIN_TIME
    elements: int = 0
    adjusts: int = 0
    ignored: int = 0
    """Elements about rows that the output had settled before."""
    led: int = 0
    """How often its promise became that of the output."""

    @property
    def promise(self) -> int:
        """What it has promised, counting that it says nothing before it joins."""
        return max(self.cti, self.since)


@dataclass(slots=True)
class Outlook:
    """What a level needs to know of the kernel."""

    policy: MergePolicy
    inputs: Sequence[MergeInput]
    settled: int
    """The output's CTI."""
    leader: MergeInput | None
    alarms: list[Alarm] = field(default_factory=list)
    left_out: int = 0
    """Rows of other inputs that the leader lacks, and that a promise has left out for good."""


class MergeLevel(ABC):
    """One of the algorithms R0 to R4."""

    name: str
    operations: int = 0
    """Rows and places looked at, for measuring how the work grows."""

    @abstractmethod
    def attach(self, member: MergeInput) -> None:
        """A new input, in the column that it says."""

    @abstractmethod
    def detach(self, member: MergeInput, outlook: Outlook) -> None:
        """Drop the column of an input."""

    @abstractmethod
    def update(self, member: MergeInput, batch: Batch, outlook: Outlook) -> None:
        """Take what an input says. A batch that is refused leaves no trace."""

    @abstractmethod
    def advance(self, leader: MergeInput, time: int, outlook: Outlook) -> Batch:
        """The changes that must come before the output may promise a time, as `leader` has it."""

    @abstractmethod
    def show(self, member: MergeInput, outlook: Outlook) -> Batch:
        """The changes that policies ask for after the last update."""

    @abstractmethod
    def snapshot(self) -> dict[str, Rows]:
        """All state."""

    @abstractmethod
    def restore(self, slices: Mapping[str, Rows], columns: int) -> None:
        """Back to a snapshot, with so many columns."""

    @abstractmethod
    def state_size(self) -> StateSize: ...

    def join(self, member: MergeInput, outlook: Outlook) -> Batch | None:
        """The changes because an input that had to wait may now lead."""
        return None

    def refollow(self, leader: MergeInput, outlook: Outlook) -> Batch | None:
        """The changes because another input leads, where a policy follows it."""
        return None


def first_row(batch: Batch, where: Bools | Codes) -> tuple[Payload, int, int]:
    """Payload, start and end of the first row of a batch for which something holds."""
    at = int(np.flatnonzero(where)[0]) if where.dtype == np.bool_ else int(where[0])
    return batch.payload.slice(at, 1).to_pylist()[0], int(batch.start[at]), int(batch.end[at])


def show_end(end: int | Times) -> str:
    """An end, as a message says it."""
    nothing = (ABSENT, MIN_TIME)
    return "infinity" if int(end) == INFINITY else "nothing" if int(end) in nothing else str(end)
