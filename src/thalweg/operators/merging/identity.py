"""When rows of different inputs are the same row.

By payload and start, as in the document. With `groups`, the rows of one group and start are
moreover versions of one answer (see `answers`).

With a tolerance, floats are compared by cells of that width: values that differ by no more than the
tolerance are the same, values that differ by more than twice of it are not. A row is looked up in
its own cells and in those beside them.
"""

from __future__ import annotations

from copy import copy
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.errors import PlanError
from thalweg.model.batch import Batch
from thalweg.model.digests import Digests, digest_rows
from thalweg.model.rows import Rows
from thalweg.model.time import Times
from thalweg.operators.merging.top_tier import TopTier

__all__ = ["Identity"]

_MOST_FLOATS = 4


class Identity:
    """
    >>> exact, near = Identity(SCHEMA), Identity(SCHEMA, tolerance=0.01)
    >>> rows = pa.RecordBatch.from_pydict({"v": [1.0, 1.001]}, SCHEMA)
    >>> batch = Batch(rows, np.array([0, 0]), np.array([9, 9]))
    >>> top = TopTier(SCHEMA)
    >>> [len(set(i.of_rows(batch, top).low.tolist())) for i in (exact, near)]
    [2, 1]
    """

    def __init__(
        self, schema: pa.Schema, groups: tuple[str, ...] = (), tolerance: float = 0.0
    ) -> None:
        self.groups, self.tolerance = groups, tolerance
        floats = [f.name for f in schema if pa.types.is_floating(f.type)] if tolerance else []
        self._floats = floats
        self._exact = [name for name in schema.names if name not in floats]
        if len(floats) > _MOST_FLOATS:
            raise PlanError(
                f"merge: tolerance= compares at most {_MOST_FLOATS} columns of floats; there are "
                f"{len(floats)}. Round some of them before the merge."
            )

    def without_groups(self) -> Identity:
        """The same rows, none of which are versions of one answer."""
        identity = copy(self)
        identity.groups = ()
        return identity

    def of_rows(self, batch: Batch, top: TopTier) -> Digests:
        """The digest of each row's payload and start; of a row that is held up to the tolerance,
        the digest it is held by."""
        if not self._floats:
            return top.digest(batch.payload, batch.start)
        exact = digest_rows(
            [*(batch.payload.column(name) for name in self._exact), batch.start], len(batch)
        )
        cells = [self._cells(batch.payload.column(name)) for name in self._floats]
        steps = sorted(product((0, -1, 1), repeat=len(cells)), key=lambda step: step.count(0) * -1)
        own = _with_cells(exact, cells, steps[0])
        high, low = own.high.copy(), own.low.copy()
        open_ = np.flatnonzero(top.find(own) < 0)
        for step in steps[1:]:
            if not len(open_):
                break
            near = _with_cells(
                exact.take(open_), [cell.take(pa.array(open_)) for cell in cells], step
            )
            found = top.find(near) >= 0
            high[open_[found]], low[open_[found]] = near.high[found], near.low[found]
            open_ = open_[~found]
        return Digests(high, low)

    def of_groups(self, rows: Rows, start: Times) -> Digests:
        """The digest of each row's group and start."""
        return digest_rows([*(rows.column(name) for name in self.groups), start], len(start))

    def _cells(self, column: pa.Array) -> pa.Array:
        values = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
        with np.errstate(over="ignore"):
            cells = np.floor(values / self.tolerance)
        nulls = column.is_null().to_numpy(zero_copy_only=False)
        return pa.array(cells, mask=nulls, from_pandas=False)


def _with_cells(exact: Digests, cells: list[pa.Array], step: tuple[int, ...]) -> Digests:
    columns = [pc.add(cell, float(shift)) for cell, shift in zip(cells, step, strict=True)]
    more = digest_rows(columns, len(exact))
    return Digests(exact.high ^ more.high, exact.low ^ more.low)


SCHEMA = pa.schema([("v", pa.float64())])
