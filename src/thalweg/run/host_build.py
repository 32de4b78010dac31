"""The operators of a hosted query: those that the host has already, and new ones.

A query is built when it is added, and again when a host is restored. Then the operators that it
used are known by name, so that what was shared is shared again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeAlias

from thalweg.expr import Expr
from thalweg.graph.build import final_gate
from thalweg.graph.graph_operator import GraphOperator
from thalweg.model.time import MIN_TIME
from thalweg.operators.base import Operator
from thalweg.operators.consistency import Consistency
from thalweg.operators.registry import kernel_for
from thalweg.operators.source.ingress import IngressKernel
from thalweg.operators.window.grid.fill import FillKernel
from thalweg.operators.window.whole_windows import WholeWindowsKernel
from thalweg.plan.explain import operator_ids
from thalweg.plan.expressions import unchanged
from thalweg.plan.nodes import Node, Select, Source, WindowAggregate, walk
from thalweg.run.later_rows import LaterRows

__all__ = ["HostBuild", "HostedQuery", "Operators", "Signature"]

Signature: TypeAlias = tuple[object, ...]
"""What an operator does: operators with equal signatures may be shared by queries."""


@dataclass(frozen=True, slots=True)
class HostedQuery:
    """A query that runs: what it was, and the operators it uses."""

    node: Node
    consistency: Consistency
    point: int
    """How many pushes with rows came before it."""
    operators: tuple[GraphOperator, ...]
    uses: tuple[tuple[str, str], ...]
    """The operators by name and class, in the order in which they were built, with repetition."""
    signatures: Mapping[Signature, GraphOperator] = field(default_factory=dict)
    from_history: bool = False
    """Whether it has read the rows that were admitted before it."""


@dataclass(frozen=True, slots=True)
class Operators:
    """What a host runs already."""

    operators: Sequence[GraphOperator]
    sources: Mapping[str, GraphOperator]
    known: Mapping[Signature, GraphOperator]
    """By what they do."""


class HostBuild:
    """The operators of one query: those that the host has, and new ones."""

    def __init__(
        self,
        name: str,
        consistency: Consistency,
        hosted: Operators,
        *,
        point: int,
        from_history: bool = False,
        whole: int = MIN_TIME,
        carried: Mapping[Signature, GraphOperator] | None = None,
        uses: Sequence[tuple[str, str]] | None = None,
    ) -> None:
        """`point` numbers the rows that were admitted before. A query that reads them too
        (`from_history`) shares no operators: those of others have passed these rows. `whole` is the
        first time from which windows have missed nothing. `uses` are the operators that the query
        had when it was saved, by name and class."""
        self._name, self.consistency, self._hosted = name, consistency, hosted
        self.point, self._whole, self._carried = point, whole, carried or {}
        self.from_history = from_history
        self._saved = uses
        self.new: list[GraphOperator] = []
        self.used: list[GraphOperator] = []
        self.sources: dict[str, GraphOperator] = {}
        self.signatures: dict[Signature, GraphOperator] = {}
        self.all_signatures: dict[Signature, GraphOperator] = {}

    def plan(self, root: Node) -> GraphOperator:
        """The operator that gives the answer."""
        ids = operator_ids(root)
        last: dict[Node, GraphOperator] = {}
        for node in walk(root):
            before = [last[child] for child in node.inputs]
            if isinstance(node, Source):
                last[node] = self._source(node)
                continue
            if isinstance(node, WindowAggregate) and node.fill is not None:
                plain = self._operator(replace(node, fill=None), ids[node], before)
                filled = ("fill", _signature_of(node, [plain]), self.point)
                name = f"{ids[node]}-fill"
                fill = FillKernel(node, self.consistency)
                answers = self._use(filled, name, fill, [plain], node)
            else:
                answers = self._operator(node, ids[node], before)
            last[node] = self._whole_windows(node, ids[node], answers)
        end = last[root]
        if isinstance(root, Source) and self.from_history:
            rows = Select(root, unchanged(root.schema.names))
            end = self._operator(rows, f"{root.name}-history", [end])
        gate = final_gate(root, self.consistency)
        if gate is not None:
            end = self._use(("gate", id(end), self.point), "final-gate", gate, [end], root)
        return end

    def _source(self, node: Source) -> GraphOperator:
        operator = self._hosted.sources.get(node.name) or self.sources.get(node.name)
        if operator is None:
            operator = GraphOperator(node.name, kernel_for(node, self.consistency))
            self.sources[node.name] = operator
            self.new.append(operator)
        self.used.append(operator)
        kernel = operator.kernel
        assert isinstance(kernel, IngressKernel)
        later = not self.from_history and bool(len(kernel.adjustable))
        if not (later if self._saved is None else self._next_is(LaterRows)):
            return operator
        entry = LaterRows(kernel.adjustable)
        return self._use(
            ("later", self.point, operator.id), f"{node.name}-later", entry, [operator], node
        )

    def _operator(self, node: Node, name: str, before: list[GraphOperator]) -> GraphOperator:
        kernel: Operator = kernel_for(node, self.consistency)
        signature: Signature = ("node", _signature_of(node, before))
        if not kernel.row_by_row:
            signature = (*signature, repr(self.consistency), self.point)
        return self._use(signature, name, kernel, before, node)

    def _whole_windows(self, node: Node, name: str, answers: GraphOperator) -> GraphOperator:
        """The answers about windows that have missed nothing. An operator that was taken over has
        missed what it had missed before."""
        if not node.covers_windows:
            return answers
        if self._saved is not None:
            if not self._next_is(WholeWindowsKernel):
                return answers
        elif self._whole == MIN_TIME:
            return answers
        elif answers in self._carried.values():
            kept = ("carried", WholeWindowsKernel, _signature_of(node, [answers]))
            if kept not in self._carried:
                return answers
        signature: Signature = ("whole", id(answers), self._whole)
        kernel = WholeWindowsKernel(node.schema, self._whole)
        return self._use(signature, f"{name}-whole", kernel, [answers], node)

    def _use(
        self,
        signature: Signature,
        name: str,
        kernel: Operator,
        before: list[GraphOperator],
        node: Node,
    ) -> GraphOperator:
        if self.from_history:
            signature = ("history", self._name, signature)
        handed = ("carried", type(kernel), _signature_of(node, before))
        operator = (
            self._found(signature, handed)
            if self._saved is None
            else self._named(self._saved[len(self.used)][0])
        )
        if operator is None:
            operator = GraphOperator(self._host_name(name), kernel, before=before)
            self.new.append(operator)
        self.signatures[signature] = operator
        self.all_signatures[handed] = operator
        self.used.append(operator)
        return operator

    def _found(self, signature: Signature, handed: Signature) -> GraphOperator | None:
        """The operator that does the same already, here or in the query that is replaced."""
        found = self._hosted.known.get(signature) or self.signatures.get(signature)
        return found or self._carried.get(handed)

    def _named(self, name: str) -> GraphOperator | None:
        """The operator of a name, if there is one."""
        every = (*self._hosted.operators, *self.new)
        return next((operator for operator in every if operator.id == name), None)

    def _next_is(self, kind: type[Operator]) -> bool:
        """Whether the next operator that was saved is of a class."""
        assert self._saved is not None
        at = len(self.used)
        return at < len(self._saved) and self._saved[at][1] == kind.__name__

    def _host_name(self, name: str) -> str:
        if self._saved is not None:
            return self._saved[len(self.used)][0]
        taken = {operator.id for operator in (*self._hosted.operators, *self.new)}
        candidate, number = f"{self._name}/{name}", 1
        while candidate in taken:
            number += 1
            candidate = f"{self._name}/{name}.{number}"
        return candidate


def _signature_of(node: Node, before: Sequence[GraphOperator]) -> Signature:
    """Equal for two nodes that do the same to the same inputs: their type, their fields, and the
    operators they read."""
    values = tuple(
        (entry.name, _hashable(getattr(node, entry.name)))
        for entry in fields(node)
        if entry.init and not isinstance(getattr(node, entry.name), Node)
    )
    return (type(node), values, tuple(id(operator) for operator in before))


def _hashable(value: Any) -> object:
    """Equal for settings that say the same; a setting that cannot be hashed is equal to itself
    alone."""
    if isinstance(value, Expr):
        return ("expression", value.key())
    if isinstance(value, (tuple, list)):
        return tuple(map(_hashable, value))
    if isinstance(value, Mapping):
        return tuple((key, _hashable(item)) for key, item in value.items())
    try:
        hash(value)
    except TypeError:
        return ("object", id(value))
    return value
