"""Batches that wait on arcs, as a part of a snapshot.

A graph that is run until it is idle has none. A graph that is run by steps may be stopped with
batches between its operators; they are state like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from thalweg.graph.graph_operator import GraphOperator
from thalweg.model.batch import Batch
from thalweg.model.progress_text import progress_of_text, progress_text
from thalweg.model.rows import Rows, empty_rows
from thalweg.operators.base import Slices

__all__ = ["WAITING", "restore_waiting", "waiting_rows"]

WAITING = "(arcs)"
"""The entry of a snapshot with the waiting batches."""


def waiting_rows(operators: Iterable[GraphOperator]) -> Slices:
    """The waiting batches, by operator, port and place in the queue."""
    return {
        f"{operator.id}/{port}/{place}": _rows(batch)
        for operator in operators
        for port, arc in enumerate(operator.inputs)
        for place, batch in enumerate(arc.contents())
    }


def restore_waiting(operators: Iterable[GraphOperator], waiting: Mapping[str, Rows]) -> None:
    """Put the batches of a snapshot back on their arcs; nothing else may be on them."""
    by_id = {operator.id: operator for operator in operators}
    for place, rows in sorted(waiting.items(), key=lambda item: int(item[0].rsplit("/", 1)[1])):
        name, port, _ = place.rsplit("/", 2)
        progress = progress_of_text((rows.schema.metadata or {})[b"progress"].decode())
        by_id[name].inputs[int(port)].put_ahead(Batch.from_table(rows, progress))


def _rows(batch: Batch) -> Rows:
    table = batch.to_table().combine_chunks()
    table = table.replace_schema_metadata({"progress": progress_text(batch.progress)})
    batches = table.to_batches()
    return batches[0] if batches else empty_rows(table.schema)
