"""Figures of a query: those of each micro-batch, from the reports of its buckets, and the totals.

A listener gets all micro-batches, with a delay; Spark keeps the last hundred, which are included
whenever figures are read. Each micro-batch counts once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from html import escape
from threading import Lock
from typing import Any

from thalweg.graph.graph_operator import OperatorFigures
from thalweg.model.time import INFINITY, MIN_TIME
from thalweg.shards.output.rows import OutputKind
from thalweg.shards.reports.bucket_report import BucketReport
from thalweg.shards.reports.combined import combined_figures

__all__ = ["BatchFigures", "Counts", "QueryFigures", "QueryStatus"]

_REMEMBERED = 1_000


@dataclass(frozen=True, slots=True)
class Counts:
    """The figures that can be added up over buckets and micro-batches."""

    read: int = 0
    """Rows of the sources."""
    unwanted: int = 0
    """Of these, rows that were left out because no answer needs them."""
    taken: int = 0
    """Elements that arrived through the exchange."""
    changes: int = 0
    adjusts: int = 0
    late: int = 0
    dead: int = 0

    def __add__(self, other: Counts) -> Counts:
        names = [entry.name for entry in fields(Counts)]
        return Counts(*(getattr(self, name) + getattr(other, name) for name in names))


_SUMMED = (*(entry.name for entry in fields(Counts)), "state_rows", "state_bytes", "written")


@dataclass(frozen=True, slots=True)
class BatchFigures(Counts):
    """The figures of a micro-batch, over all buckets."""

    state_rows: int = 0
    state_bytes: int = 0
    written: int = 0
    """Bytes of state."""
    cti: int = MIN_TIME
    """The promise of the slowest bucket; MIN_TIME: none yet."""
    reports: tuple[str, ...] = ()
    """Of the buckets, as text."""

    @classmethod
    def of_rows(cls, rows: Iterable[Mapping[str, Any]]) -> BatchFigures:
        """From the rows of the output that have figures (`output.FIGURE_COLUMNS`).

        >>> slow = {"kind": "figures", "cti": 10, "read": 3, "report": "{}"}
        >>> fast = {"kind": "figures", "cti": 20, "changes": 1, "report": None}
        >>> found = BatchFigures.of_rows([slow, fast, {"kind": "late", "late": 2}])
        >>> found.cti, found.read, found.changes, found.late, found.reports
        (10, 3, 1, 2, ('{}',))
        """
        rows = list(rows)
        promises = [row.get("cti") for row in rows if row["kind"] == OutputKind.FIGURES]
        reports = [row.get("report") for row in rows]
        return cls(
            **{name: sum(row.get(name) or 0 for row in rows) for name in _SUMMED},
            cti=min((MIN_TIME if cti is None else cti for cti in promises), default=MIN_TIME),
            reports=tuple(report for report in reports if report is not None),
        )

    def line(self, batch: int, seconds: float) -> str:
        """
        >>> done = BatchFigures(read=1000, changes=7, adjusts=2, late=1, cti=60_000_000)
        >>> print(done.line(3, 0.5).replace("  ", chr(10)))
        batch 3
        1,000 rows
        2,000 rows/s
        final up to 1970-01-01 00:01:00
        7 changes, 2 retractions
        1 late
        state 0 rows, 0 bytes
        """
        speed = self.read / seconds if seconds else 0.0
        return "  ".join(
            [
                f"batch {batch}",
                f"{self.read:,} rows",
                f"{speed:,.0f} rows/s",
                f"final up to {_when(self.cti)}",
                f"{self.changes:,} changes, {self.adjusts:,} retractions",
                f"{self.late:,} late",
                f"state {self.state_rows:,} rows, {self.state_bytes:,} bytes",
            ]
        )


def _when(cti: int) -> str:
    if cti == MIN_TIME:
        return "nothing yet"
    if cti == INFINITY:
        return "the end"
    try:
        return str(datetime.fromtimestamp(cti / 1_000_000, UTC).replace(tzinfo=None, microsecond=0))
    except (OverflowError, ValueError, OSError):
        return str(cti)


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


class QueryFigures:
    """The figures of the micro-batches noted so far."""

    def __init__(self) -> None:
        self.batches = 0
        self.totals = Counts()
        self.operators: dict[str, OperatorFigures] = {}
        self.newest = BatchFigures()
        self.reports: list[BucketReport] = []
        """Of the newest micro-batch."""
        self._last = -1
        self._noted: set[int] = set()
        self._lock = Lock()

    def note(self, batch: int, figures: BatchFigures) -> bool:
        """Add the figures of a micro-batch; returns whether they are the newest."""
        with self._lock:
            if batch in self._noted or batch < self._last - _REMEMBERED:
                return False
            self._noted.add(batch)
            self.batches += 1
            self.totals += figures
            reports = [BucketReport.from_json(text) for text in figures.reports]
            for name, done in combined_figures(reports).items():
                before = self.operators.get(name, OperatorFigures())
                self.operators[name] = replace(before, state_rows=0, state_bytes=0) + done
            if batch < self._last:
                return False
            self._last, self.newest, self.reports = batch, figures, reports
            if len(self._noted) > 2 * _REMEMBERED:
                self._noted = {number for number in self._noted if number >= batch - _REMEMBERED}
            return True
