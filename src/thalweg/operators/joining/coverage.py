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

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from thalweg.model.batch import Batch
from thalweg.model.delta import ABSENT, Delta, Revision, Weights
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
from thalweg.state import Hits
from thalweg.state.runs import Columns

__all__ = ["CoverageKernel"]


class _Cover(NamedTuple):
    """Pairs of a left row and the lifetime of a match; the weights of a lifetime add up."""

    owner: Codes
    start: Times
    end: Times
    weight: Weights


class _Pieces(NamedTuple):
    """Pieces of left rows: which row, and the lifetime of the piece."""

    row: Codes
    start: Times
    end: Times


class _Stretches(NamedTuple):
    """Rows cut where their cover changes, in order."""

    row: Codes
    start: Times
    end: Times
    first: Bools
    """By version of the cover and stretch: whether a piece begins there ..."""
    last: Bools
    """... and whether a piece ends there."""


def _begins(time: Times, since: Times, begin: Times) -> Times:
    """Where pieces that are there from a time on began."""
    return np.where(time == since, begin, time)


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
        answer: Delta | Revision | None = None
        if len(batch):
            delta = Delta.of_batch(batch)
            if port == 0:
                answer = self._change_left(delta)
            else:
                answer = self._change_right(self._sides[1].project(delta, only_matchable=True))
        forget_ended(self._progress, batch.progress)
        before = self._both()
        self._progress[port] = self._progress[port].merge(batch.progress)
        both = self._both()
        self._forget(before, both)
        promise = both if scoped_by_key(self._node, both) else both.without_scopes()
        return Batch.empty(self.schema, promise) if answer is None else answer.to_batch(promise)

    def _both(self) -> Progress:
        """What both sides promise."""
        return self._progress[0].meet(self._progress[1]).without_boxes()

    # ----------------------------------------------------------------------------------------------
    # change

    def _change_left(self, delta: Delta) -> Delta:
        keyed = self._sides[0].project(delta, only_matchable=True)
        group = self._state.groups(keyed.payload)
        since, begin = self._marks(keyed, group)
        cover = self._cover(group, since, keyed.end, lambda: (keyed.payload, keyed.start))
        row, start, end = self._pieces(since, keyed.end, begin, cover)
        payload = self._sides[0].payload(take_rows(keyed.payload, row))
        pieces = Delta(payload, start, end, keyed.weight[row])
        self._left.apply(keyed, group, (since, begin))
        if len(keyed) == len(delta) or self._covered:
            return pieces
        # A null key matches nothing.
        return Delta.concat([self._sides[0].unmatchable(delta), pieces], self.schema)

    def _change_right(self, delta: Delta) -> Revision | None:
        group = self._state.groups(delta.payload)
        # Before the CTI nothing changes: left rows that ended there are left alone.
        since = np.maximum(delta.start, min(p.cti for p in self._progress) - 1)
        found = self._left.find(group, since, delta.end)
        if not len(found):
            self._right.apply(delta, group)
            return None
        rows, which = found.distinct()
        at, since, end = found.owner, rows.mark(0), rows.end
        before = self._cover(rows.group, since, end, lambda: (rows.payload(), rows.start))
        change = self._true_pairs(
            _Cover(which, delta.start[at], delta.end[at], delta.weight[at]),
            lambda: (FoundSide(found), TakenSide(delta.payload, delta.start, at)),
        )
        self._right.apply(delta, group)
        return self._revised(rows, since, end, before, change)

    def _marks(self, delta: Delta, group: Codes) -> tuple[Times, Times]:
        """New left rows begin at their start; a change of a row that is held goes on from where
        that row stands."""
        promised = self._state.promised_to(0, self._both(), delta.payload)
        old = (delta.start < promised).nonzero()[0]
        if not len(old):
            return delta.start, delta.start
        since, begin = delta.start.copy(), delta.start.copy()
        start = delta.start[old]
        found = self._left.find(group[old], np.maximum(start, promised[old] - 1), start + 1)
        found = found.filter(found.start == start[found.owner])
        asked = take_rows(delta.payload, old[found.owner])
        if len(found) and asked.num_columns:
            found = found.filter(equal_pairs(asked.columns, found.payload().columns))
        since[old[found.owner]], begin[old[found.owner]] = found.mark(0), found.mark(1)
        return since, begin

    def _cover(
        self, group: Codes, since: Times, until: Times, rows: Callable[[], tuple[Rows, Times]]
    ) -> _Cover:
        """The lifetimes of the matches that are held, of each left row between two times. `rows`
        has the left rows and their starts, which only a predicate looks at."""
        found = self._right.find(group, since, until)
        return self._true_pairs(
            _Cover(found.owner, found.start, found.end, found.weight),
            lambda: (TakenSide(*rows(), found.owner), FoundSide(found)),
        )

    def _true_pairs(self, cover: _Cover, sides: Callable[[], tuple[Side, Side]]) -> _Cover:
        """The pairs for which the predicate is true."""
        predicate = self._node.predicate
        if predicate is None or not len(cover.owner):
            return cover
        frame = pair_frame(*sides(), predicate.columns(), len(cover.owner))
        keep = evaluate_mask(predicate, frame)
        if keep.all():
            return cover
        return _Cover(*(column[keep] for column in cover))

    # ----------------------------------------------------------------------------------------------
    # pieces

    def _pieces(self, since: Times, until: Times, begin: Times, cover: _Cover) -> _Pieces:
        """Maximal pieces of each left row, from `since` to `until`, that are covered (semi) or not
        (anti). The piece that is open at `since` began at `begin`."""
        cuts = self._cut(since, until, [cover])
        first, last = cuts.first[0].nonzero()[0], cuts.last[0].nonzero()[0]
        row = cuts.row[first]
        return _Pieces(row, _begins(cuts.start[first], since[row], begin[row]), cuts.end[last])

    def _revised(
        self, rows: Hits, since: Times, until: Times, before: _Cover, change: _Cover
    ) -> Revision:
        """The pieces that a change of the cover alters: all rows are cut once, and each stretch
        belongs to a piece before the change, to one after it, or to both."""
        cuts = self._cut(since, until, [before, change])
        ends = np.full(cuts.first.shape, ABSENT)
        ends[cuts.first] = cuts.end[cuts.last.nonzero()[1]]
        at = (ends[0] != ends[1]).nonzero()[0]
        row = cuts.row[at]
        start = _begins(cuts.start[at], since[row], rows.mark(1)[row])
        payload = self._sides[0].payload(rows.payload_of(row))
        return Revision(payload, start, ends[0, at], ends[1, at], rows.weight[row])

    def _cut(self, since: Times, until: Times, covers: list[_Cover]) -> _Stretches:
        """Cut each row where its cover changes. There is a version of each row for each cover: it
        is covered by that and all covers before it."""
        size = len(since)
        every, until = np.arange(size), np.maximum(since, until)
        owners, times = [every, every], [since, until]
        for cover in covers:
            owners += (cover.owner, cover.owner)
            times += (cover.start, cover.end)
        owner, time = np.concatenate(owners), np.concatenate(times)
        time = np.minimum(np.maximum(time, since[owner]), until[owner])
        change = np.zeros((len(covers), len(owner)), np.int64)
        at = 2 * size
        for version, cover in enumerate(covers):
            middle, end = at + len(cover.owner), at + 2 * len(cover.owner)
            change[version:, at:middle] = cover.weight
            change[version:, middle:end] = -cover.weight
            at = end
        order = sort_pairs(owner, time)
        owner, time = owner[order], time[order]
        depth = change[:, order].cumsum(axis=1)
        # The last change at a time is followed by a stretch up to the next time of the same row.
        at = ((owner[1:] == owner[:-1]) & (time[1:] > time[:-1])).nonzero()[0]
        row, depth = owner[at], depth[:, at]
        wanted: Bools = depth > 0 if self._covered else depth == 0
        goes_on = wanted[:, 1:] & wanted[:, :-1] & (row[1:] == row[:-1])
        first, last = wanted.copy(), wanted.copy()
        first[:, 1:] &= ~goes_on
        last[:, :-1] &= ~goes_on
        return _Stretches(row, time[at], time[at + 1], first, last)

    # ----------------------------------------------------------------------------------------------
    # promises

    def _forget(self, before: Progress, both: Progress) -> None:
        if both.cti == INFINITY:
            self._state.clear()
            return
        if both.cti > before.cti:
            self._left.purge(both.cti - 1)
            self._settle(self._right.drop(both.cti - 1), both)
        promised = self._state.groups_promised(0, before, both) if both.speaks_of_groups else None
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
        rows, which = found.distinct()
        at, since = found.owner, rows.mark(0)
        settled = np.empty(len(rows), np.int64)
        settled[which] = promised[at]
        covered = self._true_pairs(
            _Cover(which, gone.start[at], gone.end[at], gone.weight[at]),
            lambda: (FoundSide(found), TakenSide(gone.payload, gone.start, at)),
        )
        held = self._cover(rows.group, since, settled, lambda: (rows.payload(), rows.start))
        cover = _Cover(*map(np.concatenate, zip(held, covered, strict=True)))
        pieces = self._pieces(since, settled, rows.mark(1), cover)
        since = np.maximum(settled - 1, since)
        begin = since.copy()
        open_ = pieces.end == settled[pieces.row]
        begin[pieces.row[open_]] = pieces.start[open_]
        rows.set_mark(0, since)
        rows.set_mark(1, begin)

    # ----------------------------------------------------------------------------------------------
    # state

    def snapshot(self) -> Slices:
        return {**self._state.snapshot(), "progress": slice_of_progress(self._progress)}

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self._state.restore(slices)
        self._progress = progress_of_slice(slices["progress"])

    def state_size(self) -> StateSize:
        return self._state.size()
