"""Generated scenarios: sound, compatible at every prefix, and the table of the reference in the
end."""

from __future__ import annotations

import pytest

from tests.merge.scenarios import LEVELS, MissingRows, Scenario
from thalweg.plan.merging import Level

CASES: list[tuple[Level, bool]] = [*((level, False) for level in LEVELS), ("R3", True)]
NORMAL, LONG = 50, 1_670
"""Seeds a case: 300 scenarios in the normal profile, 10,000 in the long one."""


@pytest.mark.parametrize(("level", "by_group"), CASES)
def test_scenarios(level: Level, *, by_group: bool) -> None:
    for seed in range(NORMAL):
        Scenario(seed, level, by_group).play()


@pytest.mark.slow
@pytest.mark.parametrize(("level", "by_group"), CASES)
def test_many_scenarios(level: Level, *, by_group: bool) -> None:
    for seed in range(NORMAL, LONG):
        Scenario(seed, level, by_group).play()


@pytest.mark.parametrize(
    ("level", "by_group"), [("R2", False), ("R3", False), ("R3", True), ("R4", False)]
)
def test_with_keep_no_row_of_any_input_is_missing(level: Level, *, by_group: bool) -> None:
    for seed in range(NORMAL):
        MissingRows(seed, level, by_group).play()


@pytest.mark.slow
@pytest.mark.parametrize(("level", "by_group"), CASES)
def test_with_keep_no_row_is_missing_in_many_scenarios(level: Level, *, by_group: bool) -> None:
    for seed in range(NORMAL, LONG):
        MissingRows(seed, level, by_group).play()
