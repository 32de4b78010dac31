"""Adjusts that leave LMerge, by disorder: by payload, by group, half-frozen only.

`one input` is what a single replica sends. By payload over different forms the merge sends more
than one replica: a revised count is another payload, and every replica is revised at other times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks.repro import Line, draw_series, point
from benchmarks.repro.merge_streams import make_merge, play
from benchmarks.repro.revised_counts import COUNTS, revised_counts
from thalweg.plan.merging import MergePolicy

TITLE = "Output size of LMerge, increasing disorder"
INPUTS = 3
HALF = MergePolicy(insert="half frozen")


def series(scale: float) -> Iterator[Line]:
    count = max(int(50_000 * scale), 2_000)
    for percent in (0, 10, 20, 30, 40, 50, 60):
        different = [revised_counts(count, percent / 100, form=form) for form in range(INPUTS)]
        single = sum(int(b.is_adjust.sum()) for b in different[0] if b.is_adjust is not None)
        yield point("lmerge-4", "one input", percent, "adjusts", single, "elements")
        for kind, streams in (("copies", different[:1] * INPUTS), ("forms", different)):
            cases: dict[str, dict[str, object]] = {
                f"by payload, {kind}": {},
                f"by group, {kind}": {"groups": ("x",)},
                f"half frozen, {kind}": {"groups": ("x",), "policy": HALF},
            }
            for name, options in cases.items():
                run = play(make_merge("R3+", COUNTS.node.schema, INPUTS, **options), streams)
                yield point("lmerge-4", name, percent, "adjusts", run.adjusts, "elements")


def draw(lines: Iterable[Line], path: Path) -> None:
    draw_series(lines, path, title=TITLE, x="disorder, %")
