"""Inner join: R' = {([s1, e1) ∩ [s2, e2), result(p1, p2)) | keys equal, predicate true, lifetimes
overlap}.

Each batch is joined with what the other side holds and then kept itself: no order, no waiting. Null
keys match nothing, duplicates multiply. Changes are joined like rows, with the product of the
weights, so a change of an end on one side becomes a change of the ends of its pairs.

State: of each side the rows that end after the other side's CTI; later rows of the other side
cannot meet an earlier one, and a later change of the row itself brings its data along. A row that
comes after that is joined and not kept. State is held in slices of time (see `time_slices`). The
CTI is the smaller of the two.

Where its inputs make promises over columns (`boxes`), so does the join. A pair changes only when
one of its rows does: each box of the left with each box of the right is a box of the pairs, a joint
punctuation. A box of the left alone holds as far as no row of the left is held that a later right
row may still meet: an individual punctuation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from thalweg.expr import Expr, Frame
from thalweg.model.batch import Batch
from thalweg.model.boxes import Boxes, box, join_boxes, merge_boxes, rename_boxes
from thalweg.model.delta import Delta
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.model.rows import Codes, Rows
from thalweg.model.time import Times
from thalweg.operators.base import (
    Operator,
    Slices,
    StateSize,
    progress_of_slice,
    rename_scopes,
    slice_of_progress,
)
from thalweg.operators.frames import evaluate_columns, evaluate_mask, plain_renames
from thalweg.operators.matching import key_codes, keyed_sides
from thalweg.operators.overlaps import overlapping_pairs
from thalweg.operators.time_slices import TimeSlices
from thalweg.plan.nodes import Join

__all__ = ["JoinKernel", "pair_frame", "scoped_by_key"]

_SIDES = ("left", "right")


def pair_frame(
    left: Rows,
    right: Rows,
    left_start: Times,
    right_start: Times,
    at: tuple[Codes, Codes],
    needed: frozenset[str],
) -> Frame:
    """The columns that expressions over a pair need: `l.x`, `r.x`, and plain names that only one
    side has."""
    columns: dict[str, pa.Array] = {}
    sides = {"l": (left, left_start, pa.array(at[0])), "r": (right, right_start, pa.array(at[1]))}
    for name in needed:
        prefix, dot, rest = name.partition(".")
        side = prefix if dot and prefix in sides else "l" if name in left.schema.names else "r"
        plain = rest if dot and prefix in sides else name
        rows, start, which = sides[side]
        columns[name] = (pa.array(start) if plain == "_start" else rows.column(plain)).take(which)
    return Frame(columns, len(at[0]))


def scoped_by_key(node: Join, progress: Progress) -> bool:
    """Whether rows of one scope only ever meet rows of the same scope."""

    def is_key(column: str) -> bool:
        pairs = zip(node.left_keys, node.right_keys, strict=True)
        return column in node.same or any(str(one) == column == str(two) for one, two in pairs)

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
        self._held = [TimeSlices(side.schema) for side in self._sides]
        self._progress: list[Progress] = [NO_PROGRESS, NO_PROGRESS]
        wanted: list[Expr] = [expr for _, expr in node.result]
        if node.predicate is not None:
            wanted.append(node.predicate)
        self._needed: frozenset[str] = (
            frozenset().union(*(expr.columns() for expr in wanted)) if wanted else frozenset()
        )
        self._renames = (plain_renames(node.result, "l."), plain_renames(node.result, "r."))

    def process(self, port: int, batch: Batch) -> Batch:
        other = 1 - port
        answer = Delta.empty(self.schema)
        if len(batch):
            delta = self._sides[port].project(Delta.of_batch(batch), only_matchable=True)
            near = self._near(other, delta)
            if len(near):
                answer = self._pairs(delta, near, port)
            self._held[port].add(delta.filter(delta.end > self._progress[other].cti))
        self._progress[port] = self._progress[port].merge(batch.progress)
        self._held[other].purge(self._progress[port].cti)
        return answer.to_batch(self._promise())

    def _near(self, port: int, delta: Delta) -> Delta:
        """The rows of one side that some of these may meet."""
        held = self._held[port]
        return (
            held.overlapping(int(delta.start.min()), int(delta.end.max()))
            if len(delta)
            else Delta.empty(held.schema)
        )

    def _pairs(self, delta: Delta, near: Delta, port: int) -> Delta:
        left, right = (delta, near) if port == 0 else (near, delta)
        return self._joined(left, right, self._matches(left, right))

    def _matches(self, left: Delta, right: Delta) -> tuple[Codes, Codes]:
        """Positions of the rows that match."""
        codes = key_codes(left.payload, right.payload, self._sides[0].key_names, self._node.same)
        at = overlapping_pairs(codes[0], left.start, left.end, codes[1], right.start, right.end)
        if self._node.predicate is not None and len(at[0]):
            frame = pair_frame(
                left.payload,
                right.payload,
                left.start,
                right.start,
                at,
                self._node.predicate.columns(),
            )
            keep = evaluate_mask(self._node.predicate, frame)
            at = at[0][keep], at[1][keep]
        return at

    def _joined(self, left: Delta, right: Delta, at: tuple[Codes, Codes]) -> Delta:
        if not len(at[0]):
            return Delta.empty(self.schema)
        frame = pair_frame(left.payload, right.payload, left.start, right.start, at, self._needed)
        payload = evaluate_columns(self._node.result, frame, self.schema)
        start = np.maximum(left.start[at[0]], right.start[at[1]])
        end = np.minimum(left.end[at[0]], right.end[at[1]])
        return Delta(payload, start, end, left.weight[at[0]] * right.weight[at[1]])

    # ----------------------------------------------------------------------------------------------------
    # promises

    def _promise(self) -> Progress:
        both = self._progress[0].meet(self._progress[1])
        boxes: Boxes = {}
        if self._progress[0].boxes or self._progress[1].boxes:
            boxes = self._boxes()
        if not both.scoped:
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
        held = {
            name: rows
            for side, held in zip(_SIDES, self._held, strict=True)
            for name, rows in held.snapshot(side).items()
        }
        return {**held, "progress": slice_of_progress(self._progress)}

    def restore(self, slices: Mapping[str, Rows]) -> None:
        for side, held in zip(_SIDES, self._held, strict=True):
            held.restore(side, slices)
        self._progress = progress_of_slice(slices["progress"])

    def state_size(self) -> StateSize:
        return self._held[0].size() + self._held[1].size()
