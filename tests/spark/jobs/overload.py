"""A sender that gives a receiver more than its query can serve, and what must then hold."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from thalweg.errors import ReceiverError
from thalweg.freshness.receiver_client import ReceiverClient
from thalweg.freshness.receiver_settings import ReceiverSettings

__all__ = ["Overload", "assert_newest_delivered", "delivered_batches"]


class Overload:
    """Updates of `keys` keys in turn, each with the next number as its price; what the receiver
    acknowledged. A receiver that is gone is found again when it is back."""

    def __init__(self, folder: Path, keys: int = 4_000, rows: int = 1_000) -> None:
        self._queue = folder / "queue"
        self._keys = keys
        self._rows = rows
        self._next = 0
        self._names = pa.array([f"s{key}" for key in range(keys)])
        self._newest = np.full(keys, -1)
        self._client: ReceiverClient | None = None
        self.accepted = 0
        self.offered = 0

    def send(self) -> None:
        """One frame, if there is a receiver."""
        try:
            if self._client is None or self._client.is_lost:
                self._client = ReceiverClient.of(self._queue, timeout_s=30)
            numbers = np.arange(self._next, self._next + self._rows)
            keys = numbers % self._keys
            self._next += self._rows
            self.offered += self._rows
            columns = [self._names.take(pa.array(keys)), pa.array(numbers), pa.array(numbers)]
            admitted = self._client.offer(pa.record_batch(columns, schema=self._schema()))
        except ReceiverError:
            return
        assert admitted.accepted == self._rows
        self.accepted += self._rows
        np.maximum.at(self._newest, keys, numbers)

    @property
    def acknowledged(self) -> dict[str, int]:
        """The newest value of each key that was acknowledged."""
        newest = enumerate(self._newest.tolist())
        return {f"s{key}": number for key, number in newest if number >= 0}

    def _schema(self) -> pa.Schema:
        settings = ReceiverSettings.read(self._queue)
        assert settings is not None
        return settings.schema

    def close(self) -> None:
        if self._client is not None:
            self._client.close()


def delivered_batches(folder: Path) -> list[pa.Table]:
    """The answers of each micro-batch, in order."""
    found = {
        int(match[1]): path
        for path in (folder / "answers").glob("batch=*")
        if (match := re.fullmatch(r"batch=(\d+)", path.name))
    }
    return [pq.read_table(found[number]) for number in sorted(found)]


def assert_newest_delivered(folder: Path, overload: Overload) -> int:
    """Everything waiting was served: the newest acknowledged value of every key came out, values of
    a key grow, and no key is twice in a batch. How many rows came out."""
    newest: dict[str, int] = {}
    rows = 0
    for batch in delivered_batches(folder):
        symbols, prices = batch["symbol"].to_pylist(), batch["price"].to_pylist()
        doubled = [symbol for symbol, count in Counter(symbols).items() if count > 1]
        assert not doubled
        for symbol, price in zip(symbols, prices, strict=True):
            assert price > newest.get(symbol, -1), "an older value follows, or one comes twice"
            newest[symbol] = price
        rows += len(symbols)
    for symbol, price in overload.acknowledged.items():
        assert newest.get(symbol, -1) >= price, f"the newest value of {symbol} was lost"
    return rows
