"""Readers of a host: the version of its queries is part of the offset.

So the offset log of Spark has the version that each micro-batch was read for; one that runs again
is read for the same. The partitions of a micro-batch carry the queries of its version, so that
workers need no access to the checkpoint. A version without rows makes a micro-batch too: removed
queries go, and added ones are there when rows come.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from thalweg.shards.exchange.ingest import exchange_rows
from thalweg.shards.host.host_ingest import HostIngest
from thalweg.shards.host.query_registry import (
    QueryRegistry,
    changes_of_json,
    changes_to_json,
    queries_at,
    queries_of_json,
    queries_to_json,
)
from thalweg.spark.sources.offsets import Offset, Part, TypedOffsets

__all__ = ["VersionedReader"]


@dataclass
class _VersionPart(Part):
    inner: InputPartition | None
    version: int
    queries: str
    changes: str


@dataclass(frozen=True)
class _VersionOffset(Offset):
    inner: dict[str, Any]
    """The offset of the reader, as it is in the log."""
    version: int


class VersionedReader(
    TypedOffsets[_VersionOffset], DataSourceStreamReader, SupportsTriggerAvailableNow
):
    """Any reader of ours, whose rows go through the ingest of a host."""

    offset_type = _VersionOffset

    def __init__(self, inner: Any, ingest: HostIngest, registry: str) -> None:
        self._inner = inner
        self._ingest = ingest
        self._folder = registry
        self._opened: QueryRegistry | None = None
        self._target: int | None = None

    @property
    def _registry(self) -> QueryRegistry:
        if self._opened is None:
            self._opened = QueryRegistry(Path(self._folder))
        return self._opened

    def initial(self) -> _VersionOffset:
        return _VersionOffset(self._inner.initialOffset(), 0)

    def getDefaultReadLimit(self) -> ReadLimit:
        limit: ReadLimit = self._inner.getDefaultReadLimit()
        return limit

    def prepareForTriggerAvailableNow(self) -> None:
        self._inner.prepareForTriggerAvailableNow()
        self._target = self._registry.version

    def latest(self, start: _VersionOffset, limit: ReadLimit) -> _VersionOffset:
        version = self._registry.version if self._target is None else self._target
        inner = self._inner.latestOffset(start.inner, limit)
        return _VersionOffset(inner, max(version, start.version))

    def parts(self, start: _VersionOffset, end: _VersionOffset) -> list[InputPartition]:
        version = end.version
        changes = self._registry.between(start.version, version)
        live = queries_at(self._registry.between(0, version))
        inner = list(self._inner.partitions(start.inner, end.inner))
        if not inner and not changes:
            return []
        queries, text = queries_to_json(live.values()), changes_to_json(changes)
        return [_VersionPart(part, version, queries, text) for part in inner or [None]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _VersionPart)
        queries, changes = queries_of_json(partition.queries), changes_of_json(partition.changes)
        self._ingest.use(partition.version, queries, changes)
        if partition.inner is None:
            yield exchange_rows(self._ingest.nothing())
        else:
            yield from self._inner.read(partition.inner)
