"""What promises over columns say about an expression: the least value it may have in a row that
still changes.

A row that still changes lies outside every box, by one of the box's columns; and it starts at the
CTI or later. So it is at or above one of the lowest corners of that region, and a function that
rises with each column is least at a corner. The progress of max(a, b) follows from a joint promise
on both, that of min(a, b) needs one on each.
"""

from __future__ import annotations

import pyarrow as pa

from thalweg.errors import ThalwegError
from thalweg.expr import Expr, Frame, is_monotone_in
from thalweg.model.boxes import box, lowest_corners, merge_boxes
from thalweg.model.progress import Progress
from thalweg.model.time import INFINITY, MIN_TIME
from thalweg.plan.nodes import Node
from thalweg.plan.progressing import progresses

__all__ = ["has_promises", "missing_promise", "move_progress", "promise_of"]


def has_promises(start: Expr, node: Node) -> bool:
    """Whether the rows of a node, started at `start`, could ever have a promise before the end."""
    return not start.columns() or progresses(start, node)


def missing_promise(start: Expr) -> str:
    """Why rows that start at an expression have no promise, in words."""
    return (
        f"nothing is promised about {start}, so that only the end of the input is a promise; punctuation on its columns, or "
        "progressing= on the source, would be one"
    )


def promise_of(expr: Expr, progress: Progress) -> int:
    """A promise for rows that start at `expr`, from the promises of rows as they are.

    >>> from thalweg.expr import parse
    >>> both = Progress(0, boxes={("a",): (2,), ("b",): (4,), ("a", "b"): (7, 6)})
    >>> [promise_of(parse(text), both) for text in ("a", "b", "greatest(a, b)", "least(a, b)", "_start + 1")]
    [2, 4, 6, 2, 1]
    """
    if progress.ended:
        return INFINITY
    read = sorted(expr.columns())
    if not is_monotone_in(expr, read):
        return MIN_TIME
    boxes = dict(progress.boxes) | box({"_start": progress.cti})
    return min(_value(expr, corner) for corner in lowest_corners(boxes, read))


def _value(expr: Expr, corner: dict[str, int]) -> int:
    if INFINITY in corner.values():
        return INFINITY  # no row has such a value
    frame = Frame({name: pa.array([value]) for name, value in corner.items()}, 1)
    try:
        found = expr.evaluate(frame)[0]
        if pa.types.is_timestamp(found.type):  # promises are in ticks, whatever a column shows
            found = found.cast(pa.timestamp("us")).cast(pa.int64())
        value = found.as_py()
    except (ThalwegError, pa.ArrowException):
        return MIN_TIME
    return MIN_TIME if value is None else max(MIN_TIME, int(value))


def move_progress(start: Expr, before: Progress) -> Progress:
    """The progress of rows that now start at an expression; which of them still change stays as it
    was."""
    cti = promise_of(start, before)
    scoped = {scope: promise_of(start, Progress(time)) for scope, time in before.scoped.items()}
    for scope, boxes in before.group_boxes.items():
        said = Progress(before.of(scope), boxes=merge_boxes(before.boxes, boxes))
        scoped[scope] = promise_of(start, said)
    return Progress(
        cti,
        before.scope_columns,
        {scope: time for scope, time in scoped.items() if time > cti},
        before.boxes,
    )
