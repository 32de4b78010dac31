"""The keys of a queue whose answers are the stalest, as a report."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.freshness.key_queue import KeyQueue
from thalweg.freshness.key_table import KeyTable

__all__ = ["stalest_keys"]


def stalest_keys(
    keys: KeyQueue, table: KeyTable | None, count: int, *, now: int, reader: str | None
) -> list[dict[str, Any]]:
    """For each key: the key itself (packed, if it has several columns), its staleness in ticks,
    whether it waits, how many rows arrived, were taken and conflated."""
    stale = keys.application_staleness(now, reader)
    order = np.argsort(-stale, kind="stable")[:count]
    columns = {
        "staleness": stale[order],
        "waits": keys.queue_staleness(now, reader)[order] > 0,
        "arrived": keys.arrived[order],
        "taken": keys.reader(reader).taken[order],
        "conflated": keys.conflated(reader)[order],
    }
    shown = [""] * len(order) if table is None else _texts(table.keys(order))
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [
        {"key": key, **dict(zip(columns, row, strict=True))}
        for key, row in zip(shown, rows, strict=True)
    ]


def _texts(keys: pa.Array) -> list[Any]:
    """Keys as JSON can write them."""
    return [
        key.decode("utf-8", "replace") if isinstance(key, bytes) else _plain(key)
        for key in keys.to_pylist()
    ]


def _plain(key: object) -> object:
    return key if key is None or isinstance(key, (str, int, float, bool)) else str(key)
