"""Queries with window joins, for the table of laws: every kind of window and of join, stamps,
chains, as-of, many inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import thalweg as tw
from thalweg.expr import Expr
from thalweg.plan.join_windows import JoinWindow
from thalweg.plan.nodes import JOIN_KINDS, Node, Source
from thalweg.stream import Stream

__all__ = ["window_joins"]

WINDOWS: dict[str, JoinWindow] = {
    "band": tw.band(before=4, after=3),
    "band after": tw.band(before=-2, after=6),
    "ranges": tw.ranges(left=5, right=3),
    "same window": tw.same_window(8, offset=1),
    "widjoin": tw.widjoin(left=(6, 3), right=(4, 4, 1), match=("i - 1", "i + 1")),
    "widjoin with gaps": tw.widjoin(left=(2, 5), right=(9, 3), match="2 * i"),
}


def window_joins(a: Source, b: Source) -> dict[str, Callable[[], Node]]:
    """Builders by name, over two sources with the columns k and v."""
    one, two = Stream(a), Stream(b)

    def joined(
        window: str, how: str = "inner", where: Expr | str | None = None, **times: str
    ) -> Callable[[], Node]:
        more: dict[str, Any] = {"how": how, "where": where, **times}
        return lambda: one.window_join(two, "k", window=WINDOWS[window], **more).node

    found = {f"window_join {window}": joined(window) for window in WINDOWS}
    found |= {
        f"window_join {how}, {window}": joined(window, how)
        for how in JOIN_KINDS
        if how != "inner"
        for window in ("band", "widjoin")
    }
    found |= {
        f"window_join {how}, same window, with a predicate": joined(
            "same window", how, "l.v <= r.v"
        )
        for how in JOIN_KINDS
    }
    found |= {
        f"window_join at the {at} time": joined("band", at=at)
        for at in ("earlier", "left", "right")
    }
    found |= {
        f"window_join {how} at its own time": joined("band", how, at=how)
        for how in ("left", "right")
    }
    found |= {
        "window_join without keys": lambda: (
            one.window_join(two, window=WINDOWS["ranges"], where="l.v = r.k").node
        ),
        "window_join with itself": lambda: (
            one.window_join(one, "k", window=tw.band(before=-1, after=5)).node
        ),
        "window_join of what starts at a column": lambda: (
            one.window_join(two, "k", window=WINDOWS["band"], left_time="_start * 2").node
        ),
        "window_join of a window_join": lambda: (
            one.window_join(two, "k", window=WINDOWS["band"], at="earlier", select=["l.k", "l.v"])
            .window_join(
                two, "k", window=WINDOWS["ranges"], left_time="left_time", times=("first", "third")
            )
            .node
        ),
        "join_all": lambda: (
            tw.join_all(
                {"a": one, "b": two, "c": one},
                "k",
                sizes={"a": 4, "b": 3, "c": 2},
                where="a.v <= c.v",
            ).node
        ),
        "asof_join": lambda: one.asof_join(two, "k").node,
        "asof_join within": lambda: one.asof_join(two, "k", within=4, how="left").node,
        "asof_join strictly before": lambda: one.asof_join(two, "k", within=5, exact=False).node,
        "asof_join left, without keys": lambda: one.asof_join(two, how="left").node,
        "tumbling after window_join": lambda: (
            one.window_join(two, "k", window=WINDOWS["band"], at="left")
            .group_by("k")
            .tumbling(5)
            .aggregate(n=tw.count())
            .node
        ),
        "groups by both times": lambda: (
            one.window_join(two, "k", window=WINDOWS["band"])
            .group_by("left_time", "right_time")
            .snapshot()
            .aggregate(n=tw.count())
            .node
        ),
        "group, window_join": lambda: (
            one.group_apply(
                "k", lambda g: g.window_join(g, window=WINDOWS["band"], how="left")
            ).node
        ),
        "right join": lambda: one.right_join(two, "k").node,
    }
    return found
