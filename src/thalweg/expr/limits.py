"""Time limits: a call that takes too long is interrupted, and what comes after it goes on.

One thread watches all running calls. A caller counts its calls in a number; when the number
stays for longer than the limit, the watcher interrupts the caller's thread by an exception that
`except Exception` does not catch. In the main thread it does so by a signal, which also ends a wait
inside the operating system; in other threads it takes effect between two Python instructions. Code
that does not return from C cannot be interrupted.

Setting a handler costs as much as a small window. It is set once, before the first call in the main
thread, and calls the one that was there for signals of others. Where a program sets its own later,
calls of the main thread are interrupted like those of other threads.
"""

from __future__ import annotations

import ctypes
import signal
import threading
import time
from types import FrameType
from typing import Any, Self

__all__ = ["TimeUp", "Watch"]

_SIGNAL = getattr(signal, "SIGURG", None)
"""A signal that the operating system ignores by default and that few programs use."""


class TimeUp(BaseException):
    """The call has taken too long."""


class Watch:
    """Around a loop of calls: `with watch:`, and `watch.at = number` before each call.

    >>> watch = Watch(0.05)
    >>> try:
    ...     with watch:
    ...         watch.at = 7
    ...         while True:
    ...             pass
    ... except TimeUp:
    ...     print("call", watch.fired)
    call 7
    """

    def __init__(self, limit: float | None) -> None:
        self.limit = limit
        self.at = -1
        self.fired: int | None = None
        """The call that was interrupted."""
        self.seen = -1
        self.since = 0.0
        self.active = False
        self._received = False
        self._thread = threading.get_ident()

    def __enter__(self) -> Self:
        if self.limit is not None:
            self.at = self.seen = -1
            self.fired, self._received = None, False
            self._thread = threading.get_ident()
            self.since = time.monotonic()
            _SIGNALS.listen(self._thread)
            self.active = True
            _WATCHER.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: object
    ) -> None:
        if self.limit is None:
            return
        _WATCHER.remove(self)  # after this it cannot fire any more
        self._received |= kind is TimeUp
        try:
            # Fired but not yet arrived: it must arrive here, not in code that has nothing to do
            # with it.
            patience = time.monotonic() + 1.0
            while self.fired is not None and not self._received and time.monotonic() < patience:
                time.sleep(0)
        except TimeUp:
            self._received = True

    def receive(self) -> bool:
        """Note that an interruption has arrived; whether this watch sent it and still awaits it."""
        due = self.fired is not None and not self._received
        self._received |= due
        return due

    def fire(self) -> None:
        """Interrupt the thread that is being watched."""
        self.fired = self.at
        if not _SIGNALS.send(self, self._thread):
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(self._thread), ctypes.py_object(TimeUp)
            )


class _Signals:
    """The signal that interrupts calls of the main thread."""

    def __init__(self) -> None:
        self._other: Any = None
        """The handler that was there before."""
        self._is_set = False
        self._sent: list[Watch] = []
        """The watches whose signal has not arrived yet."""

    def listen(self, thread: int) -> None:
        """Set the handler, if a thread is the main one and it is not set yet."""
        if not self._is_set and _SIGNAL is not None and thread == threading.main_thread().ident:
            self._other = signal.signal(_SIGNAL, self._interrupt)
            self._is_set = True

    def send(self, watch: Watch, thread: int) -> bool:
        """Interrupt the thread of a watch, if a signal does that."""
        if _SIGNAL is None or thread != threading.main_thread().ident:
            return False
        if signal.getsignal(_SIGNAL) != self._interrupt:
            return False
        self._sent.append(watch)
        signal.pthread_kill(thread, _SIGNAL)
        return True

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        sent, self._sent = self._sent, []
        arrived = [watch.receive() for watch in sent]
        if any(arrived):
            raise TimeUp
        if callable(self._other):
            self._other(number, frame)


class _Watcher:
    """The thread that looks at all watches. It looks now and then as long as there are some, and
    sleeps when there have been none for a while: calls that follow each other do not wake it, and
    end without waiting for it."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._watches: list[Watch] = []
        self._thread: threading.Thread | None = None
        self._pause: float | None = None
        """Until the next look; None while it sleeps."""

    def add(self, watch: Watch) -> None:
        with self._lock:
            self._watches.append(watch)
            if self._thread is None or not self._thread.is_alive():  # a fork leaves threads behind
                self._pause = None
                self._thread = threading.Thread(
                    target=self._run, name="thalweg-time-limits", daemon=True
                )
                self._thread.start()
            if self._pause is None or self._pause > _pause(watch):
                self._lock.notify_all()

    def remove(self, watch: Watch) -> None:
        with self._lock:
            watch.active = False
            self._watches.remove(watch)

    def _run(self) -> None:
        with self._lock:
            while True:
                now = time.monotonic()
                for watch in self._watches:
                    self._look(watch, now)
                idle = not self._watches
                self._pause = min(map(_pause, self._watches), default=_LONGEST_PAUSE)
                woken = self._lock.wait(self._pause)
                if idle and not woken and not self._watches:
                    self._pause = None
                    self._lock.wait()

    def _look(self, watch: Watch, now: float) -> None:
        if watch.fired is not None or not watch.active or watch.limit is None:
            return
        if watch.at != watch.seen:
            watch.seen, watch.since = watch.at, now
        elif now - watch.since >= watch.limit:
            watch.fire()


_LONGEST_PAUSE = 0.5


def _pause(watch: Watch) -> float:
    """Seconds between two checks of a watch."""
    return min((watch.limit or 1.0) / 4, _LONGEST_PAUSE)


_WATCHER = _Watcher()
_SIGNALS = _Signals()
