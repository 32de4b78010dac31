"""An engine that waits: it keeps all input and calls the oracle when the input ends.

It is right by definition, silent until the end, and small. The fuzzer is tested with it and with
broken copies of it; it shows what an engine must offer to be driven by a form.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import pyarrow as pa

from thalweg.model import INFINITY, Batch, Cti, Element, Insert, Row, batches_of, cht, elements_of
from thalweg.plan.nodes import Node, Source, walk
from thalweg.testing.oracle import oracle

__all__ = ["ReferenceEngine"]


class ReferenceEngine:
    """The oracle behind the interface of an engine.

    >>> import pyarrow as pa
    >>> from thalweg.model import insert
    >>> from thalweg.plan.nodes import Shift, Source
    >>> source = Source("a", pa.schema([("v", pa.int64())]))
    >>> engine = ReferenceEngine(Shift(source, 10))
    >>> engine.push("a", next(batches_of([insert({"v": 1}, 2, 5)], source.schema)))
    []
    >>> list(elements_of(engine.finish()))
    [Insert(payload={'v': 1}, start=12, end=15), Cti(time=9223372036854775807, scope=None)]
    """

    def __init__(
        self, query: Node, *, consistency: str = "speculative", hold: int | None = None
    ) -> None:
        self.query, self.consistency, self.hold = query, consistency, hold
        self.schemas = {node.name: node.schema for node in walk(query) if isinstance(node, Source)}
        self.seen: dict[str, list[Element]] = {name: [] for name in self.schemas}

    def push(self, source_name: str, batch: Batch) -> list[Batch]:
        self.seen[source_name] += elements_of([batch])
        return []

    def finish(self) -> list[Batch]:
        tables = {name: cht(elements, self.schemas[name]) for name, elements in self.seen.items()}
        return self.answer(oracle(self.query, tables))

    def answer(self, rows: Sequence[Row]) -> list[Batch]:
        """Final rows and the end of the stream as batches."""
        elements: list[Element] = [Insert(payload, start, end) for start, end, payload in rows]
        return list(batches_of([*elements, Cti(INFINITY)], self.query.schema))

    def snapshot(self) -> bytes:
        blobs = [
            _to_ipc(
                Batch.concat(
                    list(batches_of(seen, self.schemas[name])), self.schemas[name]
                ).to_table()
            )
            for name, seen in self.seen.items()
        ]
        return _to_ipc(
            pa.table(
                {
                    "source": pa.array(list(self.seen), pa.string()),
                    "elements": pa.array(blobs, pa.binary()),
                }
            )
        )

    @classmethod
    def restore(
        cls,
        query: Node,
        snapshot: bytes,
        *,
        consistency: str = "speculative",
        hold: int | None = None,
    ) -> Self:
        engine = cls(query, consistency=consistency, hold=hold)
        for kept in _from_ipc(snapshot).to_pylist():
            engine.seen[kept["source"]] = list(
                elements_of([Batch.from_table(_from_ipc(kept["elements"]))])
            )
        return engine


def _to_ipc(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _from_ipc(data: bytes) -> pa.Table:
    return pa.ipc.open_stream(data).read_all()
