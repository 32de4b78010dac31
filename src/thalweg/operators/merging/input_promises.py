"""The promises of a merge's inputs for single groups, beyond their CTIs; and the check that a batch
keeps the promises of its input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from thalweg.errors import LateEventError, LifetimeError
from thalweg.model.batch import Batch
from thalweg.model.progress import Progress, Scope, scope_values
from thalweg.model.progress_text import progress_of_text, progress_text
from thalweg.model.rows import encode
from thalweg.model.sorting import representatives
from thalweg.model.time import INFINITY, MIN_TIME, Times
from thalweg.operators.merging.level import first_row

__all__ = ["InputPromises", "check_batch"]


@dataclass(slots=True)
class InputPromises:
    """
    >>> promises = InputPromises()
    >>> promises.take("left", Progress(5, ("k",), {("a",): 9}))
    >>> promises.of("left", ("a",)), promises.of("left", ("b",)) == MIN_TIME
    (9, True)
    """

    times: dict[str, dict[Scope, int]] = field(default_factory=dict)
    """By input and group."""

    def take(self, name: str, progress: Progress) -> None:
        """Note what an input promises for groups."""
        own = self.times.setdefault(name, {})
        for scope, time in progress.scoped.items():
            own[scope] = max(time, own.get(scope, MIN_TIME))

    def forget_before(self, name: str, cti: int) -> None:
        """Drop the promises of an input that its CTI covers."""
        if name in self.times:
            own = self.times[name]
            self.times[name] = {scope: time for scope, time in own.items() if time > cti}

    def leave(self, name: str) -> Mapping[Scope, int]:
        """Remove an input; returns its promises."""
        return self.times.pop(name, {})

    def of(self, name: str, scope: Scope) -> int:
        return self.times.get(name, {}).get(scope, MIN_TIME)

    def scopes(self) -> set[Scope]:
        """The groups for which some input has promised something."""
        return {scope for own in self.times.values() for scope in own}

    def of_rows(self, name: str, columns: tuple[str, ...], batch: Batch, cti: int) -> int | Times:
        """The promise of an input for each row of a batch; `columns` identify the group."""
        own = self.times.get(name)
        if not own or not len(batch):
            return cti
        keys = [batch.payload.column(column) for column in columns]
        code, size = encode(keys, len(batch))
        first = pa.array(representatives(code, size))
        scopes = zip(*(scope_values(key.take(first)) for key in keys), strict=True)
        promised: Times = np.array([own.get(scope, MIN_TIME) for scope in scopes])[code]
        return np.maximum(promised, cti)

    def to_texts(self, columns: tuple[str, ...]) -> dict[str, str]:
        """By input; `columns` name the groups."""
        return {
            name: progress_text(Progress(MIN_TIME, columns, own))
            for name, own in self.times.items()
        }

    @classmethod
    def of_texts(cls, texts: Mapping[str, str]) -> tuple[InputPromises, tuple[str, ...]]:
        """The inverse of `to_texts`; no columns where nothing was promised for a group."""
        saved = {name: progress_of_text(text) for name, text in texts.items()}
        columns = next((each.scope_columns for each in saved.values() if each.scoped), ())
        return cls({name: dict(each.scoped) for name, each in saved.items()}), columns


def check_batch(name: str, batch: Batch, promised: int | Times) -> None:
    """Refuse a batch that changes a row before its input's promise (one for all rows, or one for
    each), or that has a row which ends before it starts."""
    sync = batch.sync
    if isinstance(promised, int):  # the usual case, without a column of answers
        broken = int(sync.min(initial=INFINITY)) < promised
    else:
        broken = bool((sync < promised).any())
    if broken:
        late = sync < promised
        payload, start, end = first_row(batch, late)
        promise = np.broadcast_to(promised, len(batch))[int(np.argmax(late))]
        raise LateEventError(
            f"merge: input {name!r} has promised {promise}, and now changes {payload} from {start} "
            f"to {end}."
        )
    ends = batch.end if batch.new_end is None else np.minimum(batch.end, batch.new_end)
    wrong = ends < batch.start
    if wrong.any():
        payload, start, end = first_row(batch, wrong)
        raise LifetimeError(f"merge: input {name!r}: {payload} from {start} ends before that.")
