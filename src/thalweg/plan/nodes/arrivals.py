"""Rows with the time at which they arrived, so that windows may go by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from thalweg.errors import PlanError
from thalweg.model.names import internal
from thalweg.plan.nodes.base import Node
from thalweg.plan.nodes.families import RowOperator
from thalweg.plan.nodes.sources import Source
from thalweg.plan.nodes.traversal import find
from thalweg.plan.nodes.wid import ARRIVED_AT, ROW_NUMBER

__all__ = ["ARRIVED", "CLOCK", "StampArrivals", "stamp_periods"]

ARRIVED = "_arrived"
"""The column that `StampArrivals` adds."""

CLOCK = internal("clock")
"""A promise over this column, which no row has, is about the clock: nothing arrives before it."""


@dataclass(frozen=True, eq=False)
class StampArrivals(RowOperator):
    """R' = {(s, e, p + {_arrived})}: the time at which a row arrived, in microseconds since the
    epoch, rounded down to a multiple of `every`. An adjust keeps the stamp of its row.

    The result depends on when rows arrive: what comes after it looks at the stamps as data. Where
    rows may be adjusted they are numbered below, and a stamp is found again by the number.
    """

    input: Node
    every: int

    row_by_row = False
    state = (
        "the last reading of the clock; of rows that may still be adjusted, the numbers at which "
        "the stamp changes"
    )
    promise = (
        "t; of stamps, the last reading of the clock, or the stamp of the first row that may still "
        "be adjusted"
    )

    def __post_init__(self) -> None:
        if self.every < 1:
            raise PlanError(f"stamp_arrivals: every= must be positive; got {self.every}.")
        if ARRIVED in self.input.schema.names:
            raise PlanError("stamp_arrivals: the rows have their stamps already; stamp them once.")
        if not self.input.properties.insert_only and not self.numbered:
            raise PlanError("stamp_arrivals: rows that may be adjusted need numbers below.")
        kept = [entry for entry in self.input.schema if entry.name not in self.dropped]
        self._settle(pa.schema([*kept, pa.field(ARRIVED, pa.int64())]), self.input.properties)

    @property
    def numbered(self) -> bool:
        return ROW_NUMBER in self.input.schema.names

    @property
    def dropped(self) -> tuple[str, ...]:
        """The numbers have served their purpose."""
        return (ROW_NUMBER, ARRIVED_AT) if self.numbered else ()

    @property
    def source(self) -> Source:
        """Where the rows come in."""
        return next(find(self.input, Source))

    @property
    def before_exchange(self) -> bool:
        """The clock is read behind the exchange, where every fragment gets it."""
        return False

    @cached_property
    def progressing(self) -> frozenset[str]:
        return (self.input.progressing & frozenset(self.schema.names)) | {ARRIVED}

    @property
    def details(self) -> str:
        return f"every {self.every}"


def stamp_periods(root: Node) -> Mapping[str, int]:
    """By source whose rows are stamped: how often it must be given the time."""
    periods: dict[str, int] = {}
    for node in find(root, StampArrivals):
        name = node.source.name
        periods[name] = min(node.every, periods.get(name, node.every))
    return periods
