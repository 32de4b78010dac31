"""Several columns of one stream progress: windows over a second one close, by punctuation on it or
by its own disorder. Flows are the case in point, which have a start and an end.

    row          start  -->  time         flow_end  -->  a column
    promise      CTI         about time   column promise            about the column
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import thalweg as tw
from thalweg.errors import LateEventError, TypeMismatchError, WindowError
from thalweg.model.punctuation import before, punctuation, within
from thalweg.shards.local_engine import DividedEngine

COLUMNS = {"k": "int64", "flow_end": "int64"}
ENGINES: dict[str, Callable[..., Any]] = {"in-process": tw.Engine, "divided": DividedEngine}


def _flows(**facts: Any) -> tw.Stream:
    return tw.source("s", COLUMNS, **{"insert_only": True, "disorder": 50, **facts})


def _flow(time: int, end: int, k: int = 1) -> tw.Insert:
    return tw.point({"k": k, "flow_end": end}, time)


def _news(out: list[Any]) -> list[tuple[Any, ...]]:
    return [
        (one.start, *one.payload.values())
        for one in tw.elements_of(out)
        if isinstance(one, tw.Insert)
    ]


WINDOWS: dict[str, Callable[[tw.Stream], tw.Stream]] = {
    "sliding over it": lambda s: s.sliding(10, over="flow_end").aggregate(n=tw.count()),
    "grouped": lambda s: s.group_by("k").sliding(10, over="flow_end").aggregate(n=tw.count()),
    "as the time of the stream": lambda s: (
        s.alter_lifetime(start="flow_end", duration=1).tumbling(10).aggregate(n=tw.count())
    ),
    "behind a filter": lambda s: (
        s.where("k > 0").sliding(10, over="flow_end").aggregate(n=tw.count())
    ),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("window", WINDOWS)
def test_windows_over_a_second_column_close_by_its_disorder(window: str, engine: str) -> None:
    query = WINDOWS[window](_flows(progressing={"flow_end": 6}))
    run = ENGINES[engine](query, consistency="final")
    assert not _news(run.push("s", [_flow(0, 7), _flow(1, 3), _flow(2, 15)]))
    closed = _news(run.push("s", [_flow(3, 16)]))
    assert [row[0] for row in closed] == [0]
    assert closed[0][-1] == 2
    assert not _news(run.push("s", [_flow(90, 12)]))  # time alone closes nothing
    assert [row[0] for row in _news(run.push("s", [_flow(91, 40)]))] == [10]


@pytest.mark.parametrize("window", WINDOWS)
def test_windows_over_a_second_column_close_by_punctuation(window: str) -> None:
    for facts in ({"progressing": "flow_end"}, {}):
        if not facts and window != "as the time of the stream":
            continue  # a window over a column needs the declaration
        engine = tw.Engine(WINDOWS[window](_flows(**facts)), consistency="final")
        assert not _news(engine.push("s", [_flow(0, 7), _flow(1, 3), _flow(2, 15)]))
        assert [
            row[0] for row in _news(engine.punctuate("s", punctuation(flow_end=before(12))))
        ] == [0]
        assert not _news(engine.punctuate("s", punctuation(flow_end=within(12, 18))))


def test_a_window_over_a_column_needs_the_declaration() -> None:
    with pytest.raises(WindowError, match=r"progressing=\{'flow_end': disorder\}"):
        _flows().sliding(10, over="flow_end")
    with pytest.raises(TypeMismatchError, match="whole numbers"):
        tw.source("s", {"name": "string"}, progressing="name")


def test_a_row_that_breaks_the_promise_of_a_column_is_late() -> None:
    engine = tw.Engine(_flows(progressing={"flow_end": 6}, late="drop"))
    engine.push("s", [_flow(0, 20)])
    engine.push("s", [_flow(1, 13), _flow(2, 14), tw.point({"k": 1, "flow_end": None}, 3)])
    assert engine.late_count("s") == 2
    engine.punctuate("s", punctuation(flow_end=before(30)))
    engine.push("s", [_flow(4, 29), _flow(5, 30)])
    assert engine.late_count("s") == 3
    strict = tw.Engine(_flows(progressing={"flow_end": 6}))
    with pytest.raises(LateEventError, match="breaks a promise for its columns"):
        strict.push("s", [_flow(0, 20), _flow(1, 13)])


@pytest.mark.parametrize("seed", range(6))
def test_answers_and_late_rows_do_not_depend_on_cuts_restarts_or_the_engine(seed: int) -> None:
    draw = random.Random(seed)
    rows = [_flow(draw.randrange(40), draw.randrange(60), draw.randrange(2)) for _ in range(40)]
    query = WINDOWS["grouped"](_flows(progressing={"flow_end": 15}, late="drop"))
    whole = tw.Engine(query, consistency="final")
    expected = sorted(_news(whole.push("s", rows)) + _news(whole.finish()))
    cut = tw.Engine(query, consistency="final")
    divided = DividedEngine(query, consistency="final")
    found, apart, at = [], [], 0
    while at < len(rows):
        size = draw.randrange(1, 6)
        found += _news(cut.push("s", rows[at : at + size]))
        apart += _news(divided.push("s", rows[at : at + size]))
        cut = tw.Engine.restore(query, cut.snapshot(), consistency="final")
        at += size
    assert sorted(found + _news(cut.finish())) == expected
    assert sorted(apart + _news(divided.finish())) == expected
    assert cut.late_count("s") == whole.late_count("s") == divided.late_rows


def test_the_oracle_of_a_window_over_a_column() -> None:
    """Counted by hand, from the definition, of the rows that were admitted."""
    rows = [_flow(time, (time * 7) % 50) for time in range(50)]
    query = WINDOWS["sliding over it"](_flows(progressing={"flow_end": 50}))
    counts: dict[int, int] = {}
    for row in rows:
        start = row.payload["flow_end"] // 10 * 10
        counts[start] = counts.get(start, 0) + 1
    assert {s: row["n"] for s, _, row in tw.table(query, {"s": rows})} == counts
