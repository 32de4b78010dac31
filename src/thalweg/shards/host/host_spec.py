"""What every worker of a host is started with."""

from __future__ import annotations

from dataclasses import dataclass

from thalweg.plan.nodes import Source
from thalweg.plan.written import Given
from thalweg.shards.host.roster import Roster

__all__ = ["HostSpec"]


@dataclass(frozen=True)
class HostSpec:
    """What all buckets of all stages of a host are started with."""

    run: str
    """Differs for every start, so that workers do not mix up runs."""
    ids: list[int]
    stages: int
    sources: dict[str, Source]
    given: Given = ()

    def roster(self) -> Roster:
        return Roster(self.ids, self.sources, self.stages, self.given)
