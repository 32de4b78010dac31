"""What the dialect adds to SQL's syntax tree.

`[RANGE 10 minutes, SLIDE 1 minute, WA ts]` becomes a `WindowClause`, which hangs at an aggregate
(`Windowed`) or at a stream in FROM. `A UNION B` between streams is a `StreamUnion`, and
`TUMBLE(TABLE a, DESCRIPTOR(ts), ...)` in FROM a `TableFunction`, `SEQ(a, b) WITHIN ...` a
`SequenceClause`. All of them have their place in the text.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sqlglot import exp

__all__ = [
    "ALL",
    "Amount",
    "Attribute",
    "Over",
    "Place",
    "SequenceClause",
    "StreamUnion",
    "TableFunction",
    "WindowClause",
    "WindowFunction",
    "Windowed",
]


class WindowFunction(StrEnum):
    """Windows as functions in FROM."""

    TUMBLE = "TUMBLE"
    HOP = "HOP"
    CUMULATE = "CUMULATE"
    CALENDAR = "CALENDAR"
    SESSION = "SESSION"
    SNAPSHOT = "SNAPSHOT"
    COUNT = "COUNT"


ALL = "ALL"
"""RANGE ALL: a window that begins with the stream."""


@dataclass(frozen=True, slots=True)
class Place:
    """From which character to which (the last one included) of the text."""

    start: int
    end: int

    def to(self, other: Place) -> Place:
        return Place(self.start, other.end)


@dataclass(frozen=True, slots=True)
class Amount:
    """How much: `10 minutes`, `1000 rows`, `5` ticks, `'1h 30s'`, or a parameter."""

    place: Place
    number: str = ""
    unit: str = ""
    parameter: str = ""

    def __str__(self) -> str:
        return self.parameter or f"{self.number} {self.unit}".strip()


@dataclass(frozen=True, slots=True)
class Attribute:
    """What a window is defined on: a column, the number of a row as it arrived, or `rank(ts)`.

    `row-num` is the number at the system, before anything is filtered; `local-row-num` the number
    at the window; `arrival-time` the time at which a row arrived at the system.
    """

    place: Place
    name: str
    table: str = ""
    ranked: bool = False

    @property
    def counted_at(self) -> str:
        """Where rows are numbered, "system" or "operator"; empty where it is no row number."""
        name = self.name.lower() if not self.table and not self.ranked else ""
        return {"row-num": "system", "local-row-num": "operator"}.get(name, "")

    @property
    def is_arrival(self) -> bool:
        return self.name.lower() == "arrival-time" and not self.table and not self.ranked

    def __str__(self) -> str:
        name = f"{self.table}.{self.name}" if self.table else self.name
        return f"rank({name})" if self.ranked else name


@dataclass(frozen=True, slots=True)
class WindowClause:
    """The parts of `[...]` as they were written; what is absent is None."""

    place: Place
    range: Amount | str | None = None
    """An amount, `ALL`, or nothing."""
    tumbling: bool = False
    slide: Amount | None = None
    wa: Attribute | None = None
    pa: tuple[Attribute, ...] = ()
    rattr: Attribute | None = None
    sattr: Attribute | None = None

    def key(self) -> tuple[object, ...]:
        """Equal for clauses with the same meaning."""
        return tuple(
            str(part)
            for part in (
                self.range,
                self.tumbling,
                self.slide,
                self.wa,
                self.pa,
                self.rattr,
                self.sattr,
            )
        )


class Windowed(exp.Expression):
    """An expression with a window behind it."""

    arg_types = {"this": True, "clause": True}


class Over(exp.Expression):
    """`sum(x) OVER (PARTITION BY k ORDER BY ts RANGE ...)`: `span` is the interval before a row;
    `rows` where rows are counted instead."""

    arg_types = {
        "this": True,
        "partition": False,
        "order": False,
        "span": False,
        "rows": False,
    }


class StreamUnion(exp.Expression):
    """The rows of several streams: `FROM A UNION B AS m`."""

    arg_types = {"expressions": True, "alias": False, "window": False}


class TableFunction(exp.Expression):
    """`TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '1' MINUTE)`: `table` is absent where the first
    argument is not one."""

    arg_types = {
        "this": True,
        "table": False,
        "partition": False,
        "expressions": False,
        "names": False,
        "alias": False,
        "window": False,
    }


class SequenceClause(exp.Expression):
    """`SEQ(cases AS a, NOT alarms, products AS b) MODE RECENT PARTITION BY belt WITHIN 10 minutes`:
    `absent` are the streams that NOT stands before, each with the number of the step after it."""

    arg_types = {
        "expressions": True,
        "absent": False,
        "mode": False,
        "exact": False,
        "partition": False,
        "within": False,
        "window": False,
        "alias": False,
    }
