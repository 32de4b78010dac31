"""Inner join: R' = {([s1, e1) ∩ [s2, e2), result(p1, p2)) | keys equal, predicate true, lifetimes
overlap}.

Each batch is joined with what the other side holds and then kept itself: no order, no waiting. Null
keys match nothing, duplicates multiply. A row with another end is looked up once: of each of its
pairs the end before and the end after it follow, and so whether the pair is new, taken back or
changed.

State: of each side the rows that end after the other side's CTI; later rows of the other side
cannot meet an earlier one, and a later change of the row itself brings its data along. A row that
arrives after that is joined and not kept. State is held in an arrangement by key. A promise for a
group that the keys name frees rows of that group. The CTI is the smaller of the two.

Where its inputs make promises over columns (`column_promises`), so does the join. A pair changes
only when one of its rows does: each column promise of the left with each column promise of the
right is a column promise of the pairs, a joint punctuation. A column promise of the left alone
holds as far as no row of the left is held that a later right row may still meet: an individual
punctuation.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from thalweg.model.batch import Batch
from thalweg.model.column_promises import (
    ColumnPromises,
    column_promise,
    join_column_promises,
    merge_column_promises,
    rename_column_promises,
)
from thalweg.model.delta import ABSENT, Delta, Revision
from thalweg.model.progress import Progress
from thalweg.model.rows import Codes, Rows
from thalweg.model.time import MAX_TIME, MIN_TIME, Times
from thalweg.operators.base import Operator, Slices, StateSize, rename_scopes
from thalweg.operators.frames import plain_renames
from thalweg.operators.joining.both_sides import BothSides
from thalweg.operators.joining.keyed_state import KeyedState
from thalweg.operators.joining.matching import keyed_sides
from thalweg.operators.joining.pairs import (
    FoundSide,
    PairCondition,
    PairProjection,
    Side,
    TakenSide,
)
from thalweg.plan.nodes import Join
from thalweg.state import Hits

__all__ = ["JoinKernel", "scoped_by_key"]


def scoped_by_key(node: Join, progress: Progress) -> bool:
    """Whether rows of one scope only ever meet rows of the same scope."""
    if not progress.scope_columns:
        return True

    def is_key(column: str) -> bool:
        pairs = zip(node.left_keys, node.right_keys, strict=True)
        return column in node.same or any(
            str(left_key) == column == str(right_key) for left_key, right_key in pairs
        )

    return all(is_key(column) for column in progress.scope_columns)


class JoinKernel(Operator):
    """
    >>> import thalweg as tw
    >>> a = tw.source("a", {"k": "int64", "x": "int64"})
    >>> b = tw.source("b", {"k": "int64", "y": "int64"})
    >>> rows = {"a": [tw.insert({"k": 1, "x": 2}, 0, 9)], "b": [tw.insert({"k": 1, "y": 3}, 5, 20)]}
    >>> tw.table(a.join(b, on="k"), rows)
    [(5, 9, {'k': 1, 'x': 2, 'y': 3})]
    """

    ports = 2

    def __init__(self, node: Join) -> None:
        self.schema = node.schema
        self._node = node
        self._sides = keyed_sides(
            (node.left.schema, node.right.schema), node.left_keys, node.right_keys, node.same
        )
        self._state = self._empty_state((0, 0))
        self._held = self._state.held
        self._progress = BothSides(partial(scoped_by_key, node))
        left_names = self._sides[0].schema.names
        self._result = (
            None
            if node.kind.only_left_rows
            else PairProjection(node.result, node.schema, left_names)
        )
        self._predicate = (
            None if node.predicate is None else PairCondition(node.predicate, left_names)
        )
        self._renames = (plain_renames(node.result, "l."), plain_renames(node.result, "r."))

    def _empty_state(self, marks: tuple[int, int]) -> KeyedState:
        return KeyedState(self._sides, self._node.same, marks=marks, what=f"{self._node.how}_join")

    def process(self, port: int, batch: Batch) -> Batch:
        answer: Revision | None = None
        if len(batch):
            rows = self._sides[port].project(Revision.of_batch(batch), only_matchable=True)
            group = self._state.groups(rows.payload)
            found = self._held[1 - port].find(group, rows.start, rows.latest)
            found = self._matching(port, rows, found)
            if len(found):
                answer = self._revised_pairs(port, rows, found)
            self._keep(port, rows.arriving(), group)
            if rows.before is not None:
                self._keep(port, rows.leaving(), group)
        self._advance(port, batch.progress)
        if answer is None:
            return Batch.empty(self.schema, self._promise())
        return answer.to_batch(self._promise())

    def _keep(self, port: int, delta: Delta, group: Codes, marks: tuple[Times, ...] = ()) -> None:
        """Hold the rows that a later row of the other side may meet."""
        other = 1 - port
        promised = self._state.promised_to(other, self._progress.sides[other], delta.payload)
        waits = delta.end > promised
        if not waits.all():
            delta, group = delta.filter(waits), group[waits]
            marks = tuple(mark[waits] for mark in marks)
        self._held[port].apply(delta, group, marks)

    def _advance(self, port: int, progress: Progress) -> None:
        before = self._progress.sides[port]
        self._progress.advance(port, progress)
        now = self._progress.sides[port]
        if now.cti > before.cti:
            self._held[1 - port].purge(now.cti)
        if now.speaks_of_groups:
            promised = self._state.groups_promised(port, before, now)
            if promised is not None:
                self._held[1 - port].drop_groups(*promised)
        self._state.tidy()

    def _sided(self, port: int, rows: Delta | Revision, found: Hits) -> tuple[Side, Side]:
        """Both sides of the pairs, the left one first."""
        own, other = TakenSide(rows.payload, rows.start, found.owner), FoundSide(found)
        return (own, other) if port == 0 else (other, own)

    def _matching(self, port: int, rows: Delta | Revision, found: Hits) -> Hits:
        """The pairs for which the predicate is true."""
        if self._predicate is None or not len(found):
            return found
        return found.filter(self._predicate.holds(self._sided(port, rows, found), len(found)))

    def _pair_payload(self, port: int, rows: Delta | Revision, found: Hits) -> Rows:
        assert self._result is not None
        return self._result.of(self._sided(port, rows, found), len(found))

    def _joined(self, port: int, delta: Delta, found: Hits) -> Delta:
        """The pairs of rows that come or go."""
        if not len(found):
            return Delta.empty(self.schema)
        at = found.owner
        start = np.maximum(delta.start[at], found.start)
        end = np.minimum(delta.end[at], found.end)
        payload = self._pair_payload(port, delta, found)
        return Delta(payload, start, end, delta.weight[at] * found.weight)

    def _revised_pairs(self, port: int, rows: Revision, found: Hits) -> Revision:
        """The pairs of rows with their ends before a change and after it."""
        before: Times | None = None
        if rows.before is None:
            at = found.owner
            start = np.maximum(rows.start[at], found.start)
            after = np.minimum(rows.after[at], found.end)
        else:
            found = found.by_probe()  # a row may change twice, and so may its pairs
            at, end = found.owner, found.end
            start = np.maximum(rows.start[at], found.start)
            before, after = np.minimum(rows.before[at], end), np.minimum(rows.after[at], end)
            before[before <= start], after[after <= start] = ABSENT, ABSENT
            changes = before != after
            if not changes.all():
                found = found.filter(changes)
                start, before, after = start[changes], before[changes], after[changes]
        return Revision(self._pair_payload(port, rows, found), start, before, after, found.weight)

    def forget(self, time: int, unwanted: tuple[int, ...]) -> None:
        """A pair ends no later than either of its rows."""
        for held, end in zip(self._held, unwanted, strict=True):
            if end > MIN_TIME:
                held.purge(min(end - 1, MAX_TIME))
        self._state.tidy()

    # --------------------------------------------------------------------------------------------
    # promises

    def _promise(self) -> Progress:
        both, (left, right) = self._progress.both, self._progress.sides
        column_promises = (
            self._promised_columns() if left.column_promises or right.column_promises else {}
        )
        if both.speaks_of_groups:
            both = rename_scopes(both, {**self._renames[1], **self._renames[0]})
        return both.with_column_promises(column_promises) if column_promises else both

    def _promised_columns(self) -> ColumnPromises:
        left, right = map(
            rename_column_promises,
            (side.column_promises for side in self._progress.sides),
            self._renames,
        )
        return merge_column_promises(
            merge_column_promises(join_column_promises(left, right), self._alone(0)), self._alone(1)
        )

    def _alone(self, port: int) -> ColumnPromises:
        """What the column promises of one side say of pairs: no more than its rows that may still
        meet a partner allow."""
        found: ColumnPromises = {}
        names = self._renames[port]
        for columns, bounds in self._progress.sides[port].column_promises.items():
            least = (
                self._held[port].least(columns) if all(c in names for c in columns) else None
            )  # None: a held row bounds none of these columns, so neither do its pairs
            if least is not None:
                low = {
                    names[c]: min(*pair) for c, *pair in zip(columns, bounds, least, strict=True)
                }
                found = merge_column_promises(found, column_promise(low))
        return found

    # --------------------------------------------------------------------------------------------
    # state

    def snapshot(self) -> Slices:
        return {**self._state.snapshot(), "progress": self._progress.snapshot()}

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self._progress.restore(slices["progress"])
        self._state.restore(slices)
        for port, held in enumerate(self._held):
            held.purge(self._progress.sides[1 - port].cti)

    def state_size(self) -> StateSize:
        return self._state.size()
