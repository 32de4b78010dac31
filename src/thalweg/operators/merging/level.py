"""The interface of a merge level: the algorithm for one class of inputs, R0 to R4.

The kernel (`kernel`) holds the inputs, knows the leader and tracks the output's promises. A level
holds the state that turns a batch of one input into changes of the output, in three steps: `update`
records the elements of the input, `advance` makes the changes that the output's next CTI requires,
and `show` makes those that policies require beyond that.
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
    "MergeContext",
    "MergeInput",
    "MergeLevel",
    "first_row",
    "show_end",
]


class BrokenLevelError(InputError):
    """An input lacks a property that the level of the merge needs."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """Two inputs contradict each other about a settled row, or an input breaks its declared level.
    The output goes on, and stays valid."""

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
    """Whether the input may lead."""
    insert_only: bool = False
    """The input never adjusts a row."""
    highest_start: int = MIN_TIME
    elements: int = 0
    adjusts: int = 0
    ignored: int = 0
    """Elements about rows that the output had settled before."""
    led: int = 0
    """How many CTIs of the output were this input's."""
    compared_from: int = MIN_TIME
    """Rows that start earlier are not compared: they may have been dropped before the input
    joined, or it need not be right about them."""

    @property
    def promise(self) -> int:
        """The input's CTI; before that reaches `since`, `since`: earlier rows are not its own."""
        return max(self.cti, self.since)

    def count(self, batch: Batch) -> None:
        """Count the elements of a batch of this input."""
        self.elements += len(batch)
        self.adjusts += 0 if batch.is_adjust is None else int(batch.is_adjust.sum())
        if len(batch):
            self.highest_start = max(self.highest_start, int(batch.start.max()))


@dataclass(slots=True)
class MergeContext:
    """The view of the kernel's state that a level works with."""

    policy: MergePolicy
    inputs: Sequence[MergeInput]
    settled: int
    """The output's CTI."""
    leader: MergeInput | None
    groups: GroupPromises
    """The output's promises for single groups."""
    history: Sequence[tuple[int, str]] = ()
    """The CTIs of the output in order, each with the name of the input that made it."""
    leaving: Mapping[Scope, int] = field(default_factory=dict)
    """The promises for groups of an input that leaves."""
    alarms: list[Alarm] = field(default_factory=list)
    left_out: int = 0
    """Rows of other inputs that a promise has excluded from the output, because the leader lacks
    them."""

    def follows(self, member: MergeInput) -> bool:
        """Whether rows of the output follow this input at once (policy of location 1)."""
        revise = self.policy.revise
        return revise == "every" or (revise == "leader" and member is self.leader)

    def settled_of(self, batch: Batch) -> int | Times:
        """The output's promise for each row of a batch."""
        if not self.groups.promised:
            return self.settled
        return self.groups.of_rows(batch.payload, self.settled)

    def settled_at(self, slots: Slots) -> int | Times:
        """The output's promise for the rows in these slots."""
        return self.groups.at(slots, self.settled) if self.groups.promised else self.settled

    def is_final(self, member: MergeInput, slots: Codes, start: Times) -> Bools:
        """Which of these rows an input that leaves could no longer have removed."""
        if member.insert_only:
            return np.ones(len(slots), np.bool_)
        promised = (
            self.groups.promised_by(slots, self.leaving, member.cti) if self.groups else member.cti
        )
        return np.asarray(start < promised)

    def settled_by(self, time: int) -> str:
        """The name of the input that made the output's first CTI beyond a time."""
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
        """Note an alarm: the leader contradicts the settled row (payload, start). `agreeing` are
        the inputs that agree with the output; `ends` describes the ends in both."""
        payload, start = row
        other = agreeing[0].name if agreeing else "an input that has left"
        text = (
            f"merge: inputs {leader.name!r} and {other!r} disagree about {payload} from {start}: "
            f"{ends}, and the CTI {self.settled} forbids a change ({rows} rows in all)."
        )
        self.alarms.append(Alarm("disagreement", leader.name, other, payload, start, text))


@dataclass(frozen=True, slots=True)
class Alignment:
    """Rows of the output that must agree with the leader before `time` is promised about them."""

    leader: MergeInput
    slots: Slots
    time: int | Times
    settled: int | Times
    """The output's promise for each row so far."""
    context: MergeContext


class MergeLevel(ABC):
    """One of the algorithms R0 to R4."""

    name: str
    operations: int = 0
    """Rows and places looked at, for measuring how the work grows."""

    def climb(self) -> MergeLevel | None:
        """This state as a level that assumes less of its inputs; None where there is none."""
        return None

    @abstractmethod
    def attach(self, member: MergeInput) -> None:
        """Add the column of a new input."""

    @abstractmethod
    def detach(self, member: MergeInput, context: MergeContext) -> None:
        """Drop the column of an input."""

    @abstractmethod
    def update(self, member: MergeInput, batch: Batch, context: MergeContext) -> None:
        """Record the elements of an input. A refused batch changes nothing."""

    @abstractmethod
    def advance(self, leader: MergeInput, time: int, context: MergeContext) -> Batch:
        """The changes that make the output agree with `leader`, so that it may promise `time`."""

    @abstractmethod
    def advance_groups(
        self, leader: MergeInput, times: Mapping[Scope, int], context: MergeContext
    ) -> Batch:
        """As `advance`, for promises for single groups."""

    @abstractmethod
    def show(self, member: MergeInput, context: MergeContext) -> Batch:
        """The changes that policies require after the last update."""

    @abstractmethod
    def snapshot(self) -> dict[str, Rows]:
        """All state."""

    @abstractmethod
    def restore(self, slices: Mapping[str, Rows], columns: int, settled: int) -> None:
        """Restore a snapshot with this number of columns; `settled` was the output's CTI."""

    @abstractmethod
    def state_size(self) -> StateSize: ...

    def group_rows(self) -> TopTier | None:
        """The rows that are held and may have promises for their groups."""
        return None

    def compare(self, member: MergeInput, since: int, context: MergeContext) -> None:
        """Check settled rows against the promise of an input that was `since` before; note alarms
        where the input contradicts them."""
        return

    def release(self, context: MergeContext) -> None:
        """Drop what was kept only for inputs that have left."""
        return

    def join(self, member: MergeInput, context: MergeContext) -> Batch | None:
        """The changes once an input that had to wait may lead."""
        return None

    def refollow(self, leader: MergeInput, context: MergeContext) -> Batch | None:
        """The changes once `leader` has become the leader, where a policy follows the leader."""
        return None


def first_row(batch: Batch, where: Bools | Codes) -> tuple[Payload, int, int]:
    """Payload, start and end of the first row of a batch for which something holds."""
    at = int(np.flatnonzero(where)[0]) if where.dtype == np.bool_ else int(where[0])
    return batch.payload.slice(at, 1).to_pylist()[0], int(batch.start[at]), int(batch.end[at])


def show_end(end: int | Times) -> str:
    """An end as it stands in a message."""
    nothing = (ABSENT, MIN_TIME)
    return "infinity" if int(end) == INFINITY else "nothing" if int(end) in nothing else str(end)
