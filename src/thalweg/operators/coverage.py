"""Left semi and left anti join: the part of each left row's lifetime that matching right rows
cover, or do not cover.

    semi: each left row restricted to the union of the lifetimes of its matches, as maximal pieces
    anti: each left row minus that union, as maximal pieces

A match has equal keys (null keys match nothing) and a true predicate. Duplicates on the right cover
once; duplicates on the left give duplicates.

State: rows of both sides that end at or after the CTI, the smaller of the two. Before the CTI all
is settled, so of a left row only two times are kept of it: `_since`, the last settled instant, and
`_begin`, where the piece that is open at that instant began. The CTI is the smaller of the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.names import internal
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.model.rows import Bools, Codes, Rows, encode_together
from thalweg.model.time import INFINITY, MIN_TIME, Times
from thalweg.operators.base import (
    Operator,
    Slices,
    StateSize,
    delta_of_slice,
    progress_of_slice,
    slice_of_delta,
    slice_of_progress,
)
from thalweg.operators.frames import evaluate_mask
from thalweg.operators.groups import append_column, refuse_negative, replace_column
from thalweg.operators.join import TakenSide, pair_frame, scoped_by_key
from thalweg.operators.matching import key_codes, keyed_sides, touched_by
from thalweg.operators.snapshots import snapshots_of
from thalweg.plan.nodes import Join
from thalweg.state.overlaps import overlapping_pairs

__all__ = ["CoverageKernel"]

SINCE, BEGIN = internal("since"), internal("begin")


class CoverageKernel(Operator):
    """
    >>> import thalweg as tw
    >>> a, b = tw.source("a", {"k": "int64"}), tw.source("b", {"k": "int64"})
    >>> rows = {"a": [tw.insert({"k": 1}, 0, 9)], "b": [tw.insert({"k": 1}, 3, 5)]}
    >>> tw.table(a.anti_join(b, on="k"), rows), tw.table(a.semi_join(b, on="k"), rows)
    ([(0, 3, {'k': 1}), (5, 9, {'k': 1})], [(3, 5, {'k': 1})])
    """

    ports = 2

    def __init__(self, node: Join) -> None:
        self.schema = node.schema
        self._node = node
        self._covered = node.how == "semi"
        self._sides = keyed_sides(
            (node.left.schema, node.right.schema), node.left_keys, node.right_keys, node.same
        )
        self._names, self._same = self._sides[0].key_names, node.same
        marks = [pa.field(SINCE, pa.int64()), pa.field(BEGIN, pa.int64())]
        self._left = Delta.empty(pa.schema([*self._sides[0].schema, *marks]))
        self._right = Delta.empty(self._sides[1].schema)
        self._progress: list[Progress] = [NO_PROGRESS, NO_PROGRESS]

    def process(self, port: int, batch: Batch) -> Batch:
        answer = Delta.empty(self.schema)
        if len(batch):
            delta = self._sides[port].project(Delta.of_batch(batch), only_matchable=port == 1)
            answer = self._change_left(delta) if port == 0 else self._change_right(delta)
        settled = min(p.cti for p in self._progress)
        self._progress[port] = self._progress[port].merge(batch.progress)
        promise = self._promise()
        if promise.cti > settled:
            self._forget(promise.cti)
        return answer.to_batch(promise)

    def _promise(self) -> Progress:
        both = replace(self._progress[0].meet(self._progress[1]), boxes={})
        return both if scoped_by_key(self._node, both) else both.without_scopes()

    def _change_left(self, delta: Delta) -> Delta:
        delta = self._marked(delta)
        right = self._right.filter(
            touched_by(self._right.payload, delta.payload, self._names, self._same)
        )
        held = Delta.concat([self._left, delta], self._left.schema)
        self._left = held.consolidate() if (delta.weight < 0).any() else held
        refuse_negative(self._left, self._node.how + "_join")
        return self._pieces(delta, right)

    def _change_right(self, delta: Delta) -> Delta:
        left = self._left.filter(
            touched_by(self._left.payload, delta.payload, self._names, self._same)
        )
        touched = touched_by(self._right.payload, delta.payload, self._names, self._same)
        before = self._right.filter(touched)
        after = Delta.concat([before, delta], self._right.schema).consolidate()
        refuse_negative(after, self._node.how + "_join")
        self._right = Delta.concat([self._right.filter(~touched), after], self._right.schema)
        if not len(left):
            return Delta.empty(self.schema)
        return Delta.concat(
            [self._pieces(left, after), self._pieces(left, before).negate()], self.schema
        )

    def _marked(self, delta: Delta) -> Delta:
        """New left rows begin at their start; a change of a row that is held goes on from where
        that row stands."""
        since, begin = delta.start.copy(), delta.start.copy()
        old = np.flatnonzero(delta.start < min(p.cti for p in self._progress))
        if len(old) and len(self._left):
            known, asked, size = encode_together(
                [*self._sides[0].payload(self._left.payload).columns, pa.array(self._left.start)],
                [
                    *self._sides[0].payload(delta.payload.take(pa.array(old))).columns,
                    pa.array(delta.start[old]),
                ],
                (len(self._left), len(old)),
            )
            for name, times in ((SINCE, since), (BEGIN, begin)):
                by_code = np.full(size, MIN_TIME)
                by_code[known] = _times(self._left, name)
                times[old] = np.maximum(by_code[asked], delta.start[old])
        payload = append_column(append_column(delta.payload, SINCE, since), BEGIN, begin)
        return Delta(payload, delta.start, delta.end, delta.weight)

    def _pieces(self, left: Delta, right: Delta) -> Delta:
        which, start, end = self._runs(left, right)
        payload = self._sides[0].payload(left.payload.take(pa.array(which)))
        return Delta(payload, start, end, left.weight[which])

    def _runs(self, left: Delta, right: Delta) -> tuple[Codes, Times, Times]:
        """Maximal pieces of each left row, from `_since` on, that are covered (semi) or not (anti):
        row, start, end."""
        since, begin = _times(left, SINCE), _times(left, BEGIN)
        codes = key_codes(left.payload, right.payload, self._names, self._same)
        at = overlapping_pairs(codes[0], since, left.end, codes[1], right.start, right.end)
        if self._node.predicate is not None and len(at[0]):
            sides = (
                TakenSide(left.payload, left.start, at[0]),
                TakenSide(right.payload, right.start, at[1]),
            )
            frame = pair_frame(*sides, self._node.predicate.columns(), len(at[0]))
            keep = evaluate_mask(self._node.predicate, frame)
            at = at[0][keep], at[1][keep]
        # Cut each left row at the endpoints of its matches: the row itself is alive throughout, its
        # matches on top.
        alive = np.flatnonzero(since < left.end)
        owner = np.concatenate([alive, at[0]])
        starts = np.concatenate([since[alive], np.maximum(right.start[at[1]], since[at[0]])])
        ends = np.concatenate([left.end[alive], np.minimum(right.end[at[1]], left.end[at[0]])])
        cut = snapshots_of(owner, starts, ends)
        wanted: Bools = (cut.alive > 1) if self._covered else (cut.alive == 1)
        wanted &= cut.alive > 0
        joins = np.zeros(len(wanted), np.bool_)
        joins[1:] = wanted[1:] & wanted[:-1] & (cut.group[1:] == cut.group[:-1])
        first = np.flatnonzero(wanted & ~joins)
        last = np.flatnonzero(wanted & ~np.append(joins[1:], False))
        row = cut.group[first]
        start = np.where(cut.start[first] == since[row], begin[row], cut.start[first])
        return row, start, cut.end[last]

    def _forget(self, cti: int) -> None:
        if cti == INFINITY:
            self._left, self._right = (
                Delta.empty(self._left.schema),
                Delta.empty(self._right.schema),
            )
            return
        if not ((self._left.end < cti).any() or (self._right.end < cti).any()):
            return
        left = self._left.filter(self._left.end >= cti)
        row, start, end = self._runs(left, self._right)
        since = np.maximum(np.minimum(cti - 1, left.end), left.start)
        settled = cti - 1 > _times(left, SINCE)
        begin = _times(left, BEGIN).copy()
        begin[settled] = since[settled]
        open_ = (start <= cti - 1) & (cti - 1 < end) & settled[row]
        begin[row[open_]] = start[open_]
        since = np.where(settled, since, _times(left, SINCE))
        payload = replace_column(replace_column(left.payload, SINCE, since), BEGIN, begin)
        self._left = Delta(payload, left.start, left.end, left.weight)
        self._right = self._right.filter(self._right.end >= cti)

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


def _times(rows: Delta, name: str) -> Times:
    times: Times = rows.payload.column(name).to_numpy(zero_copy_only=False)
    return times
