"""One reader for all inputs of a merge.

Spark cannot add a source to a query that runs. So all logs of a merge are read by one source, whose
offset says how far each input was read and which entries of the registry were taken.

An input that is attached or detached takes effect with the next offset, in every bucket at once,
and after a restart Spark hands out the same offsets again. A DataFrame or topic takes part through
a query of its own that writes a log (`to="elements"`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from thalweg.errors import PlanError
from thalweg.io.element_log import ElementLogReader, batch_file, form_of_log
from thalweg.merging.registry import Change, MergeEntry, MergeRegistry, inputs_after
from thalweg.model.batch import Batch
from thalweg.model.clocks import Clock
from thalweg.operators.merging.named_inputs import InputChange
from thalweg.plan.merging import Broken, Level, MergePolicy
from thalweg.plan.nodes import MergedSource
from thalweg.plan.properties import StreamProperties
from thalweg.shards.exchange.header import Header
from thalweg.shards.exchange.ingest import exchange_rows
from thalweg.shards.host.host_ingest import AnyIngest
from thalweg.spark.sources.element_feed import LogFeed, checked_batch
from thalweg.spark.sources.feed import load_reader
from thalweg.spark.sources.offsets import Offset, Part, TypedOffsets
from thalweg.stream import Stream

__all__ = ["MergedLogs", "merge_logs"]


def merge_logs(
    registry: str,
    *,
    groups: tuple[str, ...] = (),
    level: Level = "R3",
    policy: MergePolicy | None = None,
    tolerance: float = 0.0,
    broken: Broken = "cut",
    columns: pa.Schema | None = None,
    clock: Clock = None,
    batches_per_batch: int = 16,
    name: str = "merged",
) -> Stream:
    """Element logs that mean the same as one stream (LMerge).

    `registry` is a folder that says which logs they are (`thalweg.merging.MergeRegistry`); what is
    attached and detached there takes effect in the next micro-batch. The columns are those of an
    input's log that is there, or `columns`. Of each log a micro-batch takes at most
    `batches_per_batch` batches. The other arguments are those of `thalweg.Merger`.
    """
    if batches_per_batch < 1:
        raise PlanError(
            f"merge_logs: batches_per_batch must be 1 or more, not {batches_per_batch}."
        )
    place = Path(registry).absolute()
    if columns is None:
        columns, clock = _form(place)
    facts = StreamProperties(
        insert_only=level in ("R0", "R1", "R2") and broken == "cut",
        unique_start=bool(groups) or level == "R0",
        payload_start_key=bool(groups) or level in ("R0", "R2"),
        group_keys=groups,
    )
    feed = MergedLogs(str(place), batches_per_batch)
    return Stream(
        MergedSource(
            name,
            columns,
            declared=facts,
            feed=feed,
            clock=clock,
            level=level,
            policy=MergePolicy() if policy is None else policy,
            groups=groups,
            tolerance=tolerance,
            broken=broken,
        )
    )


def _form(registry: Path) -> tuple[pa.Schema, Clock]:
    for entry in MergeRegistry(registry).entries():
        if entry.folder is not None and batch_file(Path(entry.folder), 0).exists():
            found = form_of_log(Path(entry.folder))
            return found.schema, found.clock
    raise PlanError(
        f"merge_logs: none of the logs that {registry} names is there yet, so their columns are not"
        " known. Give them (columns=), or attach a log and start what writes it first."
    )


@dataclass(frozen=True)
class MergedLogs(LogFeed):
    """The logs that a registry names."""

    registry: str
    batches_per_batch: int
    named: bool = True

    def exchange(
        self, spark: SparkSession, ingest: AnyIngest, schema: pa.Schema, name: str, log: str
    ) -> DataFrame:
        reader = _MergeReader(self, ingest, schema, f"merge {name!r}")
        return load_reader(spark, reader, ingest)


@dataclass
class _Changes(Part):
    """Entries of the registry, each with the number of its chunk."""

    entries: list[tuple[int, MergeEntry]]


@dataclass
class _Taken(Part):
    """Batches of one input from a position on, each with the number of its chunk."""

    name: str
    folder: str
    run: str
    begin: int
    chunks: list[int]


class _Position(NamedTuple):
    """How far an input was read: the number of its next batch, and the run that wrote those
    before."""

    batch: int = 0
    run: str = ""


@dataclass(frozen=True)
class _MergeOffset(Offset):
    entries: int = 0
    """Of the registry: how many were taken."""
    chunks: int = 0
    """How many were handed out."""
    inputs: Mapping[str, _Position] = field(default_factory=dict)

    @classmethod
    def of_log(cls, fields: Mapping[str, Any]) -> _MergeOffset:
        inputs = {name: _Position(*position) for name, position in fields["inputs"].items()}
        return cls(fields["entries"], fields["chunks"], inputs)

    def of(self, name: str) -> _Position:
        return self.inputs.get(name, _Position())


class _MergeReader(TypedOffsets[_MergeOffset], DataSourceStreamReader, SupportsTriggerAvailableNow):
    offset_type = _MergeOffset

    def __init__(self, feed: MergedLogs, ingest: AnyIngest, schema: pa.Schema, where: str) -> None:
        self._feed, self._ingest, self._schema, self._where = feed, ingest, schema, where
        self._target: _MergeOffset | None = None

    def _registry(self) -> MergeRegistry:
        return MergeRegistry(Path(self._feed.registry))

    def initial(self) -> _MergeOffset:
        return _MergeOffset()

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._ahead(self.initial(), limited=False)

    def latest(self, start: _MergeOffset, limit: ReadLimit) -> _MergeOffset:
        return self._ahead(start, limited=True)

    def _ahead(self, start: _MergeOffset, *, limited: bool) -> _MergeOffset:
        """What can be read now, from an offset on."""
        target = self._target
        entries = self._registry().entries()[: None if target is None else target.entries]
        if any(entry.candidate or entry.change is Change.SWITCH for entry in entries):
            raise PlanError(
                f"{self._where}: the registry replaces a query by one with other answers. Only a "
                "front of its own does that (thalweg.merging.SwitchedMerge, thalweg ha)."
            )
        fresh = _joining(entries[start.entries :])
        chunks = start.chunks + len(entries) - start.entries
        inputs = {}
        for name, entry in inputs_after(entries).items():
            position = _Position() if name in fresh else start.of(name)
            end = self._ahead_of(name, str(entry.folder), position, limited=limited)
            chunks += end.batch - position.batch
            inputs[name] = end
        return _MergeOffset(len(entries), chunks, inputs)

    def _ahead_of(self, name: str, folder: str, position: _Position, *, limited: bool) -> _Position:
        """How far one input can be read now."""
        reader = ElementLogReader(Path(folder), position.batch, position.run or None)
        count = reader.available()
        if self._target is not None:
            count = min(count, max(0, self._target.of(name).batch - position.batch))
        if limited:
            count = min(count, self._feed.batches_per_batch)
        run = position.run
        if count and not run:
            reader.take()
            run = reader.run or ""
        return _Position(position.batch + count, run)

    def parts(self, start: _MergeOffset, end: _MergeOffset) -> list[InputPartition]:
        entries = self._registry().entries()[: end.entries]
        new = entries[start.entries :]
        chunk = start.chunks
        parts: list[InputPartition] = []
        if new:
            parts.append(_Changes(list(enumerate(new, chunk))))
            chunk += len(new)
        fresh, folders = _joining(new), inputs_after(entries)
        taken = []
        for name, position in end.inputs.items():
            begin = 0 if name in fresh else start.of(name).batch
            if position.batch > begin:
                taken.append(_Taken(name, str(folders[name].folder), position.run, begin, []))
        left = {part.name: end.of(part.name).batch - part.begin for part in taken}
        while any(left.values()):  # one batch of each input in turn
            for part in taken:
                if left[part.name]:
                    part.chunks.append(chunk)
                    left[part.name] -= 1
                    chunk += 1
        return [*parts, *taken]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, _Changes):
            for chunk, entry in partition.entries:
                change = InputChange.JOINS if entry.joins else InputChange.LEAVES
                header = Header(partition=entry.name, change=change, since=entry.since)
                yield exchange_rows(self._ingest.rows(Batch.empty(self._schema), header, chunk))
            return
        assert isinstance(partition, _Taken)
        reader = ElementLogReader(Path(partition.folder), partition.begin, partition.run)
        for chunk in partition.chunks:
            number = reader.position
            where = f"{self._where}, input {partition.name!r}"
            batch = checked_batch(reader.take(), self._schema, where)
            header = Header(
                progress=batch.progress,
                partition=partition.name,
                begin=number,
                end=number + 1,
                rows=len(batch),
            )
            yield exchange_rows(self._ingest.rows(batch, header, chunk))


def _joining(entries: list[MergeEntry]) -> set[str]:
    """The inputs that join anew with these entries."""
    return {entry.name for entry in entries if entry.joins}
