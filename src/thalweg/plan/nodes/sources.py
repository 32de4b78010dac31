"""Where streams come from: sources with their admission policy, sources that are merges of streams
from outside, and the rows of one group."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import pyarrow as pa

from thalweg.errors import PlanError, require_choice
from thalweg.io.events import TimeColumns
from thalweg.model.clocks import Clock, lasting
from thalweg.plan.expressions import Keys
from thalweg.plan.merging import Broken, Level, MergePolicy
from thalweg.plan.nodes.base import Grid, Node
from thalweg.plan.nodes.families import by_columns
from thalweg.plan.nodes.schemas import require_known
from thalweg.plan.properties import StreamProperties
from thalweg.plan.update_streams import UpdateStream
from thalweg.progress.admission import LATE, Ingress
from thalweg.progress.conflation import Conflation

__all__ = ["GroupInput", "Ingress", "MergedSource", "Source"]


@dataclass(frozen=True, eq=False)
class Leaf(Node):
    """A node without inputs: nothing is computed."""

    row_by_row = False
    before_exchange = False

    reads_start = False

    divided_by = None
    identity = frozenset()
    covers_windows = False
    reach = None

    @property
    def clock(self) -> Clock:
        """The type of its times, where they are timestamps; None: whole ticks."""
        return None

    @cached_property
    def endless_by(self) -> Node | None:
        """Of a stream from outside nothing is known before it comes."""
        return None

    @cached_property
    def never_revises(self) -> bool:
        return self.properties.insert_only

    @cached_property
    def progressing(self) -> frozenset[str]:
        return frozenset(self.properties.progressing)

    def useful_promises(self, output_grid: Grid | None) -> Grid | None:
        return output_grid

    def result_keys(self, *keys: Keys) -> Keys | None:
        return None

    def lower_keys(self, keys: Keys) -> Keys | None:
        return None

    @property
    def columns_read(self) -> tuple[frozenset[str] | None, ...]:
        return ()

    def group_changes(
        self, keys: tuple[str, ...], partitions: list[tuple[str, ...]]
    ) -> dict[str, Any]:
        return {}

    def update_stream(self, inputs: tuple[UpdateStream | None, ...]) -> UpdateStream | None:
        return None


@dataclass(frozen=True, eq=False)
class Source(Leaf):
    """A stream from outside. R is what its elements say."""

    name: str
    columns: pa.Schema
    ingress: Ingress = Ingress()
    declared: StreamProperties = StreamProperties()
    feed: Any = field(default=None, repr=False)
    """Where a runner finds its rows, if the source was made from something that can be read; plans
    do not look into it."""
    times: TimeColumns | None = None
    """Which columns of its rows are times, where it says so."""
    clock: Clock = None
    conflation: Conflation | None = None
    """The update queue that stands before it, if only the newest row of each key matters."""

    not_state: ClassVar[frozenset[str]] = frozenset({"feed", "times", "clock", "conflation"})

    state = "the progress of each partition, rows in quarantine, the late rows that were not read"
    promise = "what its policy derives from the rows and the punctuation"

    def __post_init__(self) -> None:
        if self.conflation is not None:
            require_known(self.conflation.key, self.columns, f"source {self.name!r}, update key")
        if self.ingress.partition is not None:
            require_known(
                (self.ingress.partition,), self.columns, f"source {self.name!r}, partition"
            )
        gate = self.ingress.quarantine
        if gate is not None:
            require_known(
                () if gate.key is None else (gate.key,),
                self.columns,
                f"source {self.name!r}, quarantine",
            )
            if not self.declared.insert_only:
                raise PlanError(
                    f"source {self.name!r}: a row in quarantine could not be adjusted while it "
                    "waits; quarantine= needs insert_only=True."
                )
        require_choice(self.ingress.late, LATE, f"source {self.name!r}: late")
        facts = self.declared
        if self.ingress.late_policy.moves:  # a late row keeps its end and starts later
            facts = facts.but(constant_duration=None, firm_ends=facts.insert_only)
        self._settle(self.columns, facts)

    def update_stream(self, inputs: tuple[UpdateStream | None, ...]) -> UpdateStream | None:
        queue = self.conflation
        if queue is None:
            return None
        return UpdateStream(by_columns(queue.key), self.name, window=queue.window)

    def _carries_internal(self) -> bool:
        """Rows that come through an exchange are this system's own and may hold partial sums."""
        return self.ingress.trusted

    @property
    def start_columns(self) -> frozenset[str]:
        """The columns from which it, or what feeds it, reads the start of a row."""
        times: tuple[TimeColumns | None, ...] = (self.times, getattr(self.feed, "times", None))
        return frozenset(each.start for each in times if each is not None)

    @property
    def details(self) -> str:
        entry, parts = self.ingress, [self.name]
        if entry.disorder is not None:
            parts.append(f"disorder {lasting(entry.disorder)}")
        if entry.period is not None:
            parts.append(f"period {lasting(entry.period)}")
        if entry.partition is not None:
            parts.append(f"partitions {entry.partition}")
        if entry.low_watermark is not None:
            every, lag = entry.low_watermark
            parts.append(f"low watermark every {lasting(every)} lagging {lasting(lag)}")
        parts += map(str, entry.progress)
        if entry.quarantine is not None:
            parts.append(f"quarantine: {entry.quarantine}")
        if self.conflation is not None:
            parts.append(str(self.conflation))
        if not entry.late_policy.stops:
            parts.append(f"late events: {entry.late}")
        return ", ".join(parts)


@dataclass(frozen=True, eq=False)
class MergedSource(Source):
    """R is the table that each of its inputs has. Which inputs there are is no part of the plan:
    they join and leave while the query runs."""

    level: Level = "R3"
    policy: MergePolicy = MergePolicy()
    groups: tuple[str, ...] = ()
    """Columns that, with the start, identify a row; without any, all of them do."""
    tolerance: float = 0.0
    broken: Broken = "cut"

    state = "rows that no CTI has passed, once for all inputs; at R0 to R2 only the last start"
    promise = "the largest t of its inputs; with missing='keep' the smallest"

    def __post_init__(self) -> None:
        require_known(self.groups, self.columns, f"merge {self.name!r}, groups")
        if self.groups and self.level == "R4":
            raise PlanError("merge: at R4 an answer may occur several times; leave groups= out.")
        super().__post_init__()

    @property
    def keys(self) -> Keys:
        """What the bucket of a row is chosen by: what identifies it. Values that only need to be
        about equal (`tolerance`) are left out."""
        exact = [
            entry.name
            for entry in self.columns
            if not (self.tolerance and pa.types.is_floating(entry.type))
        ]
        return by_columns(self.groups or tuple(exact))

    @property
    def details(self) -> str:
        by = f" by group ({', '.join(self.groups)})" if self.groups else ""
        return f"{self.name}, inputs that join and leave, {self.level}{by}"


@dataclass(frozen=True, eq=False)
class GroupInput(Leaf):
    """Inside a group-and-apply: the rows of one group."""

    columns: pa.Schema
    facts: StreamProperties
    clock: Clock = None

    state = None
    promise = "t"
    details = ""

    def __post_init__(self) -> None:
        self._settle(self.columns, self.facts)
