"""Answers in the form that suits a reader: Python rows, Arrow, pandas, Polars, or batches.

`Answers` is the final table, `Changelog` every element that led to it. Both are sequences, so that
they compare with lists and are looped over; the rows are made when they are first read. Times
are those of the query's clock: timestamps, or whole ticks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, overload

import pyarrow as pa

from thalweg.errors import require_package
from thalweg.model.batch import Batch
from thalweg.model.cht import table_of_batches
from thalweg.model.clocks import Clock, shown_time, time_value, with_times
from thalweg.model.element_batches import elements_of
from thalweg.model.elements import Adjust, Cti, Element, Insert, Payload
from thalweg.model.python_rows import python_rows
from thalweg.model.time import INFINITY

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

__all__ = ["AnswerRow", "Answers", "Changelog"]

AnswerRow: TypeAlias = "tuple[Any, Any, Payload]"
"""(start, end, payload): whole numbers, or datetimes where the clock has them; an end of None is
without end."""

_Item = TypeVar("_Item")
_SHOWN = 20


class _Answers(Sequence[_Item]):
    """What both forms have in common: items made on demand, and a table of Arrow."""

    def __init__(self) -> None:
        self._made: list[_Item] | None = None

    def _make(self) -> list[_Item]:
        raise NotImplementedError

    def to_arrow(self) -> pa.Table:
        raise NotImplementedError

    @property
    def _items(self) -> list[_Item]:
        if self._made is None:
            self._made = self._make()
        return self._made

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, at: int) -> _Item: ...
    @overload
    def __getitem__(self, at: slice) -> list[_Item]: ...
    def __getitem__(self, at: int | slice) -> _Item | list[_Item]:
        return self._items[at]

    def __iter__(self) -> Iterator[_Item]:
        return iter(self._items)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, _Answers):
            return bool(self._items == other._items)
        return self._items == other if isinstance(other, list) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # as a list has none

    def __repr__(self) -> str:
        return repr(self._items)

    def to_pandas(self) -> pd.DataFrame:
        """As a DataFrame of pandas."""
        require_package("pandas", "pandas", "to_pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """As a DataFrame of Polars."""
        require_package("polars", "polars", "to_polars")
        import polars as pl

        frame = pl.from_arrow(self.to_arrow())
        assert isinstance(frame, pl.DataFrame)
        return frame

    def batches(self, rows: int = 65_536) -> Iterator[pa.RecordBatch]:
        """As record batches of at most `rows` rows."""
        yield from self.to_arrow().to_batches(max_chunksize=rows)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def _repr_html_(self) -> str:
        return html_table(self.to_arrow())


class Answers(_Answers[AnswerRow]):
    """The final table of a query: `_start`, `_end`, then the columns of the answer."""

    def __init__(self, ticks: pa.Table, clock: Clock = None) -> None:
        super().__init__()
        self._ticks, self.clock = ticks, clock

    @classmethod
    def of_batches(cls, batches: Sequence[Batch], schema: pa.Schema, clock: Clock) -> Answers:
        """What a sequence of changes leaves behind."""
        return cls(table_of_batches(batches, schema), clock)

    def __len__(self) -> int:
        return int(self._ticks.num_rows)

    def to_arrow(self) -> pa.Table:
        """As an Arrow table."""
        return with_times(self._ticks, ("_start", "_end"), self.clock)

    def _make(self) -> list[AnswerRow]:
        clock = self.clock
        return [
            (time_value(row.pop("_start"), clock), time_value(row.pop("_end"), clock), row)
            for row in python_rows(self._ticks)
        ]


class Changelog(_Answers[Element]):
    """Every change of a query's answers: `_kind` (0 insert, 1 adjust), `_start`, `_end`,
    `_new_end`, then the columns. Promises are among the elements; a table has none."""

    def __init__(self, batches: Sequence[Batch], schema: pa.Schema, clock: Clock = None) -> None:
        super().__init__()
        self._batches, self._schema, self.clock = list(batches), schema, clock

    def to_arrow(self) -> pa.Table:
        """As an Arrow table."""
        table = Batch.concat(self._batches, self._schema).to_table()
        return with_times(table, ("_start", "_end", "_new_end"), self.clock)

    def _make(self) -> list[Element]:
        return [
            element
            for element in elements_of(self._batches)
            if not (isinstance(element, Cti) and element.time == INFINITY)
        ]

    def __repr__(self) -> str:
        if self.clock is None:
            return super().__repr__()
        return "[" + ", ".join(_shown(element, self.clock) for element in self._items) + "]"


def _shown(element: Element, clock: Clock) -> str:
    """An element with the times of a clock."""
    if isinstance(element, Cti):
        scope = "" if element.scope is None else f", scope={element.scope!r}"
        return f"Cti({shown_time(element.time, clock)}{scope})"
    span = f"{shown_time(element.start, clock)} to {shown_time(element.end, clock)}"
    if isinstance(element, Insert):
        return f"Insert({element.payload!r}, {span})"
    assert isinstance(element, Adjust)
    return f"Adjust({element.payload!r}, {span}, now {shown_time(element.new_end, clock)})"


def html_table(table: pa.Table, most: int = _SHOWN) -> str:
    """A table for a notebook: the first rows, and how many there are."""
    from html import escape

    head = "".join(f"<th>{escape(name)}</th>" for name in table.schema.names)
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(_cell(value))}</td>" for value in row.values()) + "</tr>"
        for row in python_rows(table.slice(0, most))
    )
    more = f"<p>{most} of {table.num_rows:,} rows</p>" if table.num_rows > most else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{more}"


def _cell(value: object) -> str:
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
