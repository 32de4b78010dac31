"""`stream.plot()`: a query over a little input, drawn as a timeline.

The horizontal axis is time as the events tell it; downwards is the order of arrival. A row of the
input is a bar from its start to its end, or a dot where it is a point; the dashed steps are the
promise (CTI), to the left of which nothing more may come; a row that came behind it is marked as
late. Below, each answer stands at the arrival that brought it out: a filled bar while it holds, a
crossed one where it was taken back later. Grey bands are the windows of the answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thalweg.errors import require_package
from thalweg.io.feeds import Feed
from thalweg.model.time import INFINITY
from thalweg.run.story import Story, story_of
from thalweg.stream import Stream, draws_streams

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Timeline", "plot"]

_DAY = 86_400_000_000
"""Dates are days since 1970 to matplotlib."""
_COLOURS = ("#3b6ea5", "#c8553d", "#4f8a4c", "#8a6fb0")
_PROMISE, _WINDOW, _GONE = "#b08900", "#eeeeee", "#c8553d"


class Timeline:
    """A picture of a query: shown by a notebook as it is, `.save(path)` by its suffix."""

    def __init__(self, figure: Figure) -> None:
        self.figure = figure

    def save(self, path: str | Path) -> None:
        """Write the picture; the suffix says as what: svg, png, pdf."""
        self.figure.savefig(path, bbox_inches="tight")

    def _repr_svg_(self) -> str:
        text = StringIO()
        self.figure.savefig(text, format="svg", bbox_inches="tight")
        return text.getvalue()


@draws_streams
def plot(
    query: Stream, inputs: Mapping[str, Feed] | None = None, *, consistency: str = "speculative"
) -> Timeline:
    """Run the query over its input, row by row, and draw what happens."""
    require_package("matplotlib", "plot", "plot")
    story = story_of(query, inputs, consistency=consistency)
    return Timeline(_drawn(story))


# ------------------------------------------------------------------------------------------------
# drawing


def _drawn(story: Story) -> Figure:
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(8, 1.6 + 0.16 * (len(story.rows) + 1.6 * len(story.answers))))
    heights = [max(len(story.rows), 3), max(1.6 * len(story.answers), 3)]
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=heights)
    scale = _Scale(story)
    for axes in (above, below):
        for start, end in {(bar.start, bar.end) for bar in story.answers}:
            axes.axvspan(*scale.span(start, end), facecolor=_WINDOW, edgecolor="white", zorder=0)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8)
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    _draw_rows(above, story, scale)
    _draw_answers(below, story, scale)
    below.set_xlim(*scale.limits)
    below.set_xlabel("time of the events", fontsize=9)
    if story.clock is not None:
        below.xaxis_date(story.clock.tz)
    figure.set_layout_engine("constrained")
    return figure


class _Scale:
    """Ticks as positions on the axis; what has no end reaches to its edge."""

    def __init__(self, story: Story) -> None:
        bars = story.rows + story.answers
        times = [b.start for b in bars] + [b.end for b in bars if b.end < INFINITY]
        times = times or [0, 1]
        margin = max((max(times) - min(times)) // 25, 1)
        self._clock = story.clock
        self._first, self._last = min(times) - margin, max(times) + margin

    @property
    def limits(self) -> tuple[Any, Any]:
        return self.at(self._first), self.at(self._last)

    @property
    def reach(self) -> int:
        return self._last - self._first

    def at(self, ticks: int) -> Any:
        kept = min(max(ticks, self._first), self._last)
        return kept if self._clock is None else kept / _DAY

    def span(self, start: int, end: int) -> tuple[Any, Any]:
        return self.at(start), self.at(end)


def _draw_rows(axes: Axes, story: Story, scale: _Scale) -> None:
    names = list(dict.fromkeys(bar.source for bar in story.rows))
    for bar in story.rows:
        colour = _COLOURS[names.index(bar.source) % len(_COLOURS)]
        left, right = scale.span(bar.start, bar.end)
        if bar.end - bar.start > scale.reach // 200:
            axes.plot([left, right], [bar.at] * 2, color=colour, linewidth=3, solid_capstyle="butt")
        else:
            axes.plot(left, bar.at, "o", color=colour, markersize=4)
        if bar.late:
            axes.plot(left, bar.at, "x", color="black", markersize=7)
    if story.promises:
        steps = [*story.promises, (len(story.rows) + 1, story.promises[-1][1])]
        axes.step(
            [scale.at(time) for _, time in steps],
            [at for at, _ in steps],
            where="pre",
            color=_PROMISE,
            linestyle="--",
            linewidth=1.2,
        )
        axes.annotate("promise", (scale.at(steps[-1][1]), steps[-1][0]), color=_PROMISE, fontsize=8)
    axes.invert_yaxis()
    axes.set_ylabel("rows as they arrive", fontsize=9)
    if len(names) > 1:
        for number, name in enumerate(names):
            axes.plot([], [], "s", color=_COLOURS[number % len(_COLOURS)], label=name)
        axes.legend(fontsize=8, frameon=False, loc="upper right")


def _draw_answers(axes: Axes, story: Story, scale: _Scale) -> None:
    for number, bar in enumerate(story.answers, start=1):
        left, right = scale.span(bar.start, bar.end)
        colour = _GONE if bar.taken_back else _COLOURS[0]
        axes.barh(
            number,
            right - left,
            left=left,
            height=0.7,
            color="white" if bar.taken_back else colour,
            edgecolor=colour,
            hatch="////" if bar.taken_back else None,
            linewidth=0.8,
        )
        text = f"{bar.text}  taken back" if bar.taken_back else bar.text
        axes.annotate(
            text,
            ((left + right) / 2, number),
            ha="center",
            va="center",
            fontsize=7,
            color="black" if bar.taken_back else "white",
            backgroundcolor="white" if bar.taken_back else colour,
        )
    axes.invert_yaxis()
    axes.set_ylabel("answers as they come", fontsize=9)
