"""A merge with any number of inputs, which join and leave while it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date

import numpy as np
import pyarrow as pa

from thalweg.errors import PlanError, TypeMismatchError, did_you_mean
from thalweg.io.feeds import Feed, batches_from
from thalweg.io.frames import needs_plain_type, plain_type
from thalweg.model.batch import Batch
from thalweg.model.progress import NO_PROGRESS, Scope
from thalweg.model.rows import Rows
from thalweg.model.time import INFINITY, MAX_TIME, MIN_TIME, TimeLike, time_us
from thalweg.operators.base import Slices, StateSize
from thalweg.operators.merging.kernel import MergeKernel
from thalweg.operators.merging.level import Alarm, MergeInput
from thalweg.operators.source.element_checks import ElementChecks
from thalweg.operators.source.promise_checks import PromiseChecks
from thalweg.plan.merging import Broken, Level, MergePolicy
from thalweg.plan.properties import StreamProperties
from thalweg.progress.admission import Ingress

__all__ = ["InputStatus", "MergeStatus", "Merger"]


@dataclass(frozen=True, slots=True)
class InputStatus:
    """The status of one input."""

    name: str
    cti: int
    behind: int
    """By how many ticks its CTI lags that of the output; negative if it is ahead."""
    joined: bool
    since: int
    elements: int
    adjusts: int
    ignored: int
    """Elements without effect, about rows that were final in the output."""
    led: int
    """How many CTIs of the output were this input's."""


@dataclass(frozen=True, slots=True)
class MergeStatus:
    """The status of a merge."""

    level: str
    policy: MergePolicy
    cti: int
    leader: str | None
    inputs: Mapping[str, InputStatus]
    inserts: int
    adjusts: int
    removals: int
    chattiness: Mapping[str, int]
    """Adjusts and removals by cause: a promise, the policy, or a change of the leader."""
    state: StateSize
    alarms: tuple[Alarm, ...]
    alarm_count: int
    left_out: int = 0
    """Rows of other inputs that the leader of their time lacked, with `missing="leader"`. Not
    counted with `groups`, where another payload is another version of an answer; at R0 to R2 only
    for inputs at most 65,536 starts behind."""
    group_leaders: Mapping[Scope, str] = field(default_factory=dict)
    """By group with a promise later than the CTI: the input that made the promise."""


class Merger:
    """Physically independent merging of streams that mean the same table.

    >>> import thalweg as tw
    >>> merger = Merger(pa.schema([("user", pa.string())]))
    >>> for name in ("one", "two"):
    ...     merger.attach(name)
    >>> A = {"user": "A"}
    >>> out = merger.push("one", tw.insert(A, 6, 7))
    >>> out += merger.push("two", [tw.insert(A, 6, 12), tw.cti(20)])
    >>> print(*tw.elements_of(out), sep="\\n")
    Insert(payload={'user': 'A'}, start=6, end=7)
    Adjust(payload={'user': 'A'}, start=6, end=7, new_end=12)
    Cti(time=20, scope=None)
    >>> merger.detach("two")
    []
    >>> merger.status().inputs["one"].elements
    1
    """

    def __init__(
        self,
        schema: pa.Schema,
        *,
        level: Level = "R3",
        policy: MergePolicy | None = None,
        groups: str | Sequence[str] = (),
        tolerance: float = 0.0,
        broken: Broken = "cut",
    ) -> None:
        if not isinstance(schema, pa.Schema):
            raise PlanError(f"merge: the columns must be a pyarrow schema; got {schema!r}.")
        if not len(schema) or len(set(schema.names)) < len(schema):
            raise PlanError(
                f"merge: a stream needs one column at least, and none twice; got {schema.names}."
            )
        for field_ in schema:
            if needs_plain_type(field_.type):
                raise TypeMismatchError(
                    f"merge: the column {field_.name!r} is {field_.type}, which few kernels of "
                    f"Arrow take; make it {plain_type(field_.type)}."
                )
        self._kernel = MergeKernel(
            schema,
            level=level,
            policy=policy,
            groups=(groups,) if isinstance(groups, str) else tuple(groups),
            tolerance=tolerance,
            broken=broken,
        )
        self._promised = MIN_TIME
        self._batches = 0
        """Batches that were pushed, for messages."""

    @property
    def schema(self) -> pa.Schema:
        return self._kernel.schema

    @property
    def cti(self) -> int:
        """The output's CTI: input rows that end before it have no effect."""
        return self._kernel.settled

    def attach(
        self, name: str, since: TimeLike | None = None, *, insert_only: bool = False
    ) -> None:
        """Add an input. It has every row that ends at `since` or later; without `since`, every row.
        It can lead once the output has promised `since`."""
        ticks = MIN_TIME
        if since is not None:
            at = time_us(since) if isinstance(since, (date, np.datetime64)) else since
            ticks = self._promise_checks(name).time(at, MIN_TIME, "since")
        self._kernel.attach(name, ticks, insert_only=insert_only)

    def push(self, name: str, feed: Feed) -> list[Batch]:
        """Take elements of one input; returns the output. An invalid batch is refused whole."""
        self._member(name)
        out = []
        for batch in batches_from(feed, self.schema, name):
            if name in self._kernel.inputs:  # it may have left because it broke its level
                out += self._if_new(self._kernel.push(name, self._checked(name, batch)))
        return out

    def _checked(self, name: str, batch: Batch) -> Batch:
        """The batch, checked: its columns and times fit the merge, and the groups of its promises
        have values of their columns' types."""
        batch = ElementChecks(name, self._batches, self.schema, StreamProperties()).well_formed(
            batch
        )
        self._batches += 1
        promises = batch.progress
        if promises is NO_PROGRESS:
            return batch
        if type(promises.cti) is not int or not MIN_TIME <= promises.cti < MAX_TIME:
            self._promise_checks(name).time(promises.cti, MIN_TIME, "the CTI")
        if not promises.scoped or not set(promises.scope_columns) <= set(self.schema.names):
            return batch
        checks = self._promise_checks(name)
        scopes = checks.typed_scopes(promises)
        times = [checks.time(t, MIN_TIME, "the CTI of a group") for t in promises.scoped.values()]
        scoped = dict(zip(scopes, times, strict=True))
        return batch.with_progress(replace(promises, scoped=scoped))

    def _promise_checks(self, name: str) -> PromiseChecks:
        return PromiseChecks(f"merge, input {name!r}", self.schema, Ingress(), None)

    def detach(self, name: str) -> list[Batch]:
        """Remove an input; returns the output. The other inputs go on."""
        self._member(name)
        return self._if_new(self._kernel.detach(name))

    def _member(self, name: str) -> MergeInput:
        member = self._kernel.inputs.get(name)
        if member is None:
            names = list(self._kernel.inputs)
            raise PlanError(
                f"merge: there is no input {name!r}{did_you_mean(name, names)} "
                f"There are: {', '.join(names) or 'none'}."
            )
        return member

    def _if_new(self, out: Batch) -> list[Batch]:
        """The output of the kernel, if it has elements or a new promise."""
        if not len(out) and out.progress.cti <= self._promised and not out.progress.scoped:
            return []
        self._promised = max(self._promised, out.progress.cti)
        return [out]

    def status(self) -> MergeStatus:
        kernel, figures = self._kernel, self._kernel.figures
        inputs = {
            name: InputStatus(
                name,
                member.cti,
                _difference(kernel.settled, member.cti),
                member.joined,
                member.since,
                member.elements,
                member.adjusts,
                member.ignored,
                member.led,
            )
            for name, member in kernel.inputs.items()
        }
        return MergeStatus(
            kernel.level.name,
            kernel.policy,
            kernel.settled,
            None if kernel.leader is None else kernel.leader.name,
            inputs,
            figures.inserts,
            figures.adjusts,
            figures.removals,
            dict(figures.caused),
            kernel.state_size(),
            tuple(figures.alarms),
            figures.alarm_count,
            figures.left_out,
            dict(kernel.groups.leaders),
        )

    def snapshot(self) -> Slices:
        """All state, between two pushes."""
        return self._kernel.snapshot()

    def restore(self, slices: Mapping[str, Rows]) -> None:
        """Back to a snapshot of a merger that was made in the same way."""
        self._kernel.restore(slices)
        self._promised = self._kernel.settled


def _difference(output: int, member: int) -> int:
    if INFINITY in (output, member):
        return 0 if output == member else INFINITY if output == INFINITY else -INFINITY
    return output - member
