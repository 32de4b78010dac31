"""The query graph: operators joined by arcs, and the cycle that runs them.

    1. execute the current operator
    2. select the next one by the rule in its row of the state table

A rule that finds nothing to do returns control to the scheduler, which goes on with another part of
the same component that has input. When there is none, every buffer is empty.

Two ways in: `offer` and `run` take batches as they are, all of them or a number of steps; `admit`
lets a source take several batches or none, and `send` then passes them on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from time import perf_counter

from thalweg.errors import PlanError, StateError, did_you_mean
from thalweg.graph.arcs import AppendBuffer, Arc
from thalweg.graph.feedback import tell_unwanted
from thalweg.graph.forks import Reader, SharedBuffer
from thalweg.graph.fused import Fused, chains
from thalweg.graph.rules import ASK, RUN
from thalweg.graph.state_table import Row, StateTable, strategy_of
from thalweg.graph.stations import OperatorFigures, Station
from thalweg.graph.waiting import WAITING, restore_waiting, waiting_rows
from thalweg.model.batch import Batch
from thalweg.model.progress import NO_PROGRESS, progress_of_text, progress_text
from thalweg.model.time import MIN_TIME
from thalweg.operators.base import Slices, StateSize
from thalweg.operators.ingress import IngressKernel
from thalweg.operators.merging.kernel import MergeKernel

__all__ = ["QueryGraph"]


class QueryGraph:
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

    # ------------------------------------------------------------------------------------------
    # topology

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
        for station in self.stations:
            if station not in self.sources.values():
                station.inputs = [self._new_reader(above) for above in station.before]
                for above, arc in zip(station.before, station.inputs, strict=True):
                    self.state.link(self._row_before(above), self._row_of[station], arc)
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

    def ports_behind(self) -> dict[Station, list[tuple[Station, int]]]:
        """The operators that read each station, with the port at which they do."""
        found: dict[Station, list[tuple[Station, int]]] = {s: [] for s in self.stations}
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
        for pair in self.breaks:
            self.remove_break(*pair)
        self.split()

    def _rewire(self, producers: set[Station], *, keep: bool = True) -> None:
        """Give operators new arcs to their readers, nothing being on the old ones; with `keep`
        false, none."""
        behind = self.ports_behind()
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
            for station, port in readers:
                arc = station.inputs[port] = self._new_reader(producer)
                self.state.link(self._row_before(producer), self._row_of[station], arc)
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

    # ------------------------------------------------------------------------------------------
    # strategies

    @property
    def end(self) -> Station:
        """The station whose output is the answer."""
        (station,) = self._ends.values()
        return station

    def use(
        self,
        strategy: str,
        *,
        k: int | None = None,
        among: Iterable[str] | None = None,
        reason: str = "",
    ) -> None:
        """Run the operators of these ids, or all, by another strategy, from the next step on.

        Round-robin runs on paths, so that it sets break points where operators meet or divide.
        """
        strategy_of(strategy, k)
        if among is None:
            self.split()
        names = [row.name for row in self.state] if among is None else list(among)
        rows = [self._row_named(name) for name in names]
        if strategy == "round-robin":
            for row in rows:
                self._break_into_paths(row)
            rows = [row for row in rows if row.is_path]
        for row in rows:
            self.state.set_rule(row.name, strategy, k, reason)

    def _break_into_paths(self, row: Row) -> None:
        if row.station is None:
            for behind in dict.fromkeys(row.succ):
                self.set_break(row.name, behind.name)
            for above in row.pred:
                self.set_break(above.name, row.name)
        elif len(row.pred) > 1:
            for above in dict.fromkeys(row.pred):
                self.set_break(above.name, row.name)

    def _row_named(self, name: str) -> Row:
        """The row of an operator; one that is part of a fused row is taken out of it."""
        if name not in self.state:
            for row in list(self.state):
                if isinstance(row.station, Fused) and any(
                    m.id == name for m in row.station.members
                ):
                    self._split(row)
        return self.state[name]

    def set_break(self, before: str, behind: str) -> None:
        """Let the arc between two operators be sink of one part and source of the next; rows that
        are in it stay there."""
        first, second = self._row_named(before), self._row_named(behind)
        links = [
            (first, second, arc)
            for row, arc in zip(second.pred, second.feeds, strict=True)
            if row is first
        ]
        if not links:
            if (before, behind) in self._breaks:
                return
            raise PlanError(f"no arc leads from {before} to {behind}.")
        for row, other, arc in links:
            self.state.unlink(row, other, arc)
        self._breaks[before, behind] = links
        self._changed()

    def remove_break(self, before: str, behind: str) -> None:
        """The inverse of `set_break`."""
        links = self._breaks.pop((before, behind), None)
        if links is None:
            raise PlanError(f"there is no break point between {before} and {behind}.")
        for row, other, arc in links:
            self.state.link(row, other, arc)
        for row in {links[0][0], links[0][1]}:
            if row.strategy == "round-robin" and not row.is_path:
                self.state.set_rule(row.name, "breadth-first")
        self._changed()

    @property
    def breaks(self) -> list[tuple[str, str]]:
        """The arcs that are break points: operator before and operator behind."""
        return list(self._breaks)

    def prefer(self, steepness: Mapping[str, float]) -> None:
        """Let the scheduler run the part with the steepest fall of bytes first, by the name of the
        row it begins with; without any, the part nearest to the output."""
        self._steepness = dict(steepness)
        self._changed()

    def fuse(self) -> None:
        """Run row operators in a row as one row of the table."""
        counts = {station: len(readers) for station, readers in self.readers().items()}
        for end in self._ends.values():
            counts[end] += 1
        swaps: list[tuple[list[Row], list[Row]]] = []
        for chain in chains(self.stations, counts):
            rows = [self._row_of[member] for member in chain]
            linked = all(a.succ == (b,) for a, b in pairwise(rows))
            empty = all(not row.station.port() >= 0 for row in rows if row.station is not None)
            if linked and empty and all(row.name in self.state for row in rows):
                fused = Row("+".join(row.name for row in rows), Fused(chain))
                swaps.append((rows, [fused]))
        self._replace(swaps)

    def split(self) -> None:
        """The inverse of `fuse`: a row of the table for every operator."""
        self._split(*(row for row in self.state if isinstance(row.station, Fused)))

    def _split(self, *fused: Row) -> None:
        self._replace([([row], self._members(row)) for row in fused])

    def _members(self, fused: Row) -> list[Row]:
        """A row for each operator of a fused one, linked among themselves."""
        assert isinstance(fused.station, Fused)
        rows = [Row(member.id, member) for member in fused.station.members]
        for row, behind in pairwise(rows):
            assert behind.station is not None
            self.state.link(row, behind, behind.station.inputs[0])
        return rows

    def _replace(self, swaps: list[tuple[list[Row], list[Row]]]) -> None:
        """Put rows in the place of others: one fused row for several, or several for one. The
        table is put in order once, for all of them."""
        if not swaps:
            return
        for old, new in swaps:
            self._put_between(old, new)
        first = {old[0]: new for old, new in swaps}
        gone = {row for old, _ in swaps for row in old}
        ordered: list[Row] = []
        for row in self.state:
            ordered += first.get(row, [] if row in gone else [row])
        self.state.order(ordered)
        self._changed()

    def _put_between(self, old: list[Row], new: list[Row]) -> None:
        """Link new rows to what is before and behind the old ones."""
        first, last = old[0], old[-1]
        new[0].pred, new[0].feeds, new[-1].succ = first.pred, first.feeds, last.succ
        for above in first.pred:
            above.succ = tuple(new[0] if row is first else row for row in above.succ)
        for behind in last.succ:
            behind.pred = tuple(new[-1] if row is last else row for row in behind.pred)
        for row in new:
            row.strategy, row.k, row.reason = first.strategy, first.k, first.reason
            row.settle()
            members = row.station.members if isinstance(row.station, Fused) else [row.station]
            for station in members:
                if isinstance(station, Station):
                    self._row_of[station] = row
        for pair, links in self._breaks.items():
            self._breaks[pair] = [
                (new[-1] if row is last else row, new[0] if behind is first else behind, arc)
                for row, behind, arc in links
            ]

    def table(self) -> str:
        """The state table as text."""
        return self.state.text()

    # ------------------------------------------------------------------------------------------
    # flow

    def offer(self, source: str, batch: Batch) -> None:
        """Put a batch in front of a source."""
        if source not in self._inlets:
            raise PlanError(
                f"the query has no source {source!r}{did_you_mean(source, self._inlets)} Sources: {', '.join(self._inlets)}."
            )
        self._inlets[source].put(batch)

    def run(self, steps: int | None = None) -> list[Batch]:
        """Work until every buffer is empty, or for so many steps; the batches that came out."""
        given = sum(map(len, self._inlets.values()))
        if given:
            self.bursts = (self.bursts[0] + 1, self.bursts[1] + given)
        try:
            current, run = self._current or (None, ASK)
            self._work(current, self._order, run=run, steps=steps)
        except BaseException:
            # A source that refuses a batch refuses it whole: nothing of it is left behind.
            for inlet in self._inlets.values():
                inlet.clear()
            self._current = None
            raise
        return self.taken("") if "" in self._outlets else []

    def admit(self, source: str, batches: Sequence[Batch]) -> list[Batch]:
        """What a source makes of these batches. When it refuses one it refuses all, and nothing has
        changed."""
        station = self.sources[source]
        assert isinstance(station.operator, IngressKernel)
        begin = perf_counter()
        admitted = station.operator.admit(batches)
        station.seconds += perf_counter() - begin
        station.batches += len(batches)
        station.elements_in += sum(map(len, batches))
        return admitted

    def send(self, source: str, *admitted: Batch) -> list[Batch]:
        """Pass on batches that their source has admitted, and work until every buffer is empty; the
        batches that came out."""
        station = self.sources[source]
        runs, batches = self.bursts
        self.bursts = (runs + 1, batches + len(admitted))
        self.pass_on(source, admitted)
        self._work(self._row_of[station], self._reached(source), run=ASK)
        return self.taken("") if "" in self._outlets else []

    def pass_on(self, source: str, admitted: Sequence[Batch]) -> None:
        """Put batches that a source has admitted on its output, and do no more."""
        station = self.sources[source]
        for batch in admitted:
            station.pass_on(batch)

    @property
    def ready(self) -> bool:
        """Whether there is something to do."""
        return any(row.more() for row in self._order)

    def _work(
        self, row: Row | None, order: list[Row], *, run: bool, steps: int | None = None
    ) -> None:
        """The cycle. `order` is where the scheduler looks for input when a rule returns control."""
        by_steepness = bool(self._steepness)
        while True:
            while row is not None:
                if run:
                    if steps is not None and row.station is not None:
                        if not steps:
                            self._current = (row, RUN)
                            return
                        steps -= 1
                    row.step()
                row, run = row.rule(row)
                if by_steepness and row is not None and not row.pred:
                    row = None  # the scheduler decides anew who goes first
            if self.on_idle is not None:
                self.on_idle()
            for candidate in order:
                if candidate.more():
                    row, run = candidate, RUN
                    break
            else:
                self._current = None
                return

    def _reached(self, source: str) -> list[Row]:
        """The rows behind a source, in the order of the scheduler."""
        known = self._reach.get(source)
        if known is None:
            reached = {self.sources[source]}
            for station in self.stations:
                if not reached.isdisjoint(station.before):
                    reached.add(station)
            rows = {self._row_of[station] for station in reached}
            known = self._reach[source] = [row for row in self._order if row in rows]
        return known

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

    # ------------------------------------------------------------------------------------------
    # state

    def snapshot(self) -> dict[str, Slices]:
        """All state; what waits on arcs is a part of it."""
        state = {station.id: station.operator.snapshot() for station in self.stations}
        if self.waiting:
            state[WAITING] = waiting_rows(self.stations)
        return state

    def restore(self, state: Mapping[str, Slices]) -> None:
        """Back to a snapshot of the same operators."""
        state = dict(state)
        waiting = state.pop(WAITING, {})
        known = {station.id for station in self.stations}
        if known != set(state):
            raise StateError(
                f"the snapshot is of other operators: it lacks {sorted(known - set(state))}, and has {sorted(set(state) - known)}."
            )
        for station in self.stations:
            station.operator.restore(state[station.id])
        if waiting:
            self.split()  # a row may wait between two operators that run as one
        restore_waiting(self.stations, waiting)
        if any(isinstance(station.operator, MergeKernel) for station in self.stations):
            self._tell()

    def skip_before(self, time: int, end: str = "") -> None:
        """Nobody wants answers that end before a time any more, under this name."""
        self._unwanted[end] = max(time, self._unwanted.get(end, MIN_TIME))
        self._tell()

    def unwanted_before(self, source: str) -> int:
        """Rows of a source that end before this are skipped."""
        kernel = self.sources[source].operator
        return kernel.skips_before if isinstance(kernel, IngressKernel) else MIN_TIME

    @property
    def skipped(self) -> int:
        """How many rows were skipped because nobody wanted them."""
        sources = (station.operator for station in self.sources.values())
        return sum(station.skipped for station in self.stations) + sum(
            kernel.skipped for kernel in sources if isinstance(kernel, IngressKernel)
        )

    def _tell(self) -> None:
        ends: dict[Station, int] = {}
        for name, station in self._ends.items():
            bound = self._unwanted.get(name, MIN_TIME)
            ends[station] = min(bound, ends.get(station, bound))
        tell_unwanted(self.stations, ends)

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
