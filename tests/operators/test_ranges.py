"""Rows in many windows: answers put together from ranges are those of the definition."""

from __future__ import annotations

import random

import pytest

import thalweg as tw
from thalweg.model.elements import Element
from thalweg.model.time import INFINITY

SIZE, HOP = 60, 2
CALLS = {"most": tw.max_("v"), "least": tw.min_("v"), "spread": tw.variance("v")}


def rows(seed: int, longest: int) -> list[tuple[int, int, int, int]]:
    """Key, value, start and end; in disorder, some twice."""
    chance = random.Random(seed)
    found = []
    for _ in range(80):
        start = chance.randrange(0, 150)
        row = (chance.randrange(3), chance.randrange(50), start, start + chance.randint(1, longest))
        found += [row] * chance.choice([1, 1, 1, 2])
    chance.shuffle(found)
    return found


def by_definition(given: list[tuple[int, int, int, int]]) -> set[tuple[int, int, int, int]]:
    """Start, key, most and least of every window of a key that overlaps one of its rows."""
    answers = set()
    for start in range(-SIZE // HOP * HOP, 300, HOP):
        for key in range(3):
            there = [v for k, v, s, e in given if k == key and s < start + SIZE and e > start]
            if there:
                answers.add((start, key, max(there), min(there)))
    return answers


@pytest.mark.parametrize("longest", [1, 4, 40])
@pytest.mark.parametrize("consistency", ["speculative", "final"])
def test_many_windows_a_row(consistency: str, longest: int) -> None:
    given = rows(longest, longest)
    query = tw.source("s", {"k": "int64", "v": "int64"}).group_by("k").hopping(SIZE, HOP)
    engine = tw.Engine(query.aggregate(CALLS), consistency=consistency)
    out: list[Element] = []
    for at in range(0, len(given), 25):
        elements = [tw.insert({"k": k, "v": v}, s, e) for k, v, s, e in given[at : at + 25]]
        out += tw.elements_of(engine.push("s", elements))
    out += tw.elements_of(engine.push("s", tw.cti(INFINITY)))
    table = tw.cht(out)
    assert {(s, p["k"], p["most"], p["least"]) for s, _, p in table} == by_definition(given)
    assert len(table) == len(by_definition(given))
