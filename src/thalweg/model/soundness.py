"""The CTI soundness checker: does a sequence keep the promises it makes?

After `cti(t)` no insert may start before `t`, and no adjust may have an `end` or `new_end` before
`t`. After `cti(t, scope)` the same holds for the rows whose payload matches the scope. No row may
change below all bounds of an earlier column promise.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from thalweg.errors import SoundnessError
from thalweg.model.batch import Batch
from thalweg.model.column_promises import inside
from thalweg.model.elements import Cti, Element, Payload
from thalweg.model.progress import NO_PROGRESS, scope_values
from thalweg.model.python_rows import python_rows
from thalweg.model.time import MIN_TIME

__all__ = ["Violation", "assert_sound", "first_violation", "first_violation_in_batches"]


@dataclass(frozen=True, slots=True)
class Violation:
    """The first element that breaks an earlier promise, and the promise."""

    position: int
    element: Element
    promise: int

    def __str__(self) -> str:
        return (
            f"element {self.position} {self.element} changes time before the CTI {self.promise} "
            "that came earlier"
        )


def first_violation(elements: Iterable[Element]) -> Violation | None:
    """The first broken promise, or None.

    >>> from thalweg.model import cti, insert
    >>> print(first_violation([cti(5), insert({"v": 1}, 4, 9)]))
    element 1 Insert(payload={'v': 1}, start=4, end=9) changes time before the CTI 5 that came
    earlier
    """
    common = MIN_TIME
    scoped: list[tuple[dict[str, object], int]] = []
    for position, element in enumerate(elements):
        if isinstance(element, Cti):
            if element.scope is None:
                if element.time < common:
                    return Violation(position, element, common)
                common = element.time
            else:
                scoped.append((dict(element.scope), element.time))
            continue
        promise = max([common, *(t for scope, t in scoped if _matches(scope, element.payload))])
        if element.sync < promise:
            return Violation(position, element, promise)
    return None


def _matches(scope: Payload, payload: Payload) -> bool:
    """Whether a row belongs to the group of a CTI; NaN names a group like any other value."""
    return all(
        name in payload
        and (payload[name] == value or (payload[name] != payload[name] and value != value))
        for name, value in scope.items()
    )


def first_violation_in_batches(batches: Iterable[Batch]) -> str | None:
    """The same check on batches, without turning them into elements."""
    progress = NO_PROGRESS
    for number, batch in enumerate(batches):
        promise = np.full(len(batch), progress.cti)
        if progress.speaks_of_groups and len(batch):
            columns = [scope_values(batch.payload.column(name)) for name in progress.scope_columns]
            promise = np.array(
                [progress.of(scope) for scope in zip(*columns, strict=True)], np.int64
            )
        broken = np.flatnonzero(batch.sync < promise)
        if len(broken):
            at = int(broken[0])
            row = python_rows(batch.payload.slice(at, 1))[0]
            new_end = None if batch.new_end is None else int(batch.new_end[at])
            return (
                f"batch {number}, element {at}: {row} [{batch.start[at]}, {batch.end[at]}) new end "
                f"{new_end} changes time before the CTI {promise[at]} that came earlier"
            )
        settled = (
            np.flatnonzero(inside(progress.column_promises, batch.payload))
            if progress.column_promises
            else broken
        )
        if len(settled):
            row = python_rows(batch.payload.slice(int(settled[0]), 1))[0]
            return (
                f"batch {number}, element {settled[0]}: {row} changes although a column promise of "
                f"{dict(progress.column_promises)} made earlier says that it is final"
            )
        if batch.progress.cti != MIN_TIME and batch.progress.cti < progress.cti:
            return f"batch {number}: progress goes back from {progress.cti} to {batch.progress.cti}"
        progress = progress.merge(batch.progress)
    return None


def assert_sound(batches: Iterable[Batch]) -> None:
    """Raise when a promise is broken."""
    broken = first_violation_in_batches(batches)
    if broken:
        raise SoundnessError(broken)
