"""Next-operator selection: after a station has run, which one is next. The rules are held in a
table by name.

Breadth-first: finish all input of a station before moving on.

    Encore:     if it has more input, itself
    Forward:    else, if it has yielded, the station after it
    Backtrack:  else the same question for the stations before it

A rule gets the current station and answers with the next one, or None when nothing is left to do
from there.
"""

from __future__ import annotations

from collections.abc import Callable

from thalweg.graph.stations import Station

__all__ = ["RULES", "Rule", "breadth_first"]

Rule = Callable[[Station], "Station | None"]


def breadth_first(station: Station) -> Station | None:
    """Encore, forward, backtrack."""
    visited: set[Station] = set()
    waiting = [station]
    while waiting:
        current = waiting.pop()
        if current in visited:
            continue
        visited.add(current)
        if current.more:
            return current
        forward = current.yields
        if forward is not None:
            return forward
        waiting.extend(current.before)
    return None


RULES: dict[str, Rule] = {"breadth-first": breadth_first}
