"""Readers of a host: the version of its queries is part of the offset.

    {"inner": the offset of the reader, "version": 3}

The offset log of Spark so says for which version each micro-batch was read; one that runs again is
read for the same. The partitions of a micro-batch carry the queries of its version, so that workers
need no access to the checkpoint. A version without rows makes a micro-batch too: removed queries go
and added ones are there when rows come.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from thalweg.shards.exchange.ingest import exchange_rows
from thalweg.shards.host.host_ingest import HostIngest
from thalweg.shards.host.query_registry import Change, HostedQuery, QueryRegistry, queries_at

__all__ = ["VersionedReader"]


@dataclass
class _Part(InputPartition):
    inner: InputPartition | None
    version: int
    queries: str
    changes: str

    def __post_init__(self) -> None:
        super().__init__(None)


class VersionedReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Any reader of ours, whose rows go through the ingest of a host."""

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

    def initialOffset(self) -> dict[str, Any]:
        return {"inner": self._inner.initialOffset(), "version": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        limit: ReadLimit = self._inner.getDefaultReadLimit()
        return limit

    def prepareForTriggerAvailableNow(self) -> None:
        self._inner.prepareForTriggerAvailableNow()
        self._target = self._registry.version

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        version = self._registry.version if self._target is None else self._target
        inner = self._inner.latestOffset(start["inner"], limit)
        return {"inner": inner, "version": max(version, start["version"])}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        version = end["version"]
        changes = self._registry.between(start["version"], version)
        live = queries_at(self._registry.between(0, version))
        inner = list(self._inner.partitions(start["inner"], end["inner"]))
        if not inner and not changes:
            return []
        queries = json.dumps([query.to_json() for query in live.values()])
        text = json.dumps([change.to_json() for change in changes])
        return [_Part(part, version, queries, text) for part in inner or [None]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Part)
        queries = [HostedQuery(**entry) for entry in json.loads(partition.queries)]
        changes = [Change.from_json(entry) for entry in json.loads(partition.changes)]
        self._ingest.use(partition.version, {query.id: query for query in queries}, changes)
        if partition.inner is None:
            yield exchange_rows(self._ingest.nothing())
        else:
            yield from self._inner.read(partition.inner)
