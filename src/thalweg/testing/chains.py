"""Chains: the life of one row through its elements.

A row's elements form a chain: one insert, then adjusts, each of which takes the end that the one
before left. A sequence of elements is an interleaving of chains (and of CTIs), so a physical form
of a table is made by choosing chains that end in its rows and an interleaving that keeps each chain
in order. A chain whose last end is its start leaves no row: the row was spurious.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from thalweg.model import Adjust, Cti, Element, Insert, Payload, Row
from thalweg.testing.identity import identity

__all__ = ["Chain", "chains_of", "positions_of_chains"]


@dataclass(frozen=True)
class Chain:
    """A row with all the ends it has had; the last one counts.

    >>> Chain({"v": 1}, 3, (9, 7)).elements()
    [Insert(payload={'v': 1}, start=3, end=9), Adjust(payload={'v': 1}, start=3, end=9, new_end=7)]
    """

    payload: Payload
    start: int
    ends: tuple[int, ...]

    @property
    def row(self) -> Row | None:
        """What it leaves in the table."""
        return (self.start, self.ends[-1], self.payload) if self.ends[-1] > self.start else None

    def elements(self) -> list[Insert | Adjust]:
        first = Insert(self.payload, self.start, self.ends[0])
        return [first, *(Adjust(self.payload, self.start, a, b) for a, b in pairwise(self.ends))]

    def through(self, ends: Iterable[int]) -> Chain:
        """The same row by way of other ends."""
        return replace(self, ends=(*ends, self.ends[-1]))


def positions_of_chains(elements: Sequence[Element]) -> list[list[int]]:
    """The positions of each chain's elements. Raises ValueError at an adjust that finds no row with
    its end."""
    found: list[list[int]] = []
    open_: dict[Hashable, list[int]] = {}
    for position, element in enumerate(elements):
        if isinstance(element, Cti):
            continue
        row = identity(element.payload), element.start
        if isinstance(element, Insert):
            found.append([position])
            open_.setdefault((row, element.end), []).append(len(found) - 1)
            continue
        waiting = open_.get((row, element.end))
        if not waiting:
            raise ValueError(f"element {position}, {element}, adjusts a row that is not there")
        chain = waiting.pop(0)
        found[chain].append(position)
        if element.new_end > element.start:
            open_.setdefault((row, element.new_end), []).append(chain)
    return found


def chains_of(elements: Sequence[Element]) -> list[Chain]:
    """The chains of a sequence, in order of their inserts.

    >>> from thalweg.model import adjust, insert
    >>> chains_of([insert({"v": 1}, 3), insert({"v": 2}, 4, 5), adjust({"v": 1}, 3, None, 7)])
    [Chain(payload={'v': 1}, start=3, ends=(9223372036854775807, 7)), Chain(payload={'v': 2},
    start=4, ends=(5,))]
    """
    chains = []
    for positions in positions_of_chains(elements):
        members = [elements[at] for at in positions]
        assert isinstance(members[0], Insert)
        ends = [
            member.new_end if isinstance(member, Adjust) else member.end
            for member in members
            if not isinstance(member, Cti)
        ]
        chains.append(Chain(members[0].payload, members[0].start, tuple(ends)))
    return chains
