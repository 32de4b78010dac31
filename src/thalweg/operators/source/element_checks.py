"""What every element must be before a source takes it: columns as declared, whole times in range,
lifetimes that end after they start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.errors import LifetimeError, MalformedElementError, SchemaChangeError, TimeRangeError
from thalweg.model.batch import Batch
from thalweg.model.python_rows import python_rows
from thalweg.model.rows import Bools
from thalweg.model.time import INFINITY, MAX_TIME, MIN_TIME, Times, greatest, least
from thalweg.plan.properties import StreamProperties

__all__ = ["ElementChecks", "are_plain_rows", "refuse_first", "shown_row"]


@dataclass(frozen=True, slots=True)
class ElementChecks:
    """The checks of one batch: of which source, and its number there, for messages."""

    name: str
    number: int
    schema: pa.Schema
    declared: StreamProperties
    """What the source declares about its rows; checked where one comparison will do."""

    @property
    def tracks(self) -> bool:
        """Whether rows may be adjusted."""
        return not self.declared.insert_only

    def place(self, at: int | None) -> str:
        """Where an element is, as a message says it."""
        return f"source {self.name!r}, batch {self.number}" + ("" if at is None else f", row {at}")

    def checked(self, batch: Batch) -> Batch:
        """The batch, if everything about its elements is as it should be; its times as int64."""
        batch = self._conforming(batch)
        if not len(batch):
            return batch
        if not self._plainly_right(batch):
            self._check_times(batch)
        if batch.is_adjust is not None and batch.new_end is not None:
            self._check_adjusts(batch, np.where(batch.is_adjust, batch.new_end, batch.end))
        self._check_facts(batch)
        return batch

    def well_formed(self, batch: Batch) -> Batch:
        """The batch, if its columns are those of the source and its times are on the clock, for an
        input that judges lifetimes itself."""
        batch = self._conforming(batch)
        if len(batch) and not self._plainly_right(batch):
            self._check_range(batch.start, "start", infinite=False)
            self._check_range(batch.end, "end", infinite=True)
        if batch.is_adjust is not None and batch.new_end is not None:
            new_end = np.where(batch.is_adjust, batch.new_end, batch.end)
            self._check_range(new_end, "new end", infinite=True)
        return batch

    def _conforming(self, batch: Batch) -> Batch:
        """The batch, if its columns are those of the source; its times as int64."""
        if batch.schema != self.schema and not batch.schema.equals(
            self.schema, check_metadata=False
        ):
            raise SchemaChangeError(
                f"{self.place(None)}: the columns are {_named(batch.schema)}, but the source "
                f"declared {_named(self.schema)}. Nothing of the batch was applied."
            )
        return self._shaped(batch)

    @staticmethod
    def _plainly_right(batch: Batch) -> bool:
        """Whether all times are finite, in range and in order: what most batches are."""
        start, end = batch.start, batch.end
        return bool(start.min() > MIN_TIME and end.max() < MAX_TIME and (end > start).all())

    def _check_times(self, batch: Batch) -> None:
        self._check_range(batch.start, "start", infinite=False)
        self._check_range(batch.end, "end", infinite=True)
        refuse_first(
            batch.end <= batch.start,
            lambda at: LifetimeError(
                f"{self.place(at)}: {shown_row(batch, at)} ends at {batch.end[at]}, not after its "
                f"start {batch.start[at]}. A point event lasts one tick."
            ),
        )

    def _check_facts(self, batch: Batch) -> None:
        """Rows that are not what the source declared would make final answers wrong."""
        lasts = self.declared.constant_duration
        if lasts is None and batch.is_adjust is None:
            return
        new_end = batch.end if batch.new_end is None else batch.new_end
        adjusts = np.zeros(len(batch), np.bool_) if batch.is_adjust is None else batch.is_adjust
        stays = np.where(adjusts, new_end, batch.end)
        if lasts is not None:
            refuse_first(
                (stays - batch.start != lasts) & (stays > batch.start),
                lambda at: LifetimeError(
                    f"{self.place(at)}: {shown_row(batch, at)} lasts from {batch.start[at]} to "
                    f"{stays[at]}, but the source declared constant_duration={lasts}."
                ),
            )
        if self.declared.firm_ends and batch.is_adjust is not None:
            refuse_first(
                adjusts & (new_end > batch.start),
                lambda at: LifetimeError(
                    f"{self.place(at)}: the end of {shown_row(batch, at)} moves from "
                    f"{batch.end[at]} to {new_end[at]}, but the source declared firm_ends: rows "
                    "come and go whole."
                ),
            )

    def _check_adjusts(self, batch: Batch, new_end: Times) -> None:
        assert batch.is_adjust is not None
        if not self.tracks:
            at = int(np.argmax(batch.is_adjust))
            raise MalformedElementError(
                f"{self.place(at)}: an adjust, but the source is declared insert_only."
            )
        self._check_range(new_end, "new end", infinite=True)
        refuse_first(
            new_end < batch.start,
            lambda at: LifetimeError(
                f"{self.place(at)}: {shown_row(batch, at)} would end at {new_end[at]}, before its "
                f"start {batch.start[at]}."
            ),
        )

    def _shaped(self, batch: Batch) -> Batch:
        """One start and one end for each row of payload, as int64; `is_adjust` only where something
        is adjusted."""
        rows = batch.payload.num_rows
        controls: dict[str, Any] = {"start": batch.start, "end": batch.end}
        if batch.is_adjust is not None:
            controls |= {"new end": batch.new_end, "kind": batch.is_adjust}
        for what, values in controls.items():
            if (
                not isinstance(values, np.ndarray)
                or values.shape != (rows,)
                or (what == "kind" and values.dtype != np.bool_)
            ):
                shape = (
                    "none" if values is None else f"{np.size(values)} ({np.asarray(values).dtype})"
                )
                raise MalformedElementError(
                    f"{self.place(None)}: {rows} rows of payload need {rows} values of {what}; got "
                    f"{shape}."
                )
        if batch.is_adjust is not None and not batch.is_adjust.any():
            batch = Batch(batch.payload, batch.start, batch.end, progress=batch.progress)
        if batch.start.dtype == batch.end.dtype == np.int64 and (
            batch.new_end is None or batch.new_end.dtype == np.int64
        ):
            return batch
        start, end = self._ticks(batch.start, "start"), self._ticks(batch.end, "end")
        new_end = None if batch.new_end is None else self._ticks(batch.new_end, "new end")
        return Batch(batch.payload, start, end, new_end, batch.is_adjust, batch.progress)

    def _ticks(self, times: Times, what: str) -> Times:
        if not np.issubdtype(times.dtype, np.integer):
            raise TimeRangeError(
                f"{self.place(None)}: the {what} must be whole ticks (int64); it is {times.dtype}."
            )
        if times.dtype == np.uint64:
            refuse_first(
                times > INFINITY,
                lambda at: TimeRangeError(
                    f"{self.place(at)}: the {what} {times[at]} is outside the range of the clock."
                ),
            )
        return times.astype(np.int64, copy=False)

    def _check_range(self, times: Times, what: str, *, infinite: bool) -> None:
        fine = (times > MIN_TIME) & (times < MAX_TIME)
        if infinite:
            fine |= times == INFINITY
        refuse_first(
            ~fine,
            lambda at: TimeRangeError(
                f"{self.place(at)}: the {what} {times[at]} is outside the range of the clock."
            ),
        )


def are_plain_rows(batch: Batch, schema: pa.Schema) -> bool:
    """Whether a batch is inserts of this schema, of finite times in range and in order."""
    rows = batch.payload.num_rows
    times: tuple[Any, Any] = (batch.start, batch.end)
    if batch.is_adjust is not None or not rows or batch.schema != schema:
        return False
    for values in times:
        if type(values) is not np.ndarray or values.dtype != np.int64 or values.shape != (rows,):
            return False
    start, end = times
    if rows == 1:
        return bool(MIN_TIME < start.item() < end.item() < MAX_TIME)
    return least(start) > MIN_TIME and greatest(end) < MAX_TIME and bool((end > start).all())


def _named(schema: pa.Schema) -> str:
    return ", ".join(f"{f.name} {f.type}" for f in schema)


def shown_row(batch: Batch, at: int) -> str:
    """A row as a message shows it."""
    return str(python_rows(batch.payload.slice(at, 1))[0])


def refuse_first(bad: Bools, error: Callable[[int], Exception]) -> None:
    """Raise for the first row that is bad."""
    if bad.any():
        raise error(int(np.argmax(bad)))
