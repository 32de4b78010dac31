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

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import pyarrow as pa

from thalweg.errors import InputError, PlanError, StateError, did_you_mean
from thalweg.graph.build import declared_alike
from thalweg.graph.demand import Demand
from thalweg.graph.graph_operator import GraphOperator
from thalweg.graph.query_graph import QueryGraph
from thalweg.graph.whole import whole_since
from thalweg.io.feeds import Feed, batches_from
from thalweg.model.batch import Batch
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.model.time import INFINITY, MIN_TIME
from thalweg.operators.base import StateSize
from thalweg.operators.consistency import Consistency
from thalweg.operators.registry import kernel_for
from thalweg.operators.source.ingress import IngressKernel
from thalweg.operators.source.stamp_arrivals import clock_promise
from thalweg.plan.nodes import Node, Source, walk
from thalweg.plan.nodes.arrivals import stamp_periods
from thalweg.plan.rules import lower
from thalweg.plan.written import Given
from thalweg.progress.source_clock import wall_clock
from thalweg.run.engine import LEDGER_LIMIT, Query
from thalweg.run.host_build import HostBuild, HostedQuery, Operators, Signature
from thalweg.run.host_snapshots import read_host, write_host
from thalweg.stream import node_of

__all__ = ["Host"]

_SINCE = {"now": False, "history": True}
"""Whether a query that is added has the rows that were admitted before, too."""


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
        `since="history"`; a source that was read once then stays, also when no query reads it."""
        self._graph = QueryGraph([], {}, {})
        self._queries: dict[str, HostedQuery] = {}
        self._known: dict[Signature, GraphOperator] = {}
        self._users: dict[GraphOperator, list[str]] = {}
        self._point = 0
        self._history: dict[str, list[Batch]] | None = {} if keep_history else None
        self._now = now
        self._broken: BaseException | None = None
        self._sources: dict[str, Source] = {}
        self._demand: Demand | None = None
        """Which sources to ask for promises; None after a change of the operators."""
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
        """End a query. Its operators and their state are dropped, except those that others use, and
        in a host that keeps history its sources."""
        hosted = self._hosted(name)
        del self._queries[name]
        self._graph.remove_end(name)
        self._release(name, hosted.operators)

    def replace(self, name: str, query: Query, *, partial: bool = False) -> dict[str, list[Batch]]:
        """Let another query run under a name, from now on. Operators whose plan is the same, from
        the sources up, are taken over with their state, where their answers are never revised:
        an answer that was given to the old query cannot be taken back from the new one."""
        old = self._hosted(name)
        out = self._graph.taken(name)
        del self._queries[name]
        self._graph.remove_end(name)
        carried = {
            signature: operator
            for signature, operator in old.signatures.items()
            if old.consistency.is_final
        }
        try:
            self._add(name, query, old.consistency, partial=partial, since="now", carried=carried)
        except BaseException:
            self._queries[name] = old
            self._graph.add_end(name, old.operators[-1])
            raise
        self._release(name, old.operators, keep=self._queries[name].operators)
        return {**self._outputs(), name: out} if out else self._outputs()

    def _add(
        self,
        name: str,
        query: Query,
        consistency: Consistency,
        *,
        partial: bool,
        since: str,
        carried: Mapping[Signature, GraphOperator] | None = None,
    ) -> None:
        if since not in _SINCE:
            raise PlanError(f'add: since= is "now" or "history"; got {since!r}.')
        from_history = _SINCE[since]
        if from_history and self._history is None:
            raise PlanError(
                'add: since="history" needs a host that was made with keep_history=True.'
            )
        node = node_of(query, f"the query {name!r}")
        plan = lower(node)
        self._check_sources(plan)
        missed = {} if partial or from_history else self._newest
        build = HostBuild(
            name,
            consistency,
            self._operators(),
            point=self._point,
            from_history=from_history,
            whole=whole_since(plan, missed),
            carried=carried,
        )
        self._use(name, node, build, build.plan(plan))
        for operator in build.new:
            for port, above in enumerate(operator.before):
                if above in build.new:
                    continue
                self._begin(operator, port, above, from_start=from_history)
        self._graph.fuse()
        self._graph.run()

    def _operators(self) -> Operators:
        return Operators(self._graph.operators, self._graph.sources, self._known)

    def _use(self, name: str, node: Node, build: HostBuild, end: GraphOperator) -> None:
        """Let a query that was built run in the graph."""
        self._graph.add(build.new, build.sources)
        for source in build.sources:
            kernel = self._graph.ingress(source)
            kernel.ledger.limit = kernel.quarantined.limit = LEDGER_LIMIT
        self._graph.add_end(name, end)
        used = tuple(dict.fromkeys([*build.used, end]))
        for operator in used:
            users = self._users.setdefault(operator, [])
            if name not in users:
                users.append(name)
        self._known |= build.signatures
        uses = tuple((operator.id, type(operator.kernel).__name__) for operator in build.used)
        self._queries[name] = HostedQuery(
            node,
            build.consistency,
            build.point,
            used,
            uses,
            build.all_signatures,
            build.from_history,
        )
        self._demand = None

    def _begin(
        self, operator: GraphOperator, port: int, above: GraphOperator, *, from_start: bool
    ) -> None:
        """What an operator that reads a running one gets first: the promise that holds, and
        with a history the rows before it."""
        source = next((n for n, s in self._graph.sources.items() if s is above), None)
        if from_start and self._history is not None and source is not None:
            for batch in self._history.get(source, ()):
                self._graph.put_ahead(operator, port, batch)
        if above.passed is not NO_PROGRESS:
            schema = above.kernel.schema
            self._graph.put_ahead(operator, port, Batch.empty(schema, above.passed))

    def _release(
        self, name: str, operators: tuple[GraphOperator, ...], keep: tuple[GraphOperator, ...] = ()
    ) -> None:
        unused = []
        for operator in operators:
            if operator in keep:
                continue
            self._users[operator].remove(name)
            if not self._users[operator] and not self._keeps(operator):
                del self._users[operator]
                unused.append(operator)
        self._graph.remove(unused)
        self._demand = None
        self._known = {
            s: operator for s, operator in self._known.items() if operator in self._users
        }
        for source in [n for n in self._sources if n not in self._graph.sources]:
            del self._sources[source]

    def _keeps(self, operator: GraphOperator) -> bool:
        """Whether an operator stays that no query uses: a source, where history is kept. Without it
        rows would be missing from the history, and adjusts of earlier rows would be refused."""
        return self._history is not None and isinstance(operator.kernel, IngressKernel)

    def _check_sources(self, plan: Node) -> None:
        found: dict[str, Source] = dict(self._sources)
        for node in walk(plan):
            if not isinstance(node, Source):
                continue
            declared = found.setdefault(node.name, node)
            if not declared_alike(declared, node):
                others = (
                    "other queries, which declare"
                    if self._is_read(node.name)
                    else "its history, which declares"
                )
                raise PlanError(
                    f"the host reads the source {node.name!r} for {others} it in another way; "
                    "declare it alike."
                )
        self._sources = found

    def _is_read(self, source: str) -> bool:
        """Whether a query reads a source."""
        operator = self._graph.sources.get(source)
        return operator is not None and bool(self._users.get(operator))

    def _hosted(self, name: str) -> HostedQuery:
        if name not in self._queries:
            raise PlanError(
                f"the host has no query {name!r}{did_you_mean(name, self._queries)} Queries: "
                f"{', '.join(self._queries) or 'none'}."
            )
        return self._queries[name]

    # ------------------------------------------------------------------------------------------
    # flow

    def push(self, source: str, feed: Feed) -> dict[str, list[Batch]]:
        """Take input of one source; what came out, by query. Input that is wrong is refused whole,
        and all queries go on."""
        kernel = self._ingress(source)
        batches = list(batches_from(feed, kernel.schema, source))
        kernel.now = now = self._now()
        if any(source in stamp_periods(node) for node in self.queries.values()):
            batches.insert(0, Batch.empty(kernel.schema, clock_promise(now)))
        with self._whole():
            self._watch()
            self._take(source, batches)
            self._follow_clock(now)
        return self._outputs()

    def tick(self) -> dict[str, list[Batch]]:
        """Fire timers whose time has come, and ask the sources that an operator waits for; the
        output, by query. `push` does this too: only a lull needs it."""
        with self._whole():
            self._follow_clock(self._now())
        return self._outputs()

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """A failure of an operator leaves state that is not whole; refused input changes
        nothing."""
        if self._broken is not None:
            raise StateError("a query failed earlier and the host's state is not whole.") from (
                self._broken
            )
        try:
            yield
        except InputError:
            raise
        except BaseException as reason:
            self._broken = reason
            raise

    def _take(self, source: str, batches: list[Batch]) -> None:
        admitted = self._graph.admit(source, batches)
        starts = [int(batch.start.max()) for batch in admitted if len(batch)]
        if starts:
            self._point += 1
            self._newest[source] = max([*starts, self._newest.get(source, MIN_TIME)])
        if self._history is not None:
            self._history.setdefault(source, []).extend(admitted)
        self._graph.send(source, *admitted)

    def _follow_clock(self, now: int) -> None:
        """Timers that are due; then promises on demand, as long as they release something."""
        for name in self._graph.sources:
            promise = self._graph.ingress(name).fire_timer(now)
            if promise is not None:
                self._take(name, [promise])
        self._watch()
        released = self._released()
        for _ in () if self._demand is None else self._demand.rounds(now):
            before, released = released, self._released()
            if released == before:
                break

    def _watch(self) -> None:
        """Begin to record what operators wait for, if a source can be asked for promises."""
        graph = self._graph
        if self._demand is None and any(
            graph.ingress(name).promises_on_demand for name in graph.sources
        ):
            self._demand = Demand(graph)

    def _released(self) -> list[tuple[int, Progress]]:
        """How many elements each output has given, and what it has promised."""
        return [(operator.elements_out, operator.passed) for operator in self._graph.ends]

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
        if source not in self._graph.sources:
            raise PlanError(
                "no query of the host reads a source "
                f"{source!r}{did_you_mean(source, self._graph.sources)}"
            )
        return self._graph.ingress(source)

    # ------------------------------------------------------------------------------------------
    # what was refused

    def late(self, source: str) -> pa.Table:
        """The ledger of a source: its late elements since the last call, the promise each broke,
        and what became of it. A source is one for all queries, and so is its ledger."""
        kernel = self._ingress(source)
        return kernel.ledger.take(kernel.schema)

    def late_count(self, source: str) -> int:
        """How many elements of a source came late so far."""
        return self._ingress(source).ledger.count

    def quarantined(self, source: str) -> pa.Table:
        """The rows of a source, since the last call, that were set aside because of their clock."""
        kernel = self._ingress(source)
        return kernel.quarantined.take(kernel.schema)

    def dead_letters(self, name: str) -> pa.Table:
        """The windows, since the last call, that modules of a query failed on and it went on
        without (`on_error="skip"`). Those of an operator that several queries share go to the first
        that asks."""
        return self._graph.dead_letters(self._hosted(name).operators)

    # ------------------------------------------------------------------------------------------
    # snapshots

    def snapshot(self) -> bytes:
        """All queries and all state, between two pushes."""
        with self._whole():
            unread = [node for name, node in self._sources.items() if not self._is_read(name)]
            return write_host(
                self._graph, self._queries, unread, self._point, self._newest, self._history
            )

    @classmethod
    def restore(
        cls, snapshot: bytes, *, given: Given = (), now: Callable[[], int] = wall_clock
    ) -> Host:
        """A host that goes on where the snapshot was taken. `given` are functions and modules that
        are not registered in this process."""
        saved = read_host(snapshot, given)
        host = cls(keep_history=saved.history is not None, now=now)
        for query in saved.queries:
            plan = lower(query.node)
            host._check_sources(plan)
            build = HostBuild(
                query.name,
                query.consistency,
                host._operators(),
                point=query.point,
                from_history=query.from_history,
                uses=query.uses,
            )
            host._use(query.name, query.node, build, build.plan(plan))
        host._read_for_history(saved.unread)
        saved.give(host._graph)
        host._graph.fuse()
        host._point, host._newest, host._history = saved.point, saved.newest, saved.history
        return host

    def _read_for_history(self, nodes: list[Source]) -> None:
        """Sources that no query reads any more."""
        operators = {
            node.name: GraphOperator(node.name, kernel_for(node, Consistency())) for node in nodes
        }
        self._graph.add(list(operators.values()), operators)
        self._sources |= {node.name: node for node in nodes}

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
        operators = self._graph.operators if name is None else self._hosted(name).operators
        return {operator.id: operator.kernel.state_size() for operator in operators}
