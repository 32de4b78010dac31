"""Memory of a sliding count over the union of three links, by the delay of one of them (Q8-5).

Five minutes, every minute, as in the thesis. Changed: links are synthetic, with a thousand packets
a second each. `IOP with slack` is a line that the thesis does not have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import thalweg as tw
from benchmarks.repro import Line, draw_series
from benchmarks.repro.streams import SECOND
from benchmarks.repro.traffic import Link
from benchmarks.repro.whole_plans import Plan, compare

TITLE = "Sliding count over the union of three links (Q8-5)"


def series(scale: float) -> Iterator[Line]:
    rate = max(100, int(1_000 * scale))
    for delay in (0, 2, 4, 6, 8, 10):
        links = [Link("m1", rate, 100), Link("m2", rate, 100), Link("c", 1, 100, delay * SECOND)]
        yield from compare(
            "8-11", Plan({"m": links}, counted, length_s=400), delay, "OOP", "IOP", "IOP with slack"
        )


def counted(united: list[tw.Stream]) -> tw.Stream:
    return united[0].hopping("5 min", "1 min").aggregate(n=tw.count())


def draw(lines: Iterable[Line], path: Path) -> None:
    draw_series(lines, path, title=TITLE, x="delay of the third link (s)")
