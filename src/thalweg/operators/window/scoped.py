"""Promises for groups, as a window operator takes them: each when it is new, with the partitions of
the state that it speaks of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from thalweg.model.progress import Progress, Scope
from thalweg.model.rows import Codes
from thalweg.model.time import Times
from thalweg.operators.window.held_rows import Partitions

__all__ = ["NO_GROUPS", "Groups", "ScopedPromises"]


@dataclass(frozen=True, slots=True)
class Groups:
    """New promises for groups, and the partitions that each of them speaks of."""

    columns: tuple[str, ...]
    scopes: list[Scope]
    times: Times
    which: Codes
    partition: Codes

    @property
    def time(self) -> Times:
        """Of each partition."""
        return self.times[self.which]


_NONE = np.empty(0, np.int64)
NO_GROUPS = Groups((), [], _NONE, _NONE, _NONE)


class ScopedPromises:
    """Promises for groups that are new, where windows of one group need no other."""

    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions
        self.forget()

    def forget(self) -> None:
        """All promises are new again."""
        self._seen: Mapping[Scope, int] = {}

    def take(self, progress: Progress) -> Groups:
        named, columns = progress.scoped, progress.scope_columns
        if not named or named is self._seen or not set(columns) <= set(self._partitions.columns):
            return NO_GROUPS
        seen, self._seen = self._seen, named
        scopes = [scope for scope, time in named.items() if seen.get(scope) != time]
        if not scopes:
            return NO_GROUPS
        times = np.array([named[scope] for scope in scopes], np.int64)
        which, partition = self._partitions.of_scopes(columns, scopes)
        return Groups(columns, scopes, times, which, partition)
