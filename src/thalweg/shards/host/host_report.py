"""What buckets of a host report of its queries after a micro-batch."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

__all__ = ["HostReport", "reports_of_json", "reports_to_json"]


@dataclass(frozen=True, slots=True)
class HostReport:
    """What one bucket of a fragment did for a query."""

    query: str
    """Its id."""
    cti: int
    changes: int
    adjusts: int
    late: int
    state_rows: int
    state_bytes: int
    last: bool
    """Whether the fragment gives the answer of the query."""


def reports_to_json(reports: Iterable[HostReport]) -> str:
    return json.dumps([asdict(report) for report in reports])


def reports_of_json(text: str) -> list[HostReport]:
    return [HostReport(**entry) for entry in json.loads(text)]
