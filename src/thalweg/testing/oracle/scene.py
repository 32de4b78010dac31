"""The frame of the oracle: which function defines a node, and what it sees while it is computed.

A `Scene` holds the tables of the sources and, inside a group-and-apply, the rows of the current
group. Rows whose lifetime is or becomes empty vanish after every node, in one place: here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from thalweg.model import Row
from thalweg.plan.nodes import GroupInput, Node, Source
from thalweg.testing.compare import sort_rows

__all__ = ["Scene", "meaning", "oracle"]

N = TypeVar("N", bound=Node)

_MEANINGS: dict[type[Node], Callable[[Any, Scene], list[Row]]] = {}


class Scene:
    """What the nodes of one evaluation see."""

    def __init__(
        self,
        tables: Mapping[str, Sequence[Row]],
        horizon: int | None = None,
        groups: Mapping[GroupInput, list[Row]] | None = None,
    ) -> None:
        self.tables = tables
        self.horizon = horizon
        self.groups = groups or {}
        self._done: dict[Node, list[Row]] = {}

    def rows(self, node: Node) -> list[Row]:
        """The table of a node; a node used twice is computed once."""
        if node not in self._done:
            definitions = [_MEANINGS[kind] for kind in type(node).__mro__ if kind in _MEANINGS]
            if not definitions:
                raise NotImplementedError(f"the oracle has no definition for {type(node).__name__}")
            self._done[node] = [row for row in definitions[0](node, self) if row[1] > row[0]]
        return self._done[node]

    def inside(self, group: GroupInput, rows: list[Row]) -> Scene:
        """The scene in which `group` stands for these rows."""
        return Scene(self.tables, self.horizon, {**self.groups, group: rows})


def meaning(
    kind: type[N],
) -> Callable[[Callable[[N, Scene], list[Row]]], Callable[[N, Scene], list[Row]]]:
    """Registers the function below as the definition of a node."""

    def register(function: Callable[[N, Scene], list[Row]]) -> Callable[[N, Scene], list[Row]]:
        _MEANINGS[kind] = function
        return function

    return register


@meaning(Source)
def source(node: Source, scene: Scene) -> list[Row]:
    if node.name not in scene.tables:
        raise ValueError(
            f"the query reads the source {node.name!r}; there are tables for {sorted(scene.tables)}"
        )
    nothing = dict.fromkeys(node.schema.names)
    return [(start, end, {**nothing, **payload}) for start, end, payload in scene.tables[node.name]]


@meaning(GroupInput)
def group_input(node: GroupInput, scene: Scene) -> list[Row]:
    return scene.groups[node]


def oracle(
    query: Node, tables: Mapping[str, Sequence[Row]], *, horizon: int | None = None
) -> list[Row]:
    """The table of a query over the whole tables of its sources, ordered by time.

    Rows that never end have no end of hopping windows, and no end of pieces when they are chopped.
    With a `horizon` they are counted as far as that time: windows that begin before it, cuts that
    lie before it. Without one such a query raises ValueError.

    >>> import pyarrow as pa
    >>> from thalweg.plan.nodes import ClipDuration, Source
    >>> readings = Source("readings", pa.schema([("v", pa.int64())]))
    >>> rows = [(1, 9, {"v": 7}), (2, 4, {"v": 8}), (3, 3, {"v": 9})]
    >>> oracle(ClipDuration(readings, 5), {"readings": rows})
    [(1, 6, {'v': 7}), (2, 4, {'v': 8})]
    """
    return sort_rows(Scene(tables, horizon).rows(query))
