"""What promises over columns mean for an expression: the least value it may have in a row that
still changes.

A row that still changes reaches, in each column promise, the bound of one column; and it starts at
the CTI or later. So it is at or above one of the lowest corners of that region, and a function that
rises with each column is least at a corner. The progress of max(a, b) follows from a joint promise
on both, that of min(a, b) needs one on each.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from thalweg.errors import ThalwegError
from thalweg.expr import Expr, Frame, is_monotone_in
from thalweg.expr.one_row import Cell, NeedsKernel, row_function
from thalweg.model.area_promises import NO_AREAS
from thalweg.model.column_promises import column_promise, lowest_corners, merge_column_promises
from thalweg.model.progress import Progress
from thalweg.model.time import INFINITY, MIN_TIME
from thalweg.plan.nodes import Node

__all__ = ["LeastValue", "has_promises", "missing_promise"]


def has_promises(start: Expr, node: Node) -> bool:
    """Whether the rows of a node, started at `start`, could ever have a promise before the end."""
    return not start.columns() or node.progresses(start)


def missing_promise(start: Expr) -> str:
    """Why rows that start at an expression have no promise, in words."""
    return (
        f"nothing is promised about {start}, so that only the end of the input is a promise; "
        "punctuation on its columns, or progressing= on the source, would be one"
    )


class LeastValue:
    """The least value that an expression may have in a row that still changes: a promise for rows
    that start there. Promises move with every batch, so that what follows from the expression alone
    is found once.

    >>> from thalweg.expr import parse
    >>> both = Progress(0, column_promises={("a",): (2,), ("b",): (4,), ("a", "b"): (7, 6)})
    >>> texts = ("a", "b", "greatest(a, b)", "least(a, b)", "_start + 1")
    >>> [LeastValue(parse(text)).under(both) for text in texts]
    [2, 4, 6, 2, 1]
    """

    def __init__(self, expr: Expr) -> None:
        self._expr = expr
        self._read = sorted(expr.columns())
        self._rises = is_monotone_in(expr, self._read)
        cells = {name: Cell(at, pa.int64()) for at, name in enumerate(self._read)}
        found = row_function(expr, cells, set())
        self._row_function = found[0] if found is not None and found[1] == pa.int64() else None

    def at(self, cti: int) -> int:
        """The least value where only the starts of rows have a promise."""
        if cti == INFINITY:
            return INFINITY
        if not self._rises:
            return MIN_TIME
        return self._value([cti if name == "_start" else MIN_TIME for name in self._read])

    def under(self, progress: Progress) -> int:
        """The least value under the promises for rows as they are."""
        if (
            not progress.column_promises
            or progress.ended
            or not self._rises
            or self._read == ["_start"]
        ):
            return self.at(progress.cti)
        column_promises = dict(progress.column_promises) | column_promise({"_start": progress.cti})
        corners = lowest_corners(column_promises, self._read)
        return min(self._value([corner[name] for name in self._read]) for corner in corners)

    def _value(self, corner: list[int]) -> int:
        if INFINITY in corner:
            return INFINITY  # no row has such a value
        try:
            value = self._evaluate(corner)
        except (ThalwegError, pa.ArrowException):
            return MIN_TIME
        return MIN_TIME if value is None else max(MIN_TIME, int(value))

    def _evaluate(self, corner: list[int]) -> Any:
        if self._row_function is not None:
            try:
                return self._row_function(corner)
            except NeedsKernel:
                pass
        columns = zip(self._read, corner, strict=True)
        found = self._expr.evaluate(Frame({name: pa.array([v]) for name, v in columns}, 1))[0]
        if pa.types.is_timestamp(found.type):  # promises are in ticks, whatever a column shows
            found = found.cast(pa.timestamp("us")).cast(pa.int64())
        return found.as_py()

    def move(self, before: Progress) -> Progress:
        """The progress of rows that now start at the expression; which of them still change stays
        as it was."""
        cti = self.under(before)
        if not before.scoped and not before.group_column_promises and not before.areas:
            return Progress(cti, before.scope_columns, column_promises=before.column_promises)
        scoped = {scope: self.at(time) for scope, time in before.scoped.items()}
        for scope, column_promises in before.group_column_promises.items():
            of_group = Progress(
                before.of(scope),
                column_promises=merge_column_promises(before.column_promises, column_promises),
            )
            scoped[scope] = self.under(of_group)
        return Progress(
            cti,
            before.scope_columns,
            {scope: time for scope, time in scoped.items() if time > cti},
            before.column_promises,
            areas=before.areas.map(self._moved).merge(NO_AREAS, cti),
        )

    def _moved(self, time: int) -> int:
        return time if time == MIN_TIME else self.at(time)
