"""Rows and commands over HTTP, for senders without Arrow.

| request | body | answer |
| --- | --- | --- |
| `POST /rows` | JSON lines, or an Arrow stream | `{"accepted", "outdated", "refused"}`, on disk |
| `POST /command` | a command of `receiver` | the answer of `receiver` |
| `GET /status` | | figures |

The types are `application/x-ndjson`, `application/vnd.apache.arrow.stream` and `application/json`.
An answer is JSON; a refusal has a status of 400 or above and the reason. A page in a browser cannot
send rows: forms do not have these types, other host names are refused, and no other origin is
allowed. A body needs its length, at most `max_body` bytes. There are at most `max_requests` at a
time; a sender that falls silent is dropped.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import BoundedSemaphore, Thread
from typing import Any, ClassVar

from thalweg.freshness.receiver import Receiver
from thalweg.freshness.refusals import Refusal, RefusalError, require_size
from thalweg.freshness.row_formats import ROW_FORMATS

__all__ = ["HttpTransport"]

_FORMATS = {each.media_type: each for each in ROW_FORMATS}
_JSON = "application/json"
"""The type of commands, and of all answers."""
_SILENCE_S = 30.0
_STATUS = {
    Refusal.FRAME_TOO_LARGE: 413,
    Refusal.WRONG_MEDIA_TYPE: 415,
    Refusal.NO_SUCH_PAGE: 404,
    Refusal.DISK: 503,
}
"""Other refusals have status 400."""


@dataclass
class HttpTransport:
    """On loopback by default; port 0 lets the system choose."""

    receiver: Receiver
    host: str = "127.0.0.1"
    port: int = 0
    max_body: int = 8 * 2**20
    max_requests: int = 64

    def start(self, loop: asyncio.AbstractEventLoop) -> ThreadingHTTPServer:
        """Listen, in a thread; rows and commands are handed to `loop`."""
        handler = type("_Bound", (_Handler,), {"transport": self, "loop": loop})
        server = _Server((self.host, self.port), handler, self)
        Thread(target=server.serve_forever, args=(0.05,), name="thalweg-http", daemon=True).start()
        return server


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(
        self, address: tuple[str, int], handler: type[_Handler], transport: HttpTransport
    ) -> None:
        super().__init__(address, handler)
        self._transport = transport
        self._free = BoundedSemaphore(transport.max_requests)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self._transport.receiver.refusals[Refusal.TOO_MANY_CONNECTIONS] += 1
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        self._transport.receiver.refusals[Refusal.CONNECTION_LOST] += 1


class _Handler(BaseHTTPRequestHandler):
    transport: ClassVar[HttpTransport]
    loop: ClassVar[asyncio.AbstractEventLoop]
    protocol_version = "HTTP/1.1"
    timeout = _SILENCE_S

    def do_GET(self) -> None:
        if self.path != "/status":
            self._refuse(self._no_page())
            return
        self._answer(lambda: self._in_loop(_call(self.transport.receiver.status)))

    def do_POST(self) -> None:
        receiver = self.transport.receiver

        def take() -> dict[str, Any]:
            body = self._body()
            kind = self.headers.get_content_type()
            if self.path == "/rows" and kind in _FORMATS:
                return self._in_loop(receiver.take(_FORMATS[kind].read(body, receiver.schema)))
            if self.path == "/command" and kind == _JSON:
                return self._in_loop(_call(lambda: receiver.answer_text(body)))
            if self.path in ("/rows", "/command"):
                text = f"rows of type {kind} are not taken."
                raise RefusalError(Refusal.WRONG_MEDIA_TYPE, text)
            raise self._no_page()

        self._answer(take)

    def _no_page(self) -> RefusalError:
        return RefusalError(Refusal.NO_SUCH_PAGE, f"there is no page {self.path}.")

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not length.isdigit():
            raise RefusalError(Refusal.HALF_A_FRAME, "a body needs its length.", closes=True)
        require_size("body", int(length), self.transport.max_body, closes=True)
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            text = "the body is shorter than it says."
            raise RefusalError(Refusal.HALF_A_FRAME, text, closes=True)
        return body

    def _answer(self, make: Any) -> None:
        named = self.headers.get("Host", "").rpartition(":")[0] or self.headers.get("Host", "")
        try:
            if named not in (self.transport.host, "localhost"):
                raise RefusalError(Refusal.WRONG_HOST, f"this is not {named}.", closes=True)
            self._send(200, make())
        except RefusalError as refusal:
            self._refuse(refusal)

    def _refuse(self, refusal: RefusalError) -> None:
        self.transport.receiver.refusals[refusal.reason] += 1
        if refusal.closes:
            self.close_connection = True
        self._send(_STATUS.get(refusal.reason, 400), {"error": str(refusal)})

    def _send(self, status: int, answer: dict[str, Any]) -> None:
        body = json.dumps(answer).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", _JSON)
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def _in_loop(self, work: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    def version_string(self) -> str:
        return "thalweg"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name it has there
        """Nothing is printed for each request."""


async def _call(make: Any) -> dict[str, Any]:
    answer: dict[str, Any] = make()
    return answer
