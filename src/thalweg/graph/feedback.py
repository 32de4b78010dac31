"""Feedback: what is not wanted any more, from readers upstream (section V-D of the LMerge document).

A merge that has promised t has no use for rows of its inputs that end before t, and neither has a
reader that has fallen behind on purpose. Each operator says what that means for its own inputs
(`Operator.unwanted`); an operator that says nothing ends the way upstream. Where several read one
operator, the least of what they do not want counts. Operators then skip such rows before they work
on them and drop those that they hold (`Operator.forget`), and sources skip them before they judge
them. Promises go on.

Rows that end at t or later are the same with and without feedback, at any moment, and no promise is
broken. Only inserts are skipped, and only of streams that have no adjusts: a row that was skipped
could otherwise be adjusted to end after t.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest

from thalweg.graph.stations import Station
from thalweg.model.time import MIN_TIME
from thalweg.operators.source.ingress import IngressKernel

__all__ = ["tell_unwanted"]


def tell_unwanted(stations: Sequence[Station], ends: Mapping[Station, int]) -> None:
    """Tell all operators what is not wanted of them. `stations` come after those they read; `ends`
    are the operators whose output leaves, and the time before which nobody wants it."""
    said: dict[Station, list[int]] = {station: [] for station in stations}
    for station, time in ends.items():
        said[station].append(time)
    for station in reversed(stations):
        least = min(said[station], default=MIN_TIME)
        unwanted = station.operator.unwanted(least)
        station.unwanted = unwanted if any(time > MIN_TIME for time in unwanted) else None
        if isinstance(station.operator, IngressKernel):
            station.operator.unwanted_before = least
        if station.unwanted is not None:
            ports = zip_longest(station.unwanted, station.skips, fillvalue=False)
            station.operator.forget(tuple(t if skips else MIN_TIME for t, skips in ports))
        for above, time in zip(station.before, unwanted, strict=False):
            said[above].append(time)
