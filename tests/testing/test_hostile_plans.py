"""What random plans are made of: the values, forms and plans that broke things all occur, and the
oracle shares no code with what it judges."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import thalweg.testing as kit
from thalweg.model import INFINITY, Adjust, Insert
from thalweg.plan.nodes import Chronicle, Detect, Node, WindowApply, walk
from thalweg.testing import forms_of, logical_inputs
from thalweg.testing.forms import RESTART, Form, Step
from thalweg.testing.plans import KINDS, Trial, trial_of_seed

SEEDS = range(150)


@cache
def trials() -> list[tuple[Trial, list[Form]]]:
    found = []
    for seed in SEEDS:
        trial = trial_of_seed(seed)
        logicals = logical_inputs(trial.query, trial.tables)
        found.append((trial, list(forms_of(logicals, 3, seed, insert_only=trial.insert_only))))
    return found


def rows() -> Iterator[tuple[int, int, list[object]]]:
    for trial, _ in trials():
        for table in trial.tables.values():
            yield from ((start, end, list(payload.values())) for start, end, payload in table)


def test_hostile_values_are_in_the_tables() -> None:
    seen = list(rows())
    numbers = [value for *_, (_, value, _, _) in seen if isinstance(value, float)]
    assert any(map(math.isnan, numbers))
    assert {math.inf, -math.inf, 1e300, -1e300, 5e-324} <= set(numbers)
    assert any(value == 0 and math.copysign(1, value) < 0 for value in numbers), "-0.0"
    keys = {values[0] for *_, values in seen}
    assert {2**63 - 1, -(2**63)} <= keys
    for at in range(len(KINDS)):
        assert any(values[at] is None for *_, values in seen), f"null in column {at}"
    assert any(abs(start) > 2**59 for start, *_ in seen), "times near the edge of the clock"
    assert any(end == INFINITY for _, end, _ in seen)


def test_ties_and_rows_that_are_there_twice() -> None:
    def ties(trial: Trial) -> tuple[bool, bool]:
        starts = [start for table in trial.tables.values() for start, *_ in table]
        whole = [repr(row) for table in trial.tables.values() for row in table]
        return len(set(starts)) < len(starts), len(set(whole)) < len(whole)

    tied, twice = zip(*(ties(trial) for trial, _ in trials()), strict=True)
    assert sum(tied) > len(SEEDS) // 2 and sum(twice) > len(SEEDS) // 4


def corrected_inside(step: Step) -> bool:
    """Whether a batch brings a row and corrects it."""
    brought = {(repr(one.payload), one.start) for one in step.elements if isinstance(one, Insert)}
    return any(
        isinstance(one, Adjust) and (repr(one.payload), one.start) in brought
        for one in step.elements
    )


def test_forms_correct_inside_a_batch_and_restart_anywhere() -> None:
    forms = [form for _, played in trials() for form in played]
    assert sum(any(corrected_inside(s) for s in f.steps if isinstance(s, Step)) for f in forms) > 10
    restarted = [form.steps for form in forms if RESTART in form.steps]
    assert len(restarted) > len(SEEDS) // 4
    places = {steps.index(RESTART) for steps in map(list, restarted)}
    assert {1, 2, 3} <= places, "between any two pushes"


def is_forked(root: Node) -> bool:
    read = [child for node in walk(root) for child in node.inputs]
    return len({id(child) for child in read}) < len(read)


def test_plans_fork_and_have_up_to_four_operators() -> None:
    forked = [trial for trial, _ in trials() if is_forked(trial.query)]
    assert len(forked) > len(SEEDS) // 10
    assert {trial.text.count(" > ") + 1 for trial, _ in trials()} == {1, 2, 3, 4}
    assert {trial.insert_only for trial, _ in trials()} == {True, False}


def test_every_fourth_plan_may_have_modules_and_patterns() -> None:
    new = {WindowApply, Detect, Chronicle}
    found = {
        seed: {type(node) for node in walk(trial.query)} & new
        for seed, (trial, _) in zip(SEEDS, trials(), strict=True)
    }
    assert set().union(*found.values()) == new
    assert {seed % 4 for seed, some in found.items() if some} == {3}


ALLOWED = ("thalweg.model", "thalweg.plan", "thalweg.expr", "thalweg.windows", "thalweg.udm")
"""What a query says; `thalweg.windows` is the configuration of windows, not how they are
evaluated."""


def test_the_oracle_shares_no_code_with_kernels() -> None:
    for path in (Path(kit.__file__).parent / "oracle").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = (
                [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else [name.name for name in node.names]
                if isinstance(node, ast.Import)
                else []
            )
            for name in names:
                ours = name.startswith("thalweg.") and not name.startswith("thalweg.testing")
                assert not ours or name.startswith(ALLOWED), f"{path.name} imports {name}"
