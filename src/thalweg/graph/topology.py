"""The topology of a query graph: operators, the arcs between them, and outputs.

It may change while no batch waits on an arc: operators are added behind others and removed when no
operator reads them, and outputs are added and removed by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from thalweg.errors import PlanError
from thalweg.graph.arcs import AppendBuffer, Arc
from thalweg.graph.feedback import set_unwanted
from thalweg.graph.forks import SharedBuffer
from thalweg.graph.graph_operator import GraphOperator
from thalweg.graph.state_table import Row, StateTable
from thalweg.model.batch import Batch
from thalweg.model.time import MIN_TIME
from thalweg.operators.merging.kernel import MergeKernel

__all__ = ["Topology"]

PortsBehind: TypeAlias = dict[GraphOperator, list[tuple[GraphOperator, int]]]
"""The operators that read each operator, with the port at which they do."""


class Topology:
    """Operators in an order where each comes after those it reads; `sources` by name; the operator
    whose output is the answer, or several by name."""

    def __init__(
        self,
        operators: Sequence[GraphOperator],
        sources: Mapping[str, GraphOperator],
        ends: GraphOperator | Mapping[str, GraphOperator],
    ) -> None:
        self.operators = list(operators)
        self.sources = dict(sources)
        self._ends = {"": ends} if isinstance(ends, GraphOperator) else dict(ends)
        self._inlets: dict[str, AppendBuffer] = {}
        self._outlets: dict[str, Arc] = {}
        self.state = StateTable()
        """The rows that the cycle reads."""
        self._row_of: dict[GraphOperator, Row] = {}
        self._fork_of: dict[GraphOperator, Row] = {}
        self._breaks: dict[tuple[str, str], list[tuple[Row, Row, Arc]]] = {}
        self._order: list[Row] = []
        self._reach: dict[str, list[Row]] = {}
        self._steepness: dict[str, float] = {}
        self._current: tuple[Row, bool] | None = None
        self.on_idle: Callable[[], object] | None = None
        """Called when a rule returns control to the scheduler; it may bring promises."""
        self.bursts = (0, 0)
        """How many times work began, and the total number of batches that waited at those times."""
        self._unwanted = dict.fromkeys(self._ends, MIN_TIME)
        self._link_all()

    def _link_all(self) -> None:
        for name, operator in self.sources.items():
            self._add_inlet(name, operator)
        readers = self.readers()
        for operator in self.operators:
            self._add_row(operator)
            outs = sum(end is operator for end in self._ends.values())
            shared = SharedBuffer() if len(readers[operator]) + outs > 1 else None
            if shared is not None:
                operator.output = shared
            if len(readers[operator]) > 1:
                self._add_fork(operator)
        behind = self.ports_behind()
        first = _served_first(self.operators, behind)
        for operator in sorted(self.operators, key=lambda operator: operator not in first):
            if operator not in self.sources.values():
                operator.inputs = [self._new_reader(above) for above in operator.before]
                for above, arc in zip(operator.before, operator.inputs, strict=True):
                    self._link(above, operator, arc, in_order=operator in first)
        for name, operator in self._ends.items():
            self._outlets[name] = self._new_reader(operator)
        self._changed()

    def _add_inlet(self, name: str, source: GraphOperator) -> None:
        """Let batches be put in front of a source."""
        self._inlets[name] = AppendBuffer()
        source.inputs = [self._inlets[name]]

    def _add_row(self, operator: GraphOperator) -> None:
        """Give an operator a row of the state table, which is not linked yet."""
        row = self._row_of[operator] = Row(operator.id, operator)
        self.state.add(row)

    def _add_fork(self, operator: GraphOperator) -> Row:
        name, number = "fork", 1
        while name in self.state:
            number += 1
            name = f"fork-{number}"
        fork = Row(name, None)
        self.state.add(fork)
        self._fork_of[operator] = fork
        self.state.link(self._row_of[operator], fork, AppendBuffer())
        return fork

    def _link(
        self, producer: GraphOperator, reader: GraphOperator, arc: Arc, *, in_order: bool
    ) -> None:
        """Let a reader follow a producer in the state table."""
        row = self._row_before(producer)
        row.in_order |= in_order and row.operator is None
        self.state.link(row, self._row_of[reader], arc)

    def _row_before(self, operator: GraphOperator) -> Row:
        """The row that gives control to the readers of an operator."""
        return self._fork_of.get(operator, self._row_of[operator])

    @staticmethod
    def _new_reader(operator: GraphOperator) -> Arc:
        output = operator.output
        return output.add_reader() if isinstance(output, SharedBuffer) else output

    def readers(self) -> dict[GraphOperator, list[GraphOperator]]:
        """The operators that read each operator, once for every port."""
        ports_behind = self.ports_behind().items()
        return {operator: [reader for reader, _ in behind] for operator, behind in ports_behind}

    def ports_behind(self) -> PortsBehind:
        """The operators that read each operator, with the port at which they do."""
        found: PortsBehind = {operator: [] for operator in self.operators}
        for operator in self.operators:
            for port, above in enumerate(operator.before):
                found[above].append((operator, port))
        return found

    @property
    def ends(self) -> list[GraphOperator]:
        """The operators whose output leaves the graph."""
        return list(self._ends.values())

    def row_of(self, operator: GraphOperator) -> Row:
        """The row that runs an operator, alone or with others."""
        return self._row_of[operator]

    def add(self, operators: Sequence[GraphOperator], sources: Mapping[str, GraphOperator]) -> None:
        """Add operators while no batch waits on an arc, each after those it reads, which may be new
        or in the graph already. `sources` are the sources among them, by name."""
        self._stand_still()
        for name, operator in sources.items():
            self.sources[name] = operator
            self._add_inlet(name, operator)
        for operator in operators:
            self.operators.append(operator)
            self._add_row(operator)
            if operator.before:
                operator.inputs = [AppendBuffer() for _ in operator.before]
        self._rewire({*operators, *(above for operator in operators for above in operator.before)})

    def remove(self, operators: Iterable[GraphOperator]) -> None:
        """Remove operators without readers, while no batch waits on an arc."""
        self._stand_still()
        removed = set(operators)
        touched = {above for operator in removed for above in operator.before} - removed
        self._rewire(removed, keep=False)
        self.operators = [operator for operator in self.operators if operator not in removed]
        for operator in removed:
            self.state.remove(self._row_of.pop(operator))
        for name in [name for name, operator in self.sources.items() if operator in removed]:
            del self.sources[name], self._inlets[name]
        self._rewire(touched)

    def add_end(self, name: str, operator: GraphOperator) -> None:
        """Let the output of an operator leave under a name."""
        self._stand_still()
        self._ends[name] = operator
        self._rewire({operator})

    def remove_end(self, name: str) -> None:
        """The inverse of `add_end`."""
        self._stand_still()
        operator = self._ends.pop(name)
        del self._outlets[name]
        self._rewire({operator})

    def put_ahead(self, operator: GraphOperator, port: int, batch: Batch) -> None:
        """Put a batch on one input, for that operator alone, before everything else."""
        operator.inputs[port].put_ahead(batch)

    def _stand_still(self) -> None:
        if self.waiting:
            raise PlanError("operators are added and removed between two pushes, not inside one.")
        self._undo_strategies()

    def _undo_strategies(self) -> None:
        """Restore one row of the state table for each operator, linked to those it reads."""

    def _rewire(self, producers: set[GraphOperator], *, keep: bool = True) -> None:
        """Replace the arcs from operators to their readers, which must be empty; with `keep` false,
        only remove them."""
        behind = self.ports_behind()
        first = _served_first(self.operators, behind)
        held = {name: self.taken(name) for name in self._outlets}
        for producer in [operator for operator in self.operators if operator in producers]:
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
            for operator, port in sorted(readers, key=lambda reader: reader[0] not in first):
                arc = operator.inputs[port] = self._new_reader(producer)
                self._link(producer, operator, arc, in_order=operator in first)
            for name in outs:
                self._outlets[name] = self._new_reader(producer)
        for name, batches in held.items():
            for batch in batches:
                self._outlets[name].put_ahead(batch)
        self._changed()

    def _changed(self) -> None:
        """Update the scheduler after a change of rows or links."""
        merges = [s.kernel for s in self.operators if isinstance(s.kernel, MergeKernel)]
        for merge in merges:
            merge.on_settled = self._set_unwanted
        if merges or any(time > MIN_TIME for time in self._unwanted.values()):
            self._set_unwanted()
        self._current = None
        self._reach.clear()
        # Downstream first: what is nearest to the output holds the fewest rows back.
        self._order = [row for row in self.state if row.operator is not None][::-1]
        self._order.sort(key=lambda row: -self._steepness.get(row.name, float("-inf")))

    def components(self) -> list[list[str]]:
        """The operators of each weakly connected part, which can be scheduled by itself."""
        part: dict[GraphOperator, set[GraphOperator]] = {}
        for operator in self.operators:
            joined = {operator}
            for above in operator.before:
                joined |= part[above]
            for member in joined:
                part[member] = joined
        parts: list[set[GraphOperator]] = []
        for operator in self.operators:
            if not any(part[operator] is other for other in parts):
                parts.append(part[operator])
        return [[operator.id for operator in self.operators if operator in each] for each in parts]

    @property
    def end(self) -> GraphOperator:
        """The operator whose output is the answer."""
        (operator,) = self._ends.values()
        return operator

    def taken(self, name: str) -> list[Batch]:
        """The output under a name since the last call."""
        outlet = self._outlets[name]
        if not outlet.size():
            return []
        return [outlet.take() for _ in range(outlet.size())]

    @property
    def waiting(self) -> int:
        """How many batches wait on arcs inside the graph: none after `send`, or `run` without a
        number of steps."""
        return sum(arc.size() for operator in self.operators for arc in operator.inputs)

    def _set_unwanted(self) -> None:
        ends: dict[GraphOperator, int] = {}
        for name, operator in self._ends.items():
            bound = self._unwanted.get(name, MIN_TIME)
            ends[operator] = min(bound, ends.get(operator, bound))
        set_unwanted(self.operators, ends)


def _served_first(operators: Sequence[GraphOperator], behind: PortsBehind) -> set[GraphOperator]:
    """The operators that a fork runs before others: they lead to a port that should be served first
    (see `Operator.first_port`)."""
    found: set[GraphOperator] = set()
    for operator in reversed(operators):
        if operator.kernel.first_port:
            found.add(operator)
        elif operator.kernel.ports == 1 and len(behind[operator]) == 1:
            reader, port = behind[operator][0]
            if reader in found and port == reader.kernel.first_port:
                found.add(operator)
    return found
