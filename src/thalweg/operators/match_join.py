"""Joins that count whole rows: left, right and full outer, semi and anti, of rows whose ends do not
move.

    semi: {(s1, e1, p1) | it has a match}     anti: {(s1, e1, p1) | it has none}
    left: the pairs, and left_only(p1) of each left row without a match; right and full likewise

What is known leaves at once: a row is alone from the moment it comes, and taken back when a partner
comes after all; a row that loses its last partner is alone again. Null keys match nothing,
duplicates count one by one.

State: as in `join`, each row that may be alone with the number of its matches so far. That number
is complete: a row that is new, or is taken away, starts at its side's CTI or later, and all it can
meet is still held. The promise is the smaller of the two CTIs, but not beyond the start of a row
that may still find, or lose, a partner.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from thalweg.expr import Column
from thalweg.model.batch import Batch
from thalweg.model.boxes import Boxes, join_boxes
from thalweg.model.delta import Delta
from thalweg.model.progress import Progress
from thalweg.model.rows import Bools, Codes
from thalweg.model.time import Times
from thalweg.operators.frames import evaluate_columns, frame_of
from thalweg.operators.groups import append_column, replace_column
from thalweg.operators.join import JoinKernel
from thalweg.operators.time_slices import Part, TimeSlices
from thalweg.plan.nodes import Join, Named

__all__ = ["MatchJoinKernel"]

_PRESERVED = {
    "left": (True, False),
    "right": (False, True),
    "full": (True, True),
    "semi": (True, False),
    "anti": (True, False),
}
_COUNT = "_matches"


class MatchJoinKernel(JoinKernel):
    """
    >>> import thalweg as tw
    >>> a, b = tw.source("a", {"k": "int64"}), tw.source("b", {"k": "int64"})
    >>> rows = {"a": [tw.point({"k": 1}, 3), tw.point({"k": 1}, 9)], "b": [tw.point({"k": 1}, 4)]}
    >>> near = tw.band(before=2, after=2)
    >>> tw.table(a.window_join(b, "k", window=near, how="anti"), rows), tw.table(a.window_join(b, "k", window=near, how="semi"), rows)
    ([(9, 10, {'k': 1})], [(3, 4, {'k': 1})])
    """

    def __init__(self, node: Join) -> None:
        super().__init__(node)
        self._preserved = _PRESERVED[node.how]
        self._gives_pairs = node.how in ("left", "right", "full")
        self._alone_columns: tuple[Named, Named] = (node.left_only, node.right_only)
        for port, kept in enumerate(self._preserved):
            if kept:
                self._held[port] = TimeSlices(
                    pa.schema([*self._sides[port].schema, pa.field(_COUNT, pa.int64())])
                )
        self._renames = (self._carried(0), self._carried(1))

    def process(self, port: int, batch: Batch) -> Batch:
        other = 1 - port
        changes: list[Delta] = []
        if len(batch):
            delta = self._sides[port].project(
                Delta.of_batch(batch), only_matchable=not self._preserved[port]
            )
            if len(delta):
                changes = self._change(port, delta)
        self._progress[port] = self._progress[port].merge(batch.progress)
        self._held[other].purge(self._progress[port].cti)
        return Delta.concat(changes, self.schema).to_batch(self._promise())

    def _change(self, port: int, delta: Delta) -> list[Delta]:
        other = 1 - port
        parts = self._held[other].near(int(delta.start.min()), int(delta.end.max()))
        near = Delta.concat([part.rows for part in parts], self._held[other].schema)
        sides = (delta, near) if port == 0 else (near, delta)
        at = self._matches(*sides)
        changes = [self._joined(*sides, at)] if self._gives_pairs else []
        mine, theirs = (at[port], at[other])
        if self._preserved[port]:
            count = _summed(mine, near.weight[theirs], len(delta))
            changes.append(self._alone_rows(port, delta, delta.weight * self._shown(count)))
            delta = Delta(
                append_column(delta.payload, _COUNT, count), delta.start, delta.end, delta.weight
            )
        if self._preserved[other] and len(near):
            before = _counts(near)
            after = before + _summed(theirs, delta.weight[mine], len(near))
            turned = self._shown(after).astype(np.int64) - self._shown(before)
            changes.append(self._alone_rows(other, near, near.weight * turned))
            _recount(parts, before, after)
        waits = (delta.end > self._progress[other].cti) & self._matchable(port, delta)
        self._held[port].add(delta.filter(waits))
        return changes

    def _shown(self, count: Times) -> Bools:
        """Whether a row with so many matches is part of the answer by itself."""
        return count > 0 if self._node.how == "semi" else count == 0

    def _matchable(self, port: int, delta: Delta) -> Bools:
        valid = np.ones(len(delta), np.bool_)
        for name in self._sides[port].key_names:
            valid &= delta.payload.column(name).is_valid().to_numpy(zero_copy_only=False)
        return valid

    def _alone_rows(self, port: int, rows: Delta, weight: Times) -> Delta:
        """Rows of one side by themselves, as often as the weights say."""
        rows = Delta(self._sides[port].payload(rows.payload), rows.start, rows.end, weight).filter(
            weight != 0
        )
        if not self._gives_pairs or not len(rows):
            return rows if len(rows) else Delta.empty(self.schema)
        payload = evaluate_columns(
            self._alone_columns[port], frame_of(rows.payload, rows.start), self.schema
        )
        return Delta(payload, rows.start, rows.end, rows.weight)

    # ----------------------------------------------------------------------------------------------------
    # promises

    def _promise(self) -> Progress:
        undecided = [
            held.first() for held, kept in zip(self._held, self._preserved, strict=True) if kept
        ]
        cti = min(self._progress[0].cti, self._progress[1].cti, *undecided)
        return Progress(cti, boxes=self._boxes())

    def needs(self, time: int) -> tuple[int, ...]:
        """Each side as far as the rows of the other that start before that time may still find a
        partner."""
        wanted = [time, time]
        for port, held in enumerate(self._held):
            if self._preserved[port]:
                waiting = (part.rows for part in held.parts() if part.first < time)
                wanted[1 - port] = max(
                    [time, *(int(rows.end[rows.start < time].max()) for rows in waiting)]
                )
        return tuple(wanted)

    def _boxes(self) -> Boxes:
        """Only boxes over columns that no row of the answer has null."""
        if self._preserved == (True, True):
            return join_boxes(self._alone(0), self._alone(1))
        return self._alone(0 if self._preserved[0] else 1)

    def _carried(self, port: int) -> dict[str, str]:
        """The columns of one side that the answer has, in pairs and in rows that are alone."""
        if not self._gives_pairs:
            return {name: name for name in self.schema.names} if port == 0 else {}
        alone = {
            name: expr.name for name, expr in self._alone_columns[port] if isinstance(expr, Column)
        }
        return {old: new for old, new in self._renames[port].items() if alone.get(new) == old}


def _summed(which: Codes, weight: Times, size: int) -> Times:
    total = np.zeros(size, np.int64)
    np.add.at(total, which, weight)
    return total


def _counts(rows: Delta) -> Times:
    counts: Times = rows.payload.column(_COUNT).to_numpy(zero_copy_only=False)
    return counts


def _recount(parts: list[Part], before: Times, after: Times) -> None:
    """Write new counts into the slices that have changed."""
    begin = 0
    for part in parts:
        end = begin + len(part)
        if (before[begin:end] != after[begin:end]).any():
            part.payload = replace_column(part.payload, _COUNT, after[begin:end])
            part.written = None
        begin = end
