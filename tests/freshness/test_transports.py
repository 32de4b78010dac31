"""HTTP and files as transports of the receiver: what TCP does, they do."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from thalweg.freshness.durable_queue import DurableQueue
from thalweg.freshness.file_transport import FileTransport
from thalweg.freshness.http_transport import HttpTransport
from thalweg.freshness.receiver import Receiver
from thalweg.freshness.refusals import Refusal

SCHEMA = pa.schema({"key": pa.string(), "number": pa.int64()})
LINES, STREAM, COMMAND = (
    "application/x-ndjson",
    "application/vnd.apache.arrow.stream",
    "application/json",
)


def receiver_of(folder: Path) -> Receiver:
    ticks = count()
    queue = DurableQueue(folder, SCHEMA, "key", schedule="in-place", capacity=2**20)
    return Receiver(queue, now=lambda: next(ticks))


def stream(keys: list[str], numbers: list[int]) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA) as writer:
        writer.write_batch(pa.record_batch([keys, numbers], schema=SCHEMA))
    body: bytes = sink.getvalue().to_pybytes()
    return body


def over_http(folder: Path, client: Callable[[int], Any], **options: Any) -> tuple[Any, Receiver]:
    """Run a receiver, and a client against its port in a thread."""

    async def serve() -> tuple[Any, Receiver]:
        receiver = receiver_of(folder)
        server = HttpTransport(receiver, **options).start(asyncio.get_running_loop())
        try:
            host, port = server.server_address[:2]
            assert host == "127.0.0.1", "nothing listens beyond loopback by default"
            return await asyncio.to_thread(client, port), receiver
        finally:
            await asyncio.to_thread(server.shutdown)
            server.server_close()
            receiver.queue.close()

    return asyncio.run(serve())


def ask(
    port: int, method: str, path: str, body: bytes = b"", kind: str = LINES, **headers: str
) -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        sent = {"Content-Type": kind, **headers}
        connection.request(method, path, body if method == "POST" else None, sent)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def test_rows_and_commands_over_http(tmp_path: Path) -> None:
    def client(port: int) -> dict[str, Any]:
        lines = b'{"key": "a", "number": 1}\n{"key": "b", "number": 2}\n'
        assert ask(port, "POST", "/rows", lines) == (
            200,
            {"accepted": 2, "outdated": 0, "refused": 0},
        )
        assert ask(port, "POST", "/rows", stream(["a"], [3]), STREAM)[1]["accepted"] == 1
        _, cut = ask(port, "POST", "/command", b'{"cut": 5}', COMMAND)
        assert cut["rows"] == 2
        return ask(port, "GET", "/status")[1]

    status, receiver = over_http(tmp_path, client)
    assert (status["arrived"], status["conflated"], status["taken"]) == (3, 1, 2)
    (cut,) = receiver.queue.uncommitted
    assert cut.read().to_pylist() == [{"key": "a", "number": 3}, {"key": "b", "number": 2}]


HOSTILE: dict[str, tuple[dict[str, Any], int, str]] = {
    "no JSON": ({"body": b"}{"}, 400, "malformed rows"),
    "other columns": ({"body": b'{"key": "a", "nmber": 1}\n'}, 400, "malformed rows"),
    "another schema": (
        {"body": stream(["a"], [1])[:60], "kind": STREAM},
        400,
        "malformed rows",
    ),
    "a form of a page": ({"body": b"key=a", "kind": "text/plain"}, 415, "wrong media type"),
    "another page": ({"path": "/drop"}, 404, "no such page"),
    "a body too large": ({"body": b"x" * 5_000}, 413, "frame too large"),
    "another host": ({"Host": "evil.example"}, 400, "wrong host"),
    "no command": ({"path": "/command", "body": b"[1]", "kind": COMMAND}, 400, "malformed command"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_wrong_is_refused_and_counted(tmp_path: Path, name: str) -> None:
    sent, expected, reason = HOSTILE[name]

    def client(port: int) -> None:
        status, answer = ask(port, "POST", **{"path": "/rows", **sent})
        assert (status, list(answer)) == (expected, ["error"])
        line = b'{"key": "a", "number": 1}\n'
        assert ask(port, "POST", "/rows", line)[0] == 200, "others are served as before"

    _, receiver = over_http(tmp_path, client, max_body=4_096)
    assert receiver.refusals[Refusal(reason)] == 1


def test_files_are_taken_in_order_and_once(tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    (inbox / "1.jsonl").write_bytes(b'{"key": "a", "number": 1}\n')
    (inbox / "2.arrow").write_bytes(stream(["a", "b"], [2, 3]))
    (inbox / "3.jsonl").write_bytes(b"no JSON")
    (inbox / "4.jsonl.tmp").write_bytes(b"not whole yet")

    async def take(receiver: Receiver) -> int:
        return await FileTransport(receiver, inbox).take_all()

    receiver = receiver_of(tmp_path / "queue")
    assert asyncio.run(take(receiver)) == 2
    assert receiver.refusals[Refusal.MALFORMED_ROWS] == 1
    assert sorted(path.name for path in inbox.iterdir()) == ["3.jsonl.refused", "4.jsonl.tmp"]
    assert receiver.queue.queue.read(9, now=0).to_pylist() == [
        {"key": "a", "number": 2},
        {"key": "b", "number": 3},
    ]
    receiver.queue.close()


def test_a_file_that_was_taken_before_a_crash_is_not_taken_again(tmp_path: Path) -> None:
    """Its rows are on disk, and the file is still there: an older value must not come back."""
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    path = inbox / "1.jsonl"
    path.write_bytes(b'{"key": "a", "number": 1}\n')
    mark = f"{path.name}:{path.stat().st_ino}:{path.stat().st_mtime_ns}"

    async def crash(receiver: Receiver) -> None:
        old = pa.record_batch([["a"], [1]], schema=SCHEMA)
        await receiver.take([old], file=mark)
        await receiver.take([pa.record_batch([["a"], [2]], schema=SCHEMA)])

    first = receiver_of(tmp_path / "queue")
    asyncio.run(crash(first))
    first.queue.close()
    again = receiver_of(tmp_path / "queue")

    async def take() -> None:
        await FileTransport(again, inbox).take_all()

    asyncio.run(take())
    assert not path.exists()
    assert again.queue.queue.read(9, now=0).to_pylist() == [{"key": "a", "number": 2}]
    again.queue.close()
