"""Reports of a queue: the result of an offer, its figures at one moment, its stalest keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from thalweg.freshness._arrays import Ints
from thalweg.freshness.key_queue import KeyQueue
from thalweg.freshness.key_table import KeyTable

__all__ = ["Admission", "Mode", "QueueStatus", "Staleness", "stalest_keys"]

Mode = Literal["append", "update"]
"""An adaptive queue serves all rows, or the newest of each key."""


@dataclass(frozen=True, slots=True)
class Admission:
    """How many rows of a call were accepted, outdated and refused.

    >>> Admission(accepted=2) + Admission(accepted=1, refused=4)
    Admission(accepted=3, outdated=0, refused=4)
    """

    accepted: int = 0
    outdated: int = 0
    """Older than a row of their key that was seen before."""
    refused: int = 0
    """No room: for their key, for their value, or for a text as long as theirs."""

    def __add__(self, other: Admission) -> Admission:
        return Admission(
            self.accepted + other.accepted,
            self.outdated + other.outdated,
            self.refused + other.refused,
        )


@dataclass(frozen=True, slots=True)
class Staleness:
    """Staleness over the keys of a queue, in ticks of the clock of arrival."""

    now: float
    p99: float
    average: float
    queue_average: float

    @classmethod
    def of(cls, stale: Ints, area: float, waited: float, *, keys: int, elapsed: int) -> Staleness:
        """`stale` is that of each key now; `area` and `waited` are the integrals of staleness and
        of queue staleness, over all of `keys` and the time that has elapsed."""
        keys, elapsed = max(keys, 1), max(elapsed, 1)
        now, p99 = (stale.mean(), np.percentile(stale, 99)) if len(stale) else (0.0, 0.0)
        return cls(float(now), float(p99), area / keys / elapsed, waited / keys / elapsed)


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """A queue at one moment, for one reader. Staleness in ticks of the clock of arrival."""

    keys: int
    forgotten: int
    """Keys that were idle when room was needed for new ones; one that comes again is new."""
    waiting: int
    arrived: int
    taken: int
    conflated: int
    outdated: int
    refused: int
    staleness_now: float
    """Mean over the keys."""
    staleness_p99: float
    """Of a hundred keys, the stalest but one."""
    staleness_average: float
    """Mean over keys and time."""
    queue_staleness_average: float
    longest_wait: int
    bytes_used: int
    bytes_allowed: int
    mode: Mode = "update"
    switches: int = 0
    """How often the mode has changed."""
    last_switch: str = ""
    """When and why the mode has last changed."""


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
