"""Punctuation in general: a pattern that no later tuple matches.

A punctuation has a pattern for each attribute: a value, a range, or anything. It says that no tuple
that matches all of them will come any more. Two forms are promises that operators work with, and
become CTIs:

    linear               a range of time up to t, anything else           cti(t)
    group-wise linear    values of some attributes, and time up to t      cti(t, those values)
                         values of some attributes, at any time           cti for those, for ever

A pattern of upper bounds on columns alone is a promise over those columns (a column promise, see
`column_promises`): it closes windows over them; with values of the columns that name groups, it
closes those of one group. A range of time and values or ranges of columns promise the time to all
groups that they describe (see `area_promises`); those that cover all values of their columns
promise it to all rows. Any other pattern is kept at the input, where a tuple that matches it is
late and goes by the source's policy; so are tuples inside a column promise. When the promises of an
insert-only source reach the beginning of its ranges, it becomes one of these forms, and closes what
they close (`Punctuation.beyond`).

>>> punctuation(ts=before(720)).kind, punctuation(src="202.3.12.4").to_cti()
('linear', Cti(time=9223372036854775807, scope={'src': '202.3.12.4'}))
>>> punctuation(src="202.3.12.4", len=within(40, 100)).kind
'general'
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.errors import MalformedElementError
from thalweg.model.column_promises import ColumnPromises, column_promise, merge_column_promises
from thalweg.model.elements import Cti
from thalweg.model.packed_values import pack_values, unpack_values
from thalweg.model.progress import Progress, Scope
from thalweg.model.rows import Bools, Rows
from thalweg.model.time import INFINITY, MIN_TIME, Times

__all__ = ["ANY", "Punctuation", "Range", "before", "integer_limits", "punctuation", "within"]


@dataclass(frozen=True, slots=True)
class Range:
    """Values from `low` on (None: from the smallest) and below `high` (None: to the largest)."""

    low: Any = None
    high: Any = None

    def __post_init__(self) -> None:
        if self.low is not None and self.high is not None and not self.low < self.high:
            raise MalformedElementError(
                f"punctuation: the range from {self.low!r} to below {self.high!r} has no values."
            )


ANY = Range()
"""The wildcard."""


def before(high: Any) -> Range:
    """Everything below a value."""
    return Range(high=high)


def within(low: Any, high: Any) -> Range:
    """Everything from `low` on and below `high`."""
    return Range(low, high)


@dataclass(frozen=True, slots=True)
class Punctuation:
    """No later tuple has a start in `time` and matches every one of `patterns`, each a value or a
    range."""

    time: Range
    patterns: Mapping[str, Any]

    @property
    def kind(self) -> str:
        if self.time.low is not None or any(
            isinstance(pattern, Range) for pattern in self.patterns.values()
        ):
            return "general"
        return "group-wise linear" if self.patterns else "linear"

    def to_cti(self) -> Cti | None:
        """The promise it is; None for a general one."""
        if self.kind == "general":
            return None
        time = INFINITY if self.time.high is None else int(self.time.high)
        return Cti(time, dict(self.patterns) or None)

    def to_column_promises(self) -> ColumnPromises:
        """The promise over columns that it is: upper bounds of whole numbers and nothing else; no
        column promises for any other pattern.

        >>> punctuation(flow_end=before(20)).to_column_promises()
        {('flow_end',): (20,)}
        """
        bounds = {
            name: pattern.high
            for name, pattern in self.patterns.items()
            if isinstance(pattern, Range) and pattern.low is None and type(pattern.high) is int
        }
        whole = self.time == ANY and len(bounds) == len(self.patterns)
        return column_promise(bounds) if whole else {}

    def to_group_column_promises(self, columns: tuple[str, ...]) -> dict[Scope, ColumnPromises]:
        """The promise over columns of one group that it is, where these columns name groups: a
        value of each, upper bounds of others, anything else.

        >>> punctuation(src="a", flow_end=before(20)).to_group_column_promises(("src",))
        {('a',): {('flow_end',): (20,)}}
        """
        values = {n: v for n, v in self.patterns.items() if not isinstance(v, Range)}
        bounds = {n: v for n, v in self.patterns.items() if isinstance(v, Range)}
        if not values or set(values) != set(columns):
            return {}
        column_promises = Punctuation(self.time, bounds).to_column_promises() if bounds else {}
        return {tuple(values[name] for name in columns): column_promises} if column_promises else {}

    def beyond(self, progress: Progress) -> Punctuation:
        """What it adds to promises made before: a range that begins where a promise about
        the same time or column ends, or before, goes on from the beginning.

        >>> punctuation(ts=within(5, 20)).beyond(Progress(7)).to_cti()
        Cti(time=20, scope=None)
        >>> progress = Progress(column_promises={("flow_end",): (12,)})
        >>> punctuation(flow_end=within(12, 18)).beyond(progress).to_column_promises()
        {('flow_end',): (18,)}
        """
        values = {n: v for n, v in self.patterns.items() if not isinstance(v, Range)}
        promise, column_promises = progress.cti, progress.column_promises
        if values and set(values) == set(progress.scope_columns):
            scope = tuple(values[name] for name in progress.scope_columns)
            promise = progress.of(scope)
            column_promises = merge_column_promises(
                column_promises, progress.group_column_promises.get(scope, {})
            )
        time = self.time
        if time.low is not None and int(time.low) <= promise:
            time = Range(high=time.high)
        patterns = {
            name: (
                Range(high=v.high)
                if isinstance(v, Range) and _reached(name, v, column_promises)
                else v
            )
            for name, v in self.patterns.items()
        }
        return Punctuation(time, patterns)

    def matches(self, payload: Rows, start: Times) -> Bools:
        """Which rows match. Null matches the value null, and no range that has an end."""
        found = np.ones(len(start), np.bool_)
        if self.time.low is not None:
            found &= start >= int(self.time.low)
        if self.time.high is not None:
            found &= start < int(self.time.high)
        for name, pattern in self.patterns.items():
            found &= _match(payload.column(name), pattern)
        return found

    def limits(self, payload: Rows, start: Times) -> Times:
        """For each row the time before which it is promised not to come; the beginning of time
        where nothing is."""
        until = INFINITY if self.time.high is None else int(self.time.high)
        return np.where(self.matches(payload, start), until, MIN_TIME)

    def to_text(self) -> str:
        """Written down, for snapshots."""
        entries = [("", self.time), *self.patterns.items()]
        values = [(v.low, v.high) if isinstance(v, Range) else (v,) for _, v in entries]
        return json.dumps(
            [
                [name, [pack_values([value]) for value in parts]]
                for (name, _), parts in zip(entries, values, strict=True)
            ]
        )

    @classmethod
    def from_text(cls, text: str) -> Punctuation:
        """The inverse of `to_text`."""
        read = [
            (name, [unpack_values(part)[0] for part in parts]) for name, parts in json.loads(text)
        ]
        patterns = {name: Range(*parts) if len(parts) == 2 else parts[0] for name, parts in read}
        return cls(patterns.pop(""), patterns)


def _reached(name: str, pattern: Range, column_promises: ColumnPromises) -> bool:
    """Whether a promise about a column reaches the beginning of a range of it."""
    bound = column_promises.get((name,))
    return type(pattern.low) is int and bound is not None and pattern.low <= bound[0]


def punctuation(*, ts: Range = ANY, **patterns: Any) -> Punctuation:
    """A punctuation: `ts` is a range of the stream's time, every other argument a column with a
    value, a range or `ANY`."""
    if not isinstance(ts, Range):
        raise MalformedElementError(
            f"punctuation: ts must be a range of time such as before(t); got {ts!r}."
        )
    kept = {name: pattern for name, pattern in patterns.items() if pattern != ANY}
    if not kept and ts == ANY:
        raise MalformedElementError(
            "punctuation: every attribute is a wildcard, so that no tuple could ever come; give a "
            "time or a value."
        )
    return Punctuation(ts, kept)


def _match(column: pa.Array, pattern: Any) -> Bools:
    if not isinstance(pattern, Range):
        if pattern is None:
            return np.asarray(column.is_null().to_numpy(zero_copy_only=False))
        if pattern != pattern and pa.types.is_floating(column.type):
            return _mask(pc.is_nan(column))
        return _mask(pc.equal(column, pa.scalar(pattern, column.type)))
    if pattern == ANY:
        return np.ones(len(column), np.bool_)
    found = np.asarray(column.is_valid().to_numpy(zero_copy_only=False)).copy()
    least, most = integer_limits(column.type)
    if pattern.low is not None and (least is None or pattern.low > least):
        found &= _mask(pc.greater_equal(column, pa.scalar(pattern.low, column.type)))
    if pattern.high is not None and (most is None or pattern.high <= most):
        found &= _mask(pc.less(column, pa.scalar(pattern.high, column.type)))
    return found


def integer_limits(kind: pa.DataType) -> tuple[int | None, int | None]:
    """The smallest and the largest value of a type of whole numbers; None for other types.

    >>> integer_limits(pa.uint16())
    (0, 65535)
    """
    if not pa.types.is_integer(kind):
        return None, None
    limits = np.iinfo(kind.to_pandas_dtype())
    return int(limits.min), int(limits.max)


def _mask(values: pa.Array) -> Bools:
    return np.asarray(values.fill_null(False).to_numpy(zero_copy_only=False))
