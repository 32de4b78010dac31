"""Replicas: mutually consistent physical forms of one table, as the inputs of a merge are.

`make_reference` draws a table that has the properties of a level R0 to R4; `make_replica` draws a
form of it that keeps them. Unlike the forms of `variation`, a replica for R3 never has two rows of
one payload and start, and one for answers by group never has two rows of a group and start, not
even for a moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import pyarrow as pa

from thalweg.model import INFINITY, Adjust, Cti, Element, Insert, Payload, Row
from thalweg.testing.chains import Chain
from thalweg.testing.manner import Manner
from thalweg.testing.promises import with_promises

__all__ = ["REPLICA_SCHEMA", "make_reference", "make_replica"]

REPLICA_SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64())])

Data = Insert | Adjust


def make_reference(level: str, size: int, random: Random, *, by_group: bool = False) -> list[Row]:
    """A table of columns `k` and `v` that inputs at a level may have."""
    rows: list[Row] = []
    seen: set[object] = set()
    for _ in range(size):
        start = random.randint(0, 30)
        payload = {"k": random.choice("abc"), "v": random.randint(0, 3)}
        key: object = (payload["k"], start) if by_group else (*payload.values(), start)
        if level == "R0":
            key = start
        if level != "R4" and key in seen:
            continue
        seen.add(key)
        end = random.choice([start + random.randint(1, 12), start + 1, INFINITY])
        rows.append((start, end, payload))
    return sorted(rows, key=_order)


def _order(row: Row) -> tuple[int, str, int]:
    start, _, payload = row
    return start, payload["k"], payload["v"]


def make_replica(
    level: str,
    rows: Sequence[Row],
    random: Random,
    *,
    by_group: bool = False,
    group_promises: bool = False,
    manner: Manner | None = None,
) -> list[Element]:
    """One form of a table, with promises for groups of `k` if they are asked for. It ends with the
    promise that nothing changes any more."""
    manner = Manner.draw(random) if manner is None else manner
    if level in ("R0", "R1", "R2"):
        ordered = sorted(rows, key=_order)
        if level == "R2":
            ordered.sort(key=lambda row: (row[0], random.random()))
        data: list[Data] = [Insert(payload, start, end) for start, end, payload in ordered]
    else:
        data = _arrival(_lives(level, rows, random, manner, by_group=by_group), manner, random)
    ctis = [Cti(random.randint(0, 40), {"k": k}) for k in "abc"] if group_promises else []
    return [*with_promises(data, ctis, manner, random), Cti(INFINITY)]


@dataclass(frozen=True)
class _Life:
    """The elements of one row, in the order in which they must come."""

    elements: list[Data]


def _lives(
    level: str, rows: Sequence[Row], random: Random, manner: Manner, *, by_group: bool
) -> list[_Life]:
    taken = {_key(payload, start, by_group=by_group) for start, _, payload in rows}
    lives = []
    for start, end, payload in rows:
        elements: list[Data] = []
        if by_group and random.random() < manner.detours:
            for _ in range(random.randint(1, 2)):
                wrong = {**payload, "v": payload["v"] + random.randint(5, 9)}
                elements += _vanishing(wrong, start, random)
        elements += Chain(payload, start, (*_detour(start, end, manner, random), end)).elements()
        lives.append(_Life(elements))
    for _ in range(manner.spurious):
        payload = {"k": random.choice("abcd"), "v": random.randint(0, 3)}
        start = random.randint(0, 32)
        key = _key(payload, start, by_group=by_group)
        if level == "R4" or key not in taken:
            taken.add(key)
            lives.append(_Life(_vanishing(payload, start, random)))
    return lives


def _key(payload: Payload, start: int, *, by_group: bool) -> object:
    return (payload["k"], start) if by_group else (payload["k"], payload["v"], start)


def _vanishing(payload: Payload, start: int, random: Random) -> list[Data]:
    ends = dict.fromkeys(start + random.randint(1, 9) for _ in range(random.randint(1, 2)))
    return Chain(payload, start, (*ends, start)).elements()


def _detour(start: int, end: int, manner: Manner, random: Random) -> list[int]:
    if random.random() >= manner.detours:
        return []
    ends: list[int] = []
    for _ in range(random.randint(1, 3)):
        other = random.choice([INFINITY, start + random.randint(1, 15)])
        if other != (ends[-1] if ends else end):
            ends.append(other)
    while ends and ends[-1] == end:
        ends.pop()
    return ends


def _arrival(lives: Sequence[_Life], manner: Manner, random: Random) -> list[Data]:
    """The elements of all lives, each in its own order, by time as far as the disorder lets
    them."""
    placed: list[tuple[float, float, int, Data]] = []
    for life in lives:
        place, tie = float("-inf"), random.random()
        for turn, element in enumerate(life.elements):
            own = (
                random.random()
                if manner.disorder == float("inf")
                else element.sync + random.uniform(0, manner.disorder)
            )
            place = max(place, own)
            placed.append((place, tie, turn, element))
    placed.sort(key=lambda item: item[:3])
    return [element for *_, element in placed]
