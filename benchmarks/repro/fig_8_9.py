"""Memory of a tumbling-window join of two unions, by the skew between the links of each (Q8-3).

The windows are those of the thesis's text, ten seconds (its query says ten minutes). Changed: links
are synthetic, and their packets and keys fewer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import thalweg as tw
from benchmarks.repro import Line, draw_series
from benchmarks.repro.streams import SECOND
from benchmarks.repro.traffic import Link
from benchmarks.repro.whole_plans import Plan, compare

TITLE = "Tumbling-window join of two unions of links (Q8-3)"


def series(scale: float) -> Iterator[Line]:
    rate, keys = max(50, int(1_000 * scale)), max(500, int(10_000 * scale))
    for skew in (0, 20, 40, 60, 80, 100):
        behind = skew * SECOND
        unions = {
            "m1": [Link("a", rate, keys), Link("b", rate, keys, behind)],
            "m2": [Link("c", rate, keys), Link("d", rate, keys, behind)],
        }
        yield from compare("8-9", Plan(unions, joined, length_s=150), skew, "OOP", "IOP")


def joined(united: list[tw.Stream]) -> tw.Stream:
    return united[0].window_join(united[1], "key", window=tw.same_window("10 s"))


def draw(lines: Iterable[Line], path: Path) -> None:
    draw_series(lines, path, title=TITLE, x="skew (s)")
