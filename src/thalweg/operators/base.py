"""What every operator kernel is: batches in, batches out, state that can be written down and read
back.

A kernel takes one batch at a time on one of its input ports and answers with one batch. It
accepts any legal order, never waits, and answers with progress that its later answers keep. It
does not depend on a runner.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from thalweg.errors import StateError
from thalweg.model.batch import Batch
from thalweg.model.column_promises import rename_column_promises
from thalweg.model.delta import Delta
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.model.progress_text import progress_of_text, progress_text
from thalweg.model.rows import Rows
from thalweg.model.time import INFINITY, MAX_TIME, MIN_TIME
from thalweg.state.slices import Slices, StateSize

if TYPE_CHECKING:
    from thalweg.operators.rows.one_row import OneRow, Step

__all__ = [
    "Operator",
    "Slices",
    "StateSize",
    "delta_of_slice",
    "least_promise",
    "map_progress",
    "progress_of_slice",
    "rename_scopes",
    "slice_of_delta",
    "slice_of_progress",
]


class Operator(ABC):
    """A kernel with `ports` inputs. `schema` is that of its output."""

    ports: int = 1
    first_port: int = 0
    """The port that is served first where several have input: answers that follow from it need not
    be taken back when the others come."""
    row_by_row: bool = False
    """Whether each row is answered by itself, at once and without state."""
    keeps_only_progress: bool = False
    """Whether its snapshot is about progress alone, where rows come in any order."""
    knows_group_column_promises: bool = False
    """Whether promises over columns of one group mean something here; others do not see them."""
    schema: pa.Schema
    reach: int | None = None
    """A row of the input that ends at e has no part in answers that end later than this after e;
    None: nothing is known."""

    @abstractmethod
    def process(self, port: int, batch: Batch) -> Batch:
        """The elements and the progress that follow from one more batch."""

    def moves(self, progress: Progress) -> Progress:
        """The progress that progress of the input becomes, where the operator answers row by
        row."""
        return progress

    def one_row(self, row: OneRow) -> Step | None:
        """What a row operator does with one row (see `operators.one_row`); None: only `process`
        will do."""
        return None

    def needs(self, time: int) -> tuple[int, ...]:
        """For each input the least promise that would let this operator promise `time`, as things
        stand: what holds it back."""
        return (time,) * self.ports

    def unwanted(self, time: int) -> tuple[int, ...]:
        """Answers that end before `time` are not needed: for each input, the time before which its
        rows need not end any more. The default follows from `reach`; without it there is none."""
        if self.reach is None or time <= MIN_TIME:
            return (MIN_TIME,) * self.ports
        return (time if time == INFINITY else time - self.reach,) * self.ports

    def forget(self, time: int, unwanted: tuple[int, ...]) -> None:
        """No reader needs answers that end before `time`, nor the operator rows that end before
        `unwanted`, one time for each input: drop the state that only those need. An input with
        adjusts has the time MIN_TIME: of it nothing may be dropped."""
        return

    def lacks(self) -> tuple[str, ...]:
        """In words: what is missing for an answer besides a promise of its inputs."""
        return ()

    def snapshot(self) -> Slices:
        """All state, as Arrow."""
        return {}

    def restore(self, slices: Mapping[str, Rows]) -> None:
        """Back to the state of a snapshot."""
        if slices:
            raise StateError(
                f"{type(self).__name__} keeps no state, but the snapshot has {sorted(slices)}."
            )

    def state_size(self) -> StateSize:
        return StateSize()


class WrappedOperator(Operator):
    """An operator in the place of another: a subclass says what `process` does beside it,
    everything else is the other's."""

    def __init__(self, inner: Operator) -> None:
        self.inner = inner
        self.schema, self.ports, self.first_port = inner.schema, inner.ports, inner.first_port
        self.row_by_row, self.reach = inner.row_by_row, inner.reach
        self.knows_group_column_promises = inner.knows_group_column_promises

    def moves(self, progress: Progress) -> Progress:
        return self.inner.moves(progress)

    def needs(self, time: int) -> tuple[int, ...]:
        return self.inner.needs(time)

    def unwanted(self, time: int) -> tuple[int, ...]:
        return self.inner.unwanted(time) if self.reach is None else super().unwanted(time)

    def forget(self, time: int, unwanted: tuple[int, ...]) -> None:
        self.inner.forget(time, unwanted)

    def lacks(self) -> tuple[str, ...]:
        return self.inner.lacks()

    def snapshot(self) -> Slices:
        return self.inner.snapshot()

    def restore(self, slices: Mapping[str, Rows]) -> None:
        self.inner.restore(slices)

    def state_size(self) -> StateSize:
        return self.inner.state_size()


def map_progress(progress: Progress, move: Callable[[int], int]) -> Progress:
    """Progress moved by a function of time; the two ends of time stay where they are, and so do
    promises over columns."""

    def moved(time: int) -> int:
        return time if time in (INFINITY, MIN_TIME) else max(MIN_TIME, min(move(time), MAX_TIME))

    return Progress(
        moved(progress.cti),
        progress.scope_columns,
        {s: moved(t) for s, t in progress.scoped.items()},
        progress.column_promises,
        progress.group_column_promises,
        progress.areas.map(moved) if progress.areas else progress.areas,
    )


def least_promise(promise: Callable[[int], int], time: int) -> int:
    """The least promise of an input that becomes `time` or more; infinity where only the end of the
    input does.

    >>> least_promise(lambda cti: cti // 10 * 10, 17)
    20
    """
    if time <= MIN_TIME or time == INFINITY:
        return time
    low, high = (
        MIN_TIME,
        MAX_TIME,
    )  # `promise` never goes back, so halving finds where it gets there
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if promise(middle) >= time else (middle, high)
    return INFINITY if high == MAX_TIME else high


def rename_scopes(progress: Progress, names: Mapping[str, str]) -> Progress:
    """Progress whose columns got new names; promises for groups or column promises that can no
    longer be distinguished are dropped."""
    if (
        not progress.speaks_of_groups
        and not progress.column_promises
        and not progress.group_column_promises
    ):
        return progress
    column_promises = rename_column_promises(progress.column_promises, names)
    if not all(column in names for column in progress.scope_columns):
        return Progress(progress.cti, column_promises=column_promises)
    return Progress(
        progress.cti,
        tuple(names[column] for column in progress.scope_columns),
        progress.scoped,
        column_promises,
        {
            scope: rename_column_promises(one, names)
            for scope, one in progress.group_column_promises.items()
        },
        progress.areas.rename(names) if progress.areas else progress.areas,
    )


def slice_of_delta(delta: Delta) -> Rows:
    """A delta as one record batch."""
    arrays = [
        pa.array(delta.start),
        pa.array(delta.end),
        pa.array(delta.weight),
        *delta.payload.columns,
    ]
    return pa.RecordBatch.from_arrays(
        arrays, names=["_start", "_end", "_weight", *delta.schema.names]
    )


def delta_of_slice(rows: Rows) -> Delta:
    """The inverse of `slice_of_delta`."""
    if rows.schema.names[:3] != ["_start", "_end", "_weight"]:
        raise StateError(f"expected a slice of weighted rows, got the columns {rows.schema.names}.")
    start, end, weight = (
        np.array(column.to_numpy(zero_copy_only=False), np.int64) for column in rows.columns[:3]
    )
    return Delta(
        pa.RecordBatch.from_arrays(rows.columns[3:], names=rows.schema.names[3:]),
        start,
        end,
        weight,
    )


def slice_of_progress(parts: list[Progress]) -> Rows:
    """Progress of each port as one record batch (scopes as text, since their types differ)."""
    return pa.RecordBatch.from_arrays(
        [pa.array([progress_text(part) for part in parts], pa.string())], names=["progress"]
    )


def progress_of_slice(rows: Rows) -> list[Progress]:
    """The inverse of `slice_of_progress`."""
    return [progress_of_text(text) for text in rows.column(0).to_pylist()] or [NO_PROGRESS]
