"""The topology of a query graph: operators, the arcs between them, and what leaves.

It may change while the graph stands still, that is when nothing waits on an arc: operators are
added behind others, removed when nobody reads them, and let leave under a name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from thalweg.errors import PlanError
from thalweg.graph.arcs import AppendBuffer, Arc
from thalweg.graph.feedback import tell_unwanted
from thalweg.graph.forks import Reader, SharedBuffer
from thalweg.graph.state_table import Row, StateTable
from thalweg.graph.stations import Station
from thalweg.model.batch import Batch
from thalweg.model.time import MIN_TIME
from thalweg.operators.merging.kernel import MergeKernel

__all__ = ["Topology"]

PortsBehind: TypeAlias = dict[Station, list[tuple[Station, int]]]
"""The operators that read each station, with the port at which they do."""


class Topology:
    """Stations in an order where each comes after those it reads; `sources` by name; the station
    whose output is the answer, or several by name."""

    def __init__(
        self,
        stations: Sequence[Station],
        sources: Mapping[str, Station],
        ends: Station | Mapping[str, Station],
    ) -> None:
        self.stations = list(stations)
        self.sources = dict(sources)
        self._ends = {"": ends} if isinstance(ends, Station) else dict(ends)
        self._inlets: dict[str, AppendBuffer] = {}
        self._outlets: dict[str, Arc] = {}
        self.state = StateTable()
        """The rows that the cycle reads."""
        self._row_of: dict[Station, Row] = {}
        self._fork_of: dict[Station, Row] = {}
        self._breaks: dict[tuple[str, str], list[tuple[Row, Row, Arc]]] = {}
        self._order: list[Row] = []
        self._reach: dict[str, list[Row]] = {}
        self._steepness: dict[str, float] = {}
        self._current: tuple[Row, bool] | None = None
        self.on_idle: Callable[[], object] | None = None
        """Called when a rule returns control to the scheduler; it may bring promises."""
        self.bursts = (0, 0)
        """How often work began, and how many batches were there then, all in all."""
        self._unwanted = dict.fromkeys(self._ends, MIN_TIME)
        self._join_up()

    def _join_up(self) -> None:
        for name, station in self.sources.items():
            self._inlets[name] = AppendBuffer()
            station.inputs = [self._inlets[name]]
        readers = self.readers()
        for station in self.stations:
            row = Row(station.id, station)
            self.state.add(row)
            self._row_of[station] = row
            outs = sum(end is station for end in self._ends.values())
            shared = SharedBuffer() if len(readers[station]) + outs > 1 else None
            if shared is not None:
                station.output = shared
            if len(readers[station]) > 1:
                self._add_fork(station)
        behind = self.ports_behind()
        first = _served_first(self.stations, behind)
        for station in sorted(self.stations, key=lambda one: one not in first):
            if station not in self.sources.values():
                station.inputs = [self._new_reader(above) for above in station.before]
                for above, arc in zip(station.before, station.inputs, strict=True):
                    self._link(above, station, arc, in_order=station in first)
        for name, station in self._ends.items():
            self._outlets[name] = self._new_reader(station)
        self._changed()

    def _add_fork(self, station: Station) -> Row:
        name, number = "fork", 1
        while name in self.state:
            number += 1
            name = f"fork-{number}"
        fork = Row(name, None)
        self.state.add(fork)
        self._fork_of[station] = fork
        self.state.link(self._row_of[station], fork, AppendBuffer())
        return fork

    def _link(self, producer: Station, reader: Station, arc: Arc, *, in_order: bool) -> None:
        """Let a reader follow a producer in the state table."""
        row = self._row_before(producer)
        row.in_order |= in_order and row.station is None
        self.state.link(row, self._row_of[reader], arc)

    def _row_before(self, station: Station) -> Row:
        """The row that gives control to the readers of a station."""
        return self._fork_of.get(station, self._row_of[station])

    @staticmethod
    def _new_reader(station: Station) -> Arc:
        output = station.output
        return output.add_reader() if isinstance(output, SharedBuffer) else output

    def readers(self) -> dict[Station, list[Station]]:
        """Who reads each station, once for every port."""
        found: dict[Station, list[Station]] = {station: [] for station in self.stations}
        for station in self.stations:
            for above in station.before:
                found[above].append(station)
        return found

    def ports_behind(self) -> PortsBehind:
        """The operators that read each station, with the port at which they do."""
        found: PortsBehind = {station: [] for station in self.stations}
        for station in self.stations:
            for port, above in enumerate(station.before):
                found[above].append((station, port))
        return found

    @property
    def ends(self) -> list[Station]:
        """The stations whose output leaves the graph."""
        return list(self._ends.values())

    def row_of(self, station: Station) -> Row:
        """The row that runs an operator, alone or with others."""
        return self._row_of[station]

    def add(self, stations: Sequence[Station], sources: Mapping[str, Station]) -> None:
        """Add operators while the graph stands still, each after those it reads; those may be new
        or known. Sources among them by name."""
        self._stand_still()
        for name, station in sources.items():
            self.sources[name] = station
            self._inlets[name] = AppendBuffer()
            station.inputs = [self._inlets[name]]
        for station in stations:
            self.stations.append(station)
            row = Row(station.id, station)
            self.state.add(row)
            self._row_of[station] = row
            if station.before:
                station.inputs = [AppendBuffer() for _ in station.before]
        self._rewire({*stations, *(above for station in stations for above in station.before)})

    def remove(self, stations: Iterable[Station]) -> None:
        """Remove operators that nobody reads any more, while the graph stands still."""
        self._stand_still()
        gone = set(stations)
        touched = {above for station in gone for above in station.before} - gone
        self._rewire(gone, keep=False)
        self.stations = [station for station in self.stations if station not in gone]
        for station in gone:
            self.state.remove(self._row_of.pop(station))
        for name in [name for name, station in self.sources.items() if station in gone]:
            del self.sources[name], self._inlets[name]
        self._rewire(touched)

    def add_end(self, name: str, station: Station) -> None:
        """Let the output of an operator leave under a name."""
        self._stand_still()
        self._ends[name] = station
        self._rewire({station})

    def remove_end(self, name: str) -> None:
        """The inverse of `add_end`."""
        self._stand_still()
        station = self._ends.pop(name)
        del self._outlets[name]
        self._rewire({station})

    def put_ahead(self, station: Station, port: int, batch: Batch) -> None:
        """Put a batch on one input, for that operator alone, before everything else."""
        arc = station.inputs[port]
        if isinstance(arc, Reader):
            arc.put_back(batch)
        else:
            arc.put(batch)

    def _stand_still(self) -> None:
        if self.waiting:
            raise PlanError("operators are added and removed between two pushes, not inside one.")
        self._undo_strategies()

    def _undo_strategies(self) -> None:
        """One row of the state table for each operator, each linked to those it reads."""

    def _rewire(self, producers: set[Station], *, keep: bool = True) -> None:
        """Give operators new arcs to their readers, nothing being on the old ones; with `keep`
        false, none."""
        behind = self.ports_behind()
        first = _served_first(self.stations, behind)
        held = {name: self.taken(name) for name in self._outlets}
        for producer in [station for station in self.stations if station in producers]:
            row = self._row_of[producer]
            before = self._row_before(producer)
            for reader in list(dict.fromkeys(before.succ)):
                for above, arc in list(zip(reader.pred, reader.feeds, strict=True)):
                    if above is before:
                        self.state.unlink(before, reader, arc)
            fork = self._fork_of.pop(producer, None)
            if fork is not None:
                self.state.unlink(row, fork, fork.feeds[0])
                self.state.remove(fork)
            if not keep:
                continue
            readers = behind[producer]
            outs = [name for name, end in self._ends.items() if end is producer]
            several = len(readers) + len(outs) > 1
            producer.output = SharedBuffer() if several else AppendBuffer()
            if len(readers) > 1:
                self._add_fork(producer)
            for station, port in sorted(readers, key=lambda one: one[0] not in first):
                arc = station.inputs[port] = self._new_reader(producer)
                self._link(producer, station, arc, in_order=station in first)
            for name in outs:
                self._outlets[name] = self._new_reader(producer)
        for name, batches in held.items():
            for batch in batches:
                outlet = self._outlets[name]
                if isinstance(outlet, Reader):
                    outlet.put_back(batch)
                else:
                    outlet.put(batch)
        self._changed()

    def _changed(self) -> None:
        """Rows or their links have changed: the scheduler goes by the new ones."""
        merges = [s.operator for s in self.stations if isinstance(s.operator, MergeKernel)]
        for merge in merges:
            merge.on_settled = self._tell
        if merges or any(time > MIN_TIME for time in self._unwanted.values()):
            self._tell()
        self._current = None
        self._reach.clear()
        # Downstream first: what is nearest to the output holds the fewest rows back.
        self._order = [row for row in self.state if row.station is not None][::-1]
        self._order.sort(key=lambda row: -self._steepness.get(row.name, float("-inf")))

    def components(self) -> list[list[str]]:
        """The operators of each weakly connected part: what can be scheduled by itself."""
        part: dict[Station, set[Station]] = {}
        for station in self.stations:
            joined = {station}
            for above in station.before:
                joined |= part[above]
            for member in joined:
                part[member] = joined
        seen: list[set[Station]] = []
        for station in self.stations:
            if not any(part[station] is known for known in seen):
                seen.append(part[station])
        return [[station.id for station in self.stations if station in known] for known in seen]

    @property
    def end(self) -> Station:
        """The station whose output is the answer."""
        (station,) = self._ends.values()
        return station

    def taken(self, name: str) -> list[Batch]:
        """The batches that have come out under a name since the last call."""
        outlet = self._outlets[name]
        if not outlet.size():
            return []
        return [outlet.take() for _ in range(outlet.size())]

    @property
    def waiting(self) -> int:
        """How many batches wait on arcs inside the graph: none after `send`, or `run` without a
        number of steps."""
        return sum(arc.size() for station in self.stations for arc in station.inputs)

    def _tell(self) -> None:
        ends: dict[Station, int] = {}
        for name, station in self._ends.items():
            bound = self._unwanted.get(name, MIN_TIME)
            ends[station] = min(bound, ends.get(station, bound))
        tell_unwanted(self.stations, ends)


def _served_first(stations: Sequence[Station], behind: PortsBehind) -> set[Station]:
    """The operators that a fork runs before others: what they read goes to the port that an operator
    would rather have served first (see `Operator.first_port`)."""
    found: set[Station] = set()
    for station in reversed(stations):
        if station.operator.first_port:
            found.add(station)
        elif station.operator.ports == 1 and len(behind[station]) == 1:
            reader, port = behind[station][0]
            if reader in found and port == reader.operator.first_port:
                found.add(station)
    return found
