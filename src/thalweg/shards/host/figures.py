"""Figures of the queries of a host: what buckets report after a micro-batch, and the totals."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

__all__ = ["HostFigures", "HostReport", "HostedStatus", "reports_of_json", "reports_to_json"]


@dataclass(frozen=True, slots=True)
class HostReport:
    """The figures of one bucket of a fragment for a query."""

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


@dataclass(frozen=True)
class HostedStatus:
    """The status of one query of a host, as of its last micro-batch."""

    changes: int = 0
    adjusts: int = 0
    late: int = 0
    state_rows: int = 0
    state_bytes: int = 0
    cti: int | None = None


class HostFigures:
    """By the id of a query: its figures since the host was started."""

    def __init__(self) -> None:
        self._status: dict[str, HostedStatus] = {}

    def add(self, reports: Iterable[str]) -> None:
        """Add the reports of all buckets for a micro-batch."""
        by_query: dict[str, list[HostReport]] = {}
        for report in (entry for text in reports for entry in reports_of_json(text)):
            by_query.setdefault(report.query, []).append(report)
        for id_, own in by_query.items():
            self._status[id_] = _after(self.status(id_), own)

    def status(self, id_: str) -> HostedStatus:
        return self._status.get(id_, HostedStatus())


def _after(before: HostedStatus, reports: list[HostReport]) -> HostedStatus:
    """The status of a query after a micro-batch that its buckets report."""
    answers = [report for report in reports if report.last]
    return HostedStatus(
        changes=before.changes + sum(report.changes for report in answers),
        adjusts=before.adjusts + sum(report.adjusts for report in answers),
        late=before.late + sum(report.late for report in reports),
        state_rows=sum(report.state_rows for report in reports),
        state_bytes=sum(report.state_bytes for report in reports),
        cti=min((report.cti for report in answers), default=None),
    )
