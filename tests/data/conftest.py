"""Where the recorded data is. It lies beside the checkout, not in it: some of it may not be carried
along."""

from __future__ import annotations

from pathlib import Path

import pytest

DATA = Path(__file__).parents[3] / "shared" / "data"

_missing: list[str] = []


@pytest.fixture(scope="session")
def recorded() -> Path:
    """The folder of recorded data."""
    if not (DATA / "golden.json").exists():
        _missing.append(str(DATA))
        pytest.skip(
            f"RECORDED DATA NOT FOUND: {DATA} does not exist, so the golden answers were not "
            "checked."
        )
    return DATA


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _missing:
        terminalreporter.section("recorded data", sep="!", red=True)
        terminalreporter.line(
            "The golden answers were NOT checked: the folder ../shared/data was not found beside "
            "the checkout."
        )
