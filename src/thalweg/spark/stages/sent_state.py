"""Spark's map state as a store, without a wait for each change.

A worker sends every change to the JVM as a message and waits for its answer: two switches between
threads and processes for each of some fifty slices of a micro-batch. The JVM answers in order, so
here changes are sent many at a time, and all answers are read before anything else is asked.
"""

from __future__ import annotations

import copy
import io
from typing import Any, cast

from pyspark.sql.streaming.stateful_processor import MapState

from thalweg.errors import StateError
from thalweg.shards.state.store import Store

__all__ = ["SentState", "sent"]

_MOST = 512
"""Answers that may wait. They are small; what waits must fit into the buffer of a socket."""
_MOST_BYTES = 1 << 20
"""Bytes of changes that wait to be sent."""


def sent(state: Any) -> Store:
    """Spark's state variable as a store of slices; any other store is returned as it is."""
    return SentState(state) if isinstance(state, MapState) else cast(Store, state)


class SentState:
    """The store of a state variable: by name, the bytes of its value."""

    def __init__(self, state: Any) -> None:
        self._state = state
        self._answers = _Answers(state._mapStateClient._stateful_processor_api_client)
        client = copy.copy(state._mapStateClient)
        client._stateful_processor_api_client = self._answers
        self._unanswered = copy.copy(state)
        self._unanswered._mapStateClient = client

    def get(self, name: str) -> bytes | None:
        self.settle()
        value = self._state.getValue((name,))
        return None if value is None else bytes(value[0])

    def put(self, name: str, value: bytes) -> None:
        self._unanswered.updateValue((name,), (value,))

    def remove(self, name: str) -> None:
        self._unanswered.removeKey((name,))

    def settle(self) -> None:
        """Wait until all changes are made."""
        self._answers.settle()


class _Answers:
    """A client of the JVM that takes every message for answered, and reads the answers later."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._waiting = 0
        self._writer = copy.copy(client)
        self._writer.sockfile = self._unsent = io.BytesIO()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def _send_proto_message(self, message: bytes) -> None:
        if self._waiting == _MOST:
            self.settle()
        self._writer._send_proto_message(message)
        self._waiting += 1
        if self._unsent.tell() >= _MOST_BYTES:
            self._send()

    def _receive_proto_message(self) -> tuple[int, str, bytes]:
        return 0, "", b""

    def _send(self) -> None:
        self._client.sockfile.write(self._unsent.getbuffer())
        self._client.sockfile.flush()
        self._unsent.seek(0)
        self._unsent.truncate()

    def settle(self) -> None:
        if self._unsent.tell():
            self._send()
        while self._waiting:
            status, reason, _ = self._client._receive_proto_message()
            self._waiting -= 1
            if status:
                raise StateError(f"the state store refused a change: {reason}")
