"""Regular patterns over events, and the automaton that recognises one.

A pattern is an event that fulfils a condition (`Event`), several patterns one after the other
(`Then`), one of several (`OneOf`), or one pattern again and again (`Repeat`). What has been
gathered so far stands in registers: an event's condition may read them, and its `keep` expressions
give them new values.

The automaton has no empty steps: each arc reads one event. Its states are those places of a pattern
behind an event (Glushkov's construction), so that an arc is a pair of places that may follow each
other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

from thalweg.errors import PlanError
from thalweg.expr import Expr, ExprLike, as_expr

__all__ = [
    "Automaton",
    "Event",
    "OneOf",
    "Pattern",
    "Repeat",
    "Then",
    "event",
    "no_event",
    "one_of",
    "then",
]


@dataclass(frozen=True, slots=True)
class Event:
    """One event for which `condition` is true; `keep` has new values of registers. Over sets of
    events: some event of that time fulfils it, or with `absent` none does."""

    condition: Expr
    keep: tuple[tuple[str, Expr], ...] = ()
    absent: bool = False

    def __str__(self) -> str:
        kept = ", ".join(f"{name}: {value}" for name, value in self.keep)
        no = "no " if self.absent else ""
        return f"[{no}{self.condition}{'; ' + kept if kept else ''}]"


@dataclass(frozen=True, slots=True)
class Then:
    """One part after the other."""

    parts: tuple[Pattern, ...]

    def __str__(self) -> str:
        return " ".join(map(str, self.parts))


@dataclass(frozen=True, slots=True)
class OneOf:
    """Any one of the parts."""

    parts: tuple[Pattern, ...]

    def __str__(self) -> str:
        return "(" + " | ".join(map(str, self.parts)) + ")"


@dataclass(frozen=True, slots=True)
class Repeat:
    """A part again and again: `least` is 0 or 1 times; with `once`, not more than once."""

    part: Pattern
    least: int
    once: bool = False

    def __str__(self) -> str:
        return f"({self.part}){'?' if self.once else '*' if self.least == 0 else '+'}"


Pattern = Event | Then | OneOf | Repeat


def event(condition: ExprLike, keep: Mapping[str, ExprLike] | None = None) -> Event:
    """An event that fulfils a condition. `keep` gives registers new values.

    >>> str(event("v > r", keep={"r": "v"}))
    '[v > r; r: v]'
    """
    kept = tuple((name, as_expr(value)) for name, value in (keep or {}).items())
    return Event(as_expr(condition), kept)


def no_event(condition: ExprLike) -> Event:
    """A time at which events come, none of which fulfils the condition."""
    return Event(as_expr(condition), absent=True)


def then(*parts: Pattern) -> Pattern:
    """One part after the other."""
    return _several(parts, Then, "then")


def one_of(*parts: Pattern) -> Pattern:
    """Any one of the parts."""
    return _several(parts, OneOf, "one_of")


def _several(parts: tuple[Pattern, ...], kind: type[Then | OneOf], what: str) -> Pattern:
    for part in parts:
        if not isinstance(part, Pattern):
            raise PlanError(f"{what}: a part must be a pattern such as event(...); got {part!r}.")
    if not parts:
        raise PlanError(f"{what}: give at least one part.")
    return parts[0] if len(parts) == 1 else kind(parts)


@dataclass(frozen=True, slots=True)
class Automaton:
    """State n + 1 is the place behind event n of the pattern, state 0 the beginning. `arcs` are the
    pairs of states that may follow each other; a match is complete in the states `final`."""

    events: tuple[Event, ...]
    arcs: tuple[tuple[int, int], ...]
    final: frozenset[int]

    @property
    def open(self) -> frozenset[int]:
        """The states that an event may still lead on from."""
        return frozenset(source for source, _ in self.arcs)

    @classmethod
    def of(cls, pattern: Pattern) -> Automaton:
        """
        >>> a, b = event("x = 1"), event("x = 2")
        >>> machine = Automaton.of(then(a, Repeat(b, 0)))
        >>> machine.arcs, sorted(machine.final)
        (((0, 1), (1, 2), (2, 2)), [1, 2])
        """
        places: list[Event] = []
        whole = _shape(pattern, places)
        pairs = {(0, place) for place in whole.first} | whole.follows
        return cls(tuple(places), tuple(sorted(pairs)), whole.last)


@dataclass(frozen=True, slots=True)
class _Shape:
    """Of a part of a pattern: may it be empty, the places it begins and ends at, which place may
    follow which."""

    empty: bool
    first: frozenset[int]
    last: frozenset[int]
    follows: frozenset[tuple[int, int]]

    def then(self, other: _Shape) -> _Shape:
        between = frozenset((before, after) for before in self.last for after in other.first)
        return _Shape(
            self.empty and other.empty,
            self.first | other.first if self.empty else self.first,
            self.last | other.last if other.empty else other.last,
            self.follows | other.follows | between,
        )

    def either(self, other: _Shape) -> _Shape:
        return _Shape(
            self.empty or other.empty,
            self.first | other.first,
            self.last | other.last,
            self.follows | other.follows,
        )

    def again(self) -> _Shape:
        back = frozenset((before, after) for before in self.last for after in self.first)
        return _Shape(self.empty, self.first, self.last, self.follows | back)


def _shape(pattern: Pattern, places: list[Event]) -> _Shape:
    match pattern:
        case Event():
            places.append(pattern)
            here = frozenset({len(places)})
            return _Shape(False, here, here, frozenset())
        case Then(parts=parts):
            return reduce(_Shape.then, [_shape(part, places) for part in parts])
        case OneOf(parts=parts):
            return reduce(_Shape.either, [_shape(part, places) for part in parts])
        case Repeat(part=part, least=least, once=once):
            inner = _shape(part, places)
            repeated = inner if once else inner.again()
            return _Shape(
                inner.empty or least == 0, repeated.first, repeated.last, repeated.follows
            )
