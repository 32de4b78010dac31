"""Clip by another stream: each left row is cut at the first start, strictly after its own, of a
right row with equal keys.

    R' = {(s1, min(e1, min{s2 | (s2, e2, p2) in R2, s2 > s1, keys equal}), p1)}

Ends on the right do not matter. Null keys match nothing. Edge events are this operator with a
stream and itself.

State: left rows whose result reaches the CTI (the smaller of the two) and right starts from it on.
A left row whose result ended before the CTI is settled whatever its own end becomes: later changes
of it are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.model.rows import Rows, encode_together
from thalweg.model.time import INFINITY, Times
from thalweg.operators.base import (
    Operator,
    Slices,
    StateSize,
    delta_of_slice,
    progress_of_slice,
    slice_of_delta,
    slice_of_progress,
)
from thalweg.operators.groups import refuse_negative
from thalweg.operators.matching import key_codes, keyed_sides, touched_by
from thalweg.plan.nodes import ClipBy

__all__ = ["ClipByKernel"]


class ClipByKernel(Operator):
    """
    >>> import thalweg as tw
    >>> a, b = tw.source("a", {"k": "int64"}), tw.source("b", {"k": "int64"})
    >>> rows = {"a": [tw.insert({"k": 1}, 0, 9)], "b": [tw.insert({"k": 1}, 0, 1), tw.insert({"k": 1}, 4, 5)]}
    >>> tw.table(a.clip_by(b, on="k"), rows)
    [(0, 4, {'k': 1})]
    """

    ports = 2

    def __init__(self, node: ClipBy) -> None:
        self.schema = node.schema
        self._sides = keyed_sides(
            (node.left.schema, node.right.schema), node.left_keys, node.right_keys, node.same
        )
        self._names, self._same = self._sides[0].key_names, node.same
        self._left = Delta.empty(self._sides[0].schema)
        key_fields = [self._sides[1].schema.field(name) for name in (*self._names, *self._same)]
        self._right = Delta.empty(pa.schema(key_fields or [pa.field("_row", pa.bool_())]))
        self._progress: list[Progress] = [NO_PROGRESS, NO_PROGRESS]

    def process(self, port: int, batch: Batch) -> Batch:
        answer = Delta.empty(self.schema)
        if len(batch):
            delta = self._sides[port].project(Delta.of_batch(batch), only_matchable=port == 1)
            answer = self._change_left(delta) if port == 0 else self._change_right(delta)
        settled = self._settled()
        self._progress[port] = self._progress[port].merge(batch.progress)
        if self._settled() > settled:
            self._forget(self._settled())
        return answer.to_batch(self._progress[0].meet(self._progress[1]).without_scopes())

    def _settled(self) -> int:
        return min(p.cti for p in self._progress)

    def _change_left(self, delta: Delta) -> Delta:
        old = np.flatnonzero(delta.start < self._settled())
        if len(old):
            known, asked, size = encode_together(
                [*self._left.payload.columns, pa.array(self._left.start)],
                [*delta.payload.take(pa.array(old)).columns, pa.array(delta.start[old])],
                (len(self._left), len(old)),
            )
            held = np.zeros(size, np.bool_)
            held[known] = True
            keep = np.ones(len(delta), np.bool_)
            keep[old] = held[asked]
            delta = delta.filter(keep)
        self._left = Delta.concat([self._left, delta], self._left.schema)
        if (delta.weight < 0).any():
            self._left = self._left.consolidate()
            refuse_negative(self._left, "clip_by")
        return self._clipped(delta, self._right)

    def _change_right(self, delta: Delta) -> Delta:
        starts = self._starts(delta)
        if not len(starts):
            return Delta.empty(self.schema)
        left = self._left.filter(
            touched_by(self._left.payload, starts.payload, self._names, self._same)
        )
        before = self._right
        self._right = Delta.concat([before, starts], before.schema).consolidate()
        refuse_negative(self._right, "clip_by")
        if not len(left):
            return Delta.empty(self.schema)
        return Delta.concat(
            [self._clipped(left, self._right), self._clipped(left, before).negate()], self.schema
        )

    def _starts(self, delta: Delta) -> Delta:
        """Only keys and starts of right rows count; a change of an end is none."""
        size = len(delta)
        arrays = [delta.payload.column(name) for name in (*self._names, *self._same)] or [
            pa.array(np.ones(size, np.bool_))
        ]
        keys = pa.RecordBatch.from_arrays(arrays, schema=self._right.schema)
        bare = Delta(keys, delta.start, np.full(size, INFINITY), delta.weight)
        return bare.consolidate()

    def _cuts(self, left: Delta, right: Delta) -> Times:
        """For each left row the first right start after its own."""
        cut = np.full(len(left), INFINITY)
        if not len(right) or not len(left):
            return cut
        own, theirs = key_codes(left.payload, right.payload, self._names, self._same)
        points = np.unique(right.start)
        span = len(points) + 1
        order = np.lexsort((right.start, theirs))
        place = (theirs * span + np.searchsorted(points, right.start))[order]
        at = np.searchsorted(
            place, own * span + np.searchsorted(points, left.start, "right"), "left"
        )
        found = (at < len(order)) & (own >= 0)
        other = order[np.minimum(at, len(order) - 1)]
        found &= theirs[other] == own
        cut[found] = right.start[other[found]]
        return cut

    def _clipped(self, left: Delta, right: Delta) -> Delta:
        end = np.minimum(left.end, self._cuts(left, right))
        return Delta(self._sides[0].payload(left.payload), left.start, end, left.weight)

    def _forget(self, cti: int) -> None:
        end = np.minimum(self._left.end, self._cuts(self._left, self._right))
        open_ = (end >= cti) & (cti != INFINITY)
        self._left = self._left.filter(open_)
        self._right = self._right.filter((self._right.start >= cti) & (cti != INFINITY))

    def snapshot(self) -> Slices:
        return {
            "left": slice_of_delta(self._left),
            "right": slice_of_delta(self._right),
            "progress": slice_of_progress(self._progress),
        }

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self._left, self._right = delta_of_slice(slices["left"]), delta_of_slice(slices["right"])
        self._progress = progress_of_slice(slices["progress"])

    def state_size(self) -> StateSize:
        return StateSize(len(self._left) + len(self._right), self._left.nbytes + self._right.nbytes)
