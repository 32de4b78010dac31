"""Ingest of a host: the rows of one source, to all queries of a version that read it.

The header of every chunk, with the version that it was read for, goes to all buckets of all stages:
each of them follows the progress of the source before a query begins to read it. The first chunk of
a version carries the changes of the version.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, TypeAlias

from thalweg.io.row_bytes import write_rows
from thalweg.model.batch import Batch
from thalweg.model.rows import Rows
from thalweg.plan.nodes import Source
from thalweg.progress import sighting_of
from thalweg.shards.exchange.chunk import ExchangeRow
from thalweg.shards.exchange.header import Header, Message
from thalweg.shards.exchange.ingest import Ingest, divided_rows, kernels_of, processed
from thalweg.shards.host.query_registry import Change, HostedQuery, changes_to_json
from thalweg.shards.host.roster import Roster

__all__ = ["AnyIngest", "HostIngest"]


class HostIngest:
    """Replaces `Ingest` for one source of a host. Its queries may change, so that rows come here as
    they were read, with all columns."""

    has_panes: ClassVar[bool] = False
    cells: ClassVar[None] = None
    columns: ClassVar[None] = None

    def __init__(self, source: Source, roster: Roster, registry: str = "") -> None:
        """`registry` is the folder of the queries, for readers that look for new versions."""
        self.registry = registry
        self._source = source
        self._roster = roster
        self._changes: bytes | None = None
        self._use_channels()

    def use(
        self, version: int, queries: Mapping[str, HostedQuery], changes: Sequence[Change]
    ) -> None:
        """Read for this version from now on; the next chunk carries the changes."""
        self._changes = changes_to_json(changes).encode() if changes else None
        if version != self._roster.version:
            self._roster.use(queries, version)
            self._use_channels()

    def _use_channels(self) -> None:
        self._channels = [
            (channel, kernels_of(channel.entry.ingest))
            for channel in self._roster.channels(self._source.name).values()
        ]

    def rows(self, batch: Batch, header: Header, seq: int) -> Iterator[ExchangeRow]:
        """The rows of the exchange for one batch."""
        header = replace(header, version=self._roster.version)
        policies = self._source.ingress.observed
        if policies and len(batch):
            header = header.with_sighting(sighting_of(batch.sync, policies))
        yield from self._announced(header, seq)
        for channel, kernels in self._channels:
            taken = processed(batch.with_progress(header.progress), kernels)
            yield from divided_rows(channel.target, channel.name, taken, header, seq)

    def nothing(self) -> Iterator[ExchangeRow]:
        """The rows of the exchange that announce a version for which no rows were read."""
        yield from self._announced(Header(version=self._roster.version), 0)

    def _announced(self, header: Header, seq: int) -> Iterator[ExchangeRow]:
        text = replace(header, kind=Message.SOURCE).to_json()
        changes, self._changes = self._changes, None
        for stage in range(self._roster.stages):
            for bucket in self._roster.ids:
                yield ExchangeRow(bucket, stage, self._source.name, seq, text, changes)

    def dead(self, source: str, dead_letters: Rows) -> ExchangeRow:
        """Records that could not be read, on their way past all stages to the output."""
        header = Header(Message.DEAD, rows=dead_letters.num_rows).to_json()
        roster = self._roster
        return ExchangeRow(
            roster.ids[0], roster.stages, source, 0, header, write_rows(dead_letters)
        )


AnyIngest: TypeAlias = Ingest | HostIngest
"""The ingest of a source, for a query by itself or for a host."""
