"""Operators that look at rows next to each other in time: stitch, sessions as lifetimes,
distinct."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from itertools import pairwise
from typing import Any

from thalweg.model import Row
from thalweg.plan.automata import Event, OneOf, Pattern, Repeat, Then
from thalweg.plan.nodes import Detect, Distinct, SessionLifetime, Stitch
from thalweg.testing.identity import identity, order
from thalweg.testing.oracle.scene import Scene, meaning
from thalweg.testing.oracle.values import evaluate

__all__ = ["alive", "by_group", "endpoints"]


def by_group(rows: list[Row], keys: tuple[str, ...]) -> list[list[Row]]:
    """The rows of each distinct key; null is a key like any other. Without keys all rows are one
    group."""
    groups: dict[Hashable, list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(identity(row[2].get(key)) for key in keys), []).append(row)
    return list(groups.values())


def endpoints(rows: Iterable[Row]) -> list[int]:
    """Every time at which a row starts or ends, in order."""
    return sorted({time for start, end, _ in rows for time in (start, end)})


def alive(rows: Iterable[Row], start: int, end: int) -> list[Row]:
    """The rows that overlap `[start, end)`."""
    return [row for row in rows if row[0] < end and start < row[1]]


def _by_payload(rows: list[Row]) -> list[list[Row]]:
    groups: dict[Hashable, list[Row]] = {}
    for row in rows:
        groups.setdefault(identity(row[2]), []).append(row)
    return list(groups.values())


@meaning(Distinct)
def distinct(node: Distinct, scene: Scene) -> list[Row]:
    result: list[Row] = []
    for rows in _by_payload(scene.rows(node.input)):
        times = endpoints(rows)
        result += [(a, b, rows[0][2]) for a, b in pairwise(times) if alive(rows, a, b)]
    return result


@meaning(Stitch)
def stitch(node: Stitch, scene: Scene) -> list[Row]:
    return [row for rows in _by_payload(scene.rows(node.input)) for row in _stitched(rows)]


def _stitched(rows: list[Row]) -> list[Row]:
    """Rows of one payload: at each time the rows that end there are joined to those that start
    there, rank by rank.

    Rows that are alike in start and end keep one order among themselves at both of their ends.
    """
    follower: dict[int, int] = {}
    for time in endpoints(rows):
        ending = sorted(
            (at for at, row in enumerate(rows) if row[1] == time), key=lambda at: rows[at][:2]
        )
        starting = sorted(
            (at for at, row in enumerate(rows) if row[0] == time), key=lambda at: rows[at][1]
        )
        follower.update(zip(ending, starting, strict=False))
    result: list[Row] = []
    for first in set(range(len(rows))) - set(follower.values()):
        last = first
        while last in follower:
            last = follower[last]
        result.append((rows[first][0], rows[last][1], rows[first][2]))
    return result


@meaning(SessionLifetime)
def session_lifetime(node: SessionLifetime, scene: Scene) -> list[Row]:
    result: list[Row] = []
    for group in by_group(scene.rows(node.input), node.keys):
        for chain in runs(group, node.timeout):
            close = chain[-1][0] + node.timeout
            result += [
                (s, min(close, _cut(s, chain[0][0], node.max_duration, close)), p)
                for s, _, p in chain
            ]
    return result


def runs(rows: list[Row], gap: int) -> list[list[Row]]:
    """Rows in order of start, in maximal runs whose neighbours start less than `gap` apart."""
    found: list[list[Row]] = []
    for row in sorted(rows, key=lambda row: row[0]):
        if found and row[0] - found[-1][-1][0] < gap:
            found[-1].append(row)
        else:
            found.append([row])
    return found


def _cut(start: int, first: int, max_duration: int | None, close: int) -> int:
    """The first cut after `start` on the grid of a chain that began at `first`; `close` when there
    is no grid."""
    if max_duration is None:
        return close
    cut = first // max_duration * max_duration + max_duration * (
        1 if first % max_duration == 0 else 2
    )
    while cut <= start:
        cut += max_duration
    return cut


Registers = dict[str, Any]
Rest = tuple[Pattern, ...]
"""What must still come, part after part."""


@meaning(Detect)
def detect(node: Detect, scene: Scene) -> list[Row]:
    """Every instance by itself: what may still come, after each event that it reads."""
    result: list[Row] = []
    for rows in by_group(scene.rows(node.input), node.keys):
        ordered = sorted(rows, key=lambda row: (row[0], [order(v) for v in row[2].values()]))
        units = _units(node, ordered)
        busy = -1
        for at in range(len(units)):
            if not node.overlap and at <= busy:
                continue
            matches, last = _instance(node, units, at)
            busy = last
            group = {key: ordered[0][2][key] for key in node.keys}
            result += [(start, end, {**group, **registers}) for start, end, registers in matches]
    return result


def _units(node: Detect, rows: list[Row]) -> list[list[Row]]:
    """What is read in one step: an event, or all events of a time."""
    if node.simultaneous == "sequence":
        return [[row] for row in rows]
    return [[row for row in rows if row[0] == time] for time in sorted({row[0] for row in rows})]


def _instance(
    node: Detect, units: list[list[Row]], at: int
) -> tuple[list[tuple[int, int, Registers]], int]:
    """The matches of the instance that begins at a unit, and the last unit after which it goes
    on."""
    begin = units[at][0][0]
    threads: list[tuple[Rest, Registers]] = [
        ((node.pattern,), {register.name: register.initial for register in node.registers})
    ]
    matches: list[tuple[int, int, Registers]] = []
    last = at - 1
    for number in range(at, len(units)):
        unit = units[number]
        if unit[0][0] - begin >= node.within:
            break
        moved = [
            (rest, _kept(node, event, unit[0], registers))
            for pattern, registers in threads
            for event, rest in _heads(pattern)
            if _fulfils(node, event, unit, registers)
        ]
        matches += [
            (unit[0][0], begin + node.within, registers)
            for rest, registers in moved
            if _may_be_empty(rest)
        ]
        threads = [(rest, registers) for rest, registers in moved if _heads(rest)]
        if not threads:
            break
        last = number
    return matches, max(last, at)


def _fulfils(node: Detect, event: Event, unit: list[Row], registers: Registers) -> bool:
    schema = node.event_schema()
    some = any(
        evaluate(event.condition, {**row[2], "_start": row[0], **registers}, schema) is True
        for row in unit
    )
    return some != event.absent


def _kept(node: Detect, event: Event, row: Row, registers: Registers) -> Registers:
    seen = {**row[2], "_start": row[0], **registers}
    changed = {n: evaluate(value, seen, node.event_schema()) for n, value in event.keep}
    return {**registers, **changed}


def _heads(rest: Rest) -> list[tuple[Event, Rest]]:
    """The events that may come next, each with what must come after it."""
    if not rest:
        return []
    first, after = rest[0], rest[1:]
    match first:
        case Event():
            return [(first, after)]
        case Then(parts=parts):
            return _heads((*parts, *after))
        case OneOf(parts=parts):
            inside = [head for part in parts for head in _heads((part,))]
        case _:
            more = () if first.once else (Repeat(first.part, 0),)
            inside = [(event, (*tail, *more)) for event, tail in _heads((first.part,))]
    heads = [(event, (*tail, *after)) for event, tail in inside]
    return heads + (_heads(after) if _may_be_empty((first,)) else [])


def _may_be_empty(rest: Rest) -> bool:
    def empty(pattern: Pattern) -> bool:
        match pattern:
            case Event():
                return False
            case Then(parts=parts):
                return all(map(empty, parts))
            case OneOf(parts=parts):
                return any(map(empty, parts))
            case Repeat(part=part, least=least):
                return least == 0 or empty(part)

    return all(map(empty, rest))
