"""Row operators in a row as one state: a batch passes all of them without a decision between.

Each operator keeps its own figures and its own progress, so that reports and `why` are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter

from thalweg.graph.arcs import Arc
from thalweg.graph.stations import Station

__all__ = ["Fused", "chains"]


class Fused:
    """Runs `members`, each of which has one input and is read by the next one alone."""

    __slots__ = ("id", "members")

    def __init__(self, members: list[Station]) -> None:
        self.members = members
        self.id = "+".join(member.id for member in members)

    @property
    def inputs(self) -> list[Arc]:
        return self.members[0].inputs

    def port(self) -> int:
        return 0 if self.members[0].inputs[0].size() else -1

    def execute(self, most: int | None = None) -> int:
        """Take one batch, or at most so many elements, through all members."""
        first = self.members[0]
        batch = first.inputs[0].take() if most is None else first.take(0, most)
        taken = len(batch.start)
        begin = perf_counter()
        for member in self.members:
            if member.unwanted is not None:
                batch = member.without_unwanted(0, batch)
            answer = member.operator.process(0, batch)
            now = perf_counter()
            member.seconds += now - begin
            begin = now
            member.note(0, batch.progress, len(batch.start))
            if not member.says_something(answer):
                return taken
            batch = answer
        self.members[-1].output.put(batch)
        return taken


def chains(stations: list[Station], readers: Mapping[Station, int]) -> list[list[Station]]:
    """The longest runs of two or more row operators, each the only reader of the one before;
    `readers` counts them, an output among them."""
    found: list[list[Station]] = []
    place: dict[Station, list[Station]] = {}
    for station in stations:
        if not station.operator.row_by_row or len(station.before) != 1:
            continue
        above = station.before[0]
        if above in place and place[above][-1] is above and readers[above] == 1:
            chain = place[above]
        else:
            chain = []
            found.append(chain)
        chain.append(station)
        place[station] = chain
    return [chain for chain in found if len(chain) > 1]
