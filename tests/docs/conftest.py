"""The documentation as it is built, and a browser to look at it with."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.chrome.webdriver import WebDriver

ROOT = Path(__file__).parents[2]
_missing: list[str] = []


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages, built as `make docs` builds them."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "-q", "-b", "html"]
    done = subprocess.run(
        [*command, "docs", str(folder)], cwd=ROOT, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="session")
def browser() -> Iterator[WebDriver]:
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or driver is None:
        _missing.append("chromium")
        pytest.skip("NO BROWSER: chromium and chromedriver are not here, so no page was looked at.")
    options = Options()
    options.binary_location = program
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(argument)
    started = webdriver.Chrome(options=options, service=Service(driver))
    yield started
    started.quit()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _missing:
        terminalreporter.section("documentation in a browser", sep="!", red=True)
        terminalreporter.line(
            "No page was looked at: install chromium and chromedriver "
            "(for example: apt-get install chromium chromium-driver)."
        )
