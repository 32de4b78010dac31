"""The areas of one shape: those that give values of the same columns, and ranges of the same.

For each tuple of values there is one promise over the ranges. `area_promises` puts shapes together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.model.range_promises import Promised, RangePromises, join_promised
from thalweg.model.rows import Codes, encode_together
from thalweg.model.time import MIN_TIME

__all__ = [
    "Entries",
    "Shape",
    "entries_above",
    "find_entries",
    "meet_entries",
    "new_entries",
    "promise_at",
    "uncovered_entries",
]

_MOST_PAIRS = 4_096
"""So many areas of two streams are held against each other; beyond that, what only areas of
different columns promise together is left out."""


class Shape(NamedTuple):
    """The columns of an area that have a value, and those that have a range.

    >>> Shape(("src",), ("port",)).is_within(("port", "src"))
    True
    """

    values: tuple[str, ...]
    ranges: tuple[str, ...]

    def is_within(self, columns: Sequence[str]) -> bool:
        """Whether it has these columns alone, in their order."""
        order = {name: at for at, name in enumerate(columns)}
        places = [[order.get(name, -1) for name in part] for part in self]
        return all(part == sorted(part) and -1 not in part for part in places)


Values: TypeAlias = tuple[Any, ...]
Entries: TypeAlias = Mapping[Values, Promised]


def find_entries(
    names: Sequence[str], entries: Entries, columns: Mapping[str, pa.Array], size: int
) -> Codes:
    """Which of the entries each of `size` groups has the values of, or -1."""
    if not names:
        return np.zeros(size, np.int64)
    held = [columns[name] for name in names]
    wanted = [
        pa.array(list(values), column.type)
        for values, column in zip(zip(*entries, strict=True), held, strict=True)
    ]
    if len(held) == 1 and _is_looked_up(held[0].type):
        found = pc.index_in(held[0], value_set=wanted[0]).cast(pa.int64()).fill_null(-1)
        return np.asarray(found.to_numpy(zero_copy_only=False))
    own, of_entries, codes = encode_together(held, wanted, (size, len(entries)))
    which = np.full(codes, -1)
    which[of_entries] = np.arange(len(entries))
    return which[own]


def _is_looked_up(kind: pa.DataType) -> bool:
    """Whether Arrow finds values of a type as keys are found; of fractions there are two zeros."""
    return bool(pa.types.is_integer(kind) or pa.types.is_string(kind))


def new_entries(earlier: Entries, entries: Entries, cti: int) -> dict[Values, Promised]:
    """What some entries promise beyond earlier ones, and beyond a common promise."""
    newer: dict[Values, Promised] = {}
    for values, each in entries.items():
        before = earlier.get(values, MIN_TIME)
        if each is not before:
            now = _above(join_promised(before, each, max), cti)
            if now != before:
                newer[values] = now
    return newer


def entries_above(entries: Entries, cti: int) -> Entries:
    """Without what a common promise covers."""
    kept = {values: _above(each, cti) for values, each in entries.items()}
    if all(each is entries[values] and each != MIN_TIME for values, each in kept.items()):
        return entries
    return {values: each for values, each in kept.items() if each != MIN_TIME}


def _above(promised: Promised, cti: int) -> Promised:
    if isinstance(promised, int):
        return promised if promised > cti else MIN_TIME
    return _unless_empty(promised.above(cti))


def _unless_empty(promised: RangePromises) -> Promised:
    return promised or MIN_TIME


def uncovered_entries(entries: Mapping[Shape, Entries]) -> dict[Shape, Entries]:
    """Without what the promise of a wider area covers."""
    kept = {}
    for shape, narrow in entries.items():
        for wider, wide in entries.items():
            if _is_wider(wider, shape):
                narrow = _beyond(shape, narrow, wider, wide)
        if narrow:
            kept[shape] = narrow
    return kept


def _is_wider(wider: Shape, shape: Shape) -> bool:
    """Whether a promise of one shape may cover one of another."""
    return (
        wider != shape
        and set(wider.values) <= set(shape.values)
        and set(wider.ranges) <= {*shape.values, *shape.ranges}
    )


def _beyond(shape: Shape, entries: Entries, wider: Shape, others: Entries) -> Entries:
    kept = {}
    for values, each in entries.items():
        group = dict(zip(shape.values, values, strict=True))
        other = others.get(tuple(group[name] for name in wider.values), MIN_TIME)
        covered = promise_at(other, wider.ranges, shape.ranges, group)
        each = join_promised(each, covered, lambda time, wide: time if time > wide else MIN_TIME)
        if each != MIN_TIME:
            kept[values] = each
    return kept


def promise_at(
    promised: Promised, columns: Sequence[str], wanted: Sequence[str], values: Mapping[str, Any]
) -> Promised:
    """A promise over ranges of `columns` as one over ranges of the `wanted` columns: these are the
    same and others, apart from those that have a value here."""
    if promised == MIN_TIME:
        return promised
    if columns and columns[0] in values:
        assert isinstance(promised, RangePromises)
        return promise_at(promised.at(values[columns[0]]), columns[1:], wanted, values)
    if not wanted:
        return promised
    if columns and columns[0] == wanted[0]:
        assert isinstance(promised, RangePromises)
        times = (promise_at(each, columns[1:], wanted[1:], values) for each in promised.times)
        return _unless_empty(RangePromises(promised.cuts, tuple(times)).joined())
    anywhere = promise_at(promised, columns, wanted[1:], values)
    return _unless_empty(RangePromises(times=(anywhere,)))


def meet_entries(
    left: tuple[Shape, Entries], right: tuple[Shape, Entries], columns: Sequence[str]
) -> tuple[Shape, Entries]:
    """What the areas of two shapes both promise, where they overlap; `columns` in their order."""
    (one, ones), (two, twos) = left, right
    names = tuple(name for name in columns if name in one.values or name in two.values)
    ranges = tuple(
        name for name in columns if (name in one.ranges or name in two.ranges) and name not in names
    )
    shape = Shape(names, ranges)
    shared = [name for name in one.values if name in two.values]
    same: dict[Values, list[dict[str, Any]]] = {}
    for values in twos:
        group = dict(zip(two.values, values, strict=True))
        same.setdefault(tuple(group[name] for name in shared), []).append(group)
    met: dict[Values, Promised] = {}
    most = max(_MOST_PAIRS, len(ones) + len(twos))
    for values, each in ones.items():
        group = dict(zip(one.values, values, strict=True))
        for other in same.get(tuple(group[name] for name in shared), ()):
            most -= 1
            if most < 0:
                return shape, {}
            both = group | other
            promised = join_promised(
                promise_at(each, one.ranges, ranges, both),
                promise_at(twos[tuple(other.values())], two.ranges, ranges, both),
                min,
            )
            if promised != MIN_TIME:
                met[tuple(both[name] for name in names)] = promised
    return shape, met
