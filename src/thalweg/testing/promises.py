"""Where CTIs may stand in a sequence of elements, and putting them there.

Before position i the strongest legal CTI is the smallest sync time from i on; for a scope, of the
elements that match it. The earliest legal position of a CTI is right after the last element that
would break it.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from thalweg.model import INFINITY, MIN_TIME, Adjust, Cti, Element, Insert, Payload
from thalweg.testing.manner import Manner

__all__ = ["with_promises"]

Data = Insert | Adjust


def _touches(element: Data, scope: Payload | None) -> bool:
    return scope is None or all(element.payload.get(name) == value for name, value in scope.items())


def _breaks(element: Data, promise: Cti) -> bool:
    return element.sync < promise.time and _touches(element, promise.scope)


def _limit(data: list[Data], place: int, scope: Payload | None = None) -> int:
    """The strongest promise that may be made before position `place`."""
    return min(
        (element.sync for element in data[place:] if _touches(element, scope)), default=INFINITY
    )


def with_promises(
    data: list[Data], ctis: Sequence[Cti], manner: Manner, random: Random
) -> list[Element]:
    """The sequence with CTIs: those of `ctis` that are kept, and others."""
    promises: list[tuple[int, Cti]] = []
    for promise in ctis:
        if random.random() < manner.keep:
            place = max(
                (at + 1 for at, element in enumerate(data) if _breaks(element, promise)), default=0
            )
            promises.append(
                (
                    random.randint(place, len(data)) if random.random() < manner.delay else place,
                    promise,
                )
            )
    scopes = [promise.scope for promise in ctis if promise.scope is not None]
    for place in range(len(data) + 1):
        if random.random() < manner.promises:
            scope = _some_scope(scopes, data, random) if scopes and random.random() < 0.5 else None
            limit = _limit(data, place, scope)
            promises.append(
                (place, Cti(limit if manner.strongest else _weaker(limit, data, random), scope))
            )
    return _merged(data, promises)


def _some_scope(scopes: list[Payload], data: list[Data], random: Random) -> Payload:
    """A scope over the columns that the input's own scopes have."""
    if not data or random.random() < 0.3:
        return random.choice(scopes)
    payload = random.choice(data).payload
    return {name: payload.get(name) for name in scopes[0]}


def _weaker(limit: int, data: list[Data], random: Random) -> int:
    if limit == INFINITY:
        newest = max((element.sync for element in data), default=0)
        return random.choice([newest + random.randint(0, 9), INFINITY])
    return limit - random.randint(0, 6)


def _merged(data: list[Data], promises: list[tuple[int, Cti]]) -> list[Element]:
    """Elements and CTIs in one sequence, without CTIs that promise nothing new."""
    result: list[Element] = []
    common = MIN_TIME
    scoped: list[tuple[Payload, int]] = []
    for place in range(len(data) + 1):
        for _, promise in (item for item in promises if item[0] == place):
            if promise.scope is None:
                before = common
                common = max(common, promise.time)
            else:
                before = max([common, *(time for scope, time in scoped if scope == promise.scope)])
                scoped.append((promise.scope, promise.time))
            if promise.time > before:
                result.append(promise)
        result += data[place : place + 1]
    return result
