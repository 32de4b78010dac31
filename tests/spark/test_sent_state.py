"""Changes of Spark's map state are sent without waiting. The test is the JVM at the other end of
the socket: it takes all messages before it answers one."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from pyspark.serializers import CPickleSerializer
from pyspark.sql.streaming.map_state_client import MapStateClient
from pyspark.sql.streaming.proto.StateMessage_pb2 import StateRequest, StateResponse
from pyspark.sql.streaming.stateful_processor import MapState
from pyspark.sql.streaming.stateful_processor_api_client import StatefulProcessorApiClient

from thalweg.errors import StateError
from thalweg.spark.stages.processor import STATE
from thalweg.spark.stages.sent_state import _MOST, _MOST_BYTES, SentState, sent

pickled: Any = CPickleSerializer()


class Server:
    """The JVM's end of a socket: a map, changed in the order of the messages."""

    def __init__(self) -> None:
        self.entries: dict[str, bytes] = {}
        self.refuses = False
        self.writes = 0
        self._unread = b""
        self._answers = b""

    @property
    def is_silent(self) -> bool:
        return not self._answers and not self._unread

    # What Spark's client does with a socket.

    def write(self, data: Any) -> None:
        self.writes += len(data) > 4  # the client writes numbers by themselves
        self._unread += bytes(data)

    def flush(self) -> None:
        pass

    def read(self, length: int) -> bytes:
        while self._unread:
            version, size = struct.unpack("!ii", self._unread[:8])
            assert version == 0
            answer = self._answer(self._unread[8 : 8 + size])
            self._answers += struct.pack("!i", len(answer)) + answer
            self._unread = self._unread[8 + size :]
        found, self._answers = self._answers[:length], self._answers[length:]
        return found

    def _answer(self, message: bytes) -> bytes:
        call = StateRequest.FromString(message).stateVariableRequest.mapStateCall
        found = b""
        if call.HasField("updateValue"):
            name, blob = pickled.loads(call.updateValue.userKey)[0], call.updateValue.value
            self.entries[name] = pickled.loads(blob)[0]
        elif call.HasField("removeKey"):
            self.entries.pop(pickled.loads(call.removeKey.userKey)[0], None)
        else:
            value = self.entries.get(pickled.loads(call.getValue.userKey)[0])
            found = b"" if value is None else pickled.dumps((value,))
        status = 1 if self.refuses else 0
        answer = StateResponse(statusCode=status, errorMessage="full" * status, value=found)
        return bytes(answer.SerializeToString())


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def state(server: Server) -> SentState:
    client: Any = StatefulProcessorApiClient.__new__(StatefulProcessorApiClient)
    client.pickleSer = pickled
    client.sockfile = server
    found = sent(MapState(MapStateClient(client, *STATE[1:]), STATE[0]))
    assert isinstance(found, SentState)
    return found


def test_changes_wait_for_no_answer(server: Server, state: SentState) -> None:
    state.put("a", b"1")
    state.put("b", b"2")
    state.remove("a")
    assert not server.entries
    state.settle()
    assert server.writes == 1
    assert server.entries == {"b": b"2"} and server.is_silent


def test_large_changes_are_sent_at_once(server: Server, state: SentState) -> None:
    for name in "abc":
        state.put(name, bytes(_MOST_BYTES))
    assert server.writes == 3
    state.settle()
    assert {name: len(blob) for name, blob in server.entries.items()} == dict.fromkeys(
        "abc", _MOST_BYTES
    )


def test_what_is_read_has_all_changes(server: Server, state: SentState) -> None:
    state.put("a", b"1")
    assert state.get("a") == b"1"
    assert state.get("b") is None
    assert server.is_silent, "each answer was read once"


def test_so_many_changes_as_fit_are_sent(server: Server, state: SentState) -> None:
    for number in range(2 * _MOST + 1):
        state.put(str(number), b"")
    assert len(server.entries) == 2 * _MOST
    state.settle()
    assert len(server.entries) == 2 * _MOST + 1


def test_a_change_that_was_refused_fails_the_task(server: Server, state: SentState) -> None:
    server.refuses = True
    state.put("a", b"1")
    with pytest.raises(StateError, match="the state store refused a change: full"):
        state.settle()


def test_other_stores_are_used_as_they_are() -> None:
    store = object()
    assert sent(store) is store
