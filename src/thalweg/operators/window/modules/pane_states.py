"""The states of a mergeable module, one for each cell of a pane, as columns."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pyarrow as pa

from thalweg.model.rows import Codes, Rows
from thalweg.udm.module import Module

__all__ = ["PaneStates"]


class PaneStates:
    """States as columns: the module's own, or one column of saved ones."""

    def __init__(self, module: Module, own: Any) -> None:
        self._own = own
        self._columns = "partials" in module.methods

    def of_rows(self, rows: Rows, offsets: Codes) -> Rows:
        own = self._own
        if self._columns:
            states: Rows = own.partials(rows, offsets)
            return states
        values = (
            rows.column(0).to_pylist()
            if rows.num_columns == 1
            else list(zip(*(c.to_pylist() for c in rows.columns), strict=True))
        )
        return _saved(
            [
                own.save(own.add(own.empty(), tuple(values[begin:end])))
                for begin, end in pairwise(offsets.tolist())
            ]
        )

    def merged(self, states: Rows, offsets: Codes) -> Rows:
        own = self._own
        if self._columns:
            merged: Rows = own.merge_groups(states, offsets)
            return merged
        loaded = [own.load(saved) for saved in states.column(0).to_pylist()]
        found = []
        for begin, end in pairwise(offsets.tolist()):
            total = loaded[begin]
            for other in loaded[begin + 1 : end]:
                total = own.merge(total, other)
            found.append(own.save(total))
        return _saved(found)

    def results(self, states: Rows) -> Any:
        own = self._own
        return (
            own.results(states)
            if self._columns
            else [own.result(own.load(saved)) for saved in states.column(0).to_pylist()]
        )


def _saved(states: list[bytes]) -> Rows:
    return pa.RecordBatch.from_arrays([pa.array(states, pa.binary())], names=["state"])
