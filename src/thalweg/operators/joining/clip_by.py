"""Clip by another stream: each left row is cut at the first start, strictly after its own, of a
right row with equal keys.

    R' = {(s1, min(e1, min{s2 | (s2, e2, p2) in R2, s2 > s1, keys equal}), p1)}

Ends on the right do not matter. Null keys match nothing. Edge events are this operator with a
stream and itself.

State, in arrangements by key: left rows over the lifetime of their *result*, with their own end as
a mark, until the CTI (the smaller of the two), or that of their group, has passed it; right starts
from there on, as points. So a right start is compared only with the results that it can cut or
lengthen, and a CTI drops whole slots. A left row whose result ended before the CTI is settled
whatever its own end becomes: later changes of it are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.delta import Delta, MovedEnds
from thalweg.model.progress import Progress
from thalweg.model.rows import Bools, Codes, Rows, distinct_codes
from thalweg.model.time import INFINITY, MIN_TIME, Times, least
from thalweg.operators.base import Operator, Slices, StateSize
from thalweg.operators.joining.both_sides import BothSides
from thalweg.operators.joining.keyed_state import KeyedState
from thalweg.operators.joining.matching import keyed_sides
from thalweg.plan.nodes import ClipBy
from thalweg.state import Hits

__all__ = ["ClipByKernel"]

_MANY = 16
"""More starts of a key than this are looked up together."""


class ClipByKernel(Operator):
    """
    >>> import thalweg as tw
    >>> a, b = tw.source("a", {"k": "int64"}), tw.source("b", {"k": "int64"})
    >>> ends = [tw.insert({"k": 1}, 0, 1), tw.insert({"k": 1}, 4, 5)]
    >>> rows = {"a": [tw.insert({"k": 1}, 0, 9)], "b": ends}
    >>> tw.table(a.clip_by(b, on="k"), rows)
    [(0, 4, {'k': 1})]
    """

    def __init__(self, node: ClipBy) -> None:
        self.schema = node.schema
        self.ports = len(node.inputs)
        # Two views of one stream: rows are cut as they come, not passed on whole and cut
        # afterwards.
        self.first_port = self.ports - 1
        self._sides = keyed_sides(
            (node.left.schema, node.right.schema), node.left_keys, node.right_keys, node.same
        )
        names = (*self._sides[0].key_names, *node.same)
        self._key_names = names
        fields = [self._sides[1].schema.field(name) for name in names]
        self._starts_schema = pa.schema(fields or [pa.field("_row", pa.bool_())])
        self._state = KeyedState(
            self._sides,
            node.same,
            schemas=(self._sides[0].schema, self._starts_schema),
            marks=(1, 0),
            what="clip_by",
        )
        self._left, self._right = self._state.held
        self._progress = BothSides(self._names_groups)
        self.looked_at = 0
        """How many results right starts were compared with; what they cost."""

    def process(self, port: int, batch: Batch) -> Batch:
        # A stream that clips itself is on both sides; its starts cut what is held, then come rows.
        sides = (port,) if self.ports == 2 else (1, 0)
        answers: list[Batch] = []
        if len(batch):
            delta = Delta.of_batch(batch)
            for side in sides:
                changes = self._change_left(delta) if side == 0 else self._change_right(delta)
                answers.append(changes.to_batch())
        before = self._progress.both
        for side in sides:
            self._progress.advance(side, batch.progress)
        both = self._progress.both
        self._forget(before, both)
        return Batch.concat(answers, self.schema).with_progress(both)

    def _names_groups(self, promise: Progress) -> bool:
        return promise.speaks_of_groups and self._state.names_groups(promise)

    def _settled(self, rows: Rows) -> Times:
        """The promise that holds for the key of each row."""
        return self._state.promised_to(0, self._progress.both, rows)

    def _change_left(self, delta: Delta) -> Delta:
        keyed = self._sides[0].project(delta, only_matchable=True)
        answers = []
        if len(keyed) < len(delta):  # nothing cuts a row with a null key
            answers.append(self._sides[0].unmatchable(delta))
        group = self._state.groups(keyed.payload)
        settled = self._settled(keyed.payload)
        old = np.flatnonzero(keyed.start < settled)
        if len(old):
            keep = np.ones(len(keyed), np.bool_)
            keep[old] = self._is_held(keyed.take(old), group[old], settled[old])
            keyed, group = keyed.filter(keep), group[keep]
        end = np.minimum(keyed.end, self._cuts(group, keyed.start))
        result = Delta(keyed.payload, keyed.start, end, keyed.weight)
        self._left.apply(result, group, (keyed.end,), by_marks=True)
        return Delta.concat([*answers, self._shown(result)], self.schema)

    def _is_held(self, rows: Delta, group: Codes, settled: Times) -> Bools:
        """Which rows, that started before their promise, have a result that is not settled."""
        found = self._left.find(group, settled - 1, rows.start + 1)
        found = found.filter(found.start == rows.start[found.owner])
        found = found.equal_to(rows.payload)
        held = np.zeros(len(rows), np.bool_)
        held[found.owner] = True
        return held

    def _change_right(self, delta: Delta) -> Delta | MovedEnds:
        starts = self._starts(self._sides[1].project(delta, only_matchable=True))
        if not len(starts):
            return Delta.empty(self.schema)
        group = self._state.groups(starts.payload)
        self._right.apply(starts, group)
        # A start cuts the results across it, and its loss lengthens those that end at it.
        found = self._crossed(group, starts.start)
        self.looked_at += len(found)
        if not len(found):
            return Delta.empty(self.schema)
        touched, _ = found.distinct()
        own_end, groups = touched.mark(0), touched.group
        end = np.minimum(own_end, self._cuts(groups, touched.start))
        changed = end != touched.end
        if not changed.any():
            return Delta.empty(self.schema)
        touched, end = touched.filter(changed), end[changed]
        before = touched.delta()
        after = Delta(before.payload, before.start, end, before.weight)
        touched.set_weight(np.zeros(len(before), np.int64))
        self._left.add(after, groups[changed], (own_end[changed],))
        return MovedEnds(self._shown(before), end)

    def _crossed(self, group: Codes, start: Times) -> Hits:
        """The results that reach across a start, or end at it. Where many starts of a key come at
        once, all results around them are looked at, each once: by pairs, a result would be found by
        every start that it crosses."""
        if len(group) <= _MANY:
            return self._left.find(group, start - 1, start)
        keys, code = distinct_codes(group)
        if len(group) <= _MANY * len(keys):
            return self._left.find(group, start - 1, start)
        first, last = np.full(len(keys), INFINITY), np.full(len(keys), MIN_TIME)
        np.minimum.at(first, code, start)
        np.maximum.at(last, code, start)
        return self._left.find(keys, first - 1, last)

    def _starts(self, delta: Delta) -> Delta:
        """Only keys and starts of right rows count; a change of an end is none."""
        size = len(delta)
        arrays = [delta.payload.column(name) for name in self._key_names] or [
            pa.array(np.ones(size, np.bool_))
        ]
        keys = pa.RecordBatch.from_arrays(arrays, schema=self._starts_schema)
        points = Delta(keys, delta.start, delta.start + 1, delta.weight)
        return points if size and least(delta.weight) > 0 else points.consolidate()

    def _cuts(self, group: Codes, start: Times) -> Times:
        """The first right start after each of these times."""
        end = self._right.first_end_after(group, start + 1)
        first: Times = end - (end != INFINITY)
        return first

    def _shown(self, rows: Delta) -> Delta:
        return Delta(self._sides[0].payload(rows.payload), rows.start, rows.end, rows.weight)

    def _forget(self, before: Progress, both: Progress) -> None:
        if both.cti == INFINITY:
            self._state.clear()
            return
        if both.cti > before.cti:
            self._left.purge(both.cti - 1)
            self._right.purge(both.cti)
        promised = self._state.groups_promised(0, before, both) if both.speaks_of_groups else None
        if promised is not None:
            group, time = promised
            self._left.drop_groups(group, np.where(time == INFINITY, time, time - 1))
            self._right.drop_groups(group, time)
        self._state.tidy()

    def snapshot(self) -> Slices:
        return {**self._state.snapshot(), "progress": self._progress.snapshot()}

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self._state.restore(slices)
        self._progress.restore(slices["progress"])

    def state_size(self) -> StateSize:
        return self._state.size()
