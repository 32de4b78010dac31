"""What every level of a merge is: the algorithm for one class of inputs, R0 to R4.

The kernel (`kernel`) has the inputs, which of them leads and what the output has promised. A level
keeps what is needed to go from a batch of one input to changes of the output. A batch is worked on
in three steps: `update` takes the elements of the input, `advance` brings the output to where its
next CTI may stand, and `show` makes the changes that policies require beyond that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from thalweg.errors import InputError
from thalweg.model.batch import Batch
from thalweg.model.elements import Payload
from thalweg.model.progress import Scope
from thalweg.model.rows import Bools, Codes, Rows
from thalweg.model.time import INFINITY, MIN_TIME, Times
from thalweg.operators.base import StateSize
from thalweg.operators.merging.chains import ABSENT
from thalweg.operators.merging.group_promises import GroupPromises
from thalweg.operators.merging.slot_ranges import Slots
from thalweg.operators.merging.top_tier import TopTier
from thalweg.plan.merging import MergePolicy

__all__ = [
    "ABSENT",
    "Alarm",
    "Alignment",
    "BrokenLevelError",
    "MergeInput",
    "MergeLevel",
    "Outlook",
    "first_row",
    "show_end",
]


class BrokenLevelError(InputError):
    """An input lacks a property that the level of the merge needs."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """Inputs of a merge that differ about a row that is settled, or an input that is
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
    """One input of the kernel."""

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
    compared_from: int = MIN_TIME
    """Rows that start earlier may have been dropped before it joined, or need not be right."""

    @property
    def promise(self) -> int:
        """What it has promised, counting that it sends nothing before it joins."""
        return max(self.cti, self.since)


@dataclass(slots=True)
class Outlook:
    """What a level needs from the kernel."""

    policy: MergePolicy
    inputs: Sequence[MergeInput]
    settled: int
    """The output's CTI."""
    leader: MergeInput | None
    groups: GroupPromises
    """What the output has promised for single groups."""
    history: Sequence[tuple[int, str]] = ()
    """The CTIs of the output in order, each with the input whose promise it was."""
    leaving: Mapping[Scope, int] = field(default_factory=dict)
    """What an input that leaves has promised for groups."""
    alarms: list[Alarm] = field(default_factory=list)
    left_out: int = 0
    """Rows of other inputs that the leader lacks, and that a promise has left out for good."""

    def follows(self, member: MergeInput) -> bool:
        """Whether the ends of rows that are shown follow an input at once (location 1)."""
        revise = self.policy.revise
        return revise == "every" or (revise == "leader" and member is self.leader)

    def settled_of(self, batch: Batch) -> int | Times:
        """What the output has promised about each row of a batch."""
        if not self.groups.promised:
            return self.settled
        return self.groups.of_rows(batch.payload, self.settled)

    def settled_at(self, slots: Slots) -> int | Times:
        """What the output has promised about the rows in these slots."""
        return self.groups.at(slots, self.settled) if self.groups.promised else self.settled

    def is_final(self, member: MergeInput, slots: Codes, start: Times) -> Bools:
        """Whether an input that leaves could not have taken these rows back."""
        if member.insert_only:
            return np.ones(len(slots), np.bool_)
        promised = (
            self.groups.promised_by(slots, self.leaving, member.cti) if self.groups else member.cti
        )
        return np.asarray(start < promised)

    def settled_by(self, time: int) -> str:
        """The input whose promise was the first of the output's beyond a time."""
        at = bisect_right([promise for promise, _ in self.history], time)
        return self.history[at][1] if at < len(self.history) else "an input that has left"

    def disagreement(
        self,
        leader: MergeInput,
        agreeing: Sequence[MergeInput],
        row: tuple[Payload, int],
        ends: str,
        rows: int,
    ) -> None:
        """Raise the alarm that the leader differs about a row (payload, start) that is settled.
        `agreeing` are the inputs that have it as the output does; `ends` says what each has."""
        payload, start = row
        other = agreeing[0].name if agreeing else "an input that has left"
        text = (
            f"merge: inputs {leader.name!r} and {other!r} disagree about {payload} from {start}: "
            f"{ends}, and the CTI {self.settled} forbids a change ({rows} rows in all)."
        )
        self.alarms.append(Alarm("disagreement", leader.name, other, payload, start, text))


@dataclass(frozen=True, slots=True)
class Alignment:
    """Rows to bring in line with an input, so that the output may promise a time about them."""

    leader: MergeInput
    slots: Slots
    time: int | Times
    settled: int | Times
    """What the output has promised about each of them so far."""
    outlook: Outlook


class MergeLevel(ABC):
    """One of the algorithms R0 to R4."""

    name: str
    operations: int = 0
    """Rows and places looked at, for measuring how the work grows."""

    def climb(self) -> MergeLevel | None:
        """The same state at a level that assumes less of its inputs; None: the state does not allow
        it."""
        return None

    @abstractmethod
    def attach(self, member: MergeInput) -> None:
        """A new input, in its column."""

    @abstractmethod
    def detach(self, member: MergeInput, outlook: Outlook) -> None:
        """Drop the column of an input."""

    @abstractmethod
    def update(self, member: MergeInput, batch: Batch, outlook: Outlook) -> None:
        """Take the elements of an input. A batch that is refused leaves no trace."""

    @abstractmethod
    def advance(self, leader: MergeInput, time: int, outlook: Outlook) -> Batch:
        """The changes that must come before the output may promise a time, as `leader` has it."""

    @abstractmethod
    def advance_groups(
        self, leader: MergeInput, times: Mapping[Scope, int], outlook: Outlook
    ) -> Batch:
        """The same for promises that concern some groups only."""

    @abstractmethod
    def show(self, member: MergeInput, outlook: Outlook) -> Batch:
        """The changes that policies require after the last update."""

    @abstractmethod
    def snapshot(self) -> dict[str, Rows]:
        """All state."""

    @abstractmethod
    def restore(self, slices: Mapping[str, Rows], columns: int, settled: int) -> None:
        """Back to a snapshot, with so many columns, of a merge whose output had promised this."""

    @abstractmethod
    def state_size(self) -> StateSize: ...

    def group_rows(self) -> TopTier | None:
        """The rows that are held and may have promises for their groups."""
        return None

    def compare(self, member: MergeInput, since: int, outlook: Outlook) -> None:
        """An input has promised more than `since`: alarms where it contradicts what is settled."""
        return

    def release(self, outlook: Outlook) -> None:
        """Drop what was kept for inputs that are not there any more."""
        return

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
    """An end as it stands in a message."""
    nothing = (ABSENT, MIN_TIME)
    return "infinity" if int(end) == INFINITY else "nothing" if int(end) in nothing else str(end)
