"""What a query that joins a running host needs: when two operators are the same, and how changes
to rows from before its starting point are kept out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeAlias

import numpy as np

from thalweg.expr import Expr
from thalweg.graph.stations import Station
from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.progress import NO_PROGRESS
from thalweg.model.rows import Rows, encode_together
from thalweg.operators.base import Operator, Slices, StateSize, delta_of_slice, slice_of_delta
from thalweg.plan.nodes import Node

__all__ = [
    "LaterRows",
    "Signature",
    "signature_of",
]

Signature: TypeAlias = tuple[object, ...]


def signature_of(node: Node, before: Sequence[Station]) -> Signature:
    """Equal for two nodes that do the same to the same inputs: their type, what they were given,
    and the operators they read."""
    given = tuple(
        (entry.name, _signature(getattr(node, entry.name)))
        for entry in fields(node)
        if entry.init and not isinstance(getattr(node, entry.name), Node)
    )
    return (type(node), given, tuple(id(station) for station in before))


def _signature(value: Any) -> object:
    if isinstance(value, Expr):
        return ("expression", value.key())
    if isinstance(value, (tuple, list)):
        return tuple(map(_signature, value))
    if isinstance(value, Mapping):
        return tuple((key, _signature(item)) for key, item in value.items())
    try:
        hash(value)
    except TypeError:
        return ("object", id(value))  # equal to itself alone
    return value


class LaterRows(Operator):
    """Rows that were admitted after a point: adjusts of rows from before it are left out.

    Of two equal rows the earlier one is meant. State: the rows from before the point that may still
    be adjusted, until the promise has passed their ends.
    """

    def __init__(self, before: Delta) -> None:
        self.schema = before.schema
        self._before = before

    def process(self, port: int, batch: Batch) -> Batch:
        if batch.is_adjust is not None and batch.new_end is not None and len(self._before):
            batch = self._later(batch)
        cti = batch.progress.cti
        if len(self._before) and cti > NO_PROGRESS.cti:
            self._before = self._before.filter(self._before.end >= cti)
        return batch

    def _later(self, batch: Batch) -> Batch:
        assert batch.is_adjust is not None and batch.new_end is not None
        held = self._before
        known, come, _ = encode_together(
            held.payload.columns, batch.payload.columns, (len(held), len(batch))
        )
        ends: Counter[tuple[int, int, int]] = Counter()
        for code, start, end, weight in zip(
            known.tolist(),
            held.start.tolist(),
            held.end.tolist(),
            held.weight.tolist(),
            strict=True,
        ):
            ends[code, start, end] += weight
        place = {code: at for at, code in enumerate(known.tolist())}
        keep = np.ones(len(batch), np.bool_)
        # One by one: an adjust may speak of what the one before it left. Only adjusts of rows that
        # were there before the query come here, and they end when the promise has passed those.
        touched = np.flatnonzero(batch.is_adjust & np.isin(come, known))
        for at in touched.tolist():
            code, start = int(come[at]), int(batch.start[at])
            old = (code, start, int(batch.end[at]))
            if ends[old] > 0:
                keep[at] = False
                ends[old] -= 1
                if batch.new_end[at] > start:
                    ends[code, start, int(batch.new_end[at])] += 1
        left = [(*row, count) for row, count in ends.items() if count > 0]
        rows = np.array([place[code] for code, *_ in left], np.int64)
        start, end, weight = (np.array([row[at] for row in left], np.int64) for at in (1, 2, 3))
        self._before = Delta(held.take(rows).payload, start, end, weight)
        return batch.filter(keep)

    def snapshot(self) -> Slices:
        return {"before": slice_of_delta(self._before)}

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self._before = delta_of_slice(slices["before"])

    def state_size(self) -> StateSize:
        return StateSize(len(self._before), self._before.nbytes)
