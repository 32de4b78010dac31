"""The host: many queries in one graph, added, removed and replaced while rows flow.

An added query's table is that of the rows which its sources admit after the call to `add`: an
adjust of a row that was admitted earlier does not concern it. Windows that began before the newest
row admitted by then have missed rows, or may have; they are left out, unless `partial=True`. With
`since="history"` the rows that were admitted before come first, and nothing is left out.

Queries share what is equal: a source is one operator for all; row operators over equal inputs are
one; an operator with state is shared by queries that were added at the same point, since its state
holds rows that a later one must not see. Plans are compared before any rule has moved a filter or
narrowed a row for one query alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from thalweg.errors import InputError, PlanError, StateError, did_you_mean
from thalweg.graph.query_graph import QueryGraph
from thalweg.graph.stations import Station
from thalweg.graph.whole import has_windows, whole_since
from thalweg.io.events import Feed, batches_from
from thalweg.model.batch import Batch
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.model.time import INFINITY, MIN_TIME
from thalweg.operators.base import Operator, StateSize
from thalweg.operators.consistency import Consistency
from thalweg.operators.fill import FillKernel
from thalweg.operators.final_gate import FinalGateKernel
from thalweg.operators.ingress import IngressKernel
from thalweg.operators.registry import kernel_for
from thalweg.operators.stamp_arrivals import time_told
from thalweg.operators.whole_windows import WholeWindowsKernel
from thalweg.plan.explain import operator_ids
from thalweg.plan.nodes import Node, Source, WindowAggregate, walk
from thalweg.plan.nodes.arrivals import stamp_periods
from thalweg.plan.rules import lower
from thalweg.run.engine import Query, wall_clock
from thalweg.run.hosted import (
    LaterRows,
    Signature,
    signature_of,
)
from thalweg.stream import Stream

__all__ = ["Host"]


@dataclass(frozen=True, slots=True)
class _Hosted:
    """A query that runs: what it was, and the operators it uses."""

    node: Node
    consistency: Consistency
    stations: tuple[Station, ...]
    signatures: Mapping[Signature, Station] = field(default_factory=dict)


class Host:
    """
    >>> import thalweg as tw
    >>> packets = tw.source("packets", {"len": "int64"}, insert_only=True)
    >>> host = Host()
    >>> host.add("large", packets.where("len > 40"))
    {}
    >>> host.add("sizes", packets.where("len > 40").select(bits="len * 8"))
    {}
    >>> out = host.push("packets", tw.point({"len": 41}, 3))
    >>> {name: list(tw.elements_of(batches)) for name, batches in out.items()}
    {'large': [Insert(payload={'len': 41}, start=3, end=4)],
    'sizes': [Insert(payload={'bits': 328}, start=3, end=4)]}
    >>> host.shared()
    {'packets': ['large', 'sizes'], 'large/where-1': ['large', 'sizes']}
    """

    def __init__(self, *, keep_history: bool = False, now: Callable[[], int] = wall_clock) -> None:
        """`keep_history` stores all admitted rows, for queries that are added with
        `since="history"`."""
        self._graph = QueryGraph([], {}, {})
        self._queries: dict[str, _Hosted] = {}
        self._known: dict[Signature, Station] = {}
        self._users: dict[Station, list[str]] = {}
        self._point = 0
        self._history: dict[str, list[Batch]] | None = {} if keep_history else None
        self._now = now
        self._broken: BaseException | None = None
        self._sources: dict[str, Source] = {}
        self._newest: dict[str, int] = {}
        """By source: the latest start of a row that it has admitted."""

    # ------------------------------------------------------------------------------------------
    # queries

    @property
    def queries(self) -> dict[str, Node]:
        """The queries that run, by name."""
        return {name: hosted.node for name, hosted in self._queries.items()}

    def add(
        self,
        name: str,
        query: Query,
        *,
        consistency: str = "speculative",
        partial: bool = False,
        since: str = "now",
    ) -> dict[str, list[Batch]]:
        """Let a query run from now on; what came out, which is nothing unless `since="history"`."""
        if name in self._queries:
            raise PlanError(f"the host has a query {name!r} already; remove or replace it.")
        self._add(name, query, Consistency(consistency), partial=partial, since=since)
        return self._outputs()

    def remove(self, name: str) -> None:
        """End a query. Its operators and their state go, but for those that others use."""
        hosted = self._hosted(name)
        del self._queries[name]
        self._graph.remove_end(name)
        self._release(name, hosted.stations)

    def replace(self, name: str, query: Query, *, partial: bool = False) -> dict[str, list[Batch]]:
        """Let another query run under a name, from now on. Operators whose plan is the same, from
        the sources up, are taken over with their state, where their answers are never revised:
        an answer that was given to the old query cannot be taken back from the new one."""
        old = self._hosted(name)
        out = self._graph.taken(name)
        del self._queries[name]
        self._graph.remove_end(name)
        carried = {
            signature: station
            for signature, station in old.signatures.items()
            if old.consistency.is_final
        }
        try:
            self._add(name, query, old.consistency, partial=partial, since="now", carried=carried)
        except BaseException:
            self._queries[name] = old
            self._graph.add_end(name, old.stations[-1])
            raise
        self._release(name, old.stations, keep=self._queries[name].stations)
        return {**self._outputs(), name: out} if out else self._outputs()

    def _add(
        self,
        name: str,
        query: Query,
        consistency: Consistency,
        *,
        partial: bool,
        since: str,
        carried: Mapping[Signature, Station] | None = None,
    ) -> None:
        if since not in ("now", "history"):
            raise PlanError(f'add: since= is "now" or "history"; got {since!r}.')
        if since == "history" and self._history is None:
            raise PlanError(
                'add: since="history" needs a host that was made with keep_history=True.'
            )
        node = query.node if isinstance(query, Stream) else query
        plan = lower(node)
        self._check_sources(plan)
        missed = {} if partial or since == "history" else self._newest
        build = _Build(
            self, name, consistency, whole=whole_since(plan, missed), carried=carried or {}
        )
        end = build.plan(plan, from_start=since == "history")
        self._graph.add(build.new, build.sources)
        self._graph.add_end(name, end)
        used = tuple(dict.fromkeys([*build.used, end]))
        for station in used:
            users = self._users.setdefault(station, [])
            if name not in users:
                users.append(name)
        self._known |= build.signatures
        self._queries[name] = _Hosted(node, consistency, used, build.all_signatures)
        for station in build.new:
            for port, above in enumerate(station.before):
                if above in build.new:
                    continue
                self._begin(station, port, above, from_start=since == "history")
        self._graph.fuse()
        self._graph.run()

    def _begin(self, station: Station, port: int, above: Station, *, from_start: bool) -> None:
        """What an operator that reads a running one is given first: the promise that holds, and
        with a history the rows before it."""
        source = next((n for n, s in self._graph.sources.items() if s is above), None)
        if from_start and self._history is not None and source is not None:
            for batch in self._history.get(source, ()):
                self._graph.put_ahead(station, port, batch)
        if above.passed is not NO_PROGRESS:
            schema = above.operator.schema
            self._graph.put_ahead(station, port, Batch.empty(schema, above.passed))

    def _release(
        self, name: str, stations: tuple[Station, ...], keep: tuple[Station, ...] = ()
    ) -> None:
        gone = []
        for station in stations:
            if station in keep:
                continue
            self._users[station].remove(name)
            if not self._users[station]:
                del self._users[station]
                gone.append(station)
        self._graph.remove(gone)
        self._known = {s: station for s, station in self._known.items() if station in self._users}
        for source in [n for n in self._sources if n not in self._graph.sources]:
            del self._sources[source]

    def _check_sources(self, plan: Node) -> None:
        found: dict[str, Source] = dict(self._sources)
        for node in walk(plan):
            if not isinstance(node, Source):
                continue
            known = found.setdefault(node.name, node)
            if (known.columns, known.ingress, known.declared) != (
                node.columns,
                node.ingress,
                node.declared,
            ):
                raise PlanError(
                    f"the host reads the source {node.name!r} for other queries, which declare it in another way; declare it alike."
                )
        self._sources = found

    def _hosted(self, name: str) -> _Hosted:
        if name not in self._queries:
            raise PlanError(
                f"the host has no query {name!r}{did_you_mean(name, self._queries)} Queries: {', '.join(self._queries) or 'none'}."
            )
        return self._queries[name]

    # ------------------------------------------------------------------------------------------
    # flow

    def push(self, source: str, feed: Feed) -> dict[str, list[Batch]]:
        """Take input of one source; what came out, by query. Input that is wrong is refused whole,
        and all queries go on."""
        if self._broken is not None:
            raise StateError("a query failed earlier and the host's state is not whole.") from (
                self._broken
            )
        kernel = self._ingress(source)
        batches = list(batches_from(feed, kernel.schema, source))
        kernel.now = now = self._now()
        if any(source in stamp_periods(node) for node in self.queries.values()):
            batches.insert(0, Batch.empty(kernel.schema, time_told(now)))
        try:
            admitted = self._graph.admit(source, batches)
            starts = [int(batch.start.max()) for batch in admitted if len(batch)]
            if starts:
                self._point += 1
                self._newest[source] = max([*starts, self._newest.get(source, MIN_TIME)])
            if self._history is not None:
                self._history.setdefault(source, []).extend(admitted)
            self._graph.send(source, *admitted)
        except InputError:
            raise
        except BaseException as reason:
            self._broken = reason
            raise
        return self._outputs()

    def finish(self) -> dict[str, list[Batch]]:
        """The end of every source."""
        out: dict[str, list[Batch]] = {}
        for name in list(self._graph.sources):
            end = Batch.empty(self._ingress(name).schema, Progress(INFINITY))
            for query, batches in self.push(name, end).items():
                out.setdefault(query, []).extend(batches)
        return out

    def _outputs(self) -> dict[str, list[Batch]]:
        found = {name: self._graph.taken(name) for name in self._queries}
        return {name: batches for name, batches in found.items() if batches}

    def _ingress(self, source: str) -> IngressKernel:
        station = self._graph.sources.get(source)
        if station is None:
            raise PlanError(
                f"no query of the host reads a source {source!r}{did_you_mean(source, self._graph.sources)}"
            )
        assert isinstance(station.operator, IngressKernel)
        return station.operator

    # ------------------------------------------------------------------------------------------
    # reports

    def shared(self) -> dict[str, list[str]]:
        """The operators that several queries use, and which."""
        return {s.id: list(users) for s, users in self._users.items() if len(users) > 1}

    def explain(self) -> str:
        """The state table, and who shares what."""
        shared = [f"  {name}: {', '.join(users)}" for name, users in self.shared().items()]
        return "\n".join([self._graph.table(), "", "shared by", *(shared or ["  none"])])

    def state_size(self, name: str | None = None) -> dict[str, StateSize]:
        """Rows and bytes of state by operator, of all queries or of one."""
        stations = self._graph.stations if name is None else self._hosted(name).stations
        return {station.id: station.operator.state_size() for station in stations}


class _Build:
    """The operators of one query: those that the host has, and new ones."""

    def __init__(
        self,
        host: Host,
        name: str,
        consistency: Consistency,
        *,
        whole: int,
        carried: Mapping[Signature, Station],
    ) -> None:
        """`whole` is the first time from which windows have missed nothing."""
        self._host, self._name, self._consistency = host, name, consistency
        self._whole, self._carried = whole, carried
        self.new: list[Station] = []
        self.used: list[Station] = []
        self.sources: dict[str, Station] = {}
        self.signatures: dict[Signature, Station] = {}
        self.all_signatures: dict[Signature, Station] = {}

    def plan(self, root: Node, *, from_start: bool) -> Station:
        """The station that gives the answer."""
        ids = operator_ids(root)
        last: dict[Node, Station] = {}
        for node in walk(root):
            before = [last[child] for child in node.inputs]
            if isinstance(node, Source):
                last[node] = self._source(node, from_start=from_start)
                continue
            if isinstance(node, WindowAggregate) and node.fill is not None:
                plain = self._station(replace(node, fill=None), ids[node], before)
                filled = ("fill", signature_of(node, [plain]), self._host._point)
                name = f"{ids[node]}-fill"
                answers = self._use(filled, name, FillKernel(node), [plain], node)
            else:
                answers = self._station(node, ids[node], before)
            last[node] = self._whole_windows(node, ids[node], answers)
        end = last[root]
        if self._consistency.is_final and not root.never_revises:
            gate = FinalGateKernel(root.schema, firm_ends=root.properties.firm_ends)
            end = self._use(("gate", id(end), self._host._point), "final-gate", gate, [end], root)
        return end

    def _source(self, node: Source, *, from_start: bool) -> Station:
        host = self._host
        station = host._graph.sources.get(node.name) or self.sources.get(node.name)
        if station is None:
            station = Station(node.name, kernel_for(node, self._consistency))
            self.sources[node.name] = station
            self.new.append(station)
        self.used.append(station)
        kernel = station.operator
        assert isinstance(kernel, IngressKernel)
        if from_start or not len(kernel.adjustable):
            return station
        entry = LaterRows(kernel.adjustable)
        return self._use(
            ("later", host._point, station.id), f"{node.name}-later", entry, [station], node
        )

    def _station(self, node: Node, name: str, before: list[Station]) -> Station:
        operator: Operator = kernel_for(node, self._consistency)
        signature: Signature = ("node", signature_of(node, before))
        if not operator.row_by_row:
            signature = (*signature, repr(self._consistency), self._host._point)
        return self._use(signature, name, operator, before, node)

    def _whole_windows(self, node: Node, name: str, answers: Station) -> Station:
        """The answers about windows that have missed nothing. An operator that was taken over has
        missed what it had missed before."""
        if not has_windows(node) or self._whole == MIN_TIME:
            return answers
        if answers in self._carried.values():
            kept = ("carried", WholeWindowsKernel, signature_of(node, [answers]))
            if kept not in self._carried:
                return answers
        signature: Signature = ("whole", id(answers), self._whole)
        kernel = WholeWindowsKernel(node.schema, self._whole)
        return self._use(signature, f"{name}-whole", kernel, [answers], node)

    def _use(
        self,
        signature: Signature,
        name: str,
        operator: Operator,
        before: list[Station],
        node: Node,
    ) -> Station:
        station = self._host._known.get(signature) or self.signatures.get(signature)
        handed = ("carried", type(operator), signature_of(node, before))
        if station is None:
            station = self._carried.get(handed)
        if station is None:
            station = Station(self._host_name(name), operator, before=before)
            self.new.append(station)
        self.signatures[signature] = station
        self.all_signatures[handed] = station
        self.used.append(station)
        return station

    def _host_name(self, name: str) -> str:
        taken = {station.id for station in (*self._host._graph.stations, *self.new)}
        wanted, number = f"{self._name}/{name}", 1
        while wanted in taken:
            number += 1
            wanted = f"{self._name}/{name}.{number}"
        return wanted
