"""Every page in a real browser, on a telephone and on a desk: nothing is cut, nothing is missing,
and every link leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from selenium.webdriver.chrome.webdriver import WebDriver

_LOOK = """
const cut = [...document.querySelectorAll('article pre')]
    .filter(block => block.scrollWidth > block.clientWidth + 1
        || block.getBoundingClientRect().right > window.innerWidth + 1)
    .map(block => block.innerText.slice(0, 80));
const missing = [...document.images]
    .filter(image => !image.complete || !image.naturalWidth).map(image => image.src);
const wide = document.documentElement.scrollWidth - window.innerWidth;
const blocks = document.querySelectorAll('article div.highlight').length;
const buttons = document.querySelectorAll('button.copybtn').length;
return {cut, missing, wide, blocks, buttons,
    width: window.innerWidth, heading: !!document.querySelector('article h1')};
"""


def _pages(site: Path) -> list[Path]:
    left_out = ("genindex.html", "search.html", "py-modindex.html")
    return [page for page in sorted(site.glob("*.html")) if page.name not in left_out]


def test_the_documentation_builds_without_a_warning(site: Path) -> None:
    """A warning is an error of the build that `site` makes."""
    assert (site / "index.html").is_file()


@pytest.mark.parametrize("width", [420, 1360])
def test_nothing_is_cut(width: int, site: Path, browser: WebDriver) -> None:
    wrong: dict[str, Any] = {}
    pages = _pages(site)
    assert len(pages) > 25
    # a window cannot be as narrow as a telephone, a device can
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False},
    )
    for page in pages:
        browser.get(page.as_uri())
        seen: dict[str, Any] = browser.execute_script(_LOOK)
        assert seen["width"] == width and seen["heading"], page.name
        if seen["cut"] or seen["missing"] or seen["wide"] > 0 or seen["buttons"] < seen["blocks"]:
            wrong[page.name] = seen
    assert not wrong, wrong


def test_the_start_page_shows_the_point(site: Path, browser: WebDriver) -> None:
    browser.get((site / "index.html").as_uri())
    text: str = browser.execute_script("return document.querySelector('article').innerText")
    assert "pip install thalweg" in text
    assert "late" in text[:400]
    assert browser.execute_script("return document.querySelectorAll('article img').length") >= 1


def test_every_link_leads_somewhere(site: Path) -> None:
    pages = {page: page.read_text(encoding="utf-8") for page in _pages(site)}
    broken, checked = [], 0
    for page, text in pages.items():
        for target in set(re.findall(r'(?:href|src)="([^"]*)"', text)):
            parts = urlsplit(target.replace("&amp;", "&"))
            if parts.scheme or target.startswith("//"):
                assert parts.netloc or parts.scheme in ("data", "mailto"), target
                continue
            checked += 1
            file = page if not parts.path else (page.parent / unquote(parts.path)).resolve()
            if not file.exists():
                broken.append(f"{page.name}: {target}")
            elif parts.fragment and file.suffix == ".html":
                inside = pages.get(file) or file.read_text(encoding="utf-8")
                if f'id="{unquote(parts.fragment)}"' not in inside:
                    broken.append(f"{page.name}: {target}")
    assert checked > 500
    assert not broken, broken
