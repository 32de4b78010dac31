"""A snapshot of a running query as bytes: an Arrow stream of (operator, slice, Arrow bytes), with
the plan it belongs to.

No pickle: reading a snapshot from elsewhere can fail, but it cannot run code.
"""

from __future__ import annotations

import hashlib

import pyarrow as pa

from thalweg.errors import StateError
from thalweg.io.row_bytes import read_rows, write_rows
from thalweg.model.progress import Progress
from thalweg.model.progress_text import progress_of_text, progress_text
from thalweg.model.rows import Rows
from thalweg.operators.base import Slices
from thalweg.plan.explain import operator_ids
from thalweg.plan.nodes import Node

__all__ = [
    "fingerprint",
    "pack",
    "progress_of_rows",
    "progress_rows",
    "unpack",
]

_FORMAT = b"thalweg-snapshot-5"
_OLDER = tuple(b"thalweg-snapshot-%d" % number for number in range(1, 5))
_SCHEMA = pa.schema([("operator", pa.string()), ("slice", pa.string()), ("rows", pa.binary())])


def fingerprint(plan: Node, consistency: str) -> str:
    """What a snapshot must agree on with the query it is restored into: the signatures of all
    operators, sources with what they declare among them, and who reads whom."""
    ids = operator_ids(plan)
    parts = [f"{ids[node]} {node.signature} reads {[ids[n] for n in node.inputs]}" for node in ids]
    return hashlib.sha256("\n".join([*parts, consistency]).encode()).hexdigest()


def progress_rows(progress: Progress) -> Rows:
    """Progress as a slice of a snapshot."""
    return pa.RecordBatch.from_arrays(
        [pa.array([progress_text(progress)], pa.string())], names=["progress"]
    )


def progress_of_rows(rows: Rows) -> Progress:
    """The inverse of `progress_rows`."""
    return progress_of_text(rows.column(0)[0].as_py())


def pack(state: dict[str, Slices], mark: str) -> bytes:
    """State as bytes."""
    entries = [
        (operator, name, write_rows(rows))
        for operator, slices in state.items()
        for name, rows in slices.items()
    ]
    entries += [(operator, "", b"") for operator, slices in state.items() if not slices]
    columns = [list(column) for column in zip(*entries, strict=True)]
    schema = _SCHEMA.with_metadata({b"format": _FORMAT, b"plan": mark.encode()})
    batch = pa.RecordBatch.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema
    )
    return write_rows(batch)


def unpack(snapshot: bytes, mark: str) -> dict[str, Slices]:
    """The inverse of `pack`; refuses bytes that are no snapshot or belong to another query."""
    try:
        table = pa.ipc.open_stream(snapshot).read_all()
    except (pa.ArrowInvalid, OSError) as reason:
        raise StateError(f"these bytes are no snapshot: {reason}.") from reason
    metadata = table.schema.metadata or {}
    if metadata.get(b"format") in _OLDER:
        raise StateError(
            "the snapshot was written by an older version, whose state this one cannot read; "
            "finish the query with the version that wrote it, or start it anew."
        )
    if metadata.get(b"format") != _FORMAT:
        raise StateError("these bytes are no snapshot of this version.")
    if metadata.get(b"plan") != mark.encode():
        raise StateError(
            "the snapshot belongs to another query, or to this one with another consistency; "
            "restore it into the query that made it."
        )
    state: dict[str, Slices] = {}
    for operator, name, blob in zip(*(column.to_pylist() for column in table.columns), strict=True):
        slices = state.setdefault(operator, {})
        if blob:
            slices[name] = read_rows(blob)
    return state
