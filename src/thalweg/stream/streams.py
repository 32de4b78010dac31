"""A stream: one logical node, and the methods that build queries from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from thalweg.errors import PlanError
from thalweg.io.frames import is_frame
from thalweg.model.time import Duration, duration_us
from thalweg.plan import nodes
from thalweg.plan.conflating import conflating_source, newest_window
from thalweg.plan.wid_windows import stamped
from thalweg.progress.conflation import Conflation, NewestWindow
from thalweg.stream import grouped, windowed
from thalweg.stream.arguments import column_names
from thalweg.stream.join_methods import JoinMethods
from thalweg.stream.lifetime_methods import LifetimeMethods
from thalweg.stream.planned_stream import draws_streams
from thalweg.stream.window_methods import WindowMethods
from thalweg.windows.kinds import hopping, positive_ticks

if TYPE_CHECKING:
    from thalweg.stream.windowed import WindowedStream

__all__ = [
    "Stream",
    "draws_streams",
    "node_of",
    "require_stream",
]


class Stream(WindowMethods, LifetimeMethods, JoinMethods):
    """A continuous query: a table that changes over time, and what it is made from."""

    __slots__ = ()

    def update_key(
        self,
        *columns: str,
        schedule: str = "gain",
        freshness: Duration | None = None,
        targets: Mapping[Any, Duration] | None = None,
        inputs: Sequence[str] = (),
        truth: str | None = None,
        capacity: int = 256 * 2**20,
        adaptive: bool = False,
    ) -> Stream:
        """Only the newest row of each key matters: a row replaces the one before it that has the
        same values in these columns (without columns: the one before it).

        When rows come faster than they are worked on, a queue before this source keeps the newest
        row of each key and serves keys by `schedule`; what it leaves out is counted. `freshness` is
        how old an answer may be, `targets` says it for single keys (a value, or a tuple of them; an
        application that looks at a key r times a second sets 1/r), and `schedule="deadline"` serves
        the key that is due first. `capacity` is the bytes that waiting rows and keys may take.
        With `adaptive` all rows are served as long as they can be within `freshness`.

        With `inputs` the source is a union of several: of a key it passes on the youngest row at
        hand and drops what is older, one row for each time; where two inputs have one time, that of
        `truth` counts, else the first that came.

        >>> quotes = source("quotes", {"symbol": "string", "price": "int64"}, insert_only=True)
        >>> quotes.update_key("symbol").where("price > 10")
        <Stream where (symbol string, price int64)>
        """
        deadlines = tuple(
            (
                key if isinstance(key, tuple) else (key,),
                positive_ticks(target, "update_key, targets"),
            )
            for key, target in (targets or {}).items()
        )
        fresh = None if freshness is None else positive_ticks(freshness, "update_key, freshness")
        queue = Conflation(
            columns,
            schedule,
            fresh,
            capacity,
            targets=deadlines,
            inputs=tuple(inputs),
            truth=truth,
            adaptive=adaptive,
        )
        return Stream(conflating_source(self.node, queue))

    def newest_window(
        self, size: Duration, hop: Duration | None = None, *, rule: str = "auto"
    ) -> WindowedStream:
        """Behind `update_key`: the newest window of each key matters, not the newest row. The queue
        serves whole windows, so that under overload windows are left out and none is answered from
        half of its rows.

        `rule` says which window of a key is the newest: the last that closed (`lazy`), the last
        that started (`eager`), or what fits the gaps between its rows (`auto`).

        >>> quotes = source("quotes", {"symbol": "string", "price": "int64"}, insert_only=True)
        >>> from thalweg.plan.aggregates import max_
        >>> quotes.update_key("symbol").newest_window(10, 5).aggregate(top=max_("price"))
        <Stream set_duration (symbol string, top int64)>
        """
        ticks = positive_ticks(size, "newest_window, size")
        every = ticks if hop is None else positive_ticks(hop, "newest_window, hop")
        node = newest_window(self.node, NewestWindow(ticks, every, rule))
        assert node.conflation is not None
        return windowed.MarkedWindows(node, node.conflation.key, hopping(every, every))

    def describe(
        self,
        *,
        every: Duration | None = None,
        offset: Duration = 0,
        groups: str | Sequence[str] | None = None,
    ) -> Stream:
        """The same rows; of the promises only those that are of use above: on the grid `offset + k
        * every`, for these groups."""
        period = None if every is None else positive_ticks(every, "describe, every")
        columns = None if groups is None else column_names(groups)
        return Stream(
            nodes.Describe(self.node, period, duration_us(offset, what="describe, offset"), columns)
        )

    def number_rows(self, *, partition_by: str | Sequence[str] = ()) -> Stream:
        """Each row with the number `_row` under which it arrives here, from 1; row windows after it
        count by that number."""
        return Stream(nodes.NumberRows(self.node, column_names(partition_by)))

    def stamp_arrivals(self, *, every: Duration = "1 s") -> Stream:
        """Each row with the time `_arrived` at which it came in, in microseconds since the epoch,
        rounded down to a multiple of `every`. The column progresses with the clock, so that windows
        over it close."""
        return Stream(stamped(self.node, positive_ticks(every, "stamp_arrivals")))


def node_of(query: object, what: str) -> nodes.Node:
    """The plan of a query that is given as a stream or as its node."""
    return query if isinstance(query, nodes.Node) else require_stream(query, what).node


def _what_else(value: object) -> str:
    """What was given instead of a stream, and how one is made of it."""
    if isinstance(value, windowed.WindowedStream | grouped.GroupedStream):
        return f"{value!r}. Finish it with .aggregate(...) or .top_k(...)."
    if is_frame(value):
        return f"a {type(value).__name__}. from_frame(frame, time=...) makes it a stream."
    if isinstance(value, bytes):
        return f"{len(value):,} bytes. A snapshot comes second: Engine.restore(query, snapshot)."
    return f"{value!r}."


def require_stream(value: object, what: str) -> Stream:
    if not isinstance(value, Stream):
        raise PlanError(f"{what} must be a stream; got {_what_else(value)}")
    return value
