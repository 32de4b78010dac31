"""A batch: many elements in columns, then the progress the stream has made after them.

The exchange form is one Arrow table with the control columns `_kind` (0 insert, 1 adjust),
`_start`, `_end`, `_new_end` followed by the payload columns. In memory the control columns are
NumPy arrays beside an Arrow record batch of payload, and a batch of inserts only has no `new_end`
at all: the common case costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from thalweg.errors import MalformedElementError, SchemaChangeError, TimeRangeError
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.model.rows import Bools, Codes, Rows, concat_rows, empty_rows, take_rows
from thalweg.model.time import INFINITY, MIN_TIME, Times

__all__ = [
    "CONTROL_COLUMNS",
    "Batch",
    "one_batch",
    "ticks_of",
]

CONTROL_COLUMNS = ("_kind", "_start", "_end", "_new_end")


@dataclass(frozen=True, slots=True)
class Batch:
    payload: Rows
    start: Times
    end: Times
    new_end: Times | None = None
    is_adjust: Bools | None = None
    progress: Progress = NO_PROGRESS

    @classmethod
    def empty(cls, schema: pa.Schema, progress: Progress = NO_PROGRESS) -> Batch:
        none = np.empty(0, np.int64)
        return cls(empty_rows(schema), none, none, progress=progress)

    def __len__(self) -> int:
        return len(self.start)

    @property
    def schema(self) -> pa.Schema:
        return self.payload.schema

    @property
    def insert_only(self) -> bool:
        return self.is_adjust is None

    @property
    def latest_end(self) -> int:
        """The latest finite end that a row has or gets; `MIN_TIME` where there is none."""
        ends = self._ends()
        return max(int(end[end != INFINITY].max(initial=MIN_TIME)) for end in ends)

    @property
    def has_endless(self) -> bool:
        """Whether a row comes without an end, loses its end or gets one."""
        return any(bool((end == INFINITY).any()) for end in self._ends())

    def _ends(self) -> list[Times]:
        """The ends that rows have, and those that adjusts give them."""
        if self.is_adjust is None or self.new_end is None:
            return [self.end]
        return [self.end, self.new_end[self.is_adjust]]

    @property
    def sync(self) -> Times:
        """The earliest time that each element changes."""
        if self.is_adjust is None or self.new_end is None:
            return self.start
        return np.where(self.is_adjust, np.minimum(self.end, self.new_end), self.start)

    def take(self, indices: Codes) -> Batch:
        """The elements at these positions; the progress stays."""
        return self._select(take_rows(self.payload, indices), indices)

    def between(self, begin: int, end: int) -> Batch:
        """The elements from one position to another, which are not copied; the progress stays."""
        return self._select(self.payload.slice(begin, end - begin), slice(begin, end))

    def filter(self, mask: Bools) -> Batch:
        """The elements where the mask holds; the progress stays."""
        if mask.all():
            return self
        which = np.flatnonzero(mask)
        return self._select(take_rows(self.payload, which), which)

    def _select(self, payload: Rows, which: Codes | Bools | slice) -> Batch:
        adjusts = None if self.is_adjust is None else self.is_adjust[which]
        if adjusts is None or self.new_end is None or not adjusts.any():
            return Batch(payload, self.start[which], self.end[which], progress=self.progress)
        return Batch(
            payload, self.start[which], self.end[which], self.new_end[which], adjusts, self.progress
        )

    def with_payload(self, payload: Rows) -> Batch:
        return Batch(payload, self.start, self.end, self.new_end, self.is_adjust, self.progress)

    def with_progress(self, progress: Progress) -> Batch:
        return Batch(self.payload, self.start, self.end, self.new_end, self.is_adjust, progress)

    def to_table(self) -> pa.Table:
        """The exchange form (without the progress, which travels beside it)."""
        size = len(self)
        kind = np.zeros(size, np.int8) if self.is_adjust is None else self.is_adjust.astype(np.int8)
        new_end = self.end if self.new_end is None else self.new_end
        controls = [pa.array(kind), pa.array(self.start), pa.array(self.end), pa.array(new_end)]
        names = [*CONTROL_COLUMNS, *self.schema.names]
        return pa.Table.from_arrays([*controls, *self.payload.columns], names=names)

    @classmethod
    def from_table(
        cls,
        table: pa.Table | Rows,
        progress: Progress = NO_PROGRESS,
        *,
        where: str = "a table of elements",
    ) -> Batch:
        """The inverse of `to_table`. The columns of kinds and times must exist and hold whole
        numbers; the ingress checks their values."""
        rows = one_batch(table, where)
        if tuple(rows.schema.names[:4]) != CONTROL_COLUMNS:
            raise SchemaChangeError(
                f"{where}: it must begin with the columns {', '.join(CONTROL_COLUMNS)}; it has "
                f"{rows.schema.names}."
            )
        adjusts = _adjusts_of(rows.column(0), where)
        start, end, new_end = (
            ticks_of(rows.column(at), CONTROL_COLUMNS[at], where) for at in (1, 2, 3)
        )
        payload = pa.RecordBatch.from_arrays(rows.columns[4:], names=rows.schema.names[4:])
        if not adjusts.any():
            return cls(payload, start, end, progress=progress)
        return cls(payload, start, end, new_end, adjusts, progress)

    @classmethod
    def concat(cls, parts: Sequence[Batch], schema: pa.Schema) -> Batch:
        """One batch with all elements in order; its progress is all progress made."""
        progress = NO_PROGRESS
        for part in parts:
            progress = progress.merge(part.progress)
        full = [part for part in parts if len(part)]
        if not full:
            return cls.empty(schema, progress)
        if len(full) == 1:
            return full[0].with_progress(progress)
        payload = concat_rows([part.payload for part in full], schema)
        start = np.concatenate([part.start for part in full])
        end = np.concatenate([part.end for part in full])
        if all(part.insert_only for part in full):
            return cls(payload, start, end, progress=progress)
        new_end = np.concatenate(
            [part.end if part.new_end is None else part.new_end for part in full]
        )
        adjusts = np.concatenate(
            [np.zeros(len(p), np.bool_) if p.is_adjust is None else p.is_adjust for p in full]
        )
        return cls(payload, start, end, new_end, adjusts, progress)


def one_batch(table: pa.Table | Rows, where: str) -> Rows:
    """All rows of a table as one record batch."""
    if isinstance(table, pa.RecordBatch):
        return table
    combined = table.combine_chunks().to_batches()
    if len(combined) > 1:
        raise MalformedElementError(
            f"{where}: it has more text in one column than Arrow holds in one piece; give it in "
            "parts."
        )
    return combined[0] if combined else empty_rows(table.schema)


def ticks_of(column: pa.Array, name: str, where: str) -> Times:
    """A column of times as int64. Any type of whole number will do, and timestamps, of which a null
    end is infinity; another null or a time beyond int64 is an error that names the row."""
    what = name.lstrip("_").replace("_", " ")
    if pa.types.is_timestamp(column.type):
        try:
            column = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
        except pa.ArrowInvalid as reason:
            raise TimeRangeError(
                f"{where}: the {what} is no time of the clock: {reason}."
            ) from None
        column = column if name == "_start" else column.fill_null(INFINITY)
    if not pa.types.is_integer(column.type):
        raise TimeRangeError(
            f"{where}: the column {name} must be whole ticks (int64); it is {column.type}."
        )
    if column.null_count:
        at = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise TimeRangeError(f"{where}, row {at}: the {what} is null.")
    values = column.to_numpy(zero_copy_only=False)
    if values.dtype == np.uint64 and len(values) and values.max() > INFINITY:
        at = int(np.argmax(values > INFINITY))
        raise TimeRangeError(
            f"{where}, row {at}: the {what} {values[at]} is outside the range of the clock."
        )
    times: Times = values.astype(np.int64, copy=False)
    return times


def _adjusts_of(column: pa.Array, where: str) -> Bools:
    """Which rows are adjusts: `_kind` is 0 for an insert and 1 for an adjust, and nothing else."""
    if not pa.types.is_integer(column.type):
        raise MalformedElementError(
            f"{where}: the column _kind must be whole numbers (0 insert, 1 adjust); it is "
            f"{column.type}."
        )
    kind = column.fill_null(2).to_numpy(zero_copy_only=False)
    adjusts: Bools = kind == 1
    strange = ~adjusts & (kind != 0)
    if strange.any():
        at = int(np.argmax(strange))
        raise MalformedElementError(
            f"{where}, row {at}: the kind is {column[at]}; 0 is an insert and 1 an adjust."
        )
    return adjusts
