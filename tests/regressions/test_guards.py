"""The list of defects and their tests, README.md in this folder: every test that it names
exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def names_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_number_has_tests_that_exist() -> None:
    text = (HERE / "README.md").read_text(encoding="utf-8")
    items = re.findall(r"^(\d+)\. (.*?)(?=^\d+\. |^#|\Z)", text, flags=re.DOTALL | re.MULTILINE)
    assert [int(number) for number, _ in items] == list(range(1, 63))
    for number, item in items:
        path: Path | None = None
        for place in re.findall(r"`([^`]*(?:\.py|::)[^`]*)`", item):
            file, _, name = place.partition("::")
            if file:
                path = ROOT / file if file.startswith("tests/") else HERE / file
            assert path is not None and path.exists(), f"{number}: {place}"
            assert name in ("", "*") or name in names_in(path), f"{number}: {place}"
        assert path is not None or "the tests of" in item, f"{number} names no test"
