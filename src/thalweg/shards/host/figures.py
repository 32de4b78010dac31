"""Figures of the queries of a host, added up from the reports of its micro-batches."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field

__all__ = ["HostFigures", "HostedStatus"]


@dataclass(frozen=True)
class HostedStatus:
    """The status of one query of a host, as of its last micro-batch."""

    changes: int = 0
    adjusts: int = 0
    late: int = 0
    state_rows: int = 0
    state_bytes: int = 0
    cti: int | None = None


@dataclass
class _QueryFigures:
    totals: Counter[str] = field(default_factory=Counter)
    newest: dict[str, int] = field(default_factory=dict)
    """Of the last micro-batch: rows and bytes of state, and the promise."""


class HostFigures:
    """By the id of a query: its figures since the host was started."""

    def __init__(self) -> None:
        self._figures: dict[str, _QueryFigures] = {}

    def add(self, reports: list[str]) -> None:
        """Add the reports of all buckets for a micro-batch."""
        newest: dict[str, dict[str, int]] = {}
        for report in (entry for text in reports for entry in json.loads(text)):
            figures = self._figures.setdefault(report["query"], _QueryFigures())
            now = newest.setdefault(report["query"], {"state_rows": 0, "state_bytes": 0})
            for name in ("state_rows", "state_bytes"):
                now[name] += report[name]
            figures.totals["late"] += report["late"]
            if report["last"]:
                figures.totals.update({n: report[n] for n in ("changes", "adjusts")})
                now["cti"] = min(report["cti"], now.get("cti", report["cti"]))
        for id_, now in newest.items():
            self._figures[id_].newest = now

    def status(self, id_: str) -> HostedStatus:
        figures = self._figures.get(id_, _QueryFigures())
        totals, newest = figures.totals, figures.newest
        return HostedStatus(
            totals["changes"],
            totals["adjusts"],
            totals["late"],
            newest.get("state_rows", 0),
            newest.get("state_bytes", 0),
            newest.get("cti"),
        )
