"""Modules and progress: what holds them back is named, promises are kept, and none could have been
stronger."""

from __future__ import annotations

import pytest

from tests.operators.test_laws import LAWS as OTHERS
from tests.progress.test_operator_rules import (
    test_promises_are_kept_and_as_strong_as_can_be as promises_are_kept_and_as_strong_as_can_be,
)
from tests.progress.test_operator_rules import (
    test_what_is_named_as_missing_is_what_is_missing as what_is_named_as_missing_is_what_is_missing,
)
from tests.udm.test_laws import LAWS

SIMPLE = [name for name in LAWS if "module" not in name and "scoped" not in name]
LOOSE = ("stamps kept", "stamps clipped", "stamps unrestricted")
"""The module of these stamps later than it may, and an operator cannot know: a stronger promise
could have been kept."""


@pytest.mark.parametrize("name", SIMPLE[::7])
def test_what_is_named_as_missing_is_what_is_missing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(OTHERS, name, LAWS[name])
    what_is_named_as_missing_is_what_is_missing(name)


@pytest.mark.parametrize(
    "name", [name for name in SIMPLE if not any(word in name for word in LOOSE)][::5]
)
def test_promises_are_kept_and_as_strong_as_can_be(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(OTHERS, name, LAWS[name])
    promises_are_kept_and_as_strong_as_can_be(name)
