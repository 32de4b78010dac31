"""Promises on demand: which sources to ask for a promise, and when.

An operator waits when it has taken a row that its own promise has not passed. The operators watched
are the last one before each output, whose waiting means that the answer is not final, and those
before it that hold rows. Backwards from a waiting operator, along the arcs of the enhanced graph
and by what each operator `needs`, lie the sources whose promises are missing. They are asked once
the clock allows all of them to promise enough. No source is asked for a promise that would release
nothing, and none is asked where one of the missing sources cannot be.

The plan for an operator is valid until its promise moves, so that a push costs one comparison for
an operator that waits.
"""

from __future__ import annotations

from collections.abc import Iterator

from thalweg.graph.enhanced import can_wait
from thalweg.graph.graph_operator import GraphOperator
from thalweg.graph.query_graph import QueryGraph
from thalweg.model.batch import Batch
from thalweg.model.progress import NO_PROGRESS
from thalweg.model.time import INFINITY, MIN_TIME
from thalweg.operators.base import Operator

__all__ = ["Demand"]


class Demand:
    """Watches the operators of a graph that can wait."""

    def __init__(self, graph: QueryGraph) -> None:
        self._graph = graph
        self._names = {operator: name for name, operator in graph.sources.items()}
        last = {_last_before(end) for end in graph.ends}
        self._waiters = [
            operator
            for operator in reversed(graph.operators)
            if operator not in self._names and (operator in last or _holds_rows(operator))
        ]
        for operator in self._waiters:
            if operator.newest is None:  # set already where the operator was watched before
                operator.newest = MIN_TIME
        self._plans: dict[GraphOperator, tuple[int, int, tuple[str, ...]]] = {}
        """By operator: the promise the plan is valid for, the time to ask, and the sources."""

    def sources_to_ask(self, now: int) -> tuple[str, ...]:
        """The sources to ask at this time of the clock."""
        blocked = False
        for operator in self._waiters:
            promised = operator.passed.cti
            newest = operator.newest
            if newest is None or newest == MIN_TIME or promised > newest:
                operator.oldest = INFINITY
                continue
            if blocked and not operator.kernel.state_size().rows:
                continue  # it holds nothing that a promise would free
            plan = self._plans.get(operator)
            if plan is None or plan[0] != promised or plan[1] == INFINITY:
                plan = self._plans[operator] = (promised, *self._plan(operator, promised))
            if plan[1] == INFINITY:
                blocked = True
            elif now < plan[1]:
                return ()
            else:  # promises may have come meanwhile
                ask_at, names = self._plan(operator, promised)
                return names if now >= ask_at else ()
        return ()

    def rounds(self, now: int) -> Iterator[list[Batch]]:
        """Ask the sources that operators wait for, and run the graph, as often as some are to be
        asked: the output of each round. A reader stops once a round has released nothing."""
        graph = self._graph
        while names := self.sources_to_ask(now):
            promises = {name: graph.ingress(name).demand(now) for name in names}
            for name, promise in promises.items():
                if promise is not None:
                    graph.pass_on(name, graph.admit(name, [promise]))
            out = graph.run()
            self._plans.clear()  # the promises that were made may not be enough
            yield out

    def _plan(self, operator: GraphOperator, promised: int) -> tuple[int, tuple[str, ...]]:
        """The time at which all missing sources can promise what the operator needs to pass
        `promised`, and their names; infinity where one cannot be asked."""
        missing = self.missing(operator, max(promised, operator.oldest) + 1)
        times = []
        for name, needs in missing.items():
            behind = self._graph.ingress(name).demand_behind
            if behind is None or needs == INFINITY:
                return INFINITY, ()
            times.append(needs + behind)
        return (max(times), tuple(missing)) if times else (INFINITY, ())

    def missing(self, operator: GraphOperator, time: int) -> dict[str, int]:
        """By source: the promise that is missing for an operator to promise a time."""
        promises: dict[str, int] = {}
        visited: set[tuple[GraphOperator, int]] = set()
        waiting = [(operator, time)]
        while waiting:
            current, target = waiting.pop()
            if (current, target) in visited:
                continue
            visited.add((current, target))
            for port, needs in enumerate(current.kernel.needs(target)):
                if current.received.get(port, NO_PROGRESS).cti >= needs:
                    continue
                origin = current.before[port]
                while not can_wait(origin):
                    needs = origin.kernel.needs(needs)[0]
                    origin = origin.before[0]
                name = self._names.get(origin)
                if name is None:
                    waiting.append((origin, needs))
                elif self._graph.ingress(name).progress.cti < needs:
                    promises[name] = max(needs, promises.get(name, MIN_TIME))
        return promises


def _last_before(end: GraphOperator) -> GraphOperator:
    """The last operator that can wait, on the way to an output."""
    while not can_wait(end):
        end = end.before[0]
    return end


def _holds_rows(operator: GraphOperator) -> bool:
    """Whether the operator has state that a promise may free."""
    return type(operator.kernel).state_size is not Operator.state_size
