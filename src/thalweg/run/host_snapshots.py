"""A host as bytes: its queries as plans, the operators each of them uses, and all state.

Plans are written as JSON (`plan.written`), state as Arrow; nothing is unpickled. Functions and
modules that only this process knows are given again when the host is restored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from thalweg.graph.query_graph import QueryGraph
from thalweg.model.batch import Batch, one_batch
from thalweg.model.progress_text import progress_of_text, progress_text
from thalweg.operators.base import Slices
from thalweg.operators.consistency import Consistency
from thalweg.operators.text_slices import slice_of_text, text_of_slice
from thalweg.plan.nodes import Node, Source
from thalweg.plan.written import Given, read_plan, write_plan
from thalweg.run.host_build import HostedQuery
from thalweg.run.snapshots import pack, unpack

__all__ = ["SavedHost", "SavedQuery", "read_host", "write_host"]

_ITSELF = "(host)"
"""Where a snapshot holds what the host itself remembers."""
_MARK = "host"


@dataclass(frozen=True, slots=True)
class SavedQuery:
    """A query as it was when the host was saved."""

    name: str
    node: Node
    consistency: Consistency
    point: int
    uses: tuple[tuple[str, str], ...]
    from_history: bool = False


@dataclass(frozen=True, slots=True)
class SavedHost:
    """What a snapshot says; `state` is that of the operators."""

    queries: list[SavedQuery]
    unread: list[Source]
    """Sources that no query reads any more, in a host that keeps history."""
    point: int
    newest: dict[str, int]
    history: dict[str, list[Batch]] | None
    passed: dict[str, str]
    arcs: dict[str, list[str]]
    state: dict[str, Slices]

    def give(self, graph: QueryGraph) -> None:
        """Bring the operators of a graph to the state that was saved."""
        graph.restore_arcs(self.arcs)
        graph.restore(self.state)
        for operator in graph.operators:
            operator.passed = progress_of_text(self.passed[operator.id])


def write_host(
    graph: QueryGraph,
    queries: Mapping[str, HostedQuery],
    unread: Sequence[Source],
    point: int,
    newest: Mapping[str, int],
    history: Mapping[str, list[Batch]] | None,
) -> bytes:
    """The snapshot of a host, between two pushes."""
    about: dict[str, Any] = {
        "queries": [
            {
                "name": name,
                "plan": write_plan(hosted.node),
                "consistency": [hosted.consistency.mode, hosted.consistency.hold],
                "point": hosted.point,
                "uses": hosted.uses,
                "from_history": hosted.from_history,
            }
            for name, hosted in queries.items()
        ],
        "unread": [write_plan(source) for source in unread],
        "point": point,
        "newest": dict(newest),
        "passed": {operator.id: progress_text(operator.passed) for operator in graph.operators},
        "arcs": graph.arcs(),
        "history": None
        if history is None
        else {
            source: [progress_text(batch.progress) for batch in batches]
            for source, batches in history.items()
        },
    }
    slices: Slices = {"about": slice_of_text(json.dumps(about))}
    for source, batches in (history or {}).items():
        for number, batch in enumerate(batches):
            slices[f"history/{number}/{source}"] = one_batch(batch.to_table(), "history")
    return pack({**graph.snapshot(), _ITSELF: slices}, _MARK)


def read_host(snapshot: bytes, given: Given = ()) -> SavedHost:
    """The inverse of `write_host`."""
    state = unpack(snapshot, _MARK)
    itself = state.pop(_ITSELF)
    about = json.loads(text_of_slice(itself["about"]))
    queries = [
        SavedQuery(
            saved["name"],
            read_plan(saved["plan"], given),
            Consistency(*saved["consistency"]),
            saved["point"],
            tuple((name, kind) for name, kind in saved["uses"]),
            saved.get("from_history", False),
        )
        for saved in about["queries"]
    ]
    unread = [read_plan(plan, given) for plan in about.get("unread", ())]
    history = about["history"]
    if history is not None:
        history = {
            source: [
                Batch.from_table(itself[f"history/{number}/{source}"], progress_of_text(text))
                for number, text in enumerate(texts)
            ]
            for source, texts in history.items()
        }
    return SavedHost(
        queries,
        [node for node in unread if isinstance(node, Source)],
        about["point"],
        about["newest"],
        history,
        about["passed"],
        about["arcs"],
        state,
    )
