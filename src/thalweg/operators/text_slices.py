"""A text as a slice of a snapshot."""

from __future__ import annotations

import pyarrow as pa

from thalweg.model.rows import Rows

__all__ = ["slice_of_text", "text_of_slice"]


def slice_of_text(text: str, name: str = "text") -> Rows:
    """One row with one column.

    >>> text_of_slice(slice_of_text("abc"))
    'abc'
    """
    return pa.RecordBatch.from_arrays([pa.array([text], pa.string())], names=[name])


def text_of_slice(rows: Rows) -> str:
    """The inverse of `slice_of_text`."""
    return str(rows.column(0)[0].as_py())
