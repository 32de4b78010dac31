"""Inner join: R' = {([s1, e1) ∩ [s2, e2), result(p1, p2)) | keys equal, predicate true, lifetimes
overlap}.

Each batch is joined with what the other side holds and then kept itself: no order, no waiting. Null
keys match nothing, duplicates multiply. Changes are joined like rows, with the product of the
weights, so a change of an end on one side becomes a change of the ends of its pairs.

State: of each side the rows that end after the other side's CTI; later rows of the other side
cannot meet an earlier one, and a later change of the row itself brings its data along. A row that
comes after that is joined and not kept. State is held in an arrangement by key. A promise for a
group that the keys name frees rows of that group. The CTI is the smaller of the two.

Where its inputs make promises over columns (`boxes`), so does the join. A pair changes only when
one of its rows does: each box of the left with each box of the right is a box of the pairs, a joint
punctuation. A box of the left alone holds as far as no row of the left is held that a later right
row may still meet: an individual punctuation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
import pyarrow as pa

from thalweg.expr import Expr, Frame
from thalweg.model.batch import Batch
from thalweg.model.boxes import Boxes, box, join_boxes, merge_boxes, rename_boxes
from thalweg.model.delta import Delta
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.model.rows import Codes, Rows, take_column
from thalweg.model.time import MAX_TIME, MIN_TIME, Times
from thalweg.operators.base import (
    Operator,
    Slices,
    StateSize,
    progress_of_slice,
    rename_scopes,
    slice_of_progress,
)
from thalweg.operators.frames import evaluate_columns, evaluate_mask, plain_renames
from thalweg.operators.group_promises import forget_ended
from thalweg.operators.joining.keyed_state import KeyedState
from thalweg.operators.joining.matching import keyed_sides
from thalweg.plan.nodes import Join
from thalweg.state import Hits

__all__ = ["FoundSide", "JoinKernel", "Side", "TakenSide", "pair_frame", "scoped_by_key"]


class Side(Protocol):
    """One side of pairs: a value for each pair."""

    @property
    def names(self) -> Sequence[str]: ...
    @property
    def start(self) -> Times: ...
    def column(self, name: str) -> pa.Array: ...


class TakenSide:
    """Rows of a batch or a table, by position."""

    def __init__(self, rows: Rows, start: Times, at: Codes) -> None:
        self._rows, self.start, self._at = rows, start[at], at

    @property
    def names(self) -> Sequence[str]:
        found: list[str] = self._rows.schema.names
        return found

    def column(self, name: str) -> pa.Array:
        return take_column(self._rows.column(name), self._at)


class FoundSide:
    """Rows that were found in an arrangement."""

    def __init__(self, hits: Hits) -> None:
        self._hits = hits

    @property
    def names(self) -> Sequence[str]:
        found: list[str] = self._hits.schema.names
        return found

    @property
    def start(self) -> Times:
        return self._hits.start

    def column(self, name: str) -> pa.Array:
        return self._hits.column(name)


def pair_frame(left: Side, right: Side, needed: frozenset[str], size: int) -> Frame:
    """The columns that expressions over a pair need: `l.x`, `r.x`, and plain names that only one
    side has."""
    columns: dict[str, pa.Array] = {}
    sides = {"l": left, "r": right}
    for name in needed:
        prefix, dot, rest = name.partition(".")
        marked = bool(dot) and prefix in sides
        side = sides[prefix] if marked else left if name in left.names else right
        plain = rest if marked else name
        columns[name] = pa.array(side.start) if plain == "_start" else side.column(plain)
    return Frame(columns, size)


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
    >>> a, b = tw.source("a", {"k": "int64", "x": "int64"}), tw.source("b", {"k": "int64", "y": "int64"})
    >>> tw.table(a.join(b, on="k"), {"a": [tw.insert({"k": 1, "x": 2}, 0, 9)], "b": [tw.insert({"k": 1, "y": 3}, 5, 20)]})
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
        self._progress: list[Progress] = [NO_PROGRESS, NO_PROGRESS]
        wanted: list[Expr] = [expr for _, expr in node.result]
        if node.predicate is not None:
            wanted.append(node.predicate)
        self._needed: frozenset[str] = (
            frozenset().union(*(expr.columns() for expr in wanted)) if wanted else frozenset()
        )
        self._renames = (plain_renames(node.result, "l."), plain_renames(node.result, "r."))

    def _empty_state(self, marks: tuple[int, int]) -> KeyedState:
        return KeyedState(self._sides, self._node.same, marks=marks, what=f"{self._node.how}_join")

    def process(self, port: int, batch: Batch) -> Batch:
        other = 1 - port
        answer: Delta | None = None
        if len(batch):
            delta = self._sides[port].project(Delta.of_batch(batch), only_matchable=True)
            group = self._state.groups(delta.payload)
            found = self._held[other].find(group, delta.start, delta.end)
            if len(found):
                answer = self._joined(port, delta, self._matching(port, delta, found))
            self._keep(port, delta, group)
        self._advance(port, batch.progress)
        if answer is None:
            return Batch.empty(self.schema, self._promise())
        return answer.to_batch(self._promise())

    def _keep(self, port: int, delta: Delta, group: Codes, marks: tuple[Times, ...] = ()) -> None:
        """Hold the rows that a later row of the other side may meet."""
        other = 1 - port
        promised = self._state.promised_to(other, self._progress[other], delta.payload)
        waits = delta.end > promised
        if not waits.all():
            delta, group = delta.filter(waits), group[waits]
            marks = tuple(mark[waits] for mark in marks)
        self._held[port].apply(delta, group, marks)

    def _advance(self, port: int, progress: Progress) -> None:
        forget_ended(self._progress, progress)
        before = self._progress[port]
        self._progress[port] = before.merge(progress)
        now = self._progress[port]
        if now.cti > before.cti:
            self._held[1 - port].purge(now.cti)
        if now.speaks_of_groups:
            promised = self._state.groups_promised(port, before, now)
            if promised is not None:
                self._held[1 - port].drop_groups(*promised)
        self._state.tidy()

    def _sided(self, port: int, delta: Delta, found: Hits) -> tuple[Side, Side]:
        """Both sides of the pairs, the left one first."""
        own, other = TakenSide(delta.payload, delta.start, found.owner), FoundSide(found)
        return (own, other) if port == 0 else (other, own)

    def _matching(self, port: int, delta: Delta, found: Hits) -> Hits:
        """The pairs for which the predicate is true."""
        predicate = self._node.predicate
        if predicate is None or not len(found):
            return found
        sides = self._sided(port, delta, found)
        frame = pair_frame(*sides, predicate.columns(), len(found))
        return found.filter(evaluate_mask(predicate, frame))

    def _joined(self, port: int, delta: Delta, found: Hits) -> Delta:
        if not len(found):
            return Delta.empty(self.schema)
        frame = pair_frame(*self._sided(port, delta, found), self._needed, len(found))
        payload = evaluate_columns(self._node.result, frame, self.schema)
        at = found.owner
        start = np.maximum(delta.start[at], found.start)
        end = np.minimum(delta.end[at], found.end)
        return Delta(payload, start, end, delta.weight[at] * found.weight)

    def forget(self, time: int, unwanted: tuple[int, ...]) -> None:
        """A pair ends no later than either of its rows."""
        for held, end in zip(self._held, unwanted, strict=True):
            if end > MIN_TIME:
                held.purge(min(end - 1, MAX_TIME))
        self._state.tidy()

    # ----------------------------------------------------------------------------------------------------
    # promises

    def _promise(self) -> Progress:
        both = self._progress[0].meet(self._progress[1])
        boxes: Boxes = {}
        if self._progress[0].boxes or self._progress[1].boxes:
            boxes = self._boxes()
        if not both.speaks_of_groups:
            return Progress(both.cti, boxes=boxes)
        if not scoped_by_key(self._node, both):
            return Progress(both.cti, boxes=boxes)
        return replace(
            rename_scopes(replace(both, boxes={}), {**self._renames[1], **self._renames[0]}),
            boxes=boxes,
        )

    def _boxes(self) -> Boxes:
        left, right = (
            rename_boxes(self._progress[port].boxes, self._renames[port]) for port in (0, 1)
        )
        return merge_boxes(merge_boxes(join_boxes(left, right), self._alone(0)), self._alone(1))

    def _alone(self, port: int) -> Boxes:
        """What the boxes of one side say of pairs: no more than its rows that may still meet a
        partner allow."""
        found: Boxes = {}
        names = self._renames[port]
        for columns, bounds in self._progress[port].boxes.items():
            least = (
                self._held[port].least(columns) if all(c in names for c in columns) else None
            )  # None: a held row says nothing about these columns, so neither do its pairs
            if least is not None:
                low = {
                    names[c]: min(*pair) for c, *pair in zip(columns, bounds, least, strict=True)
                }
                found = merge_boxes(found, box(low))
        return found

    # -------------------------------------------------------------------------------------------------------
    # state

    def snapshot(self) -> Slices:
        return {**self._state.snapshot(), "progress": slice_of_progress(self._progress)}

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self._progress = progress_of_slice(slices["progress"])
        self._state.restore(slices)
        for port, held in enumerate(self._held):
            held.purge(self._progress[1 - port].cti)

    def state_size(self) -> StateSize:
        return self._state.size()
