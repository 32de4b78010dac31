"""Left semi and left anti join: the part of each left row's lifetime that matching right rows
cover, or do not cover.

    semi: each left row restricted to the union of the lifetimes of its matches, as maximal pieces
    anti: each left row minus that union, as maximal pieces

A match has equal keys (null keys match nothing) and a true predicate. Duplicates on the right cover
once; duplicates on the left give duplicates.

State: rows of both sides that end at or after the CTI, the smaller of the two, in arrangements by
key. A left row has two marks: `since`, up to which right rows that covered it were dropped, and
`begin`, where the piece that is open at that instant began. Both are its start until such a right
row is dropped, so a CTI touches only left rows that lose one. The CTI is the smaller of the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from thalweg.model.batch import Batch
from thalweg.model.delta import Delta, Weights
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.model.rows import Bools, Codes, Rows, equal_pairs, take_rows
from thalweg.model.sorting import sort_pairs
from thalweg.model.time import INFINITY, Times
from thalweg.operators.base import (
    Operator,
    Slices,
    StateSize,
    progress_of_slice,
    slice_of_progress,
)
from thalweg.operators.frames import evaluate_mask
from thalweg.operators.group_promises import forget_ended
from thalweg.operators.joining.join import FoundSide, Side, TakenSide, pair_frame, scoped_by_key
from thalweg.operators.joining.keyed_state import KeyedState
from thalweg.operators.joining.matching import keyed_sides
from thalweg.plan.nodes import Join
from thalweg.state.runs import Columns

__all__ = ["CoverageKernel"]


@dataclass(frozen=True, slots=True)
class _Left:
    """Left rows with their groups and marks."""

    rows: Delta
    group: Codes
    since: Times
    begin: Times


@dataclass(frozen=True, slots=True)
class _Cover:
    """Pairs of a left row and the lifetime of a match; the weights of a lifetime add up."""

    owner: Codes
    start: Times
    end: Times
    weight: Weights

    @classmethod
    def concat(cls, parts: list[_Cover]) -> _Cover:
        return cls(
            np.concatenate([part.owner for part in parts]),
            np.concatenate([part.start for part in parts]),
            np.concatenate([part.end for part in parts]),
            np.concatenate([part.weight for part in parts]),
        )


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
        self._state = KeyedState(
            self._sides, node.same, marks=(2, 0), what=f"{self._node.how}_join"
        )
        self._left, self._right = self._state.held
        self._progress: list[Progress] = [NO_PROGRESS, NO_PROGRESS]

    def process(self, port: int, batch: Batch) -> Batch:
        answer = Delta.empty(self.schema)
        if len(batch):
            delta = Delta.of_batch(batch)
            if port == 0:
                answer = self._change_left(delta)
            else:
                answer = self._change_right(self._sides[1].project(delta, only_matchable=True))
        forget_ended(self._progress, batch.progress)
        before = self._both()
        self._progress[port] = self._progress[port].merge(batch.progress)
        self._forget(before)
        return answer.to_batch(self._promise())

    def _both(self) -> Progress:
        """What both sides promise."""
        return self._progress[0].meet(self._progress[1]).without_boxes()

    def _promise(self) -> Progress:
        both = self._both()
        return both if scoped_by_key(self._node, both) else both.without_scopes()

    # ----------------------------------------------------------------------------------------------
    # change

    def _change_left(self, delta: Delta) -> Delta:
        keyed = self._sides[0].project(delta, only_matchable=True)
        answers = []
        if len(keyed) < len(delta) and not self._covered:  # a null key matches nothing
            answers.append(self._sides[0].unmatchable(delta))
        left = self._marked(keyed)
        answers.append(self._pieces(left, self._cover(left, keyed.end)))
        self._left.apply(left.rows, left.group, (left.since, left.begin))
        return Delta.concat(answers, self.schema)

    def _change_right(self, delta: Delta) -> Delta:
        group = self._state.groups(delta.payload)
        # Before the CTI nothing changes: left rows that ended there are left alone.
        since = np.maximum(delta.start, min(p.cti for p in self._progress) - 1)
        found = self._left.find(group, since, delta.end)
        if not len(found):
            self._right.apply(delta, group)
            return Delta.empty(self.schema)
        touched, which = found.distinct()
        left = _Left(touched.delta(), touched.group, touched.mark(0), touched.mark(1))
        before = self._cover(left, left.rows.end)
        change = self._true_pairs(
            _Cover(
                which, delta.start[found.owner], delta.end[found.owner], delta.weight[found.owner]
            ),
            TakenSide(left.rows.payload, left.rows.start, which),
            TakenSide(delta.payload, delta.start, found.owner),
        )
        self._right.apply(delta, group)
        return self._difference(left, before, change)

    def _marked(self, delta: Delta) -> _Left:
        """New left rows begin at their start; a change of a row that is held goes on from where
        that row stands."""
        group = self._state.groups(delta.payload)
        since, begin = delta.start.copy(), delta.start.copy()
        promised = self._state.promised_to(0, self._both(), delta.payload)
        old = np.flatnonzero(delta.start < promised)
        if len(old):
            start = delta.start[old]
            found = self._left.find(group[old], np.maximum(start, promised[old] - 1), start + 1)
            found = found.filter(found.start == start[found.owner])
            asked = take_rows(delta.payload, old[found.owner])
            if len(found) and asked.num_columns:
                found = found.filter(equal_pairs(asked.columns, found.payload().columns))
            since[old[found.owner]], begin[old[found.owner]] = found.mark(0), found.mark(1)
        return _Left(delta, group, since, begin)

    def _cover(self, left: _Left, until: Times) -> _Cover:
        """The lifetimes of the matches that are held, of each left row up to a time."""
        rows = left.rows
        found = self._right.find(left.group, left.since, until)
        cover = _Cover(found.owner, found.start, found.end, found.weight)
        taken = TakenSide(rows.payload, rows.start, found.owner)
        return self._true_pairs(cover, taken, FoundSide(found))

    def _true_pairs(self, cover: _Cover, left: Side, right: Side) -> _Cover:
        """The pairs for which the predicate is true."""
        predicate = self._node.predicate
        if predicate is None or not len(cover.owner):
            return cover
        frame = pair_frame(left, right, predicate.columns(), len(cover.owner))
        keep = evaluate_mask(predicate, frame)
        if keep.all():
            return cover
        return _Cover(cover.owner[keep], cover.start[keep], cover.end[keep], cover.weight[keep])

    # ----------------------------------------------------------------------------------------------
    # pieces

    def _pieces(self, left: _Left, cover: _Cover) -> Delta:
        rows = left.rows
        row, start, end = self._runs(left, rows.end, cover)
        payload = self._sides[0].payload(take_rows(rows.payload, row))
        return Delta(payload, start, end, rows.weight[row])

    def _difference(self, left: _Left, before: _Cover, change: _Cover) -> Delta:
        """The pieces after a change and, taken back, those before it: both sides are cut at once,
        the rows before the change numbered behind those after it."""
        rows, size = left.rows, len(left.rows)
        cover = _Cover.concat([before, change, replace(before, owner=before.owner + size)])
        twice = _Left(rows, left.group, np.tile(left.since, 2), np.tile(left.begin, 2))
        row, start, end = self._runs(twice, np.tile(rows.end, 2), cover)
        old = row >= size
        row = np.where(old, row - size, row)
        payload = self._sides[0].payload(take_rows(rows.payload, row))
        return Delta(payload, start, end, np.where(old, -rows.weight[row], rows.weight[row]))

    def _runs(self, left: _Left, ends: Times, cover: _Cover) -> tuple[Codes, Times, Times]:
        """Maximal pieces of each left row, from `since` to `ends`, that are covered (semi) or not
        (anti): row, start, end."""
        alive = (left.since < ends).nonzero()[0]
        start = np.maximum(cover.start, left.since[cover.owner])
        end = np.minimum(cover.end, ends[cover.owner])
        inside = start < end
        owner, start, end = cover.owner[inside], start[inside], end[inside]
        weight = cover.weight[inside]
        # Cut each row where its cover changes; its own lifetime changes nothing.
        none = np.zeros(len(alive), np.int64)
        owners = np.concatenate([alive, owner, owner, alive])
        times = np.concatenate([left.since[alive], start, end, ends[alive]])
        changes = np.concatenate([none, weight, -weight, none])
        order = sort_pairs(owners, times)
        owners, times = owners[order], times[order]
        depth = changes[order].cumsum()
        # The last change at a time is followed by a stretch up to the next time of the same row.
        stretch = np.zeros(len(order), np.bool_)
        stretch[:-1] = (owners[1:] == owners[:-1]) & (times[1:] > times[:-1])
        at = stretch.nonzero()[0]
        wanted: Bools = (depth[at] > 0) if self._covered else (depth[at] == 0)
        joins = np.zeros(len(at), np.bool_)
        joins[1:] = wanted[1:] & wanted[:-1] & (owners[at[1:]] == owners[at[:-1]])
        first = at[wanted & ~joins]
        last = at[wanted & ~np.append(joins[1:], False)]
        row = owners[first]
        begins = np.where(times[first] == left.since[row], left.begin[row], times[first])
        return row, begins, times[last + 1]

    # ----------------------------------------------------------------------------------------------
    # promises

    def _forget(self, before: Progress) -> None:
        both = self._both()
        if both.cti == INFINITY:
            self._state.clear()
            return
        if both.cti > before.cti:
            self._left.purge(both.cti - 1)
            self._settle(self._right.drop(both.cti - 1), both)
        promised = self._state.groups_promised(0, before, both) if both.scoped else None
        if promised is not None and scoped_by_key(self._node, both):
            group, time = promised
            until = np.where(time == INFINITY, INFINITY, time - 1)
            self._left.drop_groups(group, until)
            self._settle(self._right.drop_groups(group, until), both)
        self._state.tidy()

    def _settle(self, dropped: list[Columns], both: Progress) -> None:
        """Note in the left rows that right rows covered what remains of them: where they are
        settled, and where the piece that is open then began."""
        if not dropped:
            return
        gone = Columns.concat(dropped)
        promised = self._state.promised_to(0, both, gone.payload)
        found = self._left.find(gone.group, promised - 1, gone.end)
        found = found.filter(found.mark(0) < gone.end[found.owner])
        if not len(found):
            return
        touched, which = found.distinct()
        rows = touched.delta()
        left = _Left(rows, touched.group, touched.mark(0), touched.mark(1))
        settled = np.empty(len(rows), np.int64)
        settled[which] = promised[found.owner]
        covered = self._true_pairs(
            _Cover(which, gone.start[found.owner], gone.end[found.owner], gone.weight[found.owner]),
            TakenSide(rows.payload, rows.start, which),
            TakenSide(gone.payload, gone.start, found.owner),
        )
        cover = _Cover.concat([self._cover(left, settled), covered])
        row, start, end = self._runs(left, settled, cover)
        since = np.maximum(settled - 1, left.since)
        begin = since.copy()
        open_ = end == settled[row]
        begin[row[open_]] = start[open_]
        touched.set_mark(0, since)
        touched.set_mark(1, begin)

    # ----------------------------------------------------------------------------------------------
    # state

    def snapshot(self) -> Slices:
        return {**self._state.snapshot(), "progress": slice_of_progress(self._progress)}

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self._state.restore(slices)
        self._progress = progress_of_slice(slices["progress"])

    def state_size(self) -> StateSize:
        return self._state.size()
