"""A connection to a receiver, for senders and for whoever works on cuts."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from thalweg.errors import InputError
from thalweg.freshness.durable_queue import Cut
from thalweg.freshness.receiver import HEADER
from thalweg.freshness.update_queue import Admission

__all__ = ["ReceiverClient"]


class ReceiverClient:
    """Blocks until the receiver has answered; what it refuses is an `InputError`."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port))
        self._answers = self._socket.makefile("rb")

    def offer(self, rows: pa.RecordBatch) -> Admission:
        """Send rows; they are on the receiver's disk when this returns."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_batch(rows)
        return Admission(**self._ask("A", sink.getvalue().to_pybytes()))

    def offer_json(self, lines: str) -> Admission:
        """Send rows as JSON lines."""
        return Admission(**self._ask("J", lines.encode()))

    def cut(self, rows: int) -> Cut:
        """The next rows by the schedule, in a file that stays until it is committed."""
        return _cut(self._command("cut", rows))

    def open_cuts(self) -> list[Cut]:
        """Cuts that were not committed, oldest first: to be worked on before new ones."""
        return [_cut(each) for each in self._command("open", 1)["open"]]

    def deliver(self, number: int) -> None:
        """What follows from a cut has reached the application."""
        self._command("deliver", number)

    def commit(self, number: int) -> None:
        """Cuts up to `number` will not be asked for again."""
        self._command("commit", number)

    def status(self) -> dict[str, Any]:
        return self._command("status", 1)

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

    def _command(self, name: str, argument: int) -> dict[str, Any]:
        return self._ask("C", json.dumps({name: argument}).encode())

    def _ask(self, kind: str, body: bytes) -> dict[str, Any]:
        try:
            self._socket.sendall(HEADER.pack(len(body), ord(kind)) + body)
            line = self._answers.readline()
        except ConnectionError:
            line = b""
        if not line:
            raise InputError("the receiver closed the connection.")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise InputError(f"receiver: {answer['error']}")
        return answer


def _cut(answer: dict[str, Any]) -> Cut:
    return Cut(answer["number"], Path(answer["path"]), answer["rows"])
