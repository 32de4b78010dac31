"""Rows in columns, as the state holds them and as they are saved.

`_end` and `_weight` are left out where all rows last equally long, or have weight one: most streams
are like that, and a run of a million rows is then half as large, in memory and saved.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.model.delta import Weights
from thalweg.model.rows import Codes, Rows, concat_rows, ones, take_column, take_rows
from thalweg.model.time import INFINITY, Times, least

__all__ = ["RowColumns", "read_columns", "write_columns"]

_INT64 = pa.int64().id
_UNKNOWN = -1
_SPARE = 256
"""Up to this many payloads without a row are cheaper to keep than to drop."""


class RowColumns:
    """Lifetime, weight, marks and group of each row, and the payload.

    A duration that all rows share, or the weight one, is not kept for each row (`compact`). Rows
    put `aside` are positions in a larger payload, gathered when it is first read as a whole.
    """

    __slots__ = (
        "_end",
        "_from",
        "_payload",
        "_payload_bytes",
        "_weight",
        "duration",
        "group",
        "marks",
        "start",
    )

    def __init__(
        self,
        group: Codes,
        start: Times,
        end: Times | None,
        weight: Weights | None,
        marks: tuple[Times, ...],
        payload: Rows,
        duration: int = 0,
    ) -> None:
        self.group, self.start, self._end, self._weight = group, start, end, weight
        self.marks, self._payload, self.duration = marks, payload, duration
        self._from: Codes | None = None
        self._payload_bytes = _UNKNOWN

    def __len__(self) -> int:
        return len(self.start)

    @property
    def payload(self) -> Rows:
        return self.gathered()._payload

    @property
    def end(self) -> Times:
        return self.start + self.duration if self._end is None else self._end

    @property
    def weight(self) -> Weights:
        return np.ones(len(self), np.int64) if self._weight is None else self._weight

    def ends(self, at: Codes) -> Times:
        """The ends of some rows."""
        return self.start[at] + self.duration if self._end is None else self._end[at]

    def weights(self, at: Codes) -> Weights:
        """The weights of some rows."""
        return ones(len(at)) if self._weight is None else self._weight[at]

    def set_weights(self, at: Codes, weights: Weights) -> None:
        if self._weight is None:
            self._weight = np.ones(len(self), np.int64)
        self._weight[at] = weights

    def compact(self) -> RowColumns:
        """Drop the columns of durations and weights that all rows share."""
        if self._weight is not None and (self._weight == 1).all():
            self._weight = None
        if self._end is not None and self._end[0] != INFINITY:
            duration = int(self._end[0] - self.start[0])
            if (self._end - self.start == duration).all():
                self._end, self.duration = None, duration
        return self

    def payload_at(self, at: Codes, names: Sequence[str] | None = None) -> Rows:
        """The payload of some rows, or some columns of it."""
        payload = self._payload if names is None else self._payload.select(list(names))
        return take_rows(payload, at if self._from is None else self._from[at])

    def column_at(self, name: str, at: Codes) -> pa.Array:
        """One column of the payload of some rows."""
        return take_column(self._payload.column(name), at if self._from is None else self._from[at])

    def least(self, names: Sequence[str], at: Codes | None) -> list[int] | None:
        """The smallest value of each of some columns of whole numbers without nulls, in some rows
        or in all; None when a row is null in all of these columns."""
        columns = [self._payload.column(name) for name in names]
        if at is not None and self._from is not None:
            at = self._from[at]
        elif at is None:
            at = self._from
        if not any(column.null_count or column.type.id != _INT64 for column in columns):
            values = [column.to_numpy() for column in columns]
            some = values if at is None else [value[at] for value in values]
            return [least(value) if len(value) else INFINITY for value in some]
        columns = columns if at is None else [take_column(column, at) for column in columns]
        empty = [column.is_null().to_numpy(zero_copy_only=False) for column in columns]
        if np.logical_and.reduce(empty).any():
            return None
        return [_least_value(column) for column in columns]

    def take(self, which: Codes) -> RowColumns:
        """Some of the rows, in memory of their own."""
        return self.aside(which).gathered()

    def gathered(self) -> RowColumns:
        """The same rows, without payloads of other rows."""
        if self._from is not None:
            self._payload, self._from = take_rows(self._payload, self._from), None
            self._payload_bytes = _UNKNOWN
        return self

    def aside(self, which: Codes) -> RowColumns:
        """Some of the rows, which keep the payload of all rows in memory."""
        rows = RowColumns(
            self.group[which],
            self.start[which],
            None if self._end is None else self._end[which],
            None if self._weight is None else self._weight[which],
            tuple(mark[which] for mark in self.marks),
            self._payload,
            self.duration,
        )
        rows._from = which if self._from is None else self._from[which]
        return rows

    def slice(self, begin: int, end: int) -> RowColumns:
        """The rows in [begin, end), which are not copied."""
        if begin == 0 and end == len(self):
            return self
        return RowColumns(
            self.group[begin:end],
            self.start[begin:end],
            None if self._end is None else self._end[begin:end],
            None if self._weight is None else self._weight[begin:end],
            tuple(mark[begin:end] for mark in self.marks),
            self.payload.slice(begin, end - begin),
            self.duration,
        )

    @classmethod
    def concat(cls, parts: list[RowColumns]) -> RowColumns:
        if len(parts) == 1:
            return parts[0]
        return cls(
            np.concatenate([part.group for part in parts]),
            np.concatenate([part.start for part in parts]),
            np.concatenate([part.end for part in parts]),
            np.concatenate([part.weight for part in parts]),
            tuple(np.concatenate(marks) for marks in zip(*(p.marks for p in parts), strict=True)),
            concat_rows([part.payload for part in parts], parts[0].payload.schema),
        )

    def extend(self, more: RowColumns) -> None:
        """Append rows to a few. Payloads without a row stay until they are more than `_SPARE`."""
        if self._payload.num_rows > len(self) + _SPARE:
            self.gathered()
        payload = self._payload
        if self._from is not None:
            begin = payload.num_rows
            self._from = np.concatenate((self._from, np.arange(begin, begin + len(more))))
        self._payload = pa.concat_batches((payload, more.payload))
        self._payload_bytes = _UNKNOWN
        self._end = np.concatenate((self.end, more.end))
        self._weight = np.concatenate((self.weight, more.weight))
        self.group = np.concatenate((self.group, more.group))
        self.start = np.concatenate((self.start, more.start))
        if more.marks:
            self.marks = tuple(map(np.concatenate, zip(self.marks, more.marks, strict=True)))

    @property
    def nbytes(self) -> int:
        """Bytes of the rows. Groups are not counted: they follow from the payload."""
        self.gathered()
        if self._payload_bytes == _UNKNOWN:
            self._payload_bytes = int(self._payload.nbytes)
        kept = [c for c in (self.start, self._end, self._weight, *self.marks) if c is not None]
        return self._payload_bytes + sum(column.nbytes for column in kept)


def _least_value(column: pa.Array) -> int:
    low = pc.min(column).as_py()
    return INFINITY if low is None else int(low)


def write_columns(rows: RowColumns) -> Rows:
    """Rows as one record batch. A duration or a weight that all rows share is written once; groups
    are not written, since they follow from the payload."""
    rows = RowColumns(
        rows.group, rows.start, rows.end, rows.weight, rows.marks, rows.payload
    ).compact()
    columns = {"_start": rows.start, "_end": rows._end, "_weight": rows._weight}
    kept = {name: values for name, values in columns.items() if values is not None}
    head = {
        "duration": rows.duration if rows._end is None else None,
        "plain": rows._weight is None,
        "marks": len(rows.marks),
    }
    kept |= {f"_mark{at}": mark for at, mark in enumerate(rows.marks)}
    fields = [pa.field(name, pa.int64()) for name in kept]
    schema = pa.schema(
        [*fields, *rows.payload.schema], metadata={b"thalweg": json.dumps(head).encode()}
    )
    arrays = [pa.array(values) for values in kept.values()]
    return pa.RecordBatch.from_arrays([*arrays, *rows.payload.columns], schema=schema)


def read_columns(written: Rows, schema: pa.Schema) -> RowColumns:
    """The inverse of `write_columns`, by position: no name of a payload column is special. Groups
    are all 0."""
    head = json.loads((written.schema.metadata or {})[b"thalweg"])
    columns = list(written.columns)
    start = columns.pop(0).to_numpy()
    end = start + head["duration"] if head["duration"] is not None else columns.pop(0).to_numpy()
    weight = np.ones(len(start), np.int64) if head["plain"] else columns.pop(0).to_numpy().copy()
    marks = tuple(columns.pop(0).to_numpy().copy() for _ in range(head["marks"]))
    payload = pa.RecordBatch.from_arrays(columns, schema=schema)
    return RowColumns(np.zeros(len(start), np.int64), start, end, weight, marks, payload)
