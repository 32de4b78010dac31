"""Windows over shared panes take their rows in when a window is over: what leaves, and when, is as
if they took in every batch by itself."""

from __future__ import annotations

import random
from typing import Any

import pytest

import thalweg as tw
from thalweg.operators.window.grid import deferred
from thalweg.testing import CONSISTENCIES

COLUMNS = {"k": "int64", "v": "int64"}


def sums(events: tw.Stream | tw.GroupedStream) -> tw.Stream:
    windows = [events.tumbling(3), events.hopping(12, 4, offset=1), events.tumbling(20)]
    answers = [w.aggregate(n=tw.count(), s=tw.sum_("v")) for w in windows]
    return answers[0].union(*answers[1:])


def largest(events: tw.GroupedStream) -> tw.Stream:
    windows = [events.tumbling(3), events.sliding(12, 4), events.tumbling(20)]
    answers: list[tw.Stream] = [w.aggregate(n=tw.count(), m=tw.max_("v")) for w in windows]
    return answers[0].union(*answers[1:])


QUERIES = {
    "sums": lambda: sums(tw.source("s", COLUMNS).group_by("k")),
    "sums of all": lambda: sums(tw.source("s", COLUMNS)),
    "sums by group": lambda: sums(tw.source("s", COLUMNS, group_ctis="k").group_by("k")),
    "largest": lambda: largest(tw.source("s", COLUMNS, insert_only=True).points().group_by("k")),
}


def _batches(draw: random.Random, query: str) -> list[list[Any]]:
    """Rows out of order, some taken back, and promises."""
    live: list[tuple[dict[str, int], int, int]] = []
    found, promised = [], 0
    for step in range(45):
        batch: list[Any] = []
        for _ in range(draw.randrange(4)):
            start = promised + draw.randrange(9)
            payload = {"k": draw.randrange(3), "v": draw.randrange(9)}
            end = start + 1 if query == "largest" else start + draw.choice([1, 1, 5])
            batch.append(tw.insert(payload, start, end))
            live.append((payload, start, end))
        if query != "largest" and live and draw.random() < 0.3:
            gone = live.pop(draw.randrange(len(live)))
            if gone[1] >= promised:
                batch.append(tw.remove(*gone))
            elif gone[2] >= promised:  # its end may still move
                moved = promised + draw.randrange(1, 9)
                batch.append(tw.adjust(*gone, moved))
                live.append((*gone[:2], moved))
        if query == "sums by group" and step > 20 and draw.random() < 0.3:
            live = [row for row in live if row[0]["k"] != 1]
            batch.append(tw.cti(10_000, {"k": 3 + step}))
        if draw.random() < 0.3:
            promised += draw.randrange(4)
            batch.append(tw.cti(promised))
        found.append(batch)
    return found


@pytest.mark.parametrize("consistency", [*CONSISTENCIES, "speculative, held"])
@pytest.mark.parametrize("query", QUERIES)
def test_every_answer_leaves_when_it_would(
    query: str, consistency: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mode = consistency.split(",", maxsplit=1)[0]
    asked: dict[str, Any] = {"consistency": mode, "hold": 5 if "held" in consistency else 0}
    for seed in range(2):
        draw = random.Random(f"{query}/{seed}")
        batches = _batches(draw, query)
        stream = QUERIES[query]()
        shown = []
        for most in (4_096, -1):
            monkeypatch.setattr(deferred, "_MOST_ROWS", most)
            engine = tw.Engine(stream, **asked)
            out = []
            for number, batch in enumerate(batches):
                elements = tw.elements_of(engine.push("s", batch))
                out.append(sorted(map(repr, elements)))
                if number % 7 == 6:
                    engine = tw.Engine.restore(stream, engine.snapshot(), **asked)
            out.append(sorted(map(repr, tw.elements_of(engine.finish()))))
            shown.append(out)
        assert shown[0] == shown[1]


def test_what_waits_is_counted_bounded_and_saved() -> None:
    query = sums(tw.source("s", COLUMNS, insert_only=True).group_by("k"))
    engine = tw.Engine(query, consistency="final")
    for number in range(30_000 // 100):
        engine.push("s", [tw.point({"k": k, "v": number}, 0) for k in range(100)])
        most = max(size.rows for size in engine.state_size().values())
        assert most <= 4_096 + 3_200
    again = tw.Engine.restore(query, engine.snapshot(), consistency="final")
    assert max(size.rows for size in again.state_size().values()) <= 3_200
    answers = [one for one in tw.elements_of(again.finish()) if isinstance(one, tw.Insert)]
    assert len(answers) == 100 * 5
    assert {one.payload["n"] for one in answers} == {300}
