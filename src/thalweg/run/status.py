"""How an in-process query is doing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from thalweg.graph.graph_operator import OperatorFigures
from thalweg.model.clocks import Clock, time_value
from thalweg.model.progress import Progress
from thalweg.model.time import INFINITY, MIN_TIME
from thalweg.operators.base import StateSize

__all__ = ["Status"]


@dataclass(frozen=True, slots=True)
class Status:
    """How an engine is doing."""

    batches: int
    elements_in: int
    elements_out: int
    adjusts_out: int
    late: int
    progress: Progress
    state: StateSize
    busy_seconds: float
    operators: Mapping[str, OperatorFigures] = field(default_factory=dict)
    """By operator: rows in and out, retractions, time, state."""
    quarantined: int = 0
    """Rows that were set aside because their clock was impossible; those that wait are in
    `Engine.quarantine`."""
    warnings: tuple[str, ...] = ()
    dead: int = 0
    """Records that could not be read and were passed over."""
    clock: Clock = None

    @property
    def final_up_to(self) -> int | datetime | None:
        """The time before which nothing will change, as the query's clock shows it; None: nothing
        is promised yet, or everything."""
        cti = self.progress.cti
        return None if cti in (MIN_TIME, INFINITY) else time_value(cti, self.clock)

    def _repr_html_(self) -> str:
        figures = {
            "rows in": f"{self.elements_in:,}",
            "changes out": f"{self.elements_out:,}",
            "retractions": f"{self.adjusts_out:,}",
            "late": f"{self.late:,}",
            "final up to": "nothing yet" if self.final_up_to is None else str(self.final_up_to),
            "state": f"{self.state.rows:,} rows, {self.state.bytes:,} bytes",
        }
        if self.progress.cti == INFINITY:
            figures["final up to"] = "the end"
        rows = "".join(
            f"<tr><th>{name}</th><td>{value}</td></tr>" for name, value in figures.items()
        )
        return f"<table>{rows}</table>"
