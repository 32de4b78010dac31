"""A batch: many elements in columns, then the progress the stream has made after them.

The exchange form is one Arrow table with the control columns `_kind` (0 insert, 1 adjust), `_start`, `_end`, `_new_end`
followed by the payload columns. In memory the control columns are NumPy arrays beside an Arrow record batch of payload,
and a batch of inserts only has no `new_end` at all: the common case costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.errors import MalformedElementError, SchemaChangeError
from thalweg.model.elements import Adjust, Cti, Element, Insert
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.model.rows import Bools, Codes, Rows, concat_rows, empty_rows, take_rows
from thalweg.model.time import INFINITY, Times

__all__ = ["CONTROL_COLUMNS", "Batch", "batches_of", "elements_of"]

CONTROL_COLUMNS = ("_kind", "_start", "_end", "_new_end")
_CONTROL_TYPES = (pa.int8(), pa.int64(), pa.int64(), pa.int64())


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
    def sync(self) -> Times:
        """The earliest time that each element changes."""
        if self.is_adjust is None or self.new_end is None:
            return self.start
        return np.where(self.is_adjust, np.minimum(self.end, self.new_end), self.start)

    def take(self, indices: Codes) -> Batch:
        """The elements at these positions; the progress stays."""
        return self._select(take_rows(self.payload, indices), indices)

    def filter(self, mask: Bools) -> Batch:
        """The elements where the mask holds; the progress stays."""
        return self if mask.all() else self._select(self.payload.filter(pa.array(mask)), mask)

    def _select(self, payload: Rows, which: Codes | Bools) -> Batch:
        adjusts = None if self.is_adjust is None else self.is_adjust[which]
        if adjusts is None or self.new_end is None or not adjusts.any():
            return Batch(payload, self.start[which], self.end[which], progress=self.progress)
        return Batch(payload, self.start[which], self.end[which], self.new_end[which], adjusts, self.progress)

    def with_payload(self, payload: Rows) -> Batch:
        return replace(self, payload=payload)

    def with_progress(self, progress: Progress) -> Batch:
        return replace(self, progress=progress)

    def to_table(self) -> pa.Table:
        """The exchange form (without the progress, which travels beside it)."""
        size = len(self)
        kind = np.zeros(size, np.int8) if self.is_adjust is None else self.is_adjust.astype(np.int8)
        new_end = self.end if self.new_end is None else self.new_end
        controls = [pa.array(kind), pa.array(self.start), pa.array(self.end), pa.array(new_end)]
        names = [*CONTROL_COLUMNS, *self.schema.names]
        return pa.Table.from_arrays([*controls, *self.payload.columns], names=names)

    @classmethod
    def from_table(cls, table: pa.Table | Rows, progress: Progress = NO_PROGRESS) -> Batch:
        """Back from the exchange form; times and kinds are taken on trust (the ingress is what validates)."""
        rows = _one_batch(table)
        if tuple(rows.schema.names[:4]) != CONTROL_COLUMNS:
            raise SchemaChangeError(f"a table of elements begins with {', '.join(CONTROL_COLUMNS)}; got {rows.schema.names}.")
        kind, start, end, new_end = (
            column.cast(kind).to_numpy(zero_copy_only=False) for column, kind in zip(rows.columns[:4], _CONTROL_TYPES, strict=True)
        )
        payload = pa.RecordBatch.from_arrays(rows.columns[4:], names=rows.schema.names[4:])
        adjusts = kind == 1
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
        new_end = np.concatenate([part.end if part.new_end is None else part.new_end for part in full])
        adjusts = np.concatenate([np.zeros(len(p), np.bool_) if p.is_adjust is None else p.is_adjust for p in full])
        return cls(payload, start, end, new_end, adjusts, progress)


def _one_batch(table: pa.Table | Rows) -> Rows:
    if isinstance(table, pa.RecordBatch):
        return table
    combined = table.combine_chunks().to_batches()
    return combined[0] if combined else empty_rows(table.schema)


def batches_of(elements: Iterable[Element], schema: pa.Schema, *, size: int | None = None) -> Iterator[Batch]:
    """Elements as batches: a CTI ends a batch, and so does reaching `size` elements."""
    held: list[Insert | Adjust] = []
    for number, element in enumerate(elements):
        if isinstance(element, Cti):
            yield _pack(held, schema, _progress_of(element))
            held = []
        elif isinstance(element, (Insert, Adjust)):
            held.append(element)
            if size is not None and len(held) >= size:
                yield _pack(held, schema, NO_PROGRESS)
                held = []
        else:
            raise MalformedElementError(f"element {number}: expected an insert, an adjust or a cti; got {element!r}.")
    if held:
        yield _pack(held, schema, NO_PROGRESS)


def _progress_of(element: Cti) -> Progress:
    if element.scope is None:
        return Progress(element.time)
    columns = tuple(sorted(element.scope))
    return Progress(scope_columns=columns, scoped={tuple(element.scope[c] for c in columns): element.time})


def _pack(elements: Sequence[Insert | Adjust], schema: pa.Schema, progress: Progress) -> Batch:
    for element in elements:
        unknown = set(element.payload) - set(schema.names)
        if unknown:
            raise SchemaChangeError(f"element {element!r} has columns {sorted(unknown)} that the stream does not: {schema.names}.")
    try:
        columns = [pa.array([e.payload.get(field.name) for e in elements], field.type) for field in schema]
    except (pa.ArrowInvalid, pa.ArrowTypeError) as reason:
        raise SchemaChangeError(f"a payload does not fit the schema {schema.names}: {reason}.") from reason
    payload = pa.RecordBatch.from_arrays(columns, schema=schema)
    start = np.array([e.start for e in elements], np.int64)
    end = np.array([e.end for e in elements], np.int64)
    adjusts = np.array([isinstance(e, Adjust) for e in elements], np.bool_)
    if not adjusts.any():
        return Batch(payload, start, end, progress=progress)
    new_end = np.array([e.new_end if isinstance(e, Adjust) else e.end for e in elements], np.int64)
    return Batch(payload, start, end, new_end, adjusts, progress)


def elements_of(batches: Iterable[Batch]) -> Iterator[Element]:
    """Batches as elements, for tests and for reading; a promise that was already made is not repeated."""
    known = NO_PROGRESS
    for batch in batches:
        rows: list[dict[str, Any]] = batch.payload.to_pylist()
        for index, payload in enumerate(rows):
            start, end = int(batch.start[index]), int(batch.end[index])
            if batch.is_adjust is not None and batch.new_end is not None and batch.is_adjust[index]:
                yield Adjust(payload, start, end, int(batch.new_end[index]))
            else:
                yield Insert(payload, start, end)
        now = batch.progress
        for scope, time in now.scoped.items():
            if time > known.of(scope):
                yield Cti(time, dict(zip(now.scope_columns, scope, strict=True)))
        if now.cti > known.cti:
            yield Cti(min(now.cti, INFINITY))
        known = known.merge(now)
