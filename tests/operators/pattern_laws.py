"""Queries with patterns, for the table of laws: every context of a sequence, barriers, regular
patterns."""

from __future__ import annotations

from collections.abc import Callable

import thalweg as tw
from thalweg.plan.nodes import Node, Source
from thalweg.plan.sequences import MODES, Mode
from thalweg.stream import Stream

__all__ = ["patterns"]


def patterns(a: Source, b: Source) -> dict[str, Callable[[], Node]]:
    """Builders by name, over two sources with the columns k and v."""
    one, two = Stream(a), Stream(b)

    def sequence(mode: Mode, *, exact: bool = False, barrier: bool = False) -> Callable[[], Node]:
        odd = {"y": two.where("v % 2 = 1")} if barrier else None
        return lambda: (
            tw.sequence(
                {"x": one, "y": two}, "k", mode=mode, within=9, exact=exact, not_between=odd
            ).node
        )

    found = {f"sequence {mode}": sequence(mode) for mode in MODES}
    found |= {f"sequence {mode}, exact": sequence(mode, exact=True) for mode in MODES}
    found |= {f"sequence {mode}, barrier": sequence(mode, barrier=True) for mode in MODES}
    found |= {
        "sequence chronicle, three steps": lambda: (
            tw.sequence({"x": one, "y": two, "z": one}, "k", mode="chronicle", within=12).node
        ),
        "sequence chronicle in a group": lambda: (
            one.group_apply(
                ["k"],
                lambda group: tw.sequence(
                    {"x": group, "y": group}, mode="chronicle", within=6, select=["x.v"]
                ),
            ).node
        ),
    }
    rising = tw.then(
        tw.event("v is not null", keep={"top": "v"}),
        tw.repeated(tw.event("v > top", keep={"top": "v"})),
    )

    def detect(*keys: str, overlap: bool = True) -> Callable[[], Node]:
        groups = one.group_by(*keys) if keys else one
        registers = {"top": "int64"}
        return lambda: groups.detect(rising, within=10, registers=registers, overlap=overlap).node

    return found | {
        "detect": detect(),
        "detect by key": detect("k"),
        "detect by key, without overlap": detect("k", overlap=False),
    }
