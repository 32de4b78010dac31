"""Memory of a count per group over the union of two links, by the skew between them (Q8-2).

Skews are those of the thesis. Changed: links are synthetic, with 4,000 packets a second and 5,000
groups (110,000 and 65,536 there). `IOP with slack` is a line that the thesis does not have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import thalweg as tw
from benchmarks.repro import Line, draw_series
from benchmarks.repro.streams import SECOND
from benchmarks.repro.traffic import Link
from benchmarks.repro.whole_plans import Plan, compare

TITLE = "Count per group over the union of two links (Q8-2)"


def series(scale: float) -> Iterator[Line]:
    rate, groups = max(200, int(4_000 * scale)), max(100, int(5_000 * scale))
    for skew in (0, 10, 20, 30, 40):
        links = [Link("m1", rate, groups), Link("m2", rate, groups, skew * SECOND)]
        yield from compare(
            "8-8", Plan({"m": links}, _counted, length_s=130), skew, "OOP", "IOP", "IOP with slack"
        )


def _counted(united: list[tw.Stream]) -> tw.Stream:
    return united[0].group_by("key").tumbling("1 min").aggregate(n=tw.count())


def draw(lines: Iterable[Line], path: Path) -> None:
    draw_series(lines, path, title=TITLE, x="skew (s)")
