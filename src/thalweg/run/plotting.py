"""`stream.plot()`: a query over a little input, drawn as a timeline.

The horizontal axis is time as the events tell it; downwards is the order of arrival. A row of the
input is a bar from its start to its end, or a dot where it is a point; the dashed steps are the
promise (CTI), to the left of which nothing more may come; a row that came behind it is marked as
late. Below, each answer stands at the arrival that brought it out: a filled bar while it holds, a
crossed one where it was taken back later. Grey bands are the windows of the answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thalweg.errors import PlanError, require_package
from thalweg.io.feeds import Feed
from thalweg.model.batch import elements_of
from thalweg.model.clocks import Clock
from thalweg.model.elements import Adjust, Cti, Insert, Payload
from thalweg.model.time import INFINITY, MIN_TIME
from thalweg.run.engine import Engine
from thalweg.run.pulling import feeds_of
from thalweg.stream import Stream, draws_streams

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Story", "Timeline", "plot", "story_of"]

MOST = 200
"""Rows of input that a picture has room for."""
_DAY = 86_400_000_000
"""Dates are days since 1970 to matplotlib."""
_COLOURS = ("#3b6ea5", "#c8553d", "#4f8a4c", "#8a6fb0")
_PROMISE, _WINDOW, _GONE = "#b08900", "#eeeeee", "#c8553d"


@dataclass
class Bar:
    """Something that lasts, and the arrival at which it was seen."""

    at: int
    start: int
    end: int
    text: str
    source: str = ""
    taken_back: bool = False
    late: bool = False


@dataclass(frozen=True)
class Story:
    """What a picture shows: rows as they came, answers as they went, and the promises between."""

    rows: list[Bar]
    answers: list[Bar]
    promises: list[tuple[int, int]]
    """(arrival, time): from this arrival on nothing before the time comes any more."""
    clock: Clock


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


def story_of(
    query: Stream, inputs: Mapping[str, Feed] | None = None, *, consistency: str = "speculative"
) -> Story:
    """What happens when the rows of the input come one by one."""
    engine = Engine(query, consistency=consistency)
    rows: list[Bar] = []
    answers: list[Bar] = []
    promises: list[tuple[int, int]] = []
    at = 0
    for name, element in _arrivals(engine, inputs):
        if at > MOST:
            raise PlanError(
                f"plot: a picture has room for {MOST} rows of input; give it a part of them."
            )
        late = engine.late_count(name)
        out = engine.push(name, element)
        if isinstance(element, Insert):
            at += 1
            bar = Bar(at, element.start, element.end, "", name)
            bar.late = engine.late_count(name) > late
            rows.append(bar)
        promised = min(engine._ingress(source).promised for source in engine.sources)
        if promised > MIN_TIME and (not promises or promised > promises[-1][1]):
            promises.append((at, promised))
        _follow(elements_of(out), at, answers)
    _follow(elements_of(engine.finish()), at + 1, answers)
    return Story(rows, answers, promises, engine.clock)


def _arrivals(
    engine: Engine, inputs: Mapping[str, Feed] | None
) -> Iterator[tuple[str, Insert | Adjust | Cti]]:
    """The elements of all sources, which take turns."""
    feeds = {
        name: elements_of(engine.batches(name, feed))
        for name, feed in feeds_of(engine, inputs).items()
    }
    while feeds:
        for name in list(feeds):
            element = next(feeds[name], None)
            if element is None:
                del feeds[name]
            elif not isinstance(element, Cti) or element.time > MIN_TIME:
                yield name, element


def _follow(changes: Iterator[Any], at: int, answers: list[Bar]) -> None:
    for change in changes:
        if isinstance(change, Cti):
            continue
        text = _shown(change.payload)
        if isinstance(change, Insert):
            answers.append(Bar(at, change.start, change.end, text))
            continue
        same = (text, change.start, change.end)
        matching = [b for b in answers if (b.text, b.start, b.end) == same and not b.taken_back]
        matching[-1].taken_back = True
        if change.new_end > change.start:
            answers.append(Bar(at, change.start, change.new_end, text))


def _shown(payload: Payload) -> str:
    values = (f"{v:.4g}" if isinstance(v, float) else str(v) for v in payload.values())
    return ", ".join(values)


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
