"""Objects for other processes are sent packed, and unpacked where they are used.

Spark starts Python processes of its own to ask a source for its name or a processor for its state
variables. They only need the wrapper; unpacking its contents would make each of them import all of
this package first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from pyspark import cloudpickle
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from thalweg.spark.stages.processor import STATE

__all__ = ["ship"]


def ship(processor: StatefulProcessor) -> StatefulProcessor:
    """A processor that carries this one packed, and unpacks it when the first rows come."""
    packed = cast(Any, cloudpickle).dumps(processor)
    state = STATE

    class Shipped(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self._state = handle.getMapState(*state)
            self._handle = handle
            self._inner: Any = None

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
            if self._inner is None:
                import thalweg.spark.processes.unpacking

                self._inner = thalweg.spark.processes.unpacking.unpacked(packed)
                self._inner.use(self._state, self._handle)
            yield from self._inner.handleInputRows(key, rows, timerValues)

        def close(self) -> None:
            pass

    Shipped.__module__ = "__main__"  # pickled by value, with what is packed
    return Shipped()
