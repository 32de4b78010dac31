"""The receiver: a process that holds an update queue, takes rows from senders, and hands out cuts.

It outlives whoever works on the rows. Senders and consumers speak frames over TCP, on loopback
unless told otherwise: length of the body (4 bytes, little-endian), kind (1 byte), body. Each frame
has one answer, a line of JSON, and the next frame of a connection is read when the answer to the
last has been sent.

| kind | body | answer |
| --- | --- | --- |
| `A` | rows: an Arrow IPC stream of the queue's schema | `{"accepted", "outdated", "refused"}` |
| `J` | rows: JSON lines, one object a row | the same |
| `C` | `{"cut": rows}`, `{"deliver": number}`, `{"commit": number}`, `{"open": true}`, `{"status": true}` | what it says, or the cut |

An answer to rows is an acknowledgement: they are on disk. Frames that arrive together share one
write. What is refused is counted by reason and told to the sender; a connection whose frames cannot
be told apart any more is closed. A frame is at most `max_frame` bytes, and there are at most
`max_connections`, so memory is bounded whatever is sent, and however slowly answers are read.
"""

from __future__ import annotations

import asyncio
import json
import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pyarrow as pa
import pyarrow.json as pa_json

from thalweg.errors import ThalwegError
from thalweg.freshness.durable_queue import Cut, DurableQueue

__all__ = ["HEADER", "Receiver"]

HEADER = struct.Struct("<IB")


class _RefusalError(Exception):
    """A frame that is answered with an error; `closes` if nothing more can be read after it."""

    def __init__(self, reason: str, text: str, *, closes: bool = False) -> None:
        super().__init__(text)
        self.reason = reason
        self.closes = closes


class Receiver:
    """Serves one queue. `now` is the clock of arrival, in ticks."""

    def __init__(
        self,
        queue: DurableQueue,
        *,
        now: Callable[[], int],
        max_frame: int = 8 * 2**20,
        max_connections: int = 64,
    ) -> None:
        self._queue = queue
        self._now = now
        self._max_frame = max_frame
        self._max_connections = max_connections
        self._connections = 0
        self._unsynced: list[asyncio.Future[None]] = []
        self.refusals: Counter[str] = Counter()
        """Frames and connections that were refused, by reason."""

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> asyncio.Server:
        """Listen; port 0 lets the system choose."""
        return await asyncio.start_server(self._serve, host, port, limit=2**16)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        try:
            if self._connections > self._max_connections:
                self.refusals["too many connections"] += 1
                await _send(writer, {"error": "too many connections."})
                return
            while True:
                try:
                    answer = await self._answer(reader)
                except _RefusalError as refusal:
                    self.refusals[refusal.reason] += 1
                    await _send(writer, {"error": str(refusal)})
                    if refusal.closes:
                        return
                    continue
                if answer is None:
                    return
                await _send(writer, answer)
        except ConnectionError:
            self.refusals["connection lost"] += 1
        finally:
            self._connections -= 1
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> dict[str, Any] | None:
        """What the next frame is answered with; None at the end of the connection."""
        try:
            header = await reader.readexactly(HEADER.size)
        except asyncio.IncompleteReadError as end:
            if end.partial:
                self.refusals["half a frame"] += 1
            return None
        length, kind = HEADER.unpack(header)
        if length > self._max_frame:
            raise _RefusalError(
                "frame too large",
                f"a frame of {length} bytes; at most {self._max_frame} are taken.",
                closes=True,
            )
        try:
            body = await reader.readexactly(length)
        except asyncio.IncompleteReadError:
            self.refusals["half a frame"] += 1
            return None
        if kind == ord("A"):
            return await self._take_rows(_arrow_rows(body, self._queue.queue.schema))
        if kind == ord("J"):
            return await self._take_rows(_json_rows(body, self._queue.queue.schema))
        if kind == ord("C"):
            return self._command(body)
        raise _RefusalError("unknown kind", f"a frame of unknown kind {kind}.", closes=True)

    async def _take_rows(self, batches: list[pa.RecordBatch]) -> dict[str, Any]:
        total: Counter[str] = Counter(accepted=0, outdated=0, refused=0)
        for batch in batches:
            try:
                total.update(asdict(self._queue.enqueue(batch, now=self._now())))
            except ThalwegError as reason:
                raise _RefusalError("malformed rows", str(reason)) from reason
        self.refusals["rows without room"] += total["refused"]
        await self._synced()
        return dict(total)

    async def _synced(self) -> None:
        """Wait for the disk; frames that were read in the same turn of the loop wait together."""
        loop = asyncio.get_running_loop()
        if not self._unsynced:
            loop.call_soon(self._sync)
        waiter: asyncio.Future[None] = loop.create_future()
        self._unsynced.append(waiter)
        await waiter

    def _sync(self) -> None:
        waiters, self._unsynced = self._unsynced, []
        try:
            self._queue.sync()
        except OSError as reason:
            for waiter in waiters:
                waiter.set_exception(_RefusalError("disk", f"the log cannot be written: {reason}."))
            return
        for waiter in waiters:
            waiter.set_result(None)

    def _command(self, body: bytes) -> dict[str, Any]:
        try:
            command = json.loads(body)
        except ValueError:
            command = None
        pairs = list(command.items()) if isinstance(command, dict) else []
        name, argument = pairs[0] if len(pairs) == 1 else ("", None)
        if not isinstance(argument, int) or argument < 0:
            raise _RefusalError(
                "malformed command", "a command is one JSON object with one number."
            )
        match name:
            case "cut":
                return _show(self._queue.cut(argument, now=self._now()))
            case "open":
                return {"open": [_show(cut) for cut in self._queue.uncommitted]}
            case "deliver":
                self._queue.deliver(argument, now=self._now())
                return {"delivered": argument}
            case "commit":
                self._queue.commit(argument)
                return {"committed": argument}
            case "status":
                status = self._queue.queue.status(now=self._now())
                return {**asdict(status), "refusals": dict(self.refusals)}
        raise _RefusalError("malformed command", f"no command {name!r}.")


async def _send(writer: asyncio.StreamWriter, answer: dict[str, Any]) -> None:
    writer.write(json.dumps(answer).encode() + b"\n")
    await writer.drain()


def _show(cut: Cut) -> dict[str, Any]:
    return {"number": cut.number, "path": str(cut.path), "rows": cut.rows}


def _arrow_rows(body: bytes, schema: pa.Schema) -> list[pa.RecordBatch]:
    try:
        reader = pa.ipc.open_stream(body)
        if reader.schema != schema:
            raise _RefusalError("wrong schema", f"rows of {reader.schema}; expected {schema}.")
        batches = list(reader)
        for batch in batches:
            batch.validate(full=True)
    except (pa.ArrowInvalid, OSError) as reason:
        raise _RefusalError("malformed rows", f"not an Arrow stream: {reason}") from reason
    return batches


def _json_rows(body: bytes, schema: pa.Schema) -> list[pa.RecordBatch]:
    if not body.strip():
        return []
    options = pa_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
    reading = pa_json.ReadOptions(use_threads=False, block_size=max(len(body) + 1, 1024))
    try:
        table = pa_json.read_json(pa.BufferReader(body), reading, options)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as reason:
        raise _RefusalError(
            "malformed rows", f"not JSON lines of the queue's columns: {reason}"
        ) from reason
    return [
        batch.cast(schema) for batch in table.select(schema.names).combine_chunks().to_batches()
    ]
