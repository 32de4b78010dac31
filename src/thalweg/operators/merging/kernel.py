"""LMerge: one stream out of several physical forms of one table.

Meaning: if the inputs are mutually consistent (each is a part of one reference stream), the table
is that of the reference, and at every moment the output can follow whatever the inputs do next. The
inputs need not agree in order, batches, CTIs, detours or spurious rows; they may join, fail and
leave. A level R0 to R4 does the work (`level`); this kernel holds the inputs, decides which of them
leads, and checks that each keeps its promises.

The input with the largest CTI leads, and its CTI, less the lag, becomes that of the output. With
`missing="keep"` the smallest CTI does. An input that joins with `since=t` is right about rows that
end at `t` or later; it may not lead before the output has promised `t`.

Promises for groups are passed on too: each group is led by the input that has promised most for it
(`group_promises`). Promises over columns are not passed on.

State: that of the level, and a few numbers for each input.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from thalweg.errors import PlanError, StateError
from thalweg.model.batch import Batch
from thalweg.model.packed_values import pack_scope, unpack_scope
from thalweg.model.progress import Progress, Scope
from thalweg.model.progress_text import progress_of_text, progress_text
from thalweg.model.rows import Rows
from thalweg.model.time import INFINITY, MIN_TIME
from thalweg.operators.base import Operator, Slices, StateSize
from thalweg.operators.consistency import Consistency
from thalweg.operators.merging.counted import CountedLevel
from thalweg.operators.merging.figures import MergeFigures
from thalweg.operators.merging.group_promises import GroupPromises
from thalweg.operators.merging.identity import Identity
from thalweg.operators.merging.input_promises import InputPromises, check_batch
from thalweg.operators.merging.keyed import KeyedLevel
from thalweg.operators.merging.level import (
    BrokenLevelError,
    MergeContext,
    MergeInput,
    MergeLevel,
)
from thalweg.operators.merging.next_promise import next_group_promise, next_promise
from thalweg.operators.merging.ordered import IN_ORDER_LEVELS
from thalweg.operators.rows.in_order import canonical_order
from thalweg.operators.text_slices import slice_of_text, text_of_slice
from thalweg.plan.merging import Broken, Level, MergePolicy, check_merge
from thalweg.plan.nodes import Merge

__all__ = ["MergeKernel", "merge_kernel"]


class MergeKernel(Operator):
    """
    >>> from thalweg.model.element_batches import batches_of, elements_of
    >>> from thalweg.model import adjust, cti, insert
    >>> schema = pa.schema([("p", pa.string())])
    >>> merge = MergeKernel(schema, ("left", "right"))
    >>> A = {"p": "A"}
    >>> for port, element in [(0, insert(A, 6, 10)), (1, insert(A, 6, 15)), (1, cti(16))]:
    ...     for batch in batches_of([element], schema):
    ...         print(*elements_of([merge.process(port, batch)]), sep=", ")
    Insert(payload={'p': 'A'}, start=6, end=10)
    <BLANKLINE>
    Adjust(payload={'p': 'A'}, start=6, end=10, new_end=15), Cti(time=16, scope=None)
    """

    def __init__(
        self,
        schema: pa.Schema,
        inputs: tuple[str, ...] = (),
        *,
        level: Level = "R3",
        policy: MergePolicy | None = None,
        groups: tuple[str, ...] = (),
        tolerance: float = 0.0,
        broken: Broken = "cut",
        sort: bool = False,
    ) -> None:
        self.schema = schema
        self.policy = MergePolicy() if policy is None else policy
        self.broken = broken
        self._sort = sort and level in IN_ORDER_LEVELS
        check_merge(schema, level, groups, tolerance, broken)
        self.identity = Identity(schema, groups, tolerance)
        self.level = self._level(level)
        self.inputs: dict[str, MergeInput] = {}
        self.settled = MIN_TIME
        self.leader: MergeInput | None = None
        self.groups = GroupPromises(schema)
        self._promises = InputPromises()
        self._history: list[tuple[int, str]] = []
        self.on_settled: Callable[[], None] | None = None
        """Called when the output has promised more: earlier rows of the inputs are not needed."""
        self.figures = MergeFigures()
        self.cut: list[str] = []
        """The inputs that were removed because they broke the level."""
        for name in inputs:
            self.attach(name)
        self.ports = len(inputs)

    def _level(self, level: Level) -> MergeLevel:
        holds = self.policy.keeps_all or self.broken == "climb"
        in_order = None if holds else IN_ORDER_LEVELS.get(level)
        if in_order is not None:
            return in_order(self.schema)
        indexed = CountedLevel if level == CountedLevel.name else KeyedLevel
        return indexed(self.schema, self.identity)

    # ------------------------------------------------------------------------------------------
    # inputs

    def attach(self, name: str, since: int = MIN_TIME, *, insert_only: bool = False) -> MergeInput:
        """Add an input that is right about every row that ends at `since` or later."""
        if name in self.inputs:
            raise PlanError(f"merge: there is an input {name!r} already; detach it first.")
        columns = {member.column for member in self.inputs.values()}
        column = next(at for at in range(len(columns) + 1) if at not in columns)
        member = MergeInput(name, column, since, insert_only=insert_only)
        member.joined = since <= self.settled or since == MIN_TIME
        member.compared_from = max([since, self.settled, *self.groups.promised.values()])
        self.level.attach(member)
        self.inputs[name] = member
        if name in self.cut:
            self.cut.remove(name)
        return member

    def detach(self, name: str) -> Batch:
        """Remove an input; returns the changes of the output."""
        member = self.inputs.pop(name)
        context = self._context()
        context.leaving = self._promises.leave(name)
        self.level.detach(member, context)
        self.figures.note(context)
        if self.leader is member:
            self.leader = None
        return self._progress([])

    def _context(self) -> MergeContext:
        inputs = list(self.inputs.values())
        return MergeContext(
            self.policy, inputs, self.settled, self.leader, self.groups, self._history
        )

    # ------------------------------------------------------------------------------------------
    # batches

    def process(self, port: int, batch: Batch) -> Batch:
        return self.push(list(self.inputs)[port], batch)

    def push(self, name: str, batch: Batch) -> Batch:
        """The changes of the output that follow from a batch of one input. A refused batch changes
        nothing; with `broken="cut"`, an input that breaks the level is removed instead."""
        member = self.inputs[name]
        columns = self.groups.columns
        check_batch(name, batch, self._promises.of_rows(name, columns, batch, member.cti))
        batch = canonical_order(batch) if self._sort and batch.insert_only else batch
        context = self._context()
        try:
            self.level.update(member, batch, context)
        except BrokenLevelError as reason:
            return self._climb_or_cut(member, batch, reason)
        self.figures.note(context)
        member.count(batch)
        before = member.cti
        member.cti = max(member.cti, batch.progress.cti)
        self._take_group_promises(member, batch.progress)
        parts: list[Batch] = []
        if self.leader is None:
            self._lead(member, parts)
        out = self._progress(
            parts, member, None if self.policy.keeps_all else batch.progress.scoped
        )
        if member.cti > before and self.policy.compares:
            context = self._context()
            self.level.compare(member, before, context)
            self.figures.note(context)
        return out

    def _climb_or_cut(self, member: MergeInput, batch: Batch, reason: BrokenLevelError) -> Batch:
        """An input breaks the level: go on at a higher level, or without the input."""
        level = self.level.climb()
        if level is not None:
            self.figures.note_broken(member, f"{reason} The merge goes on at {level.name}.")
            self.level = level
            return self.push(member.name, batch)
        self.figures.note_broken(member, str(reason))
        self.cut.append(member.name)
        return self.detach(member.name)

    def _progress(
        self,
        parts: list[Batch],
        member: MergeInput | None = None,
        scopes: Iterable[Scope] | None = None,
    ) -> Batch:
        """Promise as much as the inputs allow, then make the changes that policies require for an
        input. Promises for groups are made for the groups in `scopes`, or for all."""
        joined = False
        while True:
            furthest, time = next_promise(self.inputs.values(), self.leader, self.policy)
            if furthest is None or time <= self.settled:
                break
            self._lead(furthest, parts)
            context = self._context()
            parts.append(
                self.figures.count_cause("promise", self.level.advance(furthest, time, context))
            )
            self._settle(furthest, time)
            self.figures.note(context)
            if not self._let_join(time, parts):
                break
            joined = True
        promised = self._promise_groups(None if joined else scopes, parts)
        if member is not None:
            parts.append(
                self.figures.count_cause("policy", self.level.show(member, self._context()))
            )
        out = Batch.concat(parts, self.schema)
        self.figures.count(out)
        return out.with_progress(self.groups.progress(self.settled, promised))

    def _let_join(self, time: int, parts: list[Batch]) -> bool:
        """Let inputs lead that waited for the output's CTI `time`; whether there were any."""
        waiting = [m for m in self.inputs.values() if not m.joined and m.since <= time]
        for member in waiting:
            member.joined = True
            context = self._context()
            sent = self.level.join(member, context)
            self.figures.note(context)
            parts += [] if sent is None else [sent]
        return bool(waiting)

    def _settle(self, leader: MergeInput, time: int) -> None:
        """Note that the output has promised a time on the word of an input."""
        self.settled = time
        if self.groups:
            self.groups.forget_before(time)
        if self.policy.compares:
            slowest = min(member.promise for member in self.inputs.values())
            cut = bisect_right([promise for promise, _ in self._history], slowest)
            self._history = [*self._history[max(cut - 1, 0) :], (time, leader.name)]
        leader.led += 1
        if self.on_settled is not None:
            self.on_settled()

    # ------------------------------------------------------------------------------------------
    # promises for groups

    def _take_group_promises(self, member: MergeInput, progress: Progress) -> None:
        if progress.cti > MIN_TIME:
            self._promises.forget_before(member.name, member.cti)
        if not progress.scoped or not set(progress.scope_columns) <= set(self.schema.names):
            return
        if not self.groups:
            self.groups.begin(progress.scope_columns, self.level.group_rows())
        if progress.scope_columns != self.groups.columns:
            return  # promises for other groups than those of the first input are not passed on
        self._promises.take(member.name, progress)

    def _promise_groups(
        self, scopes: Iterable[Scope] | None, parts: list[Batch]
    ) -> Mapping[Scope, int]:
        """Promise for some groups, or all, as much as the inputs allow; returns the promises."""
        if not self.groups:
            return {}
        every = self._promises.scopes()
        promises: dict[str, dict[Scope, int]] = {}
        for scope in every if scopes is None else every.intersection(scopes):
            promised = {
                name: max(member.cti, self._promises.of(name, scope))
                for name, member in self.inputs.items()
            }
            before = self.groups.leaders.get(scope)
            leader, time = next_group_promise(self.inputs, promised, before, self.policy)
            if leader and time > max(self.settled, self.groups.promised.get(scope, MIN_TIME)):
                promises.setdefault(leader, {})[scope] = time
        for name, times in promises.items():
            context = self._context()
            batch = self.level.advance_groups(self.inputs[name], times, context)
            parts.append(self.figures.count_cause("promise", batch))
            self.figures.note(context)
            self.groups.promise(times)
            self.groups.leaders.update(dict.fromkeys(times, name))
        return {scope: time for times in promises.values() for scope, time in times.items()}

    def _lead(self, member: MergeInput, parts: list[Batch]) -> None:
        if self.leader is member or not member.joined:
            return
        self.leader = member
        context = self._context()
        follow = self.level.refollow(member, context)
        if follow is not None:
            parts.append(self.figures.count_cause("other leader", follow))

    # ------------------------------------------------------------------------------------------
    # state

    def needs(self, time: int) -> tuple[int, ...]:
        """The promise of the leader is enough; with `missing="keep"` that of every input."""
        ahead = time if time in (MIN_TIME, INFINITY) else time + self.policy.lag
        if self.policy.keeps_all:
            return (ahead,) * len(self.inputs)
        furthest = self.leader or next(iter(self.inputs.values()), None)
        return tuple(ahead if member is furthest else MIN_TIME for member in self.inputs.values())

    def unwanted(self, time: int) -> tuple[int, ...]:
        return (max(time, self.settled),) * self.ports

    @property
    def _columns(self) -> list[str]:
        return [f"{field.name} {field.type}" for field in self.schema]

    def snapshot(self) -> Slices:
        figures = {
            "level": self.level.name,
            "columns": self._columns,
            "settled": self.settled,
            "leader": None if self.leader is None else self.leader.name,
            "inputs": [asdict(member) for member in self.inputs.values()],
            "cut": self.cut,
            "history": self._history,
            "groups": progress_text(self._output_progress()),
            "group_leaders": [
                [pack_scope(scope), name] for scope, name in self.groups.leaders.items()
            ],
            "scoped": self._promises.to_texts(self.groups.columns),
            **self.figures.to_json(),
        }
        return {"merge": slice_of_text(json.dumps(figures), "merge"), **self.level.snapshot()}

    def restore(self, slices: Mapping[str, Rows]) -> None:
        if "merge" not in slices:
            raise StateError(f"merge: the snapshot has only {sorted(slices)}.")
        figures = json.loads(text_of_slice(slices["merge"]))
        saved = figures.get("columns", self._columns)
        if saved != self._columns:
            raise StateError(
                f"merge: the snapshot is of a merge over {', '.join(saved)}; this one has "
                f"{', '.join(self._columns)}."
            )
        self.inputs = {each["name"]: MergeInput(**each) for each in figures["inputs"]}
        self.settled = figures["settled"]
        self.leader = self.inputs.get(figures["leader"] or "")
        self.figures = MergeFigures.of_json(figures)
        self.cut = figures["cut"]
        self.level = self._level(figures["level"])
        columns = 1 + max((m.column for m in self.inputs.values()), default=-1)
        rest = {name: rows for name, rows in slices.items() if name != "merge"}
        self.level.restore(rest, columns, self.settled)
        self._history = [(time, name) for time, name in figures["history"]]
        self._restore_groups(figures)

    def _output_progress(self) -> Progress:
        return Progress(self.settled, self.groups.columns, self.groups.promised)

    def _restore_groups(self, figures: Mapping[str, Any]) -> None:
        promised = progress_of_text(figures["groups"])
        self.groups = GroupPromises(self.schema)
        self._promises, columns = InputPromises.of_texts(figures["scoped"])
        columns = promised.scope_columns if promised.scoped else columns
        if columns:
            self.groups.begin(columns, self.level.group_rows())
        if promised.scoped:
            self.groups.promise(promised.scoped)
        self.groups.leaders = {
            unpack_scope(packed): name for packed, name in figures["group_leaders"]
        }

    def state_size(self) -> StateSize:
        return self.level.state_size() + StateSize(0, self.groups.nbytes if self.groups else 0)


def merge_kernel(node: Merge, consistency: Consistency) -> MergeKernel:
    """The kernel of a merge of streams of one plan, at the level that the facts about its inputs
    allow."""
    choice = node.choose(final=consistency.is_final)
    return MergeKernel(
        node.schema,
        tuple(f"input {at}" for at in range(len(node.streams))),
        level=choice.level,
        policy=node.policy,
        groups=choice.groups,
        tolerance=node.tolerance,
        broken=node.broken,
        sort=choice.sort,
    )
