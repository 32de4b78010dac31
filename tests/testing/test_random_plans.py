"""Random plans of up to four operators over hostile rows, on both engines, against the oracle.

Every plan is played in a wild form (detours, rows that come and go, disorder, restarts) on both
engines; every fifth, and in the long test all, also plain and full of CTIs. After the end no
operator holds a row.
"""

from __future__ import annotations

import warnings

import pytest

from thalweg import Engine
from thalweg.model import Batch
from thalweg.plan.nodes import Node
from thalweg.shards.local_engine import DividedEngine
from thalweg.testing import CONSISTENCIES, assert_form_right, forms_of, logical_inputs
from thalweg.testing.forms import Form
from thalweg.testing.plans import Trial, trial_of_seed
from thalweg.testing.runners import EngineType

FAST, SLOW, SHARE = 300, 20_000, 20


class Emptied(Engine):
    """An engine that must hold nothing once its input has ended."""

    def finish(self) -> list[Batch]:
        out = super().finish()
        left = {name: size.rows for name, size in self.state_size().items() if size.rows}
        assert not left, f"rows are held after the end: {left}"
        return out


def play(seed: int, *, every_form: bool = False) -> None:
    trial = trial_of_seed(seed)
    logicals = logical_inputs(trial.query, trial.tables)
    plain, punctuated, wild = forms_of(logicals, 3, seed, insert_only=trial.insert_only)
    right(trial, seed, wild, CONSISTENCIES[seed % 3], Emptied)
    right(trial, seed, wild, CONSISTENCIES[(seed + 1) % 3], DividedEngine)
    if every_form or seed % 5 == 0:
        for form in (plain, punctuated):
            right(trial, seed, form, CONSISTENCIES[(seed + 2) % 3], Emptied)


def right(trial: Trial, seed: int, form: Form, consistency: str, engine: EngineType) -> None:
    query: Node = trial.query
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert_form_right(query, form, consistency=consistency, engine=engine)
    except AssertionError as wrong:
        raise AssertionError(f"plan {seed}: {trial.text}\n{wrong}") from None


@pytest.mark.parametrize("share", range(SHARE))
def test_no_plan_depends_on_the_form_of_its_input(share: int) -> None:
    for seed in range(share, FAST, SHARE):
        play(seed)


@pytest.mark.slow
@pytest.mark.parametrize("share", range(SHARE))
def test_no_plan_depends_on_the_form_of_its_input_at_length(share: int) -> None:
    for seed in range(FAST + share, FAST + SLOW, SHARE):
        play(seed, every_form=True)
