"""Methods of a stream that change when its rows start and end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from thalweg.expr import Expr, ExprLike, col
from thalweg.model.time import Duration, duration_us
from thalweg.plan import nodes
from thalweg.plan.clock import as_ticks
from thalweg.stream import grouped, streams
from thalweg.stream.arguments import On, duration_or_expr, key_pairs, lasting_ticks
from thalweg.stream.planned_stream import PlannedStream
from thalweg.windows.kinds import positive_ticks

if TYPE_CHECKING:
    from thalweg.stream.streams import Stream

__all__ = ["LifetimeMethods"]


class LifetimeMethods(PlannedStream):
    """New lifetimes for the same payloads."""

    __slots__ = ()

    def set_duration(self, duration: Duration | Expr | None) -> Stream:
        """Every row lasts this long; `None` or `"forever"`: without end.

        An expression over `_start` and the columns (`col("ttl")`, or text that is no duration, such
        as `"ttl * 2"`) gives each row its own; a row with a null or no positive one is left out.
        """
        lasts = duration_or_expr(duration)
        if isinstance(lasts, Expr):
            return streams.Stream(nodes.Retime(self.node, col("_start"), col("_start") + lasts))
        return streams.Stream(nodes.SetDuration(self.node, lasting_ticks(lasts, "set_duration")))

    def points(self) -> Stream:
        """Every row lasts the smallest duration."""
        return self.set_duration(1)

    def alter_lifetime(self, *, start: ExprLike, duration: Duration | None) -> Stream:
        """New starts from an expression over `_start` and the columns, one duration for all."""
        ticks = as_ticks(self._read(start), nodes.lifetime_schema(self.schema))
        return streams.Stream(
            nodes.AlterLifetime(self.node, ticks, lasting_ticks(duration, "alter_lifetime"))
        )

    def shift(self, by: Duration | Expr) -> Stream:
        """Every lifetime moves: by a duration (`"1 min"`, `"-5 s"`), or by an expression such as
        `col("delay")`."""
        return streams.Stream(
            nodes.Shift(self.node, by if isinstance(by, Expr) else duration_us(by, what="shift"))
        )

    def extend(self, by: Duration) -> Stream:
        """Every end moves; a negative duration shortens, and a row with nothing left is dropped."""
        return streams.Stream(nodes.Extend(self.node, duration_us(by, what="extend")))

    def clip_duration(self, limit: Duration) -> Stream:
        """No row lasts longer than this."""
        return streams.Stream(nodes.ClipDuration(self.node, positive_ticks(limit, "clip_duration")))

    def clip_by(self, other: Stream, on: On = None) -> Stream:
        """Each row ends, at the latest, at the next start of a matching row of the other stream."""
        return streams.Stream(
            nodes.ClipBy(self.node, streams.require_stream(other, "clip_by").node, *key_pairs(on))
        )

    def edges(self, on: On = None) -> Stream:
        """Samples of a signal: each row lasts until the next row of the same key starts."""
        lasting = self.set_duration(None)
        return lasting.clip_by(lasting, on)

    def point_at_end(self) -> Stream:
        """A point where each row ends."""
        return streams.Stream(nodes.PointAtEnd(self.node))

    def chop(self, period: Duration, offset: Duration = 0) -> Stream:
        """Each row in pieces, cut where the grid `offset + k * period` passes through it."""
        return streams.Stream(
            nodes.Chop(
                self.node, positive_ticks(period, "chop"), duration_us(offset, what="chop offset")
            )
        )

    def stitch(self) -> Stream:
        """Rows of equal payload that touch become one."""
        return streams.Stream(nodes.Stitch(self.node))

    def in_order(self) -> Stream:
        """The same rows as inserts in the order of their starts, each when nothing can change it
        any more: for readers that need order, such as a merge at R0 or R1. A row waits for all that
        start before it to end."""
        return streams.Stream(nodes.InOrder(self.node))

    def hopping_lifetime(
        self, size: Duration, hop: Duration | None = None, offset: Duration = 0
    ) -> Stream:
        """Trill's hopping window as a lifetime: the start rounded up to the grid, then `size`."""
        ticks = positive_ticks(size, "hopping_lifetime size")
        step = ticks if hop is None else positive_ticks(hop, "hopping_lifetime hop")
        return streams.Stream(
            nodes.HoppingLifetime(
                self.node, ticks, step, duration_us(offset, what="hopping_lifetime offset")
            )
        )

    def quantize(
        self,
        size: Duration,
        hop: Duration | None = None,
        *,
        progress: Duration | None = None,
        offset: Duration = 0,
    ) -> Stream:
        """Trill's quantize: the start rounded down to the grid, the end up, at least `size`
        apart."""
        ticks = positive_ticks(size, "quantize size")
        step = ticks if hop is None else positive_ticks(hop, "quantize hop")
        finer = None if progress is None else positive_ticks(progress, "quantize progress")
        return streams.Stream(
            nodes.Quantize(
                self.node, ticks, step, finer, duration_us(offset, what="quantize offset")
            )
        )

    def session_lifetime(
        self, timeout: Duration, *, max_duration: Duration | None = None
    ) -> Stream:
        """Trill's session as a lifetime: each row lasts until its session closes."""
        return grouped.GroupedStream(self.node, ()).session_lifetime(
            timeout, max_duration=max_duration
        )
