"""The receiver: holds an update queue, takes rows from senders, and hands out cuts to consumers.

It outlives its consumers. Senders and consumers reach it through transports (`tcp_transport`,
`http_transport`, `file_transport`), which all call the same two methods: `take` for rows, and
`answer_text` for commands. Both run in one event loop.

| command | answer |
| --- | --- |
| `{"cut": rows}` | a new cut: `{"number", "path", "rows"}` |
| `{"next": {"after": n, "within": ticks}}` | the oldest open cut after n, or a new one |
| `{"begin": n}` | a micro-batch that reads the cuts up to n has begun |
| `{"finish": 1}` | its sink has returned: the cuts that were begun are delivered |
| `{"deliver": n}` | the cuts up to n are delivered |
| `{"commit": n}` | the cuts up to n will not be asked for again |
| `{"open": 1}` | the cuts that are not committed |
| `{"status": 1}` | figures: keys, counts, staleness, bytes, refusals, cost of a batch |
| `{"keys": most}` | the stalest keys: staleness in ticks, rows that arrived and were conflated |

An acknowledgement of rows says that they are on disk; rows that arrive together share one write.
The size of a new cut follows from `batch_cost`. Refusals are counted by reason and reported to the
sender.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from thalweg.errors import ThalwegError
from thalweg.freshness.batch_cost import BatchCost
from thalweg.freshness.cuts import Cut
from thalweg.freshness.durable_queue import DurableQueue
from thalweg.freshness.refusals import Refusal, RefusalError

__all__ = ["Receiver"]

_ALL = 2**31 - 1
"""Rows of a cut without a freshness target: all that wait."""


@dataclass(slots=True)
class _Measured:
    """The cut that is being measured: its number, its consumer, and when it was made."""

    number: int
    rows: int
    cut_at: int
    consumer: object


class Receiver:
    """Serves one queue. `now` is the clock of arrival, in ticks."""

    def __init__(self, queue: DurableQueue, *, now: Callable[[], int]) -> None:
        self.queue = queue
        self._now = now
        self._unsynced: list[asyncio.Future[None]] = []
        self._begun = queue.committed
        self._measured: _Measured | None = None
        self._known_consumers: set[object] = set()
        self.cost = BatchCost()
        self.refusals: Counter[Refusal] = Counter()
        """Rows, frames and connections that were refused, by reason."""

    @property
    def schema(self) -> pa.Schema:
        return self.queue.queue.schema

    # --------------------------------------------------------------------------------------- rows

    async def take(
        self, batches: list[pa.RecordBatch], *, file: str | None = None
    ) -> dict[str, int]:
        """Take rows of a sender; returns how many were accepted, outdated and refused, once they
        are on disk. `file` is the file that they came from, which must not be taken again."""
        total: Counter[str] = Counter(accepted=0, outdated=0, refused=0)
        for batch in batches:
            try:
                total.update(asdict(self.queue.enqueue(batch, now=self._now())))
            except ThalwegError as reason:
                raise RefusalError(Refusal.MALFORMED_ROWS, str(reason)) from reason
        if file is not None:
            self.queue.note_file(file)  # after its rows: without the note they are all taken again
        self.refusals[Refusal.ROWS_WITHOUT_ROOM] += total["refused"]
        await self._synced()
        return dict(total)

    async def _synced(self) -> None:
        """Wait for the disk; rows that came in the same turn of the loop wait together."""
        loop = asyncio.get_running_loop()
        if not self._unsynced:
            loop.call_soon(self._sync)
        waiter: asyncio.Future[None] = loop.create_future()
        self._unsynced.append(waiter)
        await waiter

    def _sync(self) -> None:
        waiters, self._unsynced = self._unsynced, []
        try:
            self.queue.sync()
        except OSError as reason:
            for waiter in waiters:
                text = f"the log cannot be written: {reason}."
                waiter.set_exception(RefusalError(Refusal.DISK, text))
            return
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    # ----------------------------------------------------------------------------------- commands

    def answer_text(self, body: bytes, consumer: object = None) -> dict[str, Any]:
        """The answer to the text of a command."""
        try:
            command = json.loads(body)
        except ValueError:
            command = None
        return self.answer(command, consumer)

    def answer(self, command: object, consumer: object = None) -> dict[str, Any]:
        """The answer to a command. `consumer` is the connection that asks: a batch is measured only
        if the same connection has cut and finished it."""
        pairs = list(command.items()) if isinstance(command, dict) else []
        name, argument = pairs[0] if len(pairs) == 1 else ("", None)
        if name == "next":
            return self._next(argument, consumer)
        if not isinstance(argument, int) or argument < 0:
            raise _malformed("a command is one JSON object with one number.")
        match name:
            case "cut":
                return _show(self.queue.cut(argument, now=self._now()))
            case "open":
                return {"open": [_show(cut) for cut in self.queue.uncommitted]}
            case "begin":
                self._begin(argument, consumer)
                return {"begun": argument}
            case "finish":
                return self._finish()
            case "deliver":
                self.queue.deliver(argument, now=self._now())
                return {"delivered": argument}
            case "commit":
                self.queue.deliver(argument, now=self._now())  # what is committed was delivered
                self.queue.commit(argument)
                return {"committed": argument}
            case "status":
                return self.status()
            case "keys":
                return {"keys": self.queue.queue.stalest_keys(argument, now=self._now())}
        raise _malformed(f"no command {name!r}.")

    def status(self) -> dict[str, Any]:
        return {
            **asdict(self.queue.queue.status(now=self._now())),
            "queue": self.queue.identity,
            "last_cut": self.queue.last_cut,
            "committed": self.queue.committed,
            "open_cuts": len(self.queue.uncommitted),
            "batch_overhead": self.cost.overhead,
            "row_cost": self.cost.row_cost,
            "refusals": dict(self.refusals),
        }

    def _next(self, argument: object, consumer: object) -> dict[str, Any]:
        options = argument if isinstance(argument, dict) else {}
        after, within = options.get("after"), options.get("within")
        if not isinstance(after, int) or not (within is None or isinstance(within, int)):
            raise _malformed("next needs after, and within or null.")
        if not self.queue.committed <= after <= self.queue.last_cut:
            raise RefusalError(
                Refusal.UNKNOWN_CUT,
                f"cut {after} is asked for to be followed, but the cuts up to "
                f"{self.queue.committed} are committed and {self.queue.last_cut} is the last: the "
                "checkpoint and the queue were restored apart.",
            )
        before = self.queue.last_cut
        rows = _ALL if within is None else self.cost.rows_within(within)
        cut = self.queue.next_cut(after, rows, now=self._now())
        if cut is None:
            return {"number": after, "rows": 0}
        if cut.number > before:
            self._measured = _Measured(cut.number, cut.rows, self._now(), consumer)
        return _show(cut)

    def _begin(self, number: int, consumer: object) -> None:
        self._begun = max(self._begun, number)
        measured = self._measured
        if measured is not None and (measured.number, measured.consumer) != (number, consumer):
            self._measured = None  # its consumer has ended meanwhile

    def _finish(self) -> dict[str, Any]:
        now = self._now()
        self.queue.deliver(self._begun, now=now)
        measured, self._measured = self._measured, None
        if measured is not None and measured.number == self._begun:
            if measured.consumer in self._known_consumers:
                self.cost.observe(measured.rows, now - measured.cut_at)
            else:  # the first micro-batch of a process pays for its start
                self._known_consumers = {measured.consumer}
        return {"finished": self._begun}


def _malformed(text: str) -> RefusalError:
    return RefusalError(Refusal.MALFORMED_COMMAND, text)


def _show(cut: Cut) -> dict[str, Any]:
    return {"number": cut.number, "path": str(cut.path), "rows": cut.rows}
