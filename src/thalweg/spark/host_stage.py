"""A stage of a host: one `transformWithState`, one call per bucket and micro-batch. What is for a
later stage, or for the output, passes through."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from thalweg.shards.exchange import EXCHANGE_COLUMNS, Chunk, Header
from thalweg.shards.host_worker import HostSpec, StageRunner
from thalweg.spark.processor import STATE, micro_batch_time
from thalweg.spark.sent_state import sent, settle

__all__ = ["HostProcessor"]

_exchange_row = cast(Any, Row(*(column.split()[0] for column in EXCHANGE_COLUMNS.split(", "))))

_RUNNERS: dict[tuple[str, int, int], StageRunner] = {}
_KEPT = 64
"""Buckets that a worker remembers; of hosts that have ended, the memory goes when others come."""


class HostProcessor(StatefulProcessor):
    def __init__(self, spec: HostSpec, stage: int) -> None:
        self._spec = spec
        self._stage = stage

    def init(self, handle: Any) -> None:
        self.use(handle.getMapState(*STATE), handle)

    def use(self, state: Any, handle: Any) -> None:
        """The state variable to work with, and the handle that knows the time."""
        self._state, self._handle = sent(state), handle

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        chunks: list[Chunk] = []
        for row in rows:
            if row["fragment"] > self._stage:
                yield row
                continue
            blob = None if row["blob"] is None else bytes(row["blob"])
            chunks.append(Chunk(row["origin"], row["seq"], Header.from_json(row["header"]), blob))
        if not chunks:
            return
        mark = (self._spec.run, self._stage, int(key[0]))
        runner = self._runner(mark)
        for output in runner.process(chunks, micro_batch_time(self._handle), self._state):
            yield _exchange_row(*output)
        settle(self._state)
        _RUNNERS[mark] = runner
        while len(_RUNNERS) > _KEPT:
            del _RUNNERS[next(iter(_RUNNERS))]

    def _runner(self, mark: tuple[str, int, int]) -> StageRunner:
        """The runner of the last micro-batch if its state is the store's, else a new one. Whatever
        fails now, it is not used again."""
        kept = _RUNNERS.pop(mark, None)
        if kept is not None and kept.is_current(self._state):
            return kept
        runner = StageRunner(self._spec, self._stage, mark[2])
        runner.load(self._state)
        return runner

    def close(self) -> None:
        pass
