"""The checks of the promises that a source is given: times of the clock that do not go back, about
columns that the source has, for groups that are all over the same columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.errors import (
    MalformedElementError,
    ProgressError,
    SchemaChangeError,
    TimeRangeError,
    did_you_mean,
)
from thalweg.model.clocks import Clock, shown_time
from thalweg.model.progress import Progress, Scope, scope_values
from thalweg.model.punctuation import Punctuation
from thalweg.model.python_rows import column_of
from thalweg.model.time import INFINITY, MAX_TIME, MIN_TIME
from thalweg.plan.nodes.arrivals import CLOCK
from thalweg.progress.admission import Ingress

__all__ = ["PromiseChecks"]


@dataclass(frozen=True, slots=True)
class PromiseChecks:
    place: str
    """Of which source and batch, as a message says it."""
    schema: pa.Schema
    policy: Ingress
    clock: Clock

    def time(self, time: Any, promised: int, what: str) -> int:
        """The time of a promise, where `promised` was promised before."""
        if not isinstance(time, (int, np.integer)):
            raise TimeRangeError(
                f"{self.place}: {what} is {time!r}; a time is a whole number of ticks."
            )
        ticks = int(time)
        if not (MIN_TIME <= ticks < MAX_TIME or ticks == INFINITY):
            raise TimeRangeError(
                f"{self.place}: {what} is {ticks}, outside the range of the clock."
            )
        if MIN_TIME != ticks < promised and not (self.policy.observes or self.policy.clocks):
            before = "infinity" if promised == INFINITY else shown_time(promised, self.clock)
            raise ProgressError(
                f"{self.place}: {what} is {shown_time(ticks, self.clock)}, which goes back behind "
                f"{before}."
            )
        return ticks

    def columns(self, progress: Progress) -> None:
        """Promises over columns are about columns that the source has."""
        for column in {name for names in progress.column_promises for name in names}:
            if column not in self.schema.names and column != CLOCK:
                raise SchemaChangeError(
                    f"{self.place}: a promise about {column!r}, a column that the source does not "
                    f"have{did_you_mean(column, self.schema.names)}"
                )

    def pattern(self, pattern: Punctuation) -> None:
        """A punctuation is about columns that the source has."""
        for column in pattern.patterns:
            if column not in self.schema.names:
                raise SchemaChangeError(
                    f"{self.place}: a punctuation on {column!r}, a column that the source does not "
                    f"have{did_you_mean(column, self.schema.names)}"
                )

    def groups(
        self, progress: Progress, columns_before: tuple[str, ...]
    ) -> tuple[tuple[str, ...], list[Scope]]:
        """The columns that name the groups of promises, and the groups, in values of the columns'
        types. `columns_before` are the columns of the promises before, if there were any."""
        columns = progress.scope_columns
        for name in columns:
            if name not in self.schema.names:
                raise SchemaChangeError(
                    f"{self.place}: a CTI for the column {name!r}, which the source does not "
                    f"have{did_you_mean(str(name), self.schema.names)} Columns here: "
                    f"{', '.join(self.schema.names)}."
                )
        partition = self.policy.partition
        wanted = (partition,) if partition is not None else columns_before or columns
        if (
            not columns
            or columns != wanted
            or any(len(scope) != len(columns) for scope in progress.scoped)
        ):
            raise MalformedElementError(
                f"{self.place}: CTIs for groups must all be over the same columns, here "
                f"{', '.join(wanted) or 'one at least'}; got {', '.join(columns) or 'none'} with "
                f"{list(progress.scoped)[:3]}."
            )
        return columns, self.typed_scopes(progress)

    def typed_scopes(self, progress: Progress) -> list[Scope]:
        """The groups of promises, in values of the columns' types."""
        values = []
        for name, column in zip(
            progress.scope_columns, zip(*progress.scoped, strict=True), strict=True
        ):
            kind = self.schema.field(name).type
            try:
                values.append(scope_values(column_of(column, kind)))
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as reason:
                raise SchemaChangeError(
                    f"{self.place}: a CTI for {list(column)[:3]} of the column {name!r}, which is "
                    f"{kind}: {reason}."
                ) from reason
        return list(zip(*values, strict=True))
