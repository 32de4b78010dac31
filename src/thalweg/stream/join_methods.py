"""Methods of a stream that take other streams: unions and joins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from thalweg.expr import ExprLike, as_expr
from thalweg.model.time import Duration
from thalweg.plan.expressions import START
from thalweg.plan.join_windows import JoinWindow
from thalweg.plan.nodes.union import union_of
from thalweg.stream import joins, streams
from thalweg.stream.arguments import Columns, On
from thalweg.stream.planned_stream import PlannedStream

if TYPE_CHECKING:
    from thalweg.stream.streams import Stream

__all__ = ["JoinMethods"]


class JoinMethods(PlannedStream):
    """What is made of several streams."""

    __slots__ = ()

    def union(self, *others: Stream) -> Stream:
        """The rows of all."""
        added = (streams.require_stream(other, "union").node for other in others)
        return streams.Stream(union_of([self.node, *added]))

    def join(
        self,
        other: Stream,
        on: On = None,
        *,
        where: ExprLike | None = None,
        how: str = "inner",
        select: Columns | None = None,
        left_only: Columns | None = None,
        right_only: Columns | None = None,
        endless: str | Sequence[str] = (),
    ) -> Stream:
        """Rows of both that match, while both last.

        `where` and `select` write `l.x` and `r.x` (or just `x` where only one side has it). Without
        `select` the result has the left columns, then the right ones without the keys, `_right`
        added to names that clash. In an outer join the columns of the missing side are null, unless
        `left_only` or `right_only` says otherwise. A side whose rows never end is refused, unless
        `endless` names it (`"left"`, `"right"`): it is then kept for ever, as a table of reference
        is.
        """
        right = streams.require_stream(other, "join").node
        kept = (endless,) if isinstance(endless, str) else tuple(endless)
        columns = joins.JoinColumns(select, left_only, right_only)
        return streams.Stream(
            joins.join_node(self.node, right, on, where, how, columns, endless=kept)
        )

    def left_join(
        self,
        other: Stream,
        on: On = None,
        *,
        where: ExprLike | None = None,
        select: Columns | None = None,
    ) -> Stream:
        """The join, and the left rows while nothing matches them."""
        return self.join(other, on, where=where, how="left", select=select)

    def right_join(
        self,
        other: Stream,
        on: On = None,
        *,
        where: ExprLike | None = None,
        select: Columns | None = None,
    ) -> Stream:
        """The join, and the right rows while nothing matches them."""
        return self.join(other, on, where=where, how="right", select=select)

    def full_join(
        self,
        other: Stream,
        on: On = None,
        *,
        where: ExprLike | None = None,
        select: Columns | None = None,
    ) -> Stream:
        """The join, and the rows of both sides while nothing matches them."""
        return self.join(other, on, where=where, how="full", select=select)

    def semi_join(self, other: Stream, on: On = None, *, where: ExprLike | None = None) -> Stream:
        """The left rows while something matches them."""
        return self.join(other, on, where=where, how="semi")

    def anti_join(self, other: Stream, on: On = None, *, where: ExprLike | None = None) -> Stream:
        """The left rows while nothing matches them."""
        return self.join(other, on, where=where, how="anti")

    def window_join(
        self,
        other: Stream,
        on: On = None,
        *,
        window: JoinWindow,
        where: ExprLike | None = None,
        how: str = "inner",
        select: Columns | None = None,
        at: str = "later",
        left_time: ExprLike = START,
        right_time: ExprLike = START,
        times: tuple[str, str] = ("left_time", "right_time"),
    ) -> Stream:
        """Rows of both whose times lie in a window together: `band`, `ranges`, `same_window` or
        `widjoin`.

        Results are points and carry both times in the columns `times`; `at` says which of them a
        result starts at: the `later` (the default) or `earlier` of both, `left` or `right`. The
        time of a stream is the start of its rows, or a column that carries the time of an earlier
        join. In outer, semi and anti joins a row counts as one: it is matched when it has a partner
        at all.
        """
        right = streams.require_stream(other, "window_join").node
        return streams.Stream(
            joins.window_join_node(
                self.node,
                right,
                on,
                where,
                how,
                select,
                window=window,
                at=at,
                times=(as_expr(left_time), as_expr(right_time)),
                names=times,
            )
        )

    def asof_join(
        self,
        other: Stream,
        on: On = None,
        *,
        within: Duration | None = None,
        exact: bool = True,
        how: str = "inner",
        select: Columns | None = None,
        times: tuple[str, str] = ("left_time", "right_time"),
    ) -> Stream:
        """Each row with the latest row of the other stream that is not later, nor more than
        `within` earlier.

        Without `exact` a row of the same time does not count. When a better row comes late, the
        answer is taken back and given again. `how="left"` keeps rows without a match. Results are
        points at the left time.
        """
        right = streams.require_stream(other, "asof_join").node
        return streams.Stream(
            joins.asof_join_node(
                self.node, right, on, how, select, within=within, exact=exact, names=times
            )
        )
