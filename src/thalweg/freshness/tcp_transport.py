"""Rows and commands over TCP: frames, each with one answer.

A frame is the length of its body (4 bytes, little-endian), its kind (1 byte), and the body. Its
answer is a line of JSON, and the next frame of a connection is read when the answer to the last has
been sent.

| kind | body | answer |
| --- | --- | --- |
| `A` | rows: an Arrow IPC stream of the queue's schema | `{"accepted", "outdated", "refused"}` |
| `J` | rows: JSON lines, one object a row | the same |
| `C` | a command (see `receiver`), one JSON object | the answer of `receiver` |

A connection whose frames cannot be told apart any more is closed. A frame is at most `max_frame`
bytes, and there are at most `max_connections`, so memory is bounded whatever is sent, and however
slowly answers are read.
"""

from __future__ import annotations

import asyncio
import json
import struct
from dataclasses import dataclass, field
from typing import Any

from thalweg.freshness.receiver import Receiver
from thalweg.freshness.refusals import Refusal, RefusalError, require_size
from thalweg.freshness.row_formats import ROW_FORMATS

__all__ = ["COMMAND", "HEADER", "TcpTransport"]

HEADER = struct.Struct("<IB")
COMMAND = "C"
"""The kind of a frame with a command."""
_FORMATS = {each.frame: each for each in ROW_FORMATS}


@dataclass
class TcpTransport:
    """On loopback by default; port 0 lets the system choose."""

    receiver: Receiver
    host: str = "127.0.0.1"
    port: int = 0
    max_frame: int = 8 * 2**20
    max_connections: int = 64
    _connections: int = field(default=0, init=False)

    async def start(self) -> asyncio.Server:
        return await asyncio.start_server(self._serve, self.host, self.port, limit=2**16)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        refusals = self.receiver.refusals
        self._connections += 1
        try:
            if self._connections > self.max_connections:
                refusals[Refusal.TOO_MANY_CONNECTIONS] += 1
                await _send(writer, {"error": "too many connections."})
                return
            while True:
                try:
                    answer = await self._answer(reader, writer)
                except RefusalError as refusal:
                    refusals[refusal.reason] += 1
                    await _send(writer, {"error": str(refusal)})
                    if refusal.closes:
                        return
                    continue
                if answer is None:
                    return
                await _send(writer, answer)
        except ConnectionError:
            refusals[Refusal.CONNECTION_LOST] += 1
        finally:
            self._connections -= 1
            writer.close()

    async def _answer(
        self, reader: asyncio.StreamReader, consumer: asyncio.StreamWriter
    ) -> dict[str, Any] | None:
        """The answer to the next frame; None at the end of the connection."""
        try:
            header = await reader.readexactly(HEADER.size)
        except asyncio.IncompleteReadError as end:
            if end.partial:
                self.receiver.refusals[Refusal.HALF_A_FRAME] += 1
            return None
        length, kind = HEADER.unpack(header)
        require_size("frame", length, self.max_frame, closes=True)
        try:
            body = await reader.readexactly(length)
        except asyncio.IncompleteReadError:
            self.receiver.refusals[Refusal.HALF_A_FRAME] += 1
            return None
        name = chr(kind)
        if name in _FORMATS:
            return await self.receiver.take(_FORMATS[name].read(body, self.receiver.schema))
        if name == COMMAND:
            return self.receiver.answer_text(body, consumer)
        raise RefusalError(Refusal.UNKNOWN_KIND, f"a frame of unknown kind {kind}.", closes=True)


async def _send(writer: asyncio.StreamWriter, answer: dict[str, Any]) -> None:
    writer.write(json.dumps(answer).encode() + b"\n")
    await writer.drain()
