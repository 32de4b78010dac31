"""Inner join: R' = {([s1, e1) ∩ [s2, e2), result(p1, p2)) | keys equal, predicate true, lifetimes overlap}.

Each batch is joined with what the other side holds and then kept itself: no order, no waiting. Null keys match nothing,
duplicates multiply. Changes are joined like rows, with the product of the weights, so a change of an end on one side
becomes a change of the ends of its pairs.

State: of each side the rows that end after the other side's CTI; later rows of the other side cannot meet an earlier
one, and a later change of the row itself brings its data along. The CTI is the smaller of the two.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from thalweg.expr import Expr, Frame
from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.model.rows import Codes, Rows
from thalweg.model.time import INFINITY, Times
from thalweg.operators.base import (
    Operator,
    Slices,
    StateSize,
    delta_of_slice,
    progress_of_slice,
    rename_scopes,
    slice_of_delta,
    slice_of_progress,
)
from thalweg.operators.frames import evaluate_columns, evaluate_mask, plain_renames
from thalweg.operators.matching import KeyedSide, key_codes, shared_key_types
from thalweg.plan.nodes import Join

__all__ = ["JoinKernel", "overlapping_pairs", "pair_frame"]

_SIDES = ("left", "right")


_ONE_NUMBER = 2**62


def overlapping_pairs(
    left: Codes, left_start: Times, left_end: Times, right: Codes, right_start: Times, right_end: Times
) -> tuple[Codes, Codes]:
    """Every pair of positions with equal codes of 0 or more whose lifetimes overlap.

    The right side is sorted by code and start once; for each left row the candidates are the right rows of its code
    that start before it ends and not longer ago than the longest right row lasts.
    """
    if not len(left) or not len(right):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    endless = bool((right_end == INFINITY).any())
    longest = 0 if endless else int((right_end - right_start).max())
    first, last = int(right_start.min()), int(right_start.max())
    span = last - first + 2
    if (int(max(left.max(), right.max())) + 2) * span < _ONE_NUMBER:
        at = right_start - first
        earliest = np.clip(np.minimum(left_start, last + longest) - (longest - 1 + first), 0, span - 1)
        until = np.clip(left_end, first, last + 1) - first
    else:  # code and time do not fit one number: the rank of the time will
        points = np.unique(right_start)
        span = len(points) + 1
        at = np.searchsorted(points, right_start)
        earliest = np.searchsorted(points, left_start - longest, "right")
        until = np.searchsorted(points, left_end, "left")
    if endless:
        earliest = np.zeros(len(left), np.int64)
    place = right * span + at
    order = np.argsort(place, kind="stable")
    place = place[order]
    begin = left * span + earliest
    probe = np.argsort(begin, kind="stable")  # in order, each search begins where the last one ended: in the cache
    low = np.searchsorted(place, begin[probe])
    high = np.searchsorted(place, (left * span + until)[probe])
    count = np.where(left[probe] >= 0, np.maximum(high - low, 0), 0)
    which = np.repeat(np.arange(len(left)), count)
    other = order[low[which] + np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)]
    which = probe[which]
    overlap = np.flatnonzero(right_end[other] > left_start[which])
    return which[overlap], other[overlap]


def pair_frame(left: Rows, right: Rows, left_start: Times, right_start: Times, at: tuple[Codes, Codes], needed: frozenset[str]) -> Frame:
    """The columns that expressions over a pair need: `l.x`, `r.x`, and plain names that only one side has."""
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
        types = shared_key_types(node.left.schema, node.right.schema, node.left_keys, node.right_keys)
        self._sides = (
            KeyedSide(node.left.schema, node.left_keys, types, node.same),
            KeyedSide(node.right.schema, node.right_keys, types, node.same),
        )
        self._held = [Delta.empty(side.schema) for side in self._sides]
        self._progress: list[Progress] = [NO_PROGRESS, NO_PROGRESS]
        wanted: list[Expr] = [expr for _, expr in node.result]
        if node.predicate is not None:
            wanted.append(node.predicate)
        self._needed: frozenset[str] = frozenset().union(*(expr.columns() for expr in wanted)) if wanted else frozenset()
        self._renames = (plain_renames(node.result, "l."), plain_renames(node.result, "r."))

    def process(self, port: int, batch: Batch) -> Batch:
        other = 1 - port
        answer = Delta.empty(self.schema)
        if len(batch):
            delta = self._sides[port].project(Delta.of_batch(batch), only_matchable=True)
            if len(self._held[other]):
                answer = self._join(delta, self._held[other]) if port == 0 else self._join(self._held[other], delta)
            self._keep(port, delta.filter(delta.end > self._progress[other].cti))
        self._progress[port] = self._progress[port].merge(batch.progress)
        self._purge(other)
        return answer.to_batch(self._promise())

    def _join(self, left: Delta, right: Delta) -> Delta:
        codes = key_codes(left.payload, right.payload, self._sides[0].key_names, self._node.same)
        at = overlapping_pairs(codes[0], left.start, left.end, codes[1], right.start, right.end)
        if self._node.predicate is not None and len(at[0]):
            frame = pair_frame(left.payload, right.payload, left.start, right.start, at, self._node.predicate.columns())
            keep = evaluate_mask(self._node.predicate, frame)
            at = at[0][keep], at[1][keep]
        if not len(at[0]):
            return Delta.empty(self.schema)
        frame = pair_frame(left.payload, right.payload, left.start, right.start, at, self._needed)
        payload = evaluate_columns(self._node.result, frame, self.schema)
        start = np.maximum(left.start[at[0]], right.start[at[1]])
        end = np.minimum(left.end[at[0]], right.end[at[1]])
        return Delta(payload, start, end, left.weight[at[0]] * right.weight[at[1]])

    def _keep(self, port: int, delta: Delta) -> None:
        held = Delta.concat([self._held[port], delta], self._sides[port].schema)
        self._held[port] = held.consolidate() if (delta.weight < 0).any() else held

    def _purge(self, port: int) -> None:
        """Rows of one side that end before anything the other side may still say."""
        held, until = self._held[port], self._progress[1 - port].cti
        if len(held) and int(held.end.min()) <= until:
            self._held[port] = held.filter(held.end > until)

    def _promise(self) -> Progress:
        both = self._progress[0].meet(self._progress[1])
        if not both.scoped:
            return both
        if not scoped_by_key(self._node, both):
            return both.without_scopes()
        return rename_scopes(both, {**self._renames[1], **self._renames[0]})

    def snapshot(self) -> Slices:
        return {
            **{side: slice_of_delta(held) for side, held in zip(_SIDES, self._held, strict=True)},
            "progress": slice_of_progress(self._progress),
        }

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self._held = [delta_of_slice(slices[side]) for side in _SIDES]
        self._progress = progress_of_slice(slices["progress"])

    def state_size(self) -> StateSize:
        return StateSize(sum(map(len, self._held)), sum(held.nbytes for held in self._held))
