"""Promises on demand between micro-batches: asked when somebody waits, and only then."""

from __future__ import annotations

from pathlib import Path

import thalweg as tw
from thalweg.model import Batch
from thalweg.shards.local_engine import DividedEngine
from thalweg.shards.reports.asks import ask_all_if_behind, ask_time, asks_file, write_asks
from thalweg.stream import Stream

SECOND = 1_000_000


class Clock:
    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds


def union() -> Stream:
    """A fast source that is in order, and one that is silent and can be asked."""
    fast = tw.source("fast", {"v": "int64"}, insert_only=True, progress=[tw.ordered()])
    silent = tw.source("silent", {"v": "int64"}, insert_only=True, progress=[tw.on_demand("2 s")])
    return fast.union(silent).tumbling("1 s").aggregate(n=tw.count())


def rows(*seconds: float) -> list[tw.Element]:
    return [tw.point({"v": 1}, int(second * SECOND)) for second in seconds]


def finals(batches: list[Batch]) -> list[int]:
    return [e.start // SECOND for e in tw.elements_of(batches) if isinstance(e, tw.Insert)]


def test_a_silent_source_is_asked_when_its_answer_releases_something() -> None:
    clock = Clock()
    engine = DividedEngine(union(), consistency="final", clock=clock)
    assert engine.asks() == {}, "nothing has come: nobody waits"
    out = engine.push("fast", rows(1_000.1, 1_000.2)) + engine.push("fast", rows(1_001.5))
    assert finals(out) == []
    # The window [1000, 1001) is over for the fast source. The silent one lags by two seconds.
    assert engine.asks() == {"silent": 1_003 * SECOND}
    clock.seconds = 1_002.9
    assert finals(engine.tick()) == []
    clock.seconds = 1_003.0
    assert finals(engine.tick()) == [1_000], "one tick after it could say enough"


def test_where_a_source_is_missing_that_cannot_be_asked_none_is() -> None:
    clock = Clock()
    engine = DividedEngine(union(), consistency="final", clock=clock)
    engine.push("fast", rows(1_000.1))
    # The window is not over for the fast source, which is in order and cannot be asked.
    assert engine.asks() == {}


def test_when_all_that_came_is_final_nobody_is_asked() -> None:
    clock = Clock()
    silent = tw.source("s", {"v": "int64"}, insert_only=True, progress=[tw.on_demand("2 s")])
    query = silent.tumbling("1 s").aggregate(n=tw.count())
    engine = DividedEngine(query, consistency="final", clock=clock)
    engine.push("s", rows(1_000.1))
    assert engine.asks() == {"s": 1_003 * SECOND}
    clock.seconds = 1_003.0
    assert finals(engine.tick()) == [1_000]
    assert engine.asks() == {}


def test_two_exchanges_are_followed_to_the_source() -> None:
    clock = Clock()
    silent = tw.source("s", {"v": "int64"}, insert_only=True, progress=[tw.on_demand("2 s")])
    counts = silent.group_by("v").tumbling("1 s").aggregate(n=tw.count())
    engine = DividedEngine(
        counts.group_by("n").tumbling("2 s").aggregate(m=tw.count()),
        consistency="final",
        clock=clock,
    )
    engine.push("s", rows(1_000.1))
    (when,) = engine.asks().values()
    assert when <= 1_004 * SECOND
    found: list[int] = []
    for _ in range(5):
        clock.seconds = max(engine.asks().values(), default=0) / SECOND or clock.seconds
        found += finals(engine.tick())
    assert (found, engine.asks()) == ([1_000], {})


def test_the_file_of_asks(tmp_path: Path) -> None:
    (tmp_path / "thalweg").mkdir()
    assert ask_time(asks_file(tmp_path), "s") is None
    write_asks(tmp_path, 4, {"s": 17})
    assert ask_time(asks_file(tmp_path), "s") == 17
    ask_all_if_behind(tmp_path, 4, ["s", "t"])
    assert ask_time(asks_file(tmp_path), "t") is None
    ask_all_if_behind(tmp_path, 5, ["s", "t"])
    assert ask_time(asks_file(tmp_path), "t") == 0
    asks_file(tmp_path).write_text("no JSON")
    assert ask_time(asks_file(tmp_path), "s") is None
