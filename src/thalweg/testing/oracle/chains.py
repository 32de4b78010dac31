"""Operators that look at rows next to each other in time: stitch, sessions as lifetimes,
distinct."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from itertools import pairwise

from thalweg.model import Row
from thalweg.plan.nodes import Distinct, SessionLifetime, Stitch
from thalweg.testing.identity import identity
from thalweg.testing.oracle.scene import Scene, meaning

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
