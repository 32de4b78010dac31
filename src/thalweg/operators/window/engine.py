"""The window engine: hold the rows of a batch, compare before and after, answer, forget, save.

Meaning: see the kind of window and `plan.nodes`. Each batch touches some partitions; the windows
there that have answered and that the change can reach are evaluated before and after the change,
and the difference is emitted. Then the windows that may answer do (see `progress.frontier`).

Nulls are a partition or group of their own. A late row is a row like any other. Duplicates count.
An empty window has no row.

State: the rows that open windows need, by partition and position; partial results of forgotten
rows, for windows over all rows so far. A CTI drops the rows that no later window needs; a CTI for
one group drops the rows that windows of its partitions do not need any more, and all of them at the
end of the group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.names import internal
from thalweg.model.progress import Progress, Scope
from thalweg.model.rows import (
    Bools,
    Codes,
    Rows,
    concat_rows,
    encode,
    take_column,
    used_codes,
    whole_column,
)
from thalweg.model.time import INFINITY, MAX_TIME, MIN_TIME
from thalweg.operators.base import Slices, StateSize
from thalweg.operators.window.assigners.assigner import Assigner
from thalweg.operators.window.assigners.changes import Ordered
from thalweg.operators.window.extents import NO_FRAMES, Frames
from thalweg.operators.window.held_rows import Found, HeldRows, Located, stored_rows
from thalweg.operators.window.partitions import GroupPromises, Partitions
from thalweg.operators.window.totals import Totals
from thalweg.operators.window.values import Values
from thalweg.operators.window.window_operator import WindowOperator
from thalweg.progress.frontier import Consistency, Frontier, Line
from thalweg.state import Hits, KeyIndex

__all__ = ["WindowEngine"]

_AHEAD = pa.field(internal("ahead"), pa.int64())
_WANTED = "wanted"

Select = Callable[[Frames], Bools]
"""A choice of some windows, which are evaluated."""


class WindowEngine(WindowOperator):
    """`columns` identify a group; windows are made within the groups of `partition`; `wid` names a
    column for the id of a window."""

    def __init__(
        self,
        schema: pa.Schema,
        input_schema: pa.Schema,
        assigner: Assigner,
        values: Values,
        columns: tuple[str, ...],
        partition: tuple[str, ...],
        consistency: Consistency,
        *,
        wid: str | None = None,
        what: str = "WindowAggregate",
    ) -> None:
        self.schema = schema
        self._nothing = Delta.empty(schema)
        self._assigner, self._values, self._columns, self._wid = assigner, values, columns, wid
        fields = [*(input_schema.field(name) for name in columns), *values.fields]
        self._parts = pa.schema(fields)
        if assigner.keeps_start:
            fields.append(pa.field(internal("time"), pa.int64()))
        fields += [
            pa.field(internal(f"read{at}"), input_schema.field(name).type)
            for at, name in enumerate(assigner.columns)
        ]
        self._partitions = Partitions(input_schema, partition)
        self._held = HeldRows(pa.schema(fields), self._partitions, what)
        self._totals = (
            Totals(self._parts, columns, values.sums, self._partitions, what)
            if values.sums is not None and assigner.cumulative
            else None
        )
        assigner.attach(self._held, self._totals)
        self._apart = set(columns) != set(partition)
        self._frontier = Frontier(consistency)
        self._promise: int | None = None
        self._wanted = MIN_TIME
        """Answers that end before this are not needed by any reader."""
        self._ahead_schema = pa.schema([*self._partitions.fields, _AHEAD])

    # --------------------------------------------------------------------------------------------
    # the loop

    def process(self, port: int, batch: Batch) -> Batch:
        frontier, assigner = self._frontier, self._assigner
        before, cti = _Before(frontier.line(), assigner.mark()), frontier.cti
        moved = assigner.observe(batch)
        changes = self._read(batch) if len(batch) or moved else None
        groups = self._partitions.promised(batch.progress)
        frontier.out = frontier.after(batch)
        frontier.promise(groups.partition, groups.time)
        new_line = frontier.line()
        answer: Delta | _Continued
        if assigner.chained:
            answer = self._compare(changes, before.line, new_line)
        else:
            parts = [] if changes is None else [self._revise(changes, before)]
            if new_line != before.line or assigner.mark() != before.mark:
                parts.append(self._answer(before, new_line))
            answer = Delta.concat(parts, self.schema)
        return answer.to_batch(self._close(groups, moved=frontier.cti > cti))

    def _read(self, batch: Batch) -> _Changes:
        """The changes of a batch, in the form in which rows are held."""
        delta = self._assigner.adapt(Delta.of_batch(batch))
        payload = delta.payload
        columns = [payload.column(name) for name in self._columns]
        columns += self._values.columns(delta)
        if self._assigner.keeps_start:
            columns.append(whole_column(np.ascontiguousarray(delta.start)))
        columns += [payload.column(name) for name in self._assigner.columns]
        rows = pa.RecordBatch.from_arrays(columns, schema=self._held.schema)
        partition = self._partitions.of_rows(payload)
        held = Delta(rows, *self._assigner.stretch(delta), delta.weight)
        return _Changes(delta, partition, *self._assigner.compact(held, partition))

    def _revise(self, changes: _Changes, before: _Before) -> Delta:
        """Hold the changes; returns the revisions of windows that have answered."""
        assigner, old_line = self._assigner, before.line
        change = assigner.change(changes.delta, changes.partition, old_line)
        assigner.note_rows(changes.delta, changes.partition, old_line)
        if not len(change.partition):
            self._held.apply(changes.rows, changes.rows_partition)
            return self._nothing
        old = assigner.fetch(change)
        self._held.apply(changes.rows, changes.rows_partition)
        new = assigner.fetch(change)

        def reached(frames: Frames) -> Bools:
            at = change.partition.searchsorted(frames.partition)
            near = assigner.affected(frames, change.first[at], change.last[at])
            return near & assigner.has_answered(frames, old_line, before.mark)

        return Delta.concat(
            [
                self._evaluate(new, reached, assigner.mark())[0],
                self._evaluate(old, reached, before.mark)[0].negate(),
            ],
            self.schema,
        )

    def _answer(self, before: _Before, new_line: Line) -> Delta:
        """The answers of windows that may answer now."""
        assigner, mark = self._assigner, self._assigner.mark()

        def answers_now(frames: Frames) -> Bools:
            old = assigner.has_answered(frames, before.line, before.mark)
            return assigner.has_answered(frames, new_line, mark) & ~old

        found = assigner.leaving(before.line, new_line)
        answers, frames = self._evaluate(found, answers_now, mark)
        assigner.note_answers(frames, new_line)
        return answers

    def _compare(
        self, changes: _Changes | None, old_line: Line, new_line: Line
    ) -> Delta | _Continued:
        """Revisions and new answers together, where a new answer changes the one before it."""
        assigner = self._assigner
        touched = np.empty(0, np.int64)
        if changes is not None:
            assigner.note_rows(changes.delta, changes.partition, old_line)
            touched = assigner.change(changes.delta, changes.partition, old_line).partition
        waiting = assigner.waiting(new_line) if new_line != old_line else _NONE
        if not len(touched):
            if changes is not None:
                self._held.apply(changes.rows, changes.rows_partition)
            return self._continue(waiting, old_line, new_line)
        touched = used_codes([touched, waiting])
        old = self._held.of(touched)
        if changes is not None:
            self._held.apply(changes.rows, changes.rows_partition)
        new, frames = self._evaluate(
            self._held.of(touched),
            lambda frames: assigner.has_answered(frames, new_line, 0),
            0,
            touched,
        )
        assigner.note_answers(frames, new_line)
        old_answers, _ = self._evaluate(
            old, lambda frames: assigner.has_answered(frames, old_line, 0), 0, touched
        )
        return Delta.concat([new, old_answers.negate()], self.schema)

    def _continue(self, waiting: Codes, old_line: Line, new_line: Line) -> Delta | _Continued:
        """New answers, and the ends that they give to the last answers before them."""
        assigner = self._assigner

        def last_and_new(frames: Frames) -> Bools:
            left = assigner.has_answered(frames, old_line, 0)
            new = ~left
            new[:-1] |= left[:-1] & (~left[1:] | (frames.partition[1:] != frames.partition[:-1]))
            new[-1] = True
            return new & assigner.has_answered(frames, new_line, 0)

        look = self._look(self._held.of(waiting), 0, waiting)
        answers, chosen, frame = self._give(look, last_and_new)
        assigner.note_answers(look.frames, new_line)
        if not len(answers):
            return answers
        if self._values.one_row_each:
            return _Continued(answers, assigner.has_answered(chosen, old_line, 0)[frame])
        before, _, _ = self._give(
            look, lambda frames: last_and_new(frames) & assigner.has_answered(frames, old_line, 0)
        )
        return Delta.concat([answers, before.negate()], self.schema)

    # --------------------------------------------------------------------------------------------
    # answering

    def _evaluate(
        self, found: Found, select: Select, mark: int, partitions: Codes | None = None
    ) -> tuple[Delta, Frames]:
        """The answers of some windows; and all windows that the rows make."""
        look = self._look(found, mark, partitions)
        return self._give(look, select)[0], look.frames

    def _look(self, found: Found, mark: int, partitions: Codes | None) -> _Look:
        """The windows that rows make, together with the totals of these partitions."""
        rows = self._assigner.order(found)
        more, totals = (_NONE, _NONE), None
        if self._totals is not None:
            if partitions is None:
                partitions = used_codes([found.partition])
            totals = self._totals.of(partitions)
            more = partitions[totals.owner], totals.start
        if not len(rows) and not len(more[0]):
            return _Look(rows, more, totals, NO_FRAMES)
        return _Look(rows, more, totals, self._assigner.frames(rows, more, mark))

    def _give(self, look: _Look, select: Select) -> tuple[Delta, Frames, Codes]:
        """The answers of some windows, these windows, and for each answer the position of its
        window."""
        assigner, rows = self._assigner, look.rows
        if not len(look.frames):
            return self._nothing, look.frames, _NONE
        answers = select(look.frames)
        if self._wanted > MIN_TIME:
            answers = answers & (look.frames.end >= self._wanted)
        chosen = look.frames.filter(answers)
        if not len(chosen):
            return self._nothing, chosen, _NONE
        chosen = assigner.linked(chosen)
        partition, coordinate = rows.partition, assigner.coordinate(rows)
        if look.totals is not None and len(look.totals):
            located = self._with_totals(rows, look.totals)
            partition = np.concatenate([partition, look.more[0]])
            coordinate = np.concatenate([coordinate, assigner.totals_coordinate(look.more[1])])
        else:
            located = rows.located()
        group = partition
        if self._apart:
            group, _ = encode([located.column(name) for name in self._columns], len(partition))
        cells = assigner.occupied(chosen, rows, partition, group, coordinate)
        at = located.at[cells.representative]
        keys = [take_column(located.stored.column(name), at) for name in self._columns]
        keys += [] if self._wid is None else [whole_column(chosen.wid[cells.frame])]
        return self._values.answer(keys, located, chosen, cells), chosen, cells.frame

    def _with_totals(self, rows: Ordered, totals: Hits) -> Located:
        """The partial results of rows, then those of totals."""
        held, at = stored_rows(rows.found.hits, rows.which)
        if len(held.schema) > len(self._parts):
            held = held.select(self._parts.names)
        summed, behind = stored_rows(totals, np.arange(len(totals)))
        every = concat_rows([held, summed], self._parts)
        return Located(every, np.concatenate([at, behind + held.num_rows]), lambda: rows.start)

    # --------------------------------------------------------------------------------------------
    # promises

    def _close(self, groups: GroupPromises, *, moved: bool) -> Progress:
        frontier, assigner = self._frontier, self._assigner
        if frontier.cti == INFINITY:
            self.clear()
            return Progress(INFINITY)
        named = self._close_groups(groups) if groups.scopes else {}
        settles = moved or bool(named) or assigner.moves_without_cti or self._promise is None
        if frontier.cti != MIN_TIME and settles:
            self._promise = assigner.close(frontier)
        promise = MIN_TIME if self._promise is None else self._promise
        progress = Progress(promise)
        if named:
            named = {scope: time for scope, time in named.items() if time > promise}
            progress = Progress(promise, groups.columns, named)
        self.reuse_numbers()
        return progress

    def _close_groups(self, groups: GroupPromises) -> dict[Scope, int]:
        """Forget what the promises for groups settle; returns the promises that follow. The common
        promise may have waited for a group that is closed now."""
        frontier, assigner = self._frontier, self._assigner
        ended = groups.time == INFINITY
        assigner.finish(groups.partition[ended])
        open_, which = groups.partition[~ended], groups.which[~ended]
        frontier.withdraw(groups.partition[ended])
        times = groups.times.copy()
        if len(groups.columns) < len(self._partitions.columns):  # partitions to come have it too
            new = [assigner.promise_of_new(t) if t != INFINITY else t for t in times.tolist()]
            times = np.array(new, np.int64)
        if len(open_):
            np.minimum.at(times, which, assigner.close_partitions(open_, frontier.settled()))
            held = [self._held.of(open_).partition, assigner.used()]
            if self._totals is not None:
                held.append(open_[self._totals.of(open_).owner])
            frontier.withdraw(np.setdiff1d(open_, np.concatenate(held)))
        return dict(zip(groups.scopes, times.tolist(), strict=True))

    @property
    def index(self) -> KeyIndex:
        return self._partitions.index

    def held_groups(self) -> Codes:
        used = [self._held.groups(), self._assigner.used(), self._frontier.line().columns()[0]]
        if self._totals is not None:
            used.append(self._totals.groups())
        return used_codes(used)

    def renumber(self, moved: Codes) -> None:
        self._held.renumber(moved)
        if self._totals is not None:
            self._totals.renumber(moved)
        self._assigner.renumber(moved)
        self._frontier.renumber(moved)

    def clear(self) -> None:
        self._held.clear()
        if self._totals is not None:
            self._totals.clear()
        self._assigner.clear()
        self._partitions.clear()
        self._frontier.promised = {}

    def forget(self, time: int, unwanted: tuple[int, ...]) -> None:
        """Rows are held over the positions at which a window that has them may end (see `reach`),
        so that those before a time can be forgotten."""
        if unwanted[0] > MIN_TIME and time > self._wanted:
            self._wanted = min(time, MAX_TIME)
            self._held.drop(self._wanted - 1)
            self.reuse_numbers()

    def needs(self, time: int) -> tuple[int, ...]:
        return (time if time <= MIN_TIME or time == INFINITY else self._assigner.needs(time),)

    def lacks(self) -> tuple[str, ...]:
        return self._assigner.lacks()

    # --------------------------------------------------------------------------------------------
    # state

    def snapshot(self) -> Slices:
        slices = {**self._held.snapshot(), **self._assigner.snapshot()}
        if self._totals is not None:
            slices |= self._totals.snapshot()
        partition, time = self._frontier.line().columns()
        keys = self._partitions.named(partition)
        ahead = pa.RecordBatch.from_arrays([*keys, pa.array(time)], schema=self._ahead_schema)
        if self._wanted > MIN_TIME:
            slices[_WANTED] = pa.RecordBatch.from_arrays([pa.array([self._wanted])], [_WANTED])
        return {**slices, "marks": self._frontier.to_rows(), "ahead": ahead}

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self._partitions.clear()
        self._held.restore(slices)
        if self._totals is not None:
            self._totals.restore(slices)
        self._frontier.restore(slices["marks"])
        ahead = slices["ahead"]
        times = ahead.column(_AHEAD.name).to_numpy()
        self._frontier.promised = {}
        self._frontier.promise(self._partitions.of_rows(ahead), times)
        self._assigner.restore(slices, self._frontier)
        self._promise = None
        self._wanted = MIN_TIME
        if _WANTED in slices:
            self._wanted = slices[_WANTED].column(0)[0].as_py()
            self._held.drop(self._wanted - 1)

    def state_size(self) -> StateSize:
        size = self._held.size() + self._assigner.size()
        return size if self._totals is None else size + self._totals.size()


@dataclass(slots=True)
class _Changes:
    """The changes of a batch, as they arrived and as they are held, with the partition of each."""

    delta: Delta
    partition: Codes
    rows: Delta
    rows_partition: Codes


@dataclass(slots=True)
class _Look:
    """Rows in order, totals (partition and position of each), and the windows of both."""

    rows: Ordered
    more: tuple[Codes, Codes]
    totals: Hits | None
    frames: Frames


@dataclass(slots=True)
class _Continued:
    """New answers, and which of them were emitted before, without an end."""

    rows: Delta
    left: Bools

    def to_batch(self, progress: Progress) -> Batch:
        rows, left = self.rows, self.left
        changed = ~left | (rows.end != INFINITY)
        if np.count_nonzero(changed) < len(changed):
            rows, left = rows.filter(changed), left[changed]
        if not np.count_nonzero(left):
            return Batch(rows.payload, rows.start, rows.end, progress=progress)
        before = np.where(left, INFINITY, rows.end)
        return Batch(rows.payload, rows.start, before, rows.end, left, progress)


@dataclass(slots=True)
class _Before:
    """The line up to which windows had answered before a batch, and the mark of the assigner
    then."""

    line: Line
    mark: int


_NONE = np.empty(0, np.int64)
