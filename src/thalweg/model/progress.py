"""Progress: how far a stream's table is settled.

`cti` holds for the whole stream. `scoped` maps a group (a tuple of values of `scope_columns`) to a later promise that
holds for that group alone; a group without an entry has only the common one. Progress never goes back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from thalweg.model.time import INFINITY, MIN_TIME

__all__ = ["NO_PROGRESS", "Progress", "Scope"]

Scope = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Progress:
    """
    >>> Progress(5).merge(Progress(3)).cti
    5
    """

    cti: int = MIN_TIME
    scope_columns: tuple[str, ...] = ()
    scoped: Mapping[Scope, int] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        """Whether nothing will change any more."""
        return self.cti == INFINITY

    def of(self, scope: Scope) -> int:
        """The promise that holds for one group."""
        return max(self.cti, self.scoped.get(scope, MIN_TIME))

    def merge(self, later: Progress) -> Progress:
        """Both promises together: the later of the two, group by group."""
        cti = max(self.cti, later.cti)
        if not self.scoped and not later.scoped:
            return self if cti == self.cti else Progress(cti)
        columns = later.scope_columns or self.scope_columns
        if self.scope_columns and later.scope_columns and self.scope_columns != later.scope_columns:
            return Progress(cti, later.scope_columns, _above(later.scoped, cti))
        both = dict(self.scoped)
        for scope, time in later.scoped.items():
            both[scope] = max(time, both.get(scope, MIN_TIME))
        return Progress(cti, columns, _above(both, cti))

    def meet(self, other: Progress) -> Progress:
        """What both promise: the earlier of the two, group by group."""
        cti = min(self.cti, other.cti)
        if not self.scoped and not other.scoped:
            return Progress(cti)
        if self.scoped and other.scoped and self.scope_columns != other.scope_columns:
            return Progress(cti)
        columns = self.scope_columns or other.scope_columns
        scopes = set(self.scoped) | set(other.scoped)
        return Progress(cti, columns, _above({s: min(self.of(s), other.of(s)) for s in scopes}, cti))

    def without_scopes(self) -> Progress:
        return Progress(self.cti) if self.scoped else self


def _above(scoped: Mapping[Scope, int], cti: int) -> dict[Scope, int]:
    return {scope: time for scope, time in scoped.items() if time > cti}


NO_PROGRESS = Progress()
