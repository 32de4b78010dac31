"""The punctuations of a source: patterns that no new row matches from now on.

A row that matches one is late. A pattern whose range begins where a promise of the source has come
adds nothing to a promise that goes further, and becomes one (`first_promise`). A pattern of a
time and values or ranges of columns is a promise for an area (see `promised_areas`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np

from thalweg.model.batch import Batch
from thalweg.model.elements import Cti
from thalweg.model.progress import Progress
from thalweg.model.punctuation import Punctuation
from thalweg.model.time import MIN_TIME, Times
from thalweg.plan.properties import StreamProperties
from thalweg.progress.admission import Ingress

__all__ = ["NO_PUNCTUATIONS", "Punctuations", "cti_of"]


@dataclass(frozen=True, slots=True)
class Punctuations:
    """A value: every change gives another one.

    >>> from thalweg.model.punctuation import punctuation, within
    >>> punctuations = NO_PUNCTUATIONS.add(punctuation(ts=within(5, 20)))
    >>> punctuations.first_promise(Progress(3), ()) is None
    True
    >>> promise, rest = punctuations.first_promise(Progress(7), ())
    >>> promise.cti, len(rest)
    (20, 0)
    """

    patterns: tuple[Punctuation, ...] = ()

    def __len__(self) -> int:
        return len(self.patterns)

    def add(self, pattern: Punctuation) -> Punctuations:
        return Punctuations((*self.patterns, pattern))

    def after(self, cti: int) -> Punctuations:
        """Those that concern rows after a CTI."""
        return Punctuations(
            tuple(p for p in self.patterns if p.time.high is None or int(p.time.high) > cti)
        )

    def raise_promises(self, batch: Batch, promise: Times) -> Times:
        """The promise before each row, raised for the rows that match. An adjust is no new row."""
        for pattern in self.patterns:
            limit = pattern.limits(batch.payload, batch.start)
            if batch.is_adjust is not None:
                limit = np.where(batch.is_adjust, MIN_TIME, limit)
            promise = np.maximum(promise, limit)
        return promise

    def first_promise(
        self, progress: Progress, group_columns: tuple[str, ...]
    ) -> tuple[Progress, Punctuations] | None:
        """The first pattern that is a promise beside `progress`, and the patterns without it."""
        for pattern in self.patterns:
            promise = _as_promise(pattern.beyond(progress), group_columns)
            if promise is not None:
                return promise, self.without(pattern)
        return None

    def without(self, pattern: Punctuation) -> Punctuations:
        return Punctuations(tuple(p for p in self.patterns if p is not pattern))

    def to_text(self) -> str:
        return json.dumps([pattern.to_text() for pattern in self.patterns])

    @classmethod
    def from_text(cls, text: str) -> Punctuations:
        """The inverse of `to_text`."""
        return cls(tuple(map(Punctuation.from_text, json.loads(text))))


NO_PUNCTUATIONS = Punctuations()


def cti_of(pattern: Punctuation, declared: StreamProperties, policy: Ingress) -> Cti | None:
    """The CTI that a pattern is for a source. Values of other columns than those that name its
    groups describe an area, where the source takes patterns."""
    cti = pattern.to_cti()
    if cti is None or cti.scope is None or not (declared.insert_only and policy.patterns):
        return cti
    return cti if set(declared.group_keys) in (set(), set(cti.scope)) else None


def _as_promise(pattern: Punctuation, group_columns: tuple[str, ...]) -> Progress | None:
    """The promise that a pattern is; None when it is none, or is about groups of other columns."""
    column_promises = pattern.to_column_promises()
    if column_promises:
        return Progress(column_promises=column_promises)
    group_column_promises = pattern.to_group_column_promises(group_columns)
    if group_column_promises:
        return Progress(scope_columns=group_columns, group_column_promises=group_column_promises)
    cti = pattern.to_cti()
    if cti is None:
        return None
    if cti.scope is None:
        return Progress(cti.time)
    if set(cti.scope) != set(group_columns):
        return None
    scope = tuple(cti.scope[name] for name in group_columns)
    return Progress(scope_columns=group_columns, scoped={scope: cti.time})
