"""Figures of a query: the sums of what its micro-batches report, and those of what the buckets of a
micro-batch report.

A listener gets all micro-batches, with a delay; Spark keeps the last hundred, which are included
whenever figures are read. Each micro-batch counts once.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from html import escape
from threading import Lock
from typing import Any

from thalweg.graph.graph_operator import OperatorFigures
from thalweg.model.time import INFINITY, MIN_TIME
from thalweg.shards.reports import combined_figures

__all__ = [
    "BUCKETS",
    "FIGURES",
    "FIGURE_COLUMNS",
    "Figures",
    "QueryStatus",
    "figures_of_buckets",
    "observed_figures",
]

FIGURES = "thalweg"
"""The name under which Spark reports what was observed in a micro-batch ..."""
BUCKETS = "buckets"
"""... and that of its only column: rows of the output that have figures."""
_SUMMED = (
    "read",
    "taken",
    "changes",
    "adjusts",
    "late",
    "dead",
    "unwanted",
    "state_rows",
    "state_bytes",
    "written",
)
FIGURE_COLUMNS = ("kind", "cti", "report", *_SUMMED)

_ADDED = ("read", "unwanted", "taken", "changes", "adjusts", "late", "dead")
_REMEMBERED = 1_000


@dataclass(frozen=True, slots=True)
class QueryStatus:
    """The status of a query on Spark, as of its last micro-batch."""

    batches: int
    rows: int
    """Rows that were read."""
    exchanged: int
    """Rows that were left of them for the exchange, after filters and partial sums."""
    changes: int
    adjusts: int
    late: int
    state_rows: int
    state_bytes: int
    cti: int | datetime | None
    """The time before which nothing will change, as the clock of the query shows it; None: nothing
    is promised yet; `INFINITY`: all is final."""
    seconds: float
    """How long the last micro-batch took."""
    active: bool
    operators: Mapping[str, OperatorFigures] = field(default_factory=dict)
    """By fragment and operator: rows in and out, retractions and time so far, state now."""
    dead: int = 0
    """Records that could not be read and were passed over."""
    passed: int = 0
    """Files that are there but are not read: not whole yet, links, of another format, changed after
    they were read."""
    warnings: tuple[str, ...] = ()
    skipped: int = 0
    """Of the rows that were read, those skipped because no answer needs them."""

    @property
    def final_up_to(self) -> int | datetime | None:
        """As of an engine in-process: None where nothing is promised yet, or everything is."""
        return None if self.cti == INFINITY else self.cti

    def _repr_html_(self) -> str:
        until = "the end" if self.cti == INFINITY else self.final_up_to or "nothing yet"
        figures = {
            "micro-batches": f"{self.batches:,}, {'running' if self.active else 'ended'}",
            "rows read": f"{self.rows:,}",
            "changes": f"{self.changes:,}",
            "retractions": f"{self.adjusts:,}",
            "late": f"{self.late:,}",
            "final up to": str(until),
            "state": f"{self.state_rows:,} rows, {self.state_bytes:,} bytes",
            **{f"warning {n}": escape(text) for n, text in enumerate(self.warnings, start=1)},
        }
        rows = "".join(
            f"<tr><th>{name}</th><td>{value}</td></tr>" for name, value in figures.items()
        )
        return f"<table>{rows}</table>"


def observed_figures(progress: Any) -> dict[str, Any] | None:
    """The figures of the micro-batch that Spark reports of; None: it has none."""
    observed = progress.observedMetrics.get(FIGURES)
    if observed is None:
        return None
    rows = observed[BUCKETS] or []  # as dicts in what was text, as rows of Spark otherwise
    return figures_of_buckets([row if isinstance(row, dict) else row.asDict() for row in rows])


def figures_of_buckets(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The figures of a micro-batch. Its promise is that of the slowest bucket.

    >>> slow = {"kind": "figures", "cti": 10, "read": 3, "report": "{}"}
    >>> fast = {"kind": "figures", "cti": 20, "changes": 1, "report": None}
    >>> found = figures_of_buckets([slow, fast, {"kind": "late", "late": 2}])
    >>> [found[name] for name in ("cti", "read", "changes", "late", "reports")]
    [10, 3, 1, 2, ['{}']]
    """
    promises = [row.get("cti") for row in rows if row["kind"] == "figures"]
    reports = [row.get("report") for row in rows]
    return {
        "cti": min((MIN_TIME if cti is None else cti for cti in promises), default=None),
        **{name: sum(row.get(name) or 0 for row in rows) for name in _SUMMED},
        "reports": [report for report in reports if report is not None],
    }


class Figures:
    """The figures of the micro-batches noted so far."""

    def __init__(self) -> None:
        self.batches = 0
        self.totals: Counter[str] = Counter()
        self.operators: dict[str, OperatorFigures] = {}
        self.newest: dict[str, Any] = {}
        self.reports: list[dict[str, Any]] = []
        self.texts: list[str] = []
        self._last = -1
        self._noted: set[int] = set()
        self._lock = Lock()

    def note(self, batch: int, figures: Mapping[str, Any]) -> bool:
        """Add the figures of a micro-batch; returns whether they are the newest."""
        with self._lock:
            if batch in self._noted or batch < self._last - _REMEMBERED:
                return False
            self._noted.add(batch)
            self.batches += 1
            self.totals.update({name: figures.get(name) or 0 for name in _ADDED})
            texts = list(figures.get("reports") or [])
            reports = [json.loads(text) for text in texts]
            for name, done in combined_figures(reports).items():
                before = self.operators.get(name, OperatorFigures())
                self.operators[name] = replace(before, state_rows=0, state_bytes=0) + done
            if batch < self._last:
                return False
            self._last, self.newest = batch, dict(figures)
            self.reports, self.texts = reports, texts
            if len(self._noted) > 2 * _REMEMBERED:
                self._noted = {number for number in self._noted if number >= batch - _REMEMBERED}
            return True
