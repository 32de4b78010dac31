"""What happens when the rows of a query's input come one by one, for a picture of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from thalweg.errors import PlanError
from thalweg.io.feeds import Feed
from thalweg.model.clocks import Clock
from thalweg.model.element_batches import elements_of
from thalweg.model.elements import Adjust, Cti, Insert, Payload
from thalweg.model.time import MIN_TIME
from thalweg.run.engine import Engine
from thalweg.run.pulling import feeds_of
from thalweg.stream import Stream

__all__ = ["Bar", "Story", "story_of"]

MOST = 200
"""Rows of input that a picture has room for."""


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
        promised = min(map(engine.late_before, engine.sources))
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
