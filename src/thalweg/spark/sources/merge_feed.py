"""One reader for all inputs of a merge.

Spark cannot add a source to a query that runs. So all logs of a merge are read by one source, whose
offset says how far each input was read and which entries of the registry were taken:

    {"entries": 3, "chunks": 41, "inputs": {"one": [17, "run of one"], "two": [12, "run of two"]}}

An input that is attached or detached takes effect with the next offset, in every bucket at once,
and after a restart Spark hands out the same offsets again. A DataFrame or topic takes part through
a query of its own that writes a log (`to="elements"`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)

from thalweg.errors import PlanError
from thalweg.io.element_log import ElementLogReader, form_of_log
from thalweg.merging.registry import Change, MergeEntry, MergeRegistry, inputs_after
from thalweg.model.batch import Batch
from thalweg.model.clocks import Clock
from thalweg.operators.merging.named_inputs import InputChange
from thalweg.plan.merging import Broken, Level, MergePolicy
from thalweg.plan.nodes import MergedSource
from thalweg.plan.properties import StreamProperties
from thalweg.shards.exchange.chunks import Header
from thalweg.shards.exchange.ingest import exchange_rows
from thalweg.shards.host.host_ingest import AnyIngest
from thalweg.spark.sources.element_feed import checked_batch
from thalweg.spark.sources.feed import load_reader
from thalweg.stream import Stream

__all__ = ["MergedLogs", "merge_logs"]

Offset = dict[str, Any]


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
        if entry.folder is not None and (Path(entry.folder) / f"{0:012d}.arrow").exists():
            found = form_of_log(Path(entry.folder))
            return found.schema, found.clock
    raise PlanError(
        f"merge_logs: none of the logs that {registry} names is there yet, so their columns are not"
        " known. Give them (columns=), or attach a log and start what writes it first."
    )


@dataclass(frozen=True)
class MergedLogs:
    """The logs that a registry names."""

    registry: str
    batches_per_batch: int
    named: bool = True
    path: ClassVar[None] = None
    times: ClassVar[None] = None
    makes_promises: ClassVar[bool] = True
    ends: ClassVar[bool] = False

    def exchange(
        self, spark: SparkSession, ingest: AnyIngest, schema: pa.Schema, name: str, log: str
    ) -> DataFrame:
        reader = _MergeReader(self, ingest, schema, f"merge {name!r}")
        return load_reader(spark, reader, ingest)


@dataclass
class _Changes(InputPartition):
    """Entries of the registry, each with the number of its chunk."""

    entries: list[tuple[int, MergeEntry]]

    def __post_init__(self) -> None:
        super().__init__(None)


@dataclass
class _Taken(InputPartition):
    """Batches of one input from a position on, each with the number of its chunk."""

    name: str
    folder: str
    run: str
    begin: int
    chunks: list[int]

    def __post_init__(self) -> None:
        super().__init__(None)


class _MergeReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are {"entries": of the registry, "chunks": handed out, "inputs": {name: [position,
    run]}}."""

    def __init__(self, feed: MergedLogs, ingest: AnyIngest, schema: pa.Schema, where: str) -> None:
        self._feed, self._ingest, self._schema, self._where = feed, ingest, schema, where
        self._target: Offset | None = None

    def _registry(self) -> MergeRegistry:
        return MergeRegistry(Path(self._feed.registry))

    def initialOffset(self) -> Offset:
        return {"entries": 0, "chunks": 0, "inputs": {}}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._ahead(self.initialOffset(), limited=False)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        return self._ahead(start, limited=True)

    def _ahead(self, start: Offset, *, limited: bool) -> Offset:
        """What can be read now, from an offset on."""
        target = self._target
        entries = self._registry().entries()[: None if target is None else target["entries"]]
        if any(entry.candidate or entry.change is Change.SWITCH for entry in entries):
            raise PlanError(
                f"{self._where}: the registry replaces a query by one with other answers. Only a "
                "front of its own does that (thalweg.merging.SwitchedMerge, thalweg ha)."
            )
        fresh = _joining(entries[start["entries"] :])
        chunks = start["chunks"] + len(entries) - start["entries"]
        inputs = {}
        for name, entry in inputs_after(entries).items():
            position, run = (0, "") if name in fresh else start["inputs"].get(name, (0, ""))
            reader = ElementLogReader(Path(str(entry.folder)), position, run or None)
            count = reader.available()
            if target is not None:
                count = min(count, max(0, target["inputs"].get(name, (0, ""))[0] - position))
            if limited:
                count = min(count, self._feed.batches_per_batch)
            if count and not run:
                reader.take()
                run = reader.run
            inputs[name] = [position + count, run]
            chunks += count
        return {"entries": len(entries), "chunks": chunks, "inputs": inputs}

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        entries = self._registry().entries()[: end["entries"]]
        new = entries[start["entries"] :]
        chunk = start["chunks"]
        parts: list[InputPartition] = []
        if new:
            parts.append(_Changes(list(enumerate(new, chunk))))
            chunk += len(new)
        fresh, folders = _joining(new), inputs_after(entries)
        taken = []
        for name, (position, run) in end["inputs"].items():
            begin = 0 if name in fresh else start["inputs"].get(name, (0, ""))[0]
            if position > begin:
                taken.append(_Taken(name, str(folders[name].folder), run, begin, []))
        left = {part.name: end["inputs"][part.name][0] - part.begin for part in taken}
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
                header = Header(partition=entry.name, change=str(change), since=entry.since)
                yield exchange_rows(self._ingest.rows(Batch.empty(self._schema), header, chunk))
            return
        assert isinstance(partition, _Taken)
        reader = ElementLogReader(Path(partition.folder), partition.begin, partition.run)
        for chunk in partition.chunks:
            number = reader.position
            where = f"{self._where}, input {partition.name!r}"
            batch = checked_batch(reader.take(), self._schema, where)
            header = Header.of_progress(
                batch.progress,
                partition=partition.name,
                begin=number,
                end=number + 1,
                rows=len(batch),
            )
            yield exchange_rows(self._ingest.rows(batch, header, chunk))


def _joining(entries: list[MergeEntry]) -> set[str]:
    """The inputs that join anew with these entries."""
    return {entry.name for entry in entries if entry.joins}
