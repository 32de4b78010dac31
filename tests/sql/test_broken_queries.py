"""Queries that were damaged at random: each still says something, or is refused at a place of its
text. Nothing else happens."""

from __future__ import annotations

import re
from random import Random

import pytest

import thalweg as tw
from tests.sql.packets import streams
from tests.sql.test_queries import QUERIES
from tests.sql.test_table_functions import FORMS
from tests.sql.thesis import PARAMETERS, THESIS
from thalweg.errors import SqlError

TEXTS = [query.text for query in THESIS.values()] + [
    text for text, _ in (*QUERIES.values(), *FORMS.values())
]
PARTS = re.compile(r"\s+|\w+|.")
WORDS = [part for text in TEXTS for part in PARTS.findall(text) if part.strip()]


def damaged(rng: Random) -> str:
    """One of the queries with parts of it lost, replaced, added or cut off."""
    parts = PARTS.findall(rng.choice(TEXTS))
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(parts) - 1) if len(parts) > 1 else 0
        change = rng.random()
        if change < 0.35:
            parts[at] = ""
        elif change < 0.7:
            parts[at] = rng.choice(WORDS)
        elif change < 0.9:
            parts.insert(at, f"{rng.choice(WORDS)} ")
        else:
            parts = parts[: at + 1]
    return "".join(parts)


@pytest.mark.filterwarnings("ignore::thalweg.errors.WindowWarning")
@pytest.mark.parametrize("seed", range(4))
def test_damaged_query_is_understood_or_refused_at_its_place(seed: int) -> None:
    rng, given = Random(seed), streams()
    places = []
    for _ in range(120):
        text = damaged(rng)
        try:
            tw.sql(text, given, parameters=PARAMETERS)
        except SqlError as error:
            places.append((text.split("\n"), error.row, error.column))
    assert 60 < len(places) < 120
    assert all(
        1 <= row <= len(lines) and 1 <= column <= len(lines[row - 1]) + 1
        for lines, row, column in places
    )
