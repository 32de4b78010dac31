"""A stage of a host: one `transformWithState`, one call per bucket and micro-batch. What is for a
later stage, or for the output, passes through."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row

from thalweg.shards.exchange.chunk import Chunk
from thalweg.shards.host.roster import HostSpec
from thalweg.shards.host.stage_runner import StageRunner
from thalweg.shards.worker.newest import Newest
from thalweg.spark.stages.processor import (
    StageProcessor,
    chunk_of,
    exchange_row,
    micro_batch_time,
)

__all__ = ["HostProcessor"]

_RUNNERS: Newest[tuple[str, int, int], StageRunner] = Newest(64)
"""Of the newest buckets of this worker; when a host has ended, others take their places."""


class HostProcessor(StageProcessor):
    def __init__(self, spec: HostSpec, stage: int) -> None:
        self._spec = spec
        self._stage = stage

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        chunks: list[Chunk] = []
        for row in rows:
            if row["fragment"] > self._stage:
                yield row
            else:
                chunks.append(chunk_of(row))
        if not chunks:
            return
        place = (self._spec.run, self._stage, int(key[0]))
        runner = self._runner(place)
        for output in runner.process(chunks, micro_batch_time(self._handle), self._state):
            yield exchange_row(*output)
        _RUNNERS[place] = runner

    def _runner(self, place: tuple[str, int, int]) -> StageRunner:
        """The runner of the last micro-batch if its state is the store's, else a new one. Whatever
        fails now, it is not used again."""
        kept = _RUNNERS.pop(place, None)
        if kept is not None and kept.is_current(self._state):
            return kept
        runner = StageRunner(self._spec, self._stage, place[2])
        runner.load(self._state)
        return runner
