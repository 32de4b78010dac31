"""Joins by pieces of lifetimes: left, right and full outer, semi and anti.

    semi: each left row restricted to the union of the lifetimes of its matches, as maximal pieces
    anti: each left row minus that union, as maximal pieces
    left: the pairs of the inner join, and the anti pieces of left rows as left_only(p1)
    right and full likewise

A match has equal keys (null keys match nothing) and a true predicate. Duplicates cover once; a row
that is there twice has its pieces twice. A change is looked up once on the other side: what it
finds are its pairs, the cover of its own pieces, and the rows whose pieces it changes.

State: rows of both sides that end at or after the CTI, the smaller of the two, in arrangements by
key. A row of a preserved side has two marks: `since`, up to which rows that covered it were
dropped, and `begin`, where the piece that is open at that instant began. Both are its start until
such a row is dropped, so a CTI touches only rows that lose one. The promise is the smaller CTI.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from thalweg.model.batch import Batch
from thalweg.model.delta import Delta, Revision
from thalweg.model.progress import Progress
from thalweg.model.rows import Codes, Rows, take_rows
from thalweg.model.time import INFINITY, Times, least
from thalweg.operators.base import rename_scopes
from thalweg.operators.joining.outer import OuterKernel
from thalweg.operators.joining.pieces import Cover, RowSpans, pieces_of, revised_pieces
from thalweg.plan.nodes import Join
from thalweg.state import Hits
from thalweg.state.columns import RowColumns

__all__ = ["CoverageKernel"]


class CoverageKernel(OuterKernel):
    """
    >>> import thalweg as tw
    >>> a, b = tw.source("a", {"k": "int64"}), tw.source("b", {"k": "int64"})
    >>> rows = {"a": [tw.insert({"k": 1}, 0, 9)], "b": [tw.insert({"k": 1}, 3, 5)]}
    >>> tw.table(a.anti_join(b, on="k"), rows), tw.table(a.semi_join(b, on="k"), rows)
    ([(0, 3, {'k': 1}), (5, 9, {'k': 1})], [(3, 5, {'k': 1})])
    """

    marks_alone = 2

    def __init__(self, node: Join) -> None:
        super().__init__(node)
        self._covered = node.kind.left_matched

    def process(self, port: int, batch: Batch) -> Batch:
        answers = self._change(port, Delta.of_batch(batch)) if len(batch) else []
        before = self._progress.advance(port, batch.progress)
        both = self._progress.both
        self._forget(before, both)
        promise = rename_scopes(both, self._scope_names)
        return Batch.concat(answers, self.schema).with_progress(promise)

    # --------------------------------------------------------------------------------------------
    # change

    def _change(self, port: int, delta: Delta) -> list[Batch]:
        keyed = self._sides[port].project(delta, only_matchable=True)
        group = self._state.groups(keyed.payload)
        found = self._held[1 - port].find(group, keyed.start, keyed.end)
        found = self._matching(port, keyed, found)
        changes: list[Delta] = []
        revision: Revision | None = None
        marks: tuple[Times, ...] = ()
        if len(found):
            if self._gives_pairs:
                changes.append(self._joined(port, keyed, found))
            if self._preserved[1 - port]:
                revision = self._revised(port, keyed, found)
        if self._preserved[port]:
            marks = self._marks(port, keyed, group)
            changes.append(self._own_pieces(port, keyed, marks, found))
            if len(keyed) < len(delta) and not self._covered:
                alone = self._sides[port].unmatchable(delta)
                payload = self._alone_payload(port, alone.payload, alone.start)
                changes.append(Delta(payload, alone.start, alone.end, alone.weight))
        self._held[port].apply(keyed, group, marks)
        answers = [Delta.concat(changes, self.schema).to_batch()] if changes else []
        return answers if revision is None else [*answers, revision.to_batch()]

    def _own_pieces(self, port: int, keyed: Delta, marks: tuple[Times, ...], found: Hits) -> Delta:
        """The pieces of rows that come or go."""
        since, begin = marks
        cover = _cover_of(found)
        row, start, end = pieces_of(RowSpans(since, keyed.end, begin), cover, covered=self._covered)
        if not len(row):
            return Delta.empty(self.schema)
        payload = self._alone_payload(port, take_rows(keyed.payload, row), keyed.start[row])
        return Delta(payload, start, end, keyed.weight[row])

    def _revised(self, port: int, keyed: Delta, found: Hits) -> Revision | None:
        """The pieces of rows of the other side that changes of this one alter."""
        # Before the CTI nothing changes: rows that ended there are left alone.
        settled = self._progress.both.cti
        if least(keyed.start) < settled:
            found = found.filter(found.end >= settled)
            if not len(found):
                return None
        rows, which = found.distinct()
        at, spans = found.owner, RowSpans(rows.mark(0), rows.end, rows.mark(1))
        before = self._cover(1 - port, rows, spans.since, spans.until)
        change = Cover(which, keyed.start[at], keyed.end[at], keyed.weight[at])
        pieces, after = revised_pieces(spans, before, change, covered=self._covered)
        row = pieces.row
        if not len(row):
            return None
        payload = self._alone_payload(1 - port, rows.payload_of(row), rows.start[row])
        return Revision(payload, pieces.start, pieces.end, after, rows.weight[row])

    def _marks(self, port: int, delta: Delta, group: Codes) -> tuple[Times, Times]:
        """New rows begin at their start; a change of a row that is held goes on from where that row
        stands."""
        promised = self._state.promised_to(0, self._progress.both, delta.payload)
        old = (delta.start < promised).nonzero()[0]
        if not len(old):
            return delta.start, delta.start
        since, begin = delta.start.copy(), delta.start.copy()
        start = delta.start[old]
        found = self._held[port].find(group[old], np.maximum(start, promised[old] - 1), start + 1)
        found = found.filter(found.start == start[found.owner])
        found = found.equal_to(take_rows(delta.payload, old))
        since[old[found.owner]], begin[old[found.owner]] = found.mark(0), found.mark(1)
        return since, begin

    def _cover(self, port: int, rows: Hits, since: Times, until: Times) -> Cover:
        """The lifetimes of the matches that are held, of each row of one side between two times."""
        found = self._held[1 - port].find(rows.group, since, until)
        if self._node.predicate is not None and len(found):
            found = self._matching(port, rows.delta(), found)
        return _cover_of(found)

    # --------------------------------------------------------------------------------------------
    # promises

    def _forget(self, before: Progress, both: Progress) -> None:
        if both.cti == INFINITY:
            self._state.clear()
            return
        if both.cti > before.cti:
            until = both.cti - 1
            self._drop(both, lambda port: self._held[port].drop(until))
        promised = self._state.groups_promised(0, before, both) if both.speaks_of_groups else None
        if promised is not None:
            group, time = promised
            past = np.where(time == INFINITY, INFINITY, time - 1)
            self._drop(both, lambda port: self._held[port].drop_groups(group, past))
        self._state.tidy()

    def _drop(self, both: Progress, drop: Callable[[int], list[RowColumns]]) -> None:
        """Drop rows of both sides, and note in what remains of a preserved side what they
        covered."""
        for port, dropped in enumerate((drop(0), drop(1))):
            if dropped and self._preserved[1 - port]:
                self._settle(1 - port, RowColumns.concat(dropped), both)

    def _settle(self, port: int, ended: RowColumns, both: Progress) -> None:
        """Note in the rows of one side that rows of the other covered what remains of them: where
        they are settled, and where the piece that is open then began."""
        promised = self._state.promised_to(0, both, ended.payload)
        found = self._held[port].find(ended.group, promised - 1, ended.end)
        found = found.filter(found.mark(0) < ended.end[found.owner])
        if self._node.predicate is not None and len(found):
            covering = Delta(ended.payload, ended.start, ended.end, ended.weight)
            found = self._matching(1 - port, covering, found)
        if not len(found):
            return
        rows, which = found.distinct()
        at, since = found.owner, rows.mark(0)
        settled = np.empty(len(rows), np.int64)
        settled[which] = promised[at]
        covered = Cover(which, ended.start[at], ended.end[at], ended.weight[at])
        held = self._cover(port, rows, since, settled)
        cover = Cover(*map(np.concatenate, zip(held, covered, strict=True)))
        spans = RowSpans(since, settled, rows.mark(1))
        pieces = pieces_of(spans, cover, covered=self._covered)
        since = np.maximum(settled - 1, since)
        begin = since.copy()
        open_ = pieces.end == settled[pieces.row]
        begin[pieces.row[open_]] = pieces.start[open_]
        rows.set_mark(0, since)
        rows.set_mark(1, begin)

    # --------------------------------------------------------------------------------------------
    # state

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self._state.restore(slices)
        self._progress.restore(slices["progress"])


def _cover_of(found: Hits) -> Cover:
    return Cover(found.owner, found.start, found.end, found.weight)
