"""The laws of the operators that keep rows: the answer does not depend on where a row is held, in a
tail or in slots."""

from __future__ import annotations

import pytest

from tests.operators.test_laws import LAWS, check
from thalweg.operators import waiting_rows
from thalweg.state import arrangement, slots

ROWS = (
    "join inner with a predicate",
    "join left with null keys",
    "join semi with a predicate",
    "join semi with null keys",
    "join anti",
    "join anti with itself",
    "window_join full, band",
    "clip_by",
    "clip_by itself",
    "clip_by with null keys",
    "stitch",
    "stitch with many duplicates",
    "distinct",
    "top_k per group, ranked, over snapshot",
    "sum over snapshot",
    "sum over session",
    "two keys over session",
    "session after anti join",
    "session_lifetime, limited, per group",
    "scoped promises, session by the same key",
    "scoped promises, session_lifetime",
    "scoped promises, join",
    "scoped promises, anti join from the other side",
    "scoped promises, snapshot by the same key",
    "scoped promises, clip_by",
)


def test_the_names_are_those_of_laws() -> None:
    assert set(ROWS) <= set(LAWS)


@pytest.mark.parametrize("name", ROWS)
def test_law_with_rows_in_slots(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So small a tail that almost every row is sorted into slots, and so few slots that they are
    joined."""
    monkeypatch.setattr(arrangement, "_TAIL", 1)
    monkeypatch.setattr(slots, "_MOST", 4)
    check(name, range(10, 14), 6)


@pytest.mark.parametrize("name", [name for name in ROWS if "session" in name])
@pytest.mark.parametrize("tail", [2, 4, 8])
def test_law_of_sessions_that_are_now_few_now_many(
    name: str, tail: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chains of starts are tracked from the time on at which rows lie in slots, and no longer once
    none does."""
    monkeypatch.setattr(arrangement, "_TAIL", tail)
    check(name, range(20, 24), 6)


@pytest.mark.parametrize("name", [name for name in ROWS if "snapshot" in name])
def test_law_with_rows_that_are_now_few_now_many(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting_rows, "_FEW", 2)
    check(name, range(10, 14), 6)
