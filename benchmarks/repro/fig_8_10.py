"""Memory of a tumbling-window join, one side of which has late tuples, by how late they are
(Q8-4).

Q8-4 asks for windows of a minute (the text beside it says ten seconds). Lateness of up to ten
seconds is small against a minute, so that both plans then hold about the same: those lines are
`1 min`. The lines `2 s` are the same query with windows of two seconds, where the difference that
the thesis shows appears. Changed besides: rates and keys are scaled to this machine, and the
streams are synthetic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import thalweg as tw
from benchmarks.repro import Line, draw_series
from benchmarks.repro.streams import SECOND
from benchmarks.repro.traffic import Link
from benchmarks.repro.whole_plans import Plan, compare

TITLE = "Tumbling-window join with late tuples on one side (Q8-4)"


def series(scale: float) -> Iterator[Line]:
    rate, keys = max(200, int(2_000 * scale)), max(1_000, int(20_000 * scale))
    for delay in (0, 2, 4, 6, 8, 10):
        unions = {
            "m1": [Link("a", rate, keys)],
            "m3": [Link("m2", rate, keys), Link("c", 1, keys, delay * SECOND)],
        }
        for size, length in (("2 s", 45), ("1 min", 180)):
            plan = Plan(unions, _joined(size), length_s=length)
            yield from compare("8-10", plan, delay, "OOP", "IOP", variant=size)


def _joined(size: str) -> Callable[[list[tw.Stream]], tw.Stream]:
    return lambda united: united[0].window_join(united[1], "key", window=tw.same_window(size))


def draw(lines: Iterable[Line], path: Path) -> None:
    draw_series(lines, path, title=TITLE, x="delay of the late tuples (s)")
