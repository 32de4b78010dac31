"""What must be true of the output of every run, whatever the form."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from thalweg.errors import UnknownRowError
from thalweg.model import (
    INFINITY,
    NO_PROGRESS,
    Batch,
    Row,
    first_violation_in_batches,
    rows_of_table,
    table_of_batches,
)
from thalweg.model.type_names import shown_columns
from thalweg.testing.compare import difference

__all__ = ["output_problem", "output_table"]


def output_table(batches: Sequence[Batch], schema: pa.Schema) -> list[Row]:
    """The table that an output leaves; raises UnknownRowError when it adjusts a row that is not
    there."""
    return rows_of_table(table_of_batches(batches, schema))


def output_problem(
    batches: Sequence[Batch], schema: pa.Schema, expected: Sequence[Row], consistency: str
) -> str | None:
    """The first law that an output breaks, or None.

    (a) its table is the expected one, (b) it keeps its own promises and adjusts only rows that are
    there, (c) with consistency "final" there are no adjusts, (d) it ends with an infinite CTI, (e)
    its columns are those of the query.
    """
    for number, batch in enumerate(batches):
        if batch.schema.names != schema.names or batch.schema.types != schema.types:
            return (
                f"output batch {number} has the columns ({shown_columns(batch.schema)}); the query "
                f"has ({shown_columns(schema)})"
            )
    broken = first_violation_in_batches(batches)
    if broken:
        return f"the output breaks its own promise: {broken}"
    if consistency == "final":
        for number, batch in enumerate(batches):
            if batch.is_adjust is not None and batch.is_adjust.any():
                return (
                    f'output batch {number} has an adjust; with consistency "final" there are none'
                )
    progress = NO_PROGRESS
    for batch in batches:
        progress = progress.merge(batch.progress)
    if progress.cti != INFINITY:
        return f"the input has ended, but the output only promises {progress.cti}"
    for number, batch in enumerate(batches):
        if (batch.end <= batch.start).any() or (
            batch.new_end is not None and (batch.new_end < batch.start).any()
        ):
            return f"output batch {number} has a lifetime that is empty or ends before it starts"
    try:
        return difference(expected, output_table(batches, schema))
    except UnknownRowError as reason:
        return f"the output cannot be played: {reason}"
