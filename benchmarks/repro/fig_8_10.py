"""Memory of a tumbling-window join, one side of which has late tuples, by how late they are
(Q8-4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
        yield from compare("8-10", Plan(unions, _joined, length_s=45), delay, "OOP", "IOP")


def _joined(united: list[tw.Stream]) -> tw.Stream:
    return united[0].window_join(united[1], "key", window=tw.same_window("2 s"))


def draw(lines: Iterable[Line], path: Path) -> None:
    draw_series(lines, path, title=TITLE, x="delay of the late tuples (s)")
