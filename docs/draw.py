"""The diagrams of the documentation, by matplotlib: `python docs/draw.py` writes
docs/pictures/*.svg.

They are narrow, with large letters, so that they can be read on a telephone too. What they show of
running queries comes from running them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

import thalweg as tw

PICTURES = Path(__file__).parent / "pictures"
BLUE, RED, GREEN, GOLD, GREY = "#3b6ea5", "#c8553d", "#3d8b4f", "#b08900", "#8c8c8c"
WIDTH = 5.0

mpl.rcParams.update(
    {
        "svg.fonttype": "none",  # letters stay letters: sharp, and found by a search
        "svg.hashsalt": "thalweg",
        "font.family": "sans-serif",
        "font.size": 10,
        "figure.facecolor": "white",
    }
)


def _axes(height: float, *, last: float, label: str = "time") -> tuple[Figure, Axes]:
    figure = Figure(figsize=(WIDTH, height))
    figure.set_layout_engine("constrained")
    axes = figure.add_subplot()
    axes.set_xlim(-0.5, last)
    axes.set_yticks([])
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_xlabel(label)
    return figure, axes


def _bar(
    axes: Axes, start: float, end: float, y: float, colour: str, *, open_: bool = False
) -> None:
    axes.plot([start, end], [y, y], color=colour, linewidth=7, solid_capstyle="butt")
    if open_:
        axes.annotate(
            "", (end + 0.9, y), (end, y), arrowprops={"arrowstyle": "->", "color": colour}
        )


def lifetimes() -> Figure:
    """Events last: points, intervals, edges, and an end that becomes known."""
    figure, axes = _axes(2.7, last=13.4)
    rows: list[tuple[str, list[tuple[float, float]], str]] = [
        ("a point lasts one tick", [(2, 3)], BLUE),
        ("an interval has an end", [(4, 9)], BLUE),
        ("samples last until the next", [(1, 4), (4.15, 8), (8.15, 12)], BLUE),
    ]
    for number, (text, bars, colour) in enumerate(rows):
        y = -1.6 * number
        for start, end in bars:
            _bar(axes, start, end, y, colour)
        axes.text(-0.4, y + 0.5, text, ha="left", va="center")
    y = -1.6 * len(rows)
    axes.text(-0.4, y + 0.5, "an end that is known later: adjusted from ∞ to 8", va="center")
    _bar(axes, 3, 8, y, BLUE)
    axes.plot([8, 12], [y, y], color=RED, linewidth=7, linestyle=(0, (0.6, 0.4)), alpha=0.6)
    axes.set_ylim(y - 0.8, 1.1)
    return figure


def _counts() -> tuple[tw.Stream, list[tw.Element]]:
    packets = tw.source("packets", {"src": "string"}, disorder=6, late="drop", insert_only=True)
    starts = (2, 5, 12, 7, 15, 21, 14, 24, 9, 33, 28, 35, 44)
    rows: list[tw.Element] = [tw.point({"src": "a"}, start) for start in starts]
    return packets.tumbling(10).aggregate(n=tw.count()), rows


def promises() -> Figure:
    """Rows in order of arrival, and the promise that follows them."""
    from thalweg.run.story import story_of

    query, rows = _counts()
    story = story_of(query, {"packets": rows})
    figure, axes = _axes(3.0, last=47, label="time of the event")
    for row in story.rows:
        axes.plot(row.start, row.at, "o", color=GREY if row.late else BLUE, markersize=6)
        if row.late:
            axes.text(row.start - 1.2, row.at, "late", ha="right", va="center", color=RED)
    steps = [*story.promises, (len(story.rows) + 1, story.promises[-1][1])]
    axes.step(
        [t for _, t in steps], [at for at, _ in steps], where="pre", color=GOLD, linestyle="--"
    )
    axes.text(steps[-1][1] + 0.8, steps[-1][0] - 0.2, "promise (CTI)", color=GOLD)
    axes.annotate(
        "later arrivals",
        (-0.2, 13),
        (-0.2, 5),
        arrowprops={"arrowstyle": "->"},
        rotation=90,
        va="center",
    )
    axes.set_ylim(14.6, 0)
    return figure


def answers() -> Figure:
    """One query over the same rows: answers come early, are taken back, and become final."""
    query, rows = _counts()
    figure: Figure = query.plot({"packets": rows}).figure
    figure.set_size_inches(WIDTH, 4.6)
    return figure


def early_revised_final() -> Figure:
    """The answer of one window while packets arrive."""
    figure, axes = _axes(2.5, last=10.4, label="when packets arrive")
    spans = [
        (0, 4, GREY, "open", "no answer yet"),
        (4, 6, GOLD, "2", "early: time has passed the window"),
        (6, 7.6, RED, "3", "revised: 2 is taken back, a late packet came"),
        (7.6, 10, GREEN, "3", "final: the promise has passed the window"),
    ]
    for number, (start, end, colour, value, text) in enumerate(spans):
        axes.barh(0, end - start, left=start, height=0.8, color=colour)
        axes.text(
            (start + end) / 2, 0, value, ha="center", va="center", color="white", weight="bold"
        )
        y = -0.95 - 0.62 * number
        axes.plot(0.1, y, "s", color=colour, markersize=8)
        axes.text(0.5, y, text, va="center")
    axes.set_ylim(-3.2, 0.6)
    axes.set_xticks([])
    return figure


def windows() -> Figure:
    """Six kinds of windows over the same events."""
    figure, axes = _axes(4.4, last=24.5)
    events = (1, 2.4, 3.2, 7, 8.2, 13, 14.6, 15.1, 16, 22)
    axes.plot(events, [0] * len(events), "o", color="black", markersize=5)
    axes.text(-0.4, 0.55, "events", va="center")
    kinds: list[tuple[str, list[tuple[float, float, int]]]] = [
        ("tumbling(6)", [(a, a + 6, 0) for a in (0, 6, 12, 18)]),
        ("hopping(6, 3)", [(a, a + 6, n % 2) for n, a in enumerate((0, 3, 6, 9, 12, 15, 18))]),
        ("session(gap 3)", [(1, 3.4, 0), (7, 8.4, 0), (13, 16.2, 0), (22, 22.3, 0)]),
        ("snapshot: of rows that last 4", [(a, b, 0) for a, b in _snapshots(events, 4)]),
        ("count_by_start(3)", [(1, 3.4, 0), (2.4, 7.2, 1), (3.2, 8.4, 2)]),
        ("calendar: days of a zone", [(-0.4, 5, 0), (5, 12, 0), (12, 19, 0), (19, 24, 0)]),
    ]
    y = -1.0
    for name, bars in kinds:
        axes.text(-0.4, y, name, va="center")
        deepest = max(lane for _, _, lane in bars)
        for start, end, lane in bars:
            at = y - 0.75 - 0.5 * lane
            axes.barh(
                at, end - start, left=start, height=0.42, color=BLUE, alpha=0.55, edgecolor="white"
            )
        y -= 1.75 + 0.5 * deepest
    axes.set_ylim(y + 0.5, 1.1)
    axes.set_xticks([])
    return figure


def _snapshots(events: tuple[float, ...], lasting: float) -> list[tuple[float, float]]:
    edges = sorted({*events, *(start + lasting for start in events)})
    inside = list(pairwise(edges))
    return [(a, b) for a, b in inside if any(s <= a < s + lasting for s in events) and b < 24]


def fragments() -> Figure:
    """A query on Spark: what runs where rows are read, and what runs in buckets."""
    figure = Figure(figsize=(WIDTH, 4.4))
    figure.set_layout_engine("constrained")
    axes = figure.add_subplot()
    axes.set_xlim(0, 10)
    axes.set_ylim(0, 10)
    axes.axis("off")
    for number in range(2):
        left = 0.2 + 5 * number
        _box(axes, left, 8.9, 4.6, 0.9, f"files, part {number + 1}", GREY)
        _box(axes, left, 6.6, 4.6, 1.5, "where len > 40\nsums by src and minute", BLUE)
        _box(
            axes,
            left,
            2.6,
            4.6,
            1.9,
            f"bucket {number + 1}: some of src\nlast 10 minutes\nstate in RocksDB",
            GREEN,
        )
        _arrow(axes, left + 2.3, 8.9, left + 2.3, 8.15)
        for other in range(2):
            _arrow(axes, left + 2.3, 6.55, 0.2 + 5 * other + 2.3, 4.55)
        _arrow(axes, left + 2.3, 2.55, 5, 1.35)
    axes.text(
        5, 5.55, "exchange by src, with promises", ha="center", va="center", backgroundcolor="white"
    )
    _box(axes, 2.7, 0.3, 4.6, 1.0, "answers, early and final", GOLD)
    return figure


def _box(
    axes: Axes, x: float, y: float, width: float, height: float, text: str, colour: str
) -> None:
    shape = "round,pad=0,rounding_size=0.15"
    axes.add_patch(
        FancyBboxPatch((x, y), width, height, boxstyle=shape, facecolor=colour, edgecolor="none")
    )
    axes.text(x + width / 2, y + height / 2, text, ha="center", va="center", color="white")


def _arrow(axes: Axes, x: float, y: float, to_x: float, to_y: float) -> None:
    axes.annotate("", (to_x, to_y), (x, y), arrowprops={"arrowstyle": "->", "color": GREY})


DRAWN: dict[str, Callable[[], Figure]] = {
    "lifetimes": lifetimes,
    "promises": promises,
    "answers": answers,
    "early-revised-final": early_revised_final,
    "windows": windows,
    "fragments": fragments,
}


def draw(folder: Path) -> None:
    """Write all pictures."""
    folder.mkdir(exist_ok=True)
    for name, make in DRAWN.items():
        make().savefig(folder / f"{name}.svg", metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURES)
