"""Where the documents say that something is, there it is; the maps of `src/` show every package."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "thalweg"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
MAPS = {"README.md": ROOT / "README.md", "architecture.md": ROOT / "docs" / "architecture.md"}
PATH = re.compile(r"`((?:[\w.*-]+/)+(?:[\w*-]+\.(?:py|java|md|toml))?)`")
FILE = re.compile(r"`(\w+\.py)`")
MAP = re.compile(r"```text\nsrc/thalweg/\n(.*?)```", re.DOTALL)


def folders() -> set[str]:
    """The first part of a path that is one of ours, not of a user's."""
    places = (ROOT, SOURCE)
    return {path.name for place in places for path in place.iterdir() if path.is_dir()}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_path_that_a_page_names_is_there(page: Path) -> None:
    ours = folders()
    named = {path for path in PATH.findall(page.read_text("utf-8")) if path.split("/")[0] in ours}
    places = (ROOT, SOURCE, ROOT / "docs")
    missing = [path for path in sorted(named) if not any(any(at.glob(path)) for at in places)]
    assert not missing, f"{page.name} names {missing}"


def test_a_file_without_a_folder_is_in_the_one_named_before() -> None:
    """In a cell such as: `stream/`: `streams.py`."""
    page = MAPS["architecture.md"]
    for cell in re.split(r"[|\n]", page.read_text("utf-8")):
        for name in FILE.findall(cell):
            named = [path.rpartition("/")[0] for path in PATH.findall(cell)]
            assert any((SOURCE / folder / name).exists() for folder in named), (name, cell)


@pytest.mark.parametrize("page", MAPS)
def test_the_map_of_the_source_shows_every_package(page: str) -> None:
    found = MAP.search(MAPS[page].read_text("utf-8"))
    assert found is not None
    shown = set(re.findall(r"(?:^|\s)(\w+)/(?=\s)", found[1]))
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert shown == packages
