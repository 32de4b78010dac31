"""Sequence patterns by their definition: loops over all events of a key, no operator of the
library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from thalweg.model import Row
from thalweg.testing.identity import order

__all__ = ["matches"]

Event = tuple[int, Mapping[str, Any]]
Match = tuple[Event, ...]


def matches(
    steps: Mapping[str, Sequence[Row]],
    mode: str,
    *,
    within: int | None,
    exact: bool = False,
    barriers: Mapping[str, Sequence[Row]] | None = None,
) -> list[Row]:
    """The rows of `tw.sequence(steps, "k", ...)` without `select`."""
    names = list(steps)
    found: list[Row] = []
    keys = {row[2]["k"] for rows in steps.values() for row in rows} - {None}
    for key in sorted(keys):
        events = {name: _of_key(steps[name], key) for name in names}
        so_far: list[Match] = [(event,) for event in events[names[0]]]
        for name in names[1:]:
            forbidden = [time for time, _ in _of_key((barriers or {}).get(name, ()), key)]
            so_far = _next(so_far, events[name], mode, within, exact, forbidden)
        found += [_row(names, match) for match in so_far]
    return found


def _next(
    so_far: list[Match],
    events: list[Event],
    mode: str,
    within: int | None,
    exact: bool,
    forbidden: list[int],
) -> list[Match]:
    def fits(match: Match, event: Event) -> bool:
        last, time = match[-1][0], event[0]
        after = last <= time if exact else last < time
        bounded = within is None or time - match[0][0] <= within
        return after and bounded and not any(last < barrier < time for barrier in forbidden)

    def after(match: Match, event: Event) -> bool:
        return match[-1][0] <= event[0] if exact else match[-1][0] < event[0]

    if mode == "unrestricted":
        return [(*match, event) for match in so_far for event in events if fits(match, event)]
    if mode == "recent":
        pairs = []
        for event in events:
            latest = max((m[-1][0] for m in so_far if after(m, event)), default=None)
            pairs += [(m, event) for m in so_far if m[-1][0] == latest and fits(m, event)]
        return [(*match, event) for match, event in pairs]
    if mode == "continuous":
        pairs = []
        for match in so_far:
            first = min((e[0] for e in events if after(match, e)), default=None)
            pairs += [(match, e) for e in events if e[0] == first and fits(match, e)]
        return [(*match, event) for match, event in pairs]
    waiting = sorted(so_far, key=lambda m: (m[-1][0], m[0][0], _columns(m)))
    result: list[Match] = []
    for event in sorted(events, key=lambda e: (e[0], _columns((e,)))):
        taken = next((match for match in waiting if fits(match, event)), None)
        if taken is not None:
            waiting.remove(taken)
            result.append((*taken, event))
    return result


def _columns(match: Match) -> list[tuple[int, Any]]:
    """What breaks ties: all columns of the steps, left to right, each step's time after them."""
    return [order(value) for time, payload in match for value in (*payload.values(), time)]


def _of_key(rows: Sequence[Row], key: Any) -> list[Event]:
    return [(start, payload) for start, _, payload in rows if payload["k"] == key]


def _row(names: list[str], match: Match) -> Row:
    last = match[-1][0]
    columns = {
        f"{name}_{column}": value
        for name, (_, payload) in zip(names, match, strict=True)
        for column, value in payload.items()
    }
    times = {f"{name}_time": event[0] for name, event in zip(names, match, strict=True)}
    return (last, last + 1, {**columns, **times})
