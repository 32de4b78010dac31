"""A connection to a receiver, for senders of rows and consumers of cuts."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from thalweg.errors import InputError, ReceiverError
from thalweg.freshness.cuts import Cut
from thalweg.freshness.queue_status import Admission
from thalweg.freshness.receiver_settings import Address
from thalweg.freshness.row_formats import ARROW, JSON_LINES
from thalweg.freshness.tcp_transport import COMMAND, HEADER

__all__ = ["ReceiverClient"]


class ReceiverClient:
    """Calls block until the receiver has answered. A refusal raises an `InputError`, a lost
    connection a `ReceiverError`."""

    def __init__(self, host: str, port: int, *, timeout_s: float | None = None) -> None:
        try:
            self._socket = socket.create_connection((host, port), timeout_s)
        except OSError as reason:
            raise ReceiverError(f"no receiver answers at {host}:{port}: {reason}.") from reason
        self.is_lost = False
        self._answers = self._socket.makefile("rb")

    @classmethod
    def of(cls, folder: str | Path, *, timeout_s: float | None = None) -> Self:
        """A connection to the receiver that holds a folder."""
        address = Address.read(Path(folder))
        return cls(address.host, address.port, timeout_s=timeout_s)

    def offer(self, rows: pa.RecordBatch | pa.Table) -> Admission:
        """Send rows; they are on the receiver's disk when this returns."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write(rows)
        return Admission(**self._ask(ARROW.frame, sink.getvalue().to_pybytes()))

    def offer_json(self, lines: str) -> Admission:
        """Send rows as JSON lines."""
        return Admission(**self._ask(JSON_LINES.frame, lines.encode()))

    def cut(self, rows: int) -> Cut:
        """The next rows by the schedule, in a file that stays until it is committed."""
        return _cut(self._command("cut", rows))

    def next_cut(self, after: int, within: int | None = None) -> Cut | None:
        """The oldest open cut after this number, else a new one that a micro-batch can process
        within the target; None if no row waits."""
        answer = self._command("next", {"after": after, "within": within})
        return _cut(answer) if answer["rows"] else None

    def begin(self, number: int) -> None:
        """Note that a micro-batch that reads the cuts up to this one has begun."""
        self._command("begin", number)

    def finish(self) -> None:
        """Note that the sink of this micro-batch has returned."""
        self._command("finish", 1)

    def open_cuts(self) -> list[Cut]:
        """Cuts that were not committed, oldest first: to be processed before new ones."""
        return [_cut(each) for each in self._command("open", 1)["open"]]

    def deliver(self, number: int) -> None:
        """Note that the results of a cut have reached the application."""
        self._command("deliver", number)

    def commit(self, number: int) -> None:
        """Remove the cuts up to `number`, which will not be asked for again."""
        self._command("commit", number)

    def status(self) -> dict[str, Any]:
        return self._command("status", 1)

    def stalest_keys(self, most: int) -> list[dict[str, Any]]:
        """The keys whose answers are the stalest, with their counts."""
        keys: list[dict[str, Any]] = self._command("keys", most)["keys"]
        return keys

    def close(self) -> None:
        self._answers.close()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _command(self, name: str, argument: object) -> dict[str, Any]:
        return self._ask(COMMAND, json.dumps({name: argument}).encode())

    def _ask(self, kind: str, body: bytes) -> dict[str, Any]:
        try:
            self._socket.sendall(HEADER.pack(len(body), ord(kind)) + body)
            line = self._answers.readline()
        except OSError:  # lost, or silent for too long
            line = b""
        if not line:
            self.is_lost = True  # a late answer would be taken for that to the next request
            self.close()
            raise ReceiverError("the receiver closed the connection.")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise InputError(f"receiver: {answer['error']}")
        return answer


def _cut(answer: dict[str, Any]) -> Cut:
    return Cut(answer["number"], Path(answer["path"]), answer["rows"])
