"""What is true of a kind of join is stated once, in `plan.join_kinds`."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import get_args

import pytest

import thalweg as tw
from thalweg.errors import PlanError
from thalweg.plan.join_kinds import ASOF_KINDS, JOIN_KINDS, JoinKind, JoinName


def test_a_kind_must_state_every_fact() -> None:
    for fact in fields(JoinKind):
        assert fact.default is MISSING, f"{fact.name} has a default that a new kind may miss."
    assert get_args(JoinName) == tuple(JOIN_KINDS)


def test_every_kind_gives_rows_and_no_two_are_the_same() -> None:
    assert len(set(JOIN_KINDS.values())) == len(JOIN_KINDS)
    for name, kind in JOIN_KINDS.items():
        assert kind.pairs or any(kind.preserved), name
        assert kind.only_left_rows <= kind.left_in_all, name


@pytest.mark.parametrize("how", JOIN_KINDS)
def test_times_that_a_row_may_lack_are_no_stamps(how: str) -> None:
    a, b = (tw.source(name, {"k": "int64"}) for name in "ab")
    window = tw.band(before=1, after=1)
    for at in ("later", "earlier", "left", "right"):
        if at in JOIN_KINDS[how].stamps:
            a.window_join(b, "k", window=window, how=how, at=at)
        else:
            with pytest.raises(PlanError, match=f"rows of a {how} join may lack the other time"):
                a.window_join(b, "k", window=window, how=how, at=at)


def test_an_unknown_kind_is_refused_with_what_there_is() -> None:
    a, b = (tw.source(name, {"k": "int64"}).set_duration(5) for name in "ab")
    with pytest.raises(PlanError, match=r"join: how must be one of inner, left, .*'left'"):
        a.join(b, "k", how="lefft")
    assert ASOF_KINDS == ("inner", "left")
    with pytest.raises(PlanError, match="asof_join: how must be one of inner, left"):
        a.asof_join(b, "k", how="full")
