"""Operators that rewrite lifetimes row by row: (s, e, p) -> (s', e', p), the row vanishing when e'
<= s'.

A subclass gives the two functions `lifetimes` (of starts and ends) and `promise` (of a CTI). For an
adjust both the old and the new lifetime are mapped: if only the end differs it stays an adjust, if
nothing differs it disappears, if one side is empty it becomes an insert or a removal, and if the
start moved too it becomes a removal and an insert.

A row whose new lifetime is null is left out. One that would leave the range of the clock is an
error that names the operator and the row: times never wrap around.

A `promise` t' for t must satisfy: every insert with s >= t gives s' >= t', and every adjust with e,
n >= t changes the result only at or after t'.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import pyarrow as pa

from thalweg.errors import EvaluationError
from thalweg.expr import Call, Column, Expr, Frame, Literal
from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.progress import Progress
from thalweg.model.rows import Bools, Rows
from thalweg.model.time import INFINITY, MAX_TIME, MIN_TIME, Times, greatest, least
from thalweg.operators.base import Operator, least_promise, map_progress
from thalweg.operators.frames import frame_of
from thalweg.operators.rows.one_row import OneRow, Step, move_lifetime

__all__ = ["LifetimeKernel", "Ticks", "refuse_beyond"]


class LifetimeKernel(Operator):
    """The shared part of all lifetime operators."""

    row_by_row = True
    name: str
    """The operator as an error calls it."""
    keeps_every_row: bool = False
    """Whether no new lifetime is empty."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema

    @abstractmethod
    def lifetimes(self, payload: Rows, start: Times, end: Times) -> tuple[Times, Times]:
        """The new starts and ends."""

    def lifetime(self, start: int, end: int) -> tuple[int, int] | None:
        """The new lifetime of one row, where its payload does not matter; None: only `lifetimes`
        will do, for every row."""
        return None

    def one_row(self, row: OneRow) -> Step | None:
        return None if self.lifetime(0, 1) is None else move_lifetime(self.lifetime)

    def promise(self, cti: int) -> int:
        """The promise that a finite promise of the input becomes."""
        return cti

    def progress(self, before: Progress) -> Progress:
        """The progress that progress of the input becomes."""
        return map_progress(before, self.promise)

    def moves(self, progress: Progress) -> Progress:
        return self.progress(progress)

    def needs(self, time: int) -> tuple[int, ...]:
        return (least_promise(lambda cti: self.progress(Progress(cti)).cti, time),)

    def process(self, port: int, batch: Batch) -> Batch:
        progress = self.progress(batch.progress)
        if not len(batch):
            return Batch.empty(self.schema, progress)
        start, end = self._mapped(batch.payload, batch.start, batch.end)
        if batch.is_adjust is None or batch.new_end is None:
            mapped = Batch(batch.payload, start, end, progress=progress)
            return mapped if self.keeps_every_row else mapped.filter(start < end)
        new_start, new_end = self._mapped(batch.payload, batch.start, batch.new_end)
        if (batch.is_adjust & (start != new_start)).any():
            return self._through_delta(batch).to_batch(progress)
        before, after = start < end, (new_start < new_end) & (batch.new_end > batch.start)
        adjusts = batch.is_adjust & before
        new_end = np.where(batch.is_adjust & after, new_end, start)
        # An adjust whose old lifetime was empty is an insert of the new one.
        end = np.where(batch.is_adjust & ~before, new_end, end)
        keep = np.where(batch.is_adjust, (before | after) & (~before | (end != new_end)), before)
        return Batch(batch.payload, start, end, new_end, adjusts, progress).filter(keep)

    def _through_delta(self, batch: Batch) -> Delta:
        delta = Delta.of_batch(batch)
        start, end = self._mapped(delta.payload, delta.start, delta.end)
        return Delta(delta.payload, start, end, delta.weight).filter(start < end)

    def _mapped(self, payload: Rows, start: Times, end: Times) -> tuple[Times, Times]:
        """The new lifetimes, all of them inside the range of the clock."""
        begin, until = self.lifetimes(payload, start, end)
        # Starts that did not move are inside, and a row that begins too late ends too late.
        if not len(begin) or (
            (begin is start or least(begin) > MIN_TIME) and greatest(until) < MAX_TIME
        ):
            return begin, until
        outside = (begin <= MIN_TIME) | (begin >= MAX_TIME)
        outside |= (until >= MAX_TIME) & (until != INFINITY)
        outside &= begin < until
        if outside.any():
            at = int(np.argmax(outside))
            row = payload.slice(at, 1).to_pylist()[0]
            raise EvaluationError(
                f"{self.name}: {row} over [{start[at]}, {end[at]}) would last from {begin[at]} to "
                f"{until[at]}, outside the range of the clock (2**62 ticks on either side of zero)."
            )
        return begin, until


class Ticks:
    """An expression whose values are numbers of ticks."""

    def __init__(self, expr: Expr) -> None:
        self._expr = expr
        self._used = expr.columns() - {"_end"}
        self._offset = _offset_from_start(expr)

    def of(
        self, payload: Rows, start: Times, end: Times | None = None
    ) -> tuple[Times, Bools | None]:
        """The values, and where there is one: not null, and a legal duration or time (None:
        everywhere). Where there is not, the value is 0. With `end` the expression may read
        `_end`."""
        if self._offset is not None:
            return (start + self._offset if self._offset else start), None
        frame = frame_of(payload, start, self._used)
        if end is not None:
            frame = Frame({**frame.columns, "_end": pa.array(end)}, frame.length)
        values = self._expr.evaluate(frame)
        if values.type.id != _INT64:
            values = values.cast(pa.int64())
        valid: Bools | None = None
        if values.null_count:
            valid = values.is_valid().to_numpy(zero_copy_only=False)
            values = values.fill_null(0)
        ticks: Times = values.to_numpy(zero_copy_only=False)
        return ticks, valid


def _offset_from_start(expr: Expr) -> int | None:
    """The constant that an expression adds to `_start`, where it does no more than that. Added to a
    legal time it cannot wrap around.

    >>> from thalweg.expr import parse
    >>> [_offset_from_start(parse(text)) for text in ("_start", "_start + 5 - 2", "_start + v")]
    [0, 3, None]
    """
    if isinstance(expr, Column):
        return 0 if expr.name == "_start" else None
    if not isinstance(expr, Call) or expr.function not in ("add", "subtract"):
        return None
    before, amount = _offset_from_start(expr.args[0]), expr.args[1]
    if before is None or not isinstance(amount, Literal) or amount.scalar.type != pa.int64():
        return None
    ticks = amount.scalar.as_py()
    if ticks is None:
        return None
    offset: int = before + ticks if expr.function == "add" else before - ticks
    return offset if MIN_TIME < offset < MAX_TIME else None


_INT64 = pa.int64().id


def refuse_beyond(ticks: Times, what: str) -> None:
    """An amount that no lifetime can be moved by: adding it could wrap around."""
    if not len(ticks) or (least(ticks) > MIN_TIME and greatest(ticks) < MAX_TIME):
        return
    beyond = (ticks <= MIN_TIME) | (ticks >= MAX_TIME)
    amount = int(ticks[int(np.argmax(beyond))])
    raise EvaluationError(f"{what}: {amount} ticks are more than the range of the clock.")
