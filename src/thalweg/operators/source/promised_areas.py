"""What punctuation with a time and values or ranges of columns promises about the rows of a source.

    no later row has  start < t,  src = 'a'  and  low <= port < high

promises t to every row in that area (see `area_promises`). Where all its columns name groups, the
groups in it close. Where areas cover all values of some columns, null included, the least of their
promises holds for the whole stream. A row that breaks such a promise is late.

State: the areas that are ahead of the common promise, and that no wider one covers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.model.area_promises import NO_AREAS, AreaPromises
from thalweg.model.batch import Batch
from thalweg.model.column_promises import ColumnPromises
from thalweg.model.progress import Progress, scope_values
from thalweg.model.progress_text import pack_areas, unpack_areas
from thalweg.model.punctuation import Punctuation, Range, integer_limits
from thalweg.model.python_rows import column_of
from thalweg.model.range_promises import Limits
from thalweg.model.time import INFINITY, MIN_TIME, Times
from thalweg.operators.source.punctuations import Punctuations

__all__ = ["NOTHING_PROMISED", "Area", "PromisedAreas", "area_of"]


@dataclass(frozen=True, slots=True)
class Area:
    """Values and ranges of columns, in the types of these."""

    values: Mapping[str, Any]
    ranges: Mapping[str, Limits]


def area_of(
    pattern: Punctuation, schema: pa.Schema, group_columns: Sequence[str] = ()
) -> Area | None:
    """The area of a pattern, its columns in the order of their names, as in the scope of a CTI.
    None for one group, which has a CTI, and for all rows.

    >>> from thalweg.model.punctuation import punctuation, before, within
    >>> ports = pa.schema([("src", pa.string()), ("port", pa.uint16())])
    >>> area_of(punctuation(ts=before(9), port=within(1024, 65536), src="a"), ports)
    Area(values={'src': 'a'}, ranges={'port': (1024, None)})
    >>> area_of(punctuation(ts=before(9), port=80), ports, ("port",)) is None
    True
    """
    patterns = pattern.patterns
    values = [name for name, value in patterns.items() if not isinstance(value, Range)]
    if not patterns or (len(values) == len(patterns) and set(values) == set(group_columns)):
        return None
    kinds = {name: schema.field(name).type for name in sorted(patterns)}
    try:
        return Area(
            {
                name: _in_type(patterns[name], kind)
                for name, kind in kinds.items()
                if name in values
            },
            {
                name: _limits(patterns[name], kind)
                for name, kind in kinds.items()
                if name not in values
            },
        )
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None  # rows are compared with the pattern itself, and the error names what is wrong


def _limits(limits: Range, kind: pa.DataType) -> Limits:
    least, most = integer_limits(kind)
    low, high = limits.low, limits.high
    return (
        None if low is None or (least is not None and low <= least) else _in_type(low, kind),
        None if high is None or (most is not None and high > most) else _in_type(high, kind),
    )


def _in_type(value: Any, kind: pa.DataType) -> Any:
    return scope_values(column_of([value], kind))[0]


@dataclass(frozen=True, slots=True)
class PromisedAreas:
    """
    >>> ports = pa.schema([("port", pa.int64())])
    >>> some = PromisedAreas().add(Area({}, {"port": (None, 1024)}), 100, 0)
    >>> both = some.add(Area({}, {"port": (1024, None)}), 70, 0)
    >>> both.common(ports, Progress(0), lambda group: 90)
    70
    """

    areas: AreaPromises = NO_AREAS

    def __bool__(self) -> bool:
        return bool(self.areas)

    def add(self, area: Area, time: int, cti: int) -> PromisedAreas:
        """With one more promise; the same object where that is nothing new."""
        return self._of(self.areas.merge(AreaPromises.over(area.values, area.ranges, time), cti))

    def above(self, cti: int) -> PromisedAreas:
        """Without what a common promise covers."""
        return self._of(self.areas.merge(NO_AREAS, cti))

    def _of(self, areas: AreaPromises) -> PromisedAreas:
        return self if areas is self.areas else PromisedAreas(areas)

    def absorb(
        self,
        punctuations: Punctuations,
        progress: Progress,
        schema: pa.Schema,
        group_columns: Sequence[str],
    ) -> tuple[PromisedAreas, Punctuations] | None:
        """With the first pattern that promises something new about an area, where the promises have
        come to where its time begins; and the patterns that are left. One without a time stays: it
        may become a promise over its columns."""
        for pattern in punctuations.patterns:
            rest = pattern.beyond(progress)
            area, time = area_of(rest, schema, group_columns), rest.time
            if area is None:
                continue
            begin = MIN_TIME if time.low is None else int(time.low)
            if begin > max(progress.cti, self.areas.least_within(area.values, area.ranges)):
                continue
            until = INFINITY if time.high is None else int(time.high)
            areas = self.add(area, until, progress.cti)
            left = punctuations if time.high is None else punctuations.without(pattern)
            if areas is not self or left is not punctuations:
                return areas, left
        return None

    def raise_promises(self, batch: Batch, promise: Times) -> Times:
        """Promises raised for the rows that lie in the areas."""
        columns = dict(zip(batch.payload.schema.names, batch.payload.columns, strict=True))
        return np.maximum(promise, self.areas.of_columns(columns, len(batch)))

    def common(
        self,
        schema: pa.Schema,
        progress: Progress,
        promised_to: Callable[[Mapping[str, Any]], int],
    ) -> int:
        """The promise that holds for all rows because areas cover all values of some columns. Null,
        and NaN, lie in no range: `promised_to` has what is promised to a group of such values."""
        found = progress.cti
        for values, ranges in self.areas.entries:
            if values:
                continue
            kinds = {name: schema.field(name).type for name in ranges}
            areas = _with_bounds(self.areas, kinds, progress.column_promises)
            least = INFINITY
            for parts in product(*map(_parts, kinds.values())):
                outside = {n: v for n, v in zip(ranges, parts, strict=True) if v is not _INSIDE}
                inside = {name: (None, None) for name in ranges if name not in outside}
                promised = areas.least_within(outside, inside)
                least = min(least, promised if inside else max(promised, promised_to(outside)))
                if least <= found:
                    break
            found = max(found, least)
        return found

    def to_text(self) -> str:
        return json.dumps(pack_areas(self.areas))

    @classmethod
    def from_text(cls, text: str) -> PromisedAreas:
        """The inverse of `to_text`."""
        return cls(unpack_areas(json.loads(text)))


NOTHING_PROMISED = PromisedAreas()

_INSIDE = object()
"""Any value that lies in some range."""


def _parts(kind: pa.DataType) -> list[Any]:
    """The values of a column: those that lie in ranges, and each of the others."""
    return [_INSIDE, None, math.nan] if pa.types.is_floating(kind) else [_INSIDE, None]


def _with_bounds(
    areas: AreaPromises, kinds: Mapping[str, pa.DataType], column_promises: ColumnPromises
) -> AreaPromises:
    """With what promises over one column mean: no value below a bound comes any more."""
    for name, kind in kinds.items():
        bound = column_promises.get((name,)) if pa.types.is_integer(kind) else None
        if bound is not None:
            below = AreaPromises.over({}, {name: (None, bound[0])}, INFINITY)
            areas = areas.merge(below, MIN_TIME)
    return areas
