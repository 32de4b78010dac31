"""Elements as batches, and back: what users push one by one, and what tests and readers look at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.errors import MalformedElementError, SchemaChangeError, TimeRangeError
from thalweg.model.batch import Batch
from thalweg.model.elements import Adjust, Cti, Element, Insert
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.model.python_rows import column_of, python_rows
from thalweg.model.time import INFINITY, Times

__all__ = ["batch_of", "batches_of", "elements_of"]

Place = Callable[[int], str]
"""Where the element with a number is, as a message says it."""


def _numbered(number: int) -> str:
    return f"element {number}"


def batches_of(
    elements: Iterable[Element], schema: pa.Schema, *, size: int | None = None
) -> Iterator[Batch]:
    """Elements as batches: a CTI ends a batch, and so does reaching `size` elements."""
    held: list[Insert | Adjust] = []
    for number, element in enumerate(elements):
        if isinstance(element, Cti):
            yield batch_of(held, schema, element, first=number - len(held))
            held = []
        elif isinstance(element, (Insert, Adjust)):
            held.append(element)
            if size is not None and len(held) >= size:
                yield batch_of(held, schema, first=number + 1 - len(held))
                held = []
        else:
            raise MalformedElementError(
                f"element {number}: expected an insert, an adjust or a cti; got {element!r}."
            )
    if held:
        yield batch_of(held, schema, first=number + 1 - len(held))


def batch_of(
    elements: Sequence[Insert | Adjust],
    schema: pa.Schema,
    promise: Cti | None = None,
    *,
    first: int = 0,
    place: Place = _numbered,
) -> Batch:
    """Elements, and the CTI that follows them, as one batch. `first` is the number of the first
    one, for messages."""
    progress = (
        NO_PROGRESS if promise is None else _progress_of(promise, place(first + len(elements)))
    )
    names = set(schema.names)
    for at, element in enumerate(elements):
        if not isinstance(element.payload, Mapping):
            raise MalformedElementError(
                f"{place(first + at)}: a payload maps columns to values; got {element.payload!r}."
            )
        if not element.payload.keys() <= names:
            unknown = sorted(map(str, element.payload.keys() - names))
            raise SchemaChangeError(
                f"{place(first + at)}: {element!r} has columns {unknown} that the stream does not: "
                f"{schema.names}."
            )
        if len(element.payload) < len(names):
            lacking = sorted(names - element.payload.keys())
            raise SchemaChangeError(
                f"{place(first + at)}: {element!r} lacks the columns {lacking} of the stream: "
                f"{schema.names}; a null is None."
            )
    columns = [
        _column([e.payload.get(field.name) for e in elements], field, first, place)
        for field in schema
    ]
    payload = pa.RecordBatch.from_arrays(columns, schema=schema)
    start = _times([e.start for e in elements], "start", first, place)
    end = _times([e.end for e in elements], "end", first, place)
    adjusts = np.array([isinstance(e, Adjust) for e in elements], np.bool_)
    if not adjusts.any():
        return Batch(payload, start, end, progress=progress)
    new_end = _times(
        [e.new_end if isinstance(e, Adjust) else e.end for e in elements], "new end", first, place
    )
    return Batch(payload, start, end, new_end, adjusts, progress)


def _progress_of(element: Cti, where: str) -> Progress:
    time = _whole(element.time, "CTI", where)
    if element.scope is None:
        return Progress(time)
    if not element.scope or not hasattr(element.scope, "keys"):
        raise MalformedElementError(
            f"{where}: the scope of a CTI maps columns to values; got {element.scope!r}. Without a "
            "scope the CTI holds for all rows."
        )
    try:
        columns = tuple(sorted(element.scope))
        return Progress(
            scope_columns=columns, scoped={tuple(element.scope[c] for c in columns): time}
        )
    except TypeError as reason:
        raise MalformedElementError(
            f"{where}: the scope {element.scope!r} has a value that names no group ({reason})."
        ) from reason


def _times(values: list[Any], what: str, first: int, place: Place) -> Times:
    try:
        times = np.array(values)
    except ValueError:  # a list among them
        times = np.empty(0)
    if times.dtype == np.int64 and times.ndim == 1:
        return times
    return np.array(
        [_whole(value, what, place(first + at)) for at, value in enumerate(values)], np.int64
    )


def _whole(value: Any, what: str, where: str) -> int:
    """A time as an int that fits int64."""
    if isinstance(value, (int, np.integer)) or (
        isinstance(value, (float, np.floating)) and float(value).is_integer()
    ):
        ticks = int(value)
        if -INFINITY <= ticks <= INFINITY:
            return ticks
        raise TimeRangeError(f"{where}: the {what} {ticks} is outside the range of the clock.")
    if value is None or isinstance(value, (float, np.floating)):
        shown = "null" if value is None else value
        raise TimeRangeError(f"{where}: the {what} is {shown}; a time is a whole number of ticks.")
    raise MalformedElementError(
        f"{where}: the {what} is {value!r}; a time is a whole number of ticks (time_us makes one of"
        " a datetime)."
    )


_MISFIT = (pa.ArrowException, TypeError, ValueError, OverflowError)


def _column(values: list[Any], field: pa.Field, first: int, place: Place) -> pa.Array:
    try:
        return column_of(values, field.type)
    except _MISFIT as whole:
        for at, value in enumerate(values):
            try:
                column_of([value], field.type)
            except _MISFIT as reason:
                raise SchemaChangeError(
                    f"{place(first + at)}: the value {value!r} does not fit the column "
                    f"{field.name!r} of type {field.type}: {reason}."
                ) from reason
        raise SchemaChangeError(
            f"{place(first)}: the column {field.name!r} of type {field.type} does not take its "
            f"values: {whole}."
        ) from whole


def elements_of(batches: Iterable[Batch]) -> Iterator[Element]:
    """Batches as elements, for tests and for reading; a promise that was already made is not
    repeated."""
    progress = NO_PROGRESS
    for batch in batches:
        rows: list[dict[str, Any]] = python_rows(batch.payload)
        for index, payload in enumerate(rows):
            start, end = int(batch.start[index]), int(batch.end[index])
            if batch.is_adjust is not None and batch.new_end is not None and batch.is_adjust[index]:
                yield Adjust(payload, start, end, int(batch.new_end[index]))
            else:
                yield Insert(payload, start, end)
        now = batch.progress
        before = progress.naming(now.scope_columns)
        for scope, time in now.scoped.items():
            if time > before.of(scope):
                yield Cti(time, dict(zip(now.scope_columns, scope, strict=True)))
        if now.cti > progress.cti:
            yield Cti(min(now.cti, INFINITY))
        progress = progress.merge(now)
