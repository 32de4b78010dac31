"""The receiver: acknowledged rows, cuts, hostile senders, and kill -9."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from thalweg.errors import InputError
from thalweg.freshness.durable_queue import DurableQueue
from thalweg.freshness.queue_status import Admission
from thalweg.freshness.receiver import Receiver
from thalweg.freshness.receiver_client import ReceiverClient
from thalweg.freshness.refusals import Refusal
from thalweg.freshness.tcp_transport import HEADER, TcpTransport

SCHEMA = pa.schema({"key": pa.string(), "number": pa.int64()})


def rows(keys: list[str], first: int = 0) -> pa.RecordBatch:
    numbers = pa.array(range(first, first + len(keys)), pa.int64())
    return pa.record_batch([pa.array(keys, pa.string()), numbers], schema=SCHEMA)


def talk(folder: Path, client: Callable[[str, int], Any], **options: Any) -> tuple[Any, Receiver]:
    """Run a receiver, and a client against it in a thread; what the client returned."""
    capacity = options.pop("capacity", 2**20)

    async def serve() -> tuple[Any, Receiver]:
        ticks = count()
        queue = DurableQueue(folder, SCHEMA, "key", schedule="in-place", capacity=capacity)
        receiver = Receiver(queue, now=lambda: next(ticks))
        server = await TcpTransport(receiver, **options).start()
        host, port = server.sockets[0].getsockname()
        try:
            return await asyncio.to_thread(client, host, port), receiver
        finally:
            server.close()
            await server.wait_closed()
            queue.close()

    return asyncio.run(serve())


def test_rows_in_and_cuts_out(tmp_path: Path) -> None:
    def client(host: str, port: int) -> None:
        assert host == "127.0.0.1", "nothing listens beyond loopback by default"
        with ReceiverClient(host, port) as receiver:
            assert receiver.offer(rows(["a", "b", "a"])) == Admission(3, 0, 0)
            lines = '{"key": "c", "number": 7}\n{"key": "b", "number": 8}\n'
            assert receiver.offer_json(lines) == Admission(2, 0, 0)
            cut = receiver.cut(2)
            assert cut.read().to_pylist() == [
                {"key": "a", "number": 2},
                {"key": "b", "number": 8},
            ]
            assert receiver.open_cuts() == [cut]
            receiver.deliver(cut.number)
            receiver.commit(cut.number)
            assert receiver.open_cuts() == []
            status = receiver.status()
            assert (status["arrived"], status["conflated"], status["waiting"]) == (5, 2, 1)

    talk(tmp_path, client)


def frame(kind: str, body: bytes, length: int | None = None) -> bytes:
    return HEADER.pack(len(body) if length is None else length, ord(kind)) + body


def arrow(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    body: bytes = sink.getvalue().to_pybytes()
    return body


HOSTILE = {
    "another schema": (frame("A", arrow(pa.record_batch({"key": ["a"]}))), "wrong schema"),
    "no Arrow": (frame("A", b"\xff" * 64), "malformed rows"),
    "half of an Arrow stream": (frame("A", arrow(rows(["a"]))[:100]), "malformed rows"),
    "no JSON": (frame("J", b"}{"), "malformed rows"),
    "JSON of other columns": (frame("J", b'{"key": "a", "nmber": 1}\n'), "malformed rows"),
    "JSON of another type": (frame("J", b'{"key": 5, "number": "x"}\n'), "malformed rows"),
    "no command": (frame("C", b"[1]"), "malformed command"),
    "an unknown command": (frame("C", b'{"drop": 1}'), "malformed command"),
    "a cut of a text": (frame("C", b'{"cut": "all"}'), "malformed command"),
    "an unknown kind": (frame("Z", b""), "unknown kind"),
    "a frame of 4 GB": (frame("A", b"", length=2**32 - 1), "frame too large"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_wrong_is_refused_and_counted(tmp_path: Path, name: str) -> None:
    sent, reason = HOSTILE[name]

    def client(host: str, port: int) -> bytes:
        with socket.create_connection((host, port)) as connection:
            connection.sendall(sent)
            answer = connection.makefile("rb").readline()
        with ReceiverClient(host, port) as receiver:  # others are served as before
            assert receiver.offer(rows(["a"])) == Admission(1, 0, 0)
        return answer

    answer, receiver = talk(tmp_path, client)
    assert b'"error"' in answer
    assert receiver.refusals[Refusal(reason)] == 1


def test_half_a_frame_is_counted(tmp_path: Path) -> None:
    def client(host: str, port: int) -> None:
        for part in (b"\x01", frame("A", arrow(rows(["a"])))[:50]):
            with socket.create_connection((host, port)) as connection:
                connection.sendall(part)
                connection.shutdown(socket.SHUT_WR)
                assert connection.recv(1) == b""

    _, receiver = talk(tmp_path, client)
    assert receiver.refusals[Refusal.HALF_A_FRAME] == 2


def test_rows_of_ten_megabytes_and_too_many_keys_are_refused(tmp_path: Path) -> None:
    def client(host: str, port: int) -> dict[str, Any]:
        with ReceiverClient(host, port) as receiver:
            assert receiver.offer(rows(["x" * 10_000_000])) == Admission(0, 0, 1)
            total = 0
            for begin in range(0, 20_000, 5_000):
                keys = [f"key {number}" for number in range(begin, begin + 5_000)]
                total += receiver.offer(rows(keys)).accepted
            status = receiver.status()
            assert status["keys"] == total
            return status

    status, _ = talk(tmp_path, client, max_frame=16 * 2**20)
    assert status["bytes_used"] <= status["bytes_allowed"] == 2**20
    assert status["refused"] == 20_001 - status["keys"]
    assert status["refusals"]["rows without room"] == status["refused"]


def test_a_million_new_keys_are_bounded(tmp_path: Path) -> None:
    """Keys that fit wait, all others are refused and counted; updates of those that wait are
    taken."""

    def client(host: str, port: int) -> dict[str, Any]:
        with ReceiverClient(host, port) as receiver:
            for begin in range(0, 1_000_000, 50_000):
                numbers = pa.array(range(begin, begin + 50_000), pa.int64())
                receiver.offer(pa.record_batch([numbers.cast(pa.string()), numbers], schema=SCHEMA))
            assert receiver.offer(rows(["0", "1"])) == Admission(2, 0, 0)
            return receiver.status()

    status, receiver = talk(tmp_path, client, capacity=2**21)
    assert status["bytes_used"] <= status["bytes_allowed"] == 2**21
    assert status["arrived"] == status["keys"] + 2
    assert status["refused"] == 1_000_000 - status["keys"]
    assert receiver.refusals[Refusal.ROWS_WITHOUT_ROOM] == status["refused"]


def test_a_slow_reader_holds_up_itself_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks and does not read the answers is not asked for more: a bounded number of answers
    lies in between, and others are served."""
    answered = 0
    answer = Receiver.answer

    def counting(self: Receiver, command: object, consumer: object = None) -> dict[str, Any]:
        nonlocal answered
        answered += command == {"keys": 3_000}
        return answer(self, command, consumer)

    monkeypatch.setattr(Receiver, "answer", counting)

    def client(host: str, port: int) -> list[int]:
        seen: list[int] = []
        with ReceiverClient(host, port) as other, socket.create_connection((host, port)) as slow:
            other.offer(rows([f"key {number}" for number in range(3_000)]))
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**16)
            slow.sendall(frame("C", b'{"keys": 3000}') * 1_000)  # each answer is 300 kB
            while not seen or seen[-1] < answered:
                seen.append(answered)
                for number in range(20):  # the event loop goes round
                    assert other.offer(rows(["key 1"], number)) == Admission(1, 0, 0)
        return seen

    seen, _ = talk(tmp_path, client, capacity=2**22)
    assert 0 < seen[-1] < 200


def test_connections_are_limited(tmp_path: Path) -> None:
    def client(host: str, port: int) -> None:
        with ReceiverClient(host, port) as one:
            one.status()
            with (
                ReceiverClient(host, port) as two,
                pytest.raises(InputError, match=r"closed|too many"),
            ):
                two.status()
            one.status()

    _, receiver = talk(tmp_path, client, max_connections=1)
    assert receiver.refusals[Refusal.TOO_MANY_CONNECTIONS] == 1


def test_a_micro_batch_gets_what_it_can_digest(tmp_path: Path) -> None:
    """Each answer takes a tick, so a batch that sees n other commands takes n ticks: what a cut of
    the next batch may hold follows from what was measured."""

    def client(host: str, port: int) -> list[int]:
        sizes = []
        with ReceiverClient(host, port) as spark, ReceiverClient(host, port) as driver:
            after = 0
            for number in range(5):
                driver.offer(rows([f"k{at}" for at in range(4_000)], number * 4_000))
                cut = spark.next_cut(after, within=200)
                assert cut is not None
                assert spark.next_cut(after, within=200) == cut, (
                    "one that was not begun comes again"
                )
                spark.begin(cut.number)
                for _ in range(cut.rows // 100):  # a hundredth of a tick for each row
                    driver.status()
                driver.finish()
                spark.commit(cut.number)
                after = cut.number
                sizes.append(cut.rows)
            assert spark.next_cut(after, within=200) is None, "all were served"
        return sizes

    sizes, receiver = talk(tmp_path, client, capacity=2**23)
    assert sizes == [1_000, 1_000, 2_000, 4_000, 4_000]
    assert receiver.cost.row_cost == pytest.approx(0.01, rel=0.2)


def test_a_cut_that_is_delivered_ends_staleness(tmp_path: Path) -> None:
    def client(host: str, port: int) -> None:
        with ReceiverClient(host, port) as receiver:
            receiver.offer(rows(["a", "b"]))
            cut = receiver.next_cut(0)
            assert cut is not None
            receiver.begin(cut.number)
            assert [key["waits"] for key in receiver.stalest_keys(9)] == [False, False]
            assert min(key["staleness"] for key in receiver.stalest_keys(9)) > 0
            receiver.finish()
            assert max(key["staleness"] for key in receiver.stalest_keys(9)) == 0
            assert receiver.open_cuts() == [cut], "files go when they are committed"
            with pytest.raises(InputError, match="restored apart"):
                receiver.next_cut(5)

    talk(tmp_path, client)


def start_receiver(folder: Path) -> tuple[subprocess.Popen[str], int]:
    command = [sys.executable, "-m", "thalweg.cli", "receive", str(folder), "--key", "key"]
    command += ["--column", "key:string", "--column", "number:int64"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("listening on 127.0.0.1:"), line
    return process, int(line.rpartition(":")[2])


@pytest.mark.parametrize("kills", [1, pytest.param(10, marks=pytest.mark.slow)])
def test_a_receiver_that_is_killed(tmp_path: Path, kills: int) -> None:
    """kill -9 between acknowledgements, and between a cut and its commit: nothing newest is
    lost, and a cut that was not committed is the same when it is read again."""
    acknowledged: dict[str, int] = {}
    done: dict[str, int] = {}
    number = 0
    for _ in range(kills):
        process, port = start_receiver(tmp_path)
        try:
            with ReceiverClient("127.0.0.1", port) as receiver:
                for cut in receiver.open_cuts():
                    done.update({row["key"]: row["number"] for row in cut.read().to_pylist()})
                    receiver.commit(cut.number)
                for _ in range(10):
                    keys = [f"k{at % 13}" for at in range(number, number + 20)]
                    assert receiver.offer(rows(keys, number)).accepted == 20
                    acknowledged.update(zip(keys, range(number, number + 20), strict=True))
                    number += 20
                open_cut = receiver.cut(4)
                before = open_cut.read()
        finally:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
        assert open_cut.read() == before
    queue = DurableQueue(tmp_path, SCHEMA, "key")
    for cut in queue.uncommitted:
        done.update({row["key"]: row["number"] for row in cut.read().to_pylist()})
    for row in queue.queue.read(100, now=0).to_pylist():
        assert row["number"] > done.get(row["key"], -1)
        done[row["key"]] = row["number"]
    queue.close()
    assert done == acknowledged
