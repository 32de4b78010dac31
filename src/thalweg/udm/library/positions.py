"""Values by their position or their number: the median, the mode, the largest few."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.udm.decorators import aggregate, operator

__all__ = ["TopK", "median", "mode"]


@aggregate(
    "std.median",
    inputs={"value": "double"},
    output="double",
    takes="numpy",
    nulls="skip",
    any_order=True,
)
def median(values: npt.NDArray[np.float64]) -> float:
    """The middle value; half-way between the two middle ones when there are two."""
    return float(np.median(values))


def _same_type(inputs: pa.Schema) -> pa.DataType:
    return inputs.field(0).type


@aggregate("std.mode", inputs={"value": "any"}, output=_same_type, nulls="skip", any_order=True)
def mode(values: Sequence[Any]) -> Any:
    """The most frequent value; of several the smallest."""
    counts = Counter(values)
    most = max(counts.values())
    return min(value for value, count in counts.items() if count == most)


def _with_rank(inputs: pa.Schema) -> pa.Schema:
    return pa.schema([*inputs, pa.field("rank", pa.int64())])


@operator("std.top_k", output=_with_rank, takes="arrow", any_order=True)
class TopK:
    """The rows with the k largest values of a column, each with its rank; ties are kept whole,
    nulls are last."""

    def __init__(self, k: int, by: str) -> None:
        self._k, self._by = k, by

    def compute(self, rows: pa.Table) -> pa.Table:
        rank = pc.rank(rows.column(self._by), sort_keys="descending", tiebreaker="min").cast(
            pa.int64()
        )
        return rows.append_column("rank", rank).filter(pc.less_equal(rank, self._k))
