"""Heavy hitters beyond any table of fixed size: one answer for every order and division of the
rows."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

import thalweg as tw
from thalweg.shards.local_engine import DividedEngine

VALUES = 5_000


def _rows(random: Random) -> list[tw.Element]:
    """Two frequent values among 5,000 distinct ones."""
    names = [f"v{i}" for i in range(VALUES)] + ["often"] * 800 + ["x"] * 801
    return [tw.point({"k": name}, random.randrange(20)) for name in names]


def _answers(query: tw.Stream, rows: list[tw.Element], cut: int, *, divided: bool) -> list[object]:
    engine = DividedEngine(query) if divided else tw.Engine(query)
    out = [b for at in range(0, len(rows), cut) for b in engine.push("s", rows[at : at + cut])]
    return list(tw.cht(list(tw.elements_of(out + engine.finish()))))


@pytest.mark.parametrize("insert_only", [True, False])
def test_the_answer_is_exact_and_the_same_for_every_order(insert_only: bool) -> None:
    source = tw.source("s", {"k": "string"}, insert_only=insert_only)
    query = source.sliding(20, 10).aggregate(top=tw.heavy_hitters("k", 0.1))
    rows = _rows(Random(1))
    counted = Counter(row.payload["k"] for row in rows if isinstance(row, tw.Insert))
    whole = [{"value": name, "count": n} for name, n in counted.most_common(2)]
    first = _answers(query, rows, 10_000, divided=False)
    assert (0, 20, {"top": whole}) in first
    Random(2).shuffle(rows)
    assert _answers(query, rows, 1_500, divided=False) == first
    assert _answers(query, rows[::-1], 3_500, divided=True) == first


def test_a_row_that_is_taken_back_no_longer_counts() -> None:
    source = tw.source("s", {"k": "string"})
    query = source.tumbling(10).aggregate(top=tw.heavy_hitters("k", 0.6))
    rows = [tw.point({"k": k}, t) for t, k in enumerate("aab")]
    engine = tw.Engine(query)
    out = engine.push("s", rows) + engine.push("s", tw.remove({"k": "a"}, 0, 1))
    out += engine.push("s", tw.remove({"k": "a"}, 1, 2)) + engine.finish()
    assert tw.cht(list(tw.elements_of(out))) == [(0, 10, {"top": [{"value": "b", "count": 1}]})]
