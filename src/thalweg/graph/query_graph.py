"""The query graph: stations joined by arcs, and the cycle that runs them.

    1. execute the current station
    2. select the next one by the rule in its row of the state table

The cycle ends when no rule finds anything to do; then every buffer is empty. Rules are looked up at
each step, so they can be changed while the graph runs.

Two ways in: `offer` and `run` take one batch after the other; `admit` lets a source take several
batches or none, and `send` then passes each of them on.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from thalweg.errors import PlanError, StateError, did_you_mean
from thalweg.graph.arcs import Arc
from thalweg.graph.selection import RULES
from thalweg.graph.stations import OperatorFigures, Station
from thalweg.model.batch import Batch
from thalweg.model.progress import NO_PROGRESS, progress_of_text, progress_text
from thalweg.operators.base import Slices, StateSize
from thalweg.operators.ingress import IngressKernel

__all__ = ["QueryGraph"]


class QueryGraph:
    """Stations in an order where each comes after those it reads; `sources` by name; one arc leads
    out."""

    def __init__(
        self, stations: list[Station], sources: dict[str, Station], outlet: Arc, end: Station
    ) -> None:
        self.stations = stations
        self._sources = sources
        self._inlets: dict[str, Arc] = {}
        self._outlet = outlet
        self.end = end
        """The station whose output is the answer."""
        for name, station in sources.items():
            arc = Arc(station, 0)
            station.inputs.append(arc)
            self._inlets[name] = arc

    @property
    def sources(self) -> dict[str, Station]:
        return self._sources

    def offer(self, source: str, batch: Batch) -> None:
        """Put a batch in front of a source."""
        if source not in self._inlets:
            raise PlanError(
                f"the query has no source {source!r}{did_you_mean(source, self._inlets)} Sources: {', '.join(self._inlets)}."
            )
        self._inlets[source].buffer.append(batch)

    def run(self) -> list[Batch]:
        """Work until every buffer is empty; the batches that came out."""
        try:
            for station in self._sources.values():
                self._work(station if station.more else None)
        except BaseException:
            # A source that refuses a batch refuses it whole: nothing of it is left behind.
            for inlet in self._inlets.values():
                inlet.buffer.clear()
            raise
        return self._answers()

    def admit(self, source: str, batches: Sequence[Batch]) -> list[Batch]:
        """What a source makes of these batches. When it refuses one it refuses all, and nothing has
        changed."""
        station = self._sources[source]
        assert isinstance(station.operator, IngressKernel)
        begin = time.perf_counter()
        admitted = station.operator.admit(batches)
        station.seconds += time.perf_counter() - begin
        station.batches += len(batches)
        station.elements_in += sum(map(len, batches))
        return admitted

    def send(self, source: str, admitted: Batch) -> list[Batch]:
        """Pass on a batch that its source has admitted, and work until every buffer is empty; the
        batches that came out."""
        station = self._sources[source]
        station.pass_on(admitted)
        self._work(RULES[station.rule](station))
        return self._answers()

    def _work(self, current: Station | None) -> None:
        while current is not None:
            current.execute()
            current = RULES[current.rule](current)

    def _answers(self) -> list[Batch]:
        out = list(self._outlet.buffer)
        self._outlet.buffer.clear()
        return out

    def snapshot(self) -> dict[str, Slices]:
        return {station.id: station.operator.snapshot() for station in self.stations}

    def restore(self, state: dict[str, Slices]) -> None:
        known = {station.id for station in self.stations}
        if known != set(state):
            raise StateError(
                f"the snapshot is of other operators: it lacks {sorted(known - set(state))}, and has {sorted(set(state) - known)}."
            )
        for station in self.stations:
            station.operator.restore(state[station.id])

    def figures(self) -> dict[str, OperatorFigures]:
        """What each operator has done and keeps, by id."""
        return {station.id: station.figures() for station in self.stations}

    def arcs(self) -> dict[str, list[str]]:
        """The progress that has arrived at each port of each operator, as text; a part of what a
        snapshot needs for `why`."""
        return {
            s.id: [
                progress_text(s.received.get(port, NO_PROGRESS)) for port in range(s.operator.ports)
            ]
            for s in self.stations
        }

    def restore_arcs(self, arcs: Mapping[str, Sequence[str]]) -> None:
        """The inverse of `arcs`."""
        for station in self.stations:
            station.received = {
                port: progress_of_text(text) for port, text in enumerate(arcs.get(station.id, ()))
            }

    def state_size(self) -> dict[str, StateSize]:
        return {station.id: station.operator.state_size() for station in self.stations}
