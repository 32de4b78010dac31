"""Compatibility of a merge: can the output still follow whatever its inputs will do?

From "Physically Independent Stream Merging", section III-B, over tables. A row `(p, s, e)` of a
stream whose last CTI is `t` is

    unfrozen (UF)      t <= s        it may still vanish
    half frozen (HF)   s < t <= e    its end may still change, to t or later
    fully frozen (FF)  e < t         it is as it will ever be

With `L` the last CTI of the output and `Lm` that of input m, the output is compatible when

    C1  L is no greater than the largest Lm.
    C2  (what may be there) The output has at most one row for a payload and start. If the row is
        HF, some input has the same payload and start either HF with L <= Lm, or FF with an end at
        or after L. If it is FF, some input has exactly this row FF.
    C3  (what must be there) If an input has the payload and start FF with the end e: the output can
        still insert it (L <= s), or has it HF and can still move its end (s < L <= e), or has
        exactly this row (e < L). If no input has it FF but some have it HF, and Lm is the largest
        of those: the output can still insert it (L <= s), or has it HF (s < L <= Lm).

(The text of the document has `Lm <= L` in C2; its own C3, and every output that lags behind its
inputs, need `L <= Lm`: an input may move a half frozen end to any time from its own Lm on.)

R4, where a payload and start may occur several times: the conditions are stated for an output whose
L is the largest Lm. It has, for every payload and start, all FF rows of the input with that CTI and
as many HF rows. For a smaller L the same holds of what is frozen before L.

An input that has failed or left counts with all that it had delivered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from thalweg.model import INFINITY, MIN_TIME, Adjust, Cti, Element, Payload, Row
from thalweg.testing.identity import identity

__all__ = [
    "Prefix",
    "PrefixPlayer",
    "compatibility_problem",
    "incompatibility",
    "open_close_problem",
    "prefix_of",
]

Group = frozenset[tuple[str, Hashable]]
Key = tuple[Group, int]
Frozen = Literal["UF", "HF", "FF"]
T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True)
class Prefix:
    """What a prefix of a stream says: its table, its last CTI for all rows, and later ones for
    groups. A stream that joined says nothing about rows that end before `since`."""

    rows: Sequence[Row]
    last: int = MIN_TIME
    since: int = MIN_TIME
    scoped: Mapping[Group, int] = field(default_factory=dict)

    def last_of(self, payload: Group) -> int:
        """The last CTI that concerns a payload."""
        return max([self.last, *(t for group, t in self.scoped.items() if group <= payload)])

    def freeze(self, start: int, end: int, payload: Group = frozenset()) -> Frozen:
        """
        >>> prefix = Prefix([], 14)
        >>> prefix.freeze(15, 20), prefix.freeze(2, 16), prefix.freeze(3, 10)
        ('UF', 'HF', 'FF')
        """
        last = self.last_of(payload)
        if last <= start:
            return "UF"
        return "HF" if last <= end else "FF"

    def ends(self) -> dict[Key, list[int]]:
        """By payload and start: the ends, one for each occurrence."""
        found: dict[Key, list[int]] = {}
        for start, end, payload in self.rows:
            found.setdefault((_identity(payload), start), []).append(end)
        return found


def prefix_of(elements: Iterable[Element], since: int = MIN_TIME) -> Prefix:
    """The prefix that a sequence of elements is."""
    player = PrefixPlayer(since)
    player.play(elements)
    return player.prefix


class PrefixPlayer:
    """A prefix that grows, element by element.

    >>> from thalweg.model import adjust, insert
    >>> player = PrefixPlayer()
    >>> player.play([insert({"p": "A"}, 2, 9), adjust({"p": "A"}, 2, 9, 5)])
    >>> player.prefix.rows
    [(2, 5, {'p': 'A'})]
    """

    def __init__(self, since: int = MIN_TIME) -> None:
        self._rows: dict[tuple[Hashable, int, int], list[Row]] = {}
        self._last, self._since = MIN_TIME, since
        self._scoped: dict[Group, int] = {}

    def play(self, elements: Iterable[Element]) -> None:
        """Take more elements. Raises ValueError when one breaks a CTI that came before or adjusts a
        row that is not there."""
        for element in elements:
            if isinstance(element, Cti):
                if element.scope is None:
                    self._last = max(self._last, element.time)
                else:
                    group = _identity(element.scope)
                    self._scoped[group] = max(element.time, self._scoped.get(group, MIN_TIME))
                continue
            key = (_identity(element.payload), element.start, element.end)
            scoped = [t for group, t in self._scoped.items() if group <= key[0]]
            if element.sync < max([self._last, *scoped]):
                raise ValueError(f"{element} breaks the CTI {max([self._last, *scoped])}")
            end = element.end
            if isinstance(element, Adjust):
                if not self._rows.get(key):
                    raise ValueError(f"{element} adjusts a row that is not there")
                self._rows[key].pop()
                end = element.new_end
                key = (key[0], element.start, end)
            if end > element.start:
                self._rows.setdefault(key, []).append((element.start, end, element.payload))

    @property
    def prefix(self) -> Prefix:
        rows = [row for several in self._rows.values() for row in several]
        return Prefix(rows, self._last, self._since, dict(self._scoped))


def compatibility_problem(
    inputs: Mapping[str, Prefix], output: Prefix, *, multiset: bool = False
) -> str | None:
    """The first condition that an output breaks, or None when it is compatible with its inputs.

    >>> from thalweg.model import cti, insert
    >>> left = prefix_of([insert({"p": "A"}, 2, 16), insert({"p": "B"}, 3, 10), cti(14)])
    >>> merged = prefix_of([insert({"p": "A"}, 2, 12), cti(13)])
    >>> print(compatibility_problem({"left": left}, merged))
    C2: the output has {'p': 'A'} from 2 to 12 for ever; no input has this row fully frozen
    """
    return next(iter(incompatibility(inputs, output, multiset=multiset)), None)


def incompatibility(
    inputs: Mapping[str, Prefix], output: Prefix, *, multiset: bool = False
) -> list[str]:
    """Every condition that an output breaks, row by row."""
    furthest = max((prefix.last for prefix in inputs.values()), default=MIN_TIME)
    if output.last > furthest:
        return [f"C1: the output has promised {_time(output.last)}, no input more than {furthest}"]
    for group, last in output.scoped.items():
        furthest = max((prefix.last_of(group) for prefix in inputs.values()), default=MIN_TIME)
        if last > furthest:
            group_ = dict(group)
            return [f"C1: the output has promised {_time(last)} for {group_}, no input so much"]
    if multiset:
        return _counts_differ(inputs, output)
    return [*_may_not_be_there(inputs, output), *_must_be_there(inputs, output)]


def _may_not_be_there(inputs: Mapping[str, Prefix], output: Prefix) -> list[str]:
    """C2."""
    wrong = []
    held = [(prefix, prefix.ends()) for prefix in inputs.values()]
    for (payload, start), ends in output.ends().items():
        shown = f"{dict(payload)} from {start}"
        if len(ends) > 1:
            wrong.append(f"C2: the output has {shown} {len(ends)} times")
            continue
        state, last = output.freeze(start, ends[0], payload), output.last_of(payload)
        matching = [
            (prefix.last_of(payload), end, prefix.freeze(start, end, payload))
            for prefix, rows in held
            for end in rows.get((payload, start), ())
        ]
        if state == "HF" and not any(
            (frozen == "HF" and last <= own) or (frozen == "FF" and last <= end)
            for own, end, frozen in matching
        ):
            wrong.append(f"C2: the output has {shown} half frozen; it can follow no input there")
        if state == "FF" and not any(
            frozen == "FF" and end == ends[0] for _, end, frozen in matching
        ):
            wrong.append(
                f"C2: the output has {shown} to {ends[0]} for ever; "
                "no input has this row fully frozen"
            )
    return wrong


def _must_be_there(inputs: Mapping[str, Prefix], output: Prefix) -> list[str]:
    """C3."""
    wrong = []
    full: dict[Key, int] = {}
    half: dict[Key, int] = {}
    for prefix in inputs.values():
        for (payload, start), ends in prefix.ends().items():
            for end in ends:
                state, last = prefix.freeze(start, end, payload), prefix.last_of(payload)
                if state == "FF":
                    full[payload, start] = end
                elif state == "HF":
                    half[payload, start] = max(last, half.get((payload, start), MIN_TIME))
    shown = output.ends()
    for (payload, start), end in full.items():
        row = f"{dict(payload)} from {start} to {end}"
        there, last = shown.get((payload, start), []), output.last_of(payload)
        if last <= start:
            continue
        if end < last and end not in there:
            wrong.append(f"C3: {row} is final in an input, and the output can no longer have it")
        if last <= end and not any(output.freeze(start, e, payload) == "HF" for e in there):
            wrong.append(f"C3: {row} is final in an input, and the output lacks it half frozen")
    for (payload, start), furthest in half.items():
        last = output.last_of(payload)
        if (payload, start) in full or last <= start:
            continue
        there = shown.get((payload, start), [])
        if last > furthest or not any(output.freeze(start, e, payload) == "HF" for e in there):
            wrong.append(
                f"C3: {dict(payload)} from {start} is half frozen in an input, and not in the "
                "output"
            )
    return wrong


def _counts_differ(inputs: Mapping[str, Prefix], output: Prefix) -> list[str]:
    """R4: the same FF rows as the input that leads, and as many HF rows, by payload and start."""
    wrong = []
    held = [(p, p.ends()) for p in inputs.values() if p.since == MIN_TIME]
    shown = output.ends()
    keys = shown.keys() | {key for _, ends in held for key in ends}
    for payload, start in sorted(keys, key=repr):
        last = output.last_of(payload)
        leaders = [ends for prefix, ends in held if prefix.last_of(payload) >= last]
        if last <= start or not leaders:
            continue
        own_ends, leader_ends = (
            shown.get((payload, start), []),
            leaders[0].get((payload, start), []),
        )
        if len(own_ends) != len(leader_ends):
            wrong.append(
                f"R4: {dict(payload)} from {start} is there {len(own_ends)} times, "
                f"in the input that leads {len(leader_ends)} times"
            )
        final = Counter(end for end in own_ends if end < last)
        if final != Counter(end for end in leader_ends if end < last):
            wrong.append(
                f"R4: {dict(payload)} from {start} has the final ends {sorted(final.elements())}; "
                f"the input that leads has {sorted(e for e in leader_ends if e < last)}"
            )
    return wrong


def open_close_problem(inputs: Iterable[Iterable[T]], output: Iterable[T]) -> str | None:
    """Example 5: streams of open and close elements, where an open has at most one close. Then the
    output is compatible exactly when every element of it is in some input.

    >>> open_close_problem([[("open", "A", 1)], [("open", "B", 2)]], [("open", "B", 2)])
    >>> open_close_problem([[("open", "A", 1)]], [("open", "A", 1), ("close", "A", 4)])
    "no input has ('close', 'A', 4), and the output cannot take it back"
    """
    input_elements = {element for sequence in inputs for element in sequence}
    strange = [element for element in output if element not in input_elements]
    if strange:
        return f"no input has {strange[0]!r}, and the output cannot take it back"
    return None


def _identity(payload: Payload) -> frozenset[tuple[str, Hashable]]:
    return frozenset((name, identity(value)) for name, value in payload.items())


def _time(time: int) -> str:
    return "the end" if time == INFINITY else str(time)
