"""Connections of a query to its receivers: opened when they are needed, and again when lost.

Staleness ends when the sink has returned for a micro-batch; the driver reports that here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

from thalweg.errors import ReceiverError
from thalweg.freshness.receiver_client import ReceiverClient
from thalweg.freshness.receiver_process import is_running

__all__ = ["ReceiverLink", "close_links", "finish_batches", "silent_receivers"]

_TIMEOUT_S = 10.0


class ReceiverLink:
    """A connection to the receiver of a folder, made anew when it was lost."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._client: ReceiverClient | None = None

    def client(self) -> ReceiverClient:
        if self._client is None or self._client.is_lost:
            self._client = ReceiverClient.of(self._folder, timeout_s=_TIMEOUT_S)
        return self._client

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


_LINKS: dict[str, ReceiverLink] = {}
"""By folder: the connections of the driver."""


def finish_batches(folders: Iterable[str]) -> None:
    """Report that the sink has returned: the cuts of the micro-batch are delivered. A receiver that
    does not answer is skipped, and measures nothing."""
    for folder in folders:
        with contextlib.suppress(ReceiverError):
            _LINKS.setdefault(folder, ReceiverLink(folder)).client().finish()


def close_links(folders: Iterable[str]) -> None:
    """Close the connections of a query that has ended."""
    for folder in folders:
        link = _LINKS.pop(folder, None)
        if link is not None:
            link.close()


def silent_receivers(folders: Iterable[str]) -> list[str]:
    """Warnings about receivers that do not run: their senders are turned away."""
    return [
        f"no receiver runs in {folder}: rows cannot be sent. Start it: thalweg receive {folder}"
        for folder in folders
        if not is_running(Path(folder))
    ]
